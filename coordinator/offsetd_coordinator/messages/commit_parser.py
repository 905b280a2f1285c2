"""Reads checked commits from a request's bytes: a kernel reads plain ones, protobuf the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
from offsetd.v1 import offset_service_pb2

from offsetd_coordinator.errors import InvalidField, InvalidRequest
from offsetd_coordinator.messages import lease_validation, member_validation, validation
from offsetd_coordinator.wire.commit_reader import CommitReader
from offsetd_coordinator.wire.varints import encode_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsetd_coordinator.kernels.columns import Bytes
    from offsetd_coordinator.requests import CommitOffsets
    from offsetd_coordinator.wire.commit_reader import ReadCommits

    SequencedOutcome = tuple[int, CommitOffsets | InvalidField]

COMMITS_PER_MESSAGE_MAX: Final = 10_000
"""The limit for a stream's message. A commit may have only two bytes, but costs far more work."""
_STREAM_COMMIT: Final = b"\x0a"  # The key of `StreamCommitsRequest.commits`.
_SEQUENCED_COMMIT: Final = b"\x12"  # The key of `SequencedCommit.commit`.


def check_commit_count(count: int) -> None:
    """Raises InvalidRequest if a stream's message holds too many commits."""
    if count > COMMITS_PER_MESSAGE_MAX:
        raise InvalidRequest(
            "commits",
            "{count} commits in a message: at most {count_max}",
            count=count,
            count_max=COMMITS_PER_MESSAGE_MAX,
        )


def stream_of(commits: Sequence[bytes]) -> bytes:
    """The bytes of a StreamCommitsRequest with these CommitOffsetsRequests, whatever they hold."""
    parts: list[bytes] = []
    for commit in commits:
        sequenced = _SEQUENCED_COMMIT + encode_varint(len(commit))
        parts += (_STREAM_COMMIT, encode_varint(len(sequenced) + len(commit)), sequenced, commit)
    return b"".join(parts)


class CommitParser:
    """Reads commits, and refuses those that break a rule. For the event loop's thread."""

    def __init__(self, *, metadata_units_max: int, message_bytes_max: int) -> None:
        self._metadata_units_max = metadata_units_max
        self._message_bytes_max = message_bytes_max
        self._reader = CommitReader(
            metadata_units_max=metadata_units_max,
            offsets_max=validation.offsets_fitting(message_bytes_max),
        )

    def parse(self, message: bytes) -> CommitOffsets:
        """The commit in a CommitOffsetsRequest.

        Raises the Invalid… error of the first field that breaks a rule.
        """
        commit = self._reader.read_commit(message)
        if commit is not None:
            return commit
        return self._check(message)

    def open_stream(self, message: bytes) -> StreamMessage:
        """Opens a StreamCommitsRequest, to be read in parts while other messages are read, too.

        Raises InvalidRequest if the bytes are not such a message.
        """
        count, names = self._reader.count_stream(message)
        check_commit_count(count)
        if names is not None:
            return StreamMessage(self, message, names, ())
        request = validation.parse(offset_service_pb2.StreamCommitsRequest, message)
        check_commit_count(len(request.commits))
        return StreamMessage(self, message, None, request.commits, request.traceparent)

    def read_stream(
        self, message: bytes, names: Bytes, position: int, commits_max: int
    ) -> ReadCommits:
        """Calls `CommitReader.read_stream`."""
        return self._reader.read_stream(message, names, position, commits_max)

    def outcome(
        self, commit: bytes | offset_service_pb2.CommitOffsetsRequest
    ) -> CommitOffsets | InvalidField:
        """A commit that is not plain, parsed by protobuf and checked; or its refusal."""
        try:
            return self._check(commit)
        except InvalidField as refusal:
            return refusal

    def _check(self, commit: bytes | offset_service_pb2.CommitOffsetsRequest) -> CommitOffsets:
        if isinstance(commit, bytes):
            commit = validation.parse(offset_service_pb2.CommitOffsetsRequest, commit)
        return validation.commit_offsets(
            commit,
            metadata_units_max=self._metadata_units_max,
            message_bytes_max=self._message_bytes_max,
            member=member_validation.commits_as(commit),
            retention_ms=lease_validation.retention_of(commit),
        )


@attrs.define
class StreamMessage:
    """The unread rest of a StreamCommitsRequest. If it is not plain, protobuf parses all of it."""

    _parser: CommitParser
    _message: bytes
    _names: Bytes | None
    _others: Sequence[offset_service_pb2.SequencedCommit]
    traceparent: str = ""
    """The span of the client that one of the commits belongs to; empty without one."""
    _position: int = 0

    @property
    def group_ids(self) -> list[str]:
        """The groups of the commits of a message that has a `traceparent`."""
        return [each.commit.group_id for each in self._others]

    @property
    def is_read(self) -> bool:
        """Whether all commits have been read."""
        size = len(self._others) if self._names is None else len(self._message)
        return self._position >= size

    def read(self, commits_max: int) -> ReadCommits | SequencedOutcome:
        """The next commits: several together, or one that has to be submitted alone."""
        if self._names is None:
            other = self._others[self._position]
            self._position += 1
            return other.sequence, self._parser.outcome(other.commit)
        read = self._parser.read_stream(self._message, self._names, self._position, commits_max)
        self._position = read.position_next
        if len(read.commits) > 1:
            return read
        sequence, commit = read.alone
        return sequence, self._parser.outcome(commit) if isinstance(commit, bytes) else commit
