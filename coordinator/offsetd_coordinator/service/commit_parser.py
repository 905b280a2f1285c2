"""Checked commits from the bytes of requests: the kernel reads what is plain, protobuf the rest."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from offsetd.v1 import offset_service_pb2

from offsetd_coordinator.commit_wire import CommitReader
from offsetd_coordinator.errors import InvalidField, InvalidRequest
from offsetd_coordinator.service import lease_validation, member_validation, validation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_coordinator.kernels.columns import Bytes
    from offsetd_coordinator.requests import CommitOffsets


COMMITS_PER_MESSAGE_MAX: Final = 10_000
"""Of a stream's message. Each costs the server far more than its two bytes at the least."""


def check_commit_count(count: int) -> None:
    """Raises InvalidRequest if a stream's message holds too many commits."""
    if count > COMMITS_PER_MESSAGE_MAX:
        raise InvalidRequest(
            "commits",
            "{count} commits in a message: at most {count_max}",
            count=count,
            count_max=COMMITS_PER_MESSAGE_MAX,
        )


class CommitParser:
    """For the event loop's thread. A commit that breaks a rule is refused by the validation."""

    def __init__(self, *, metadata_units_max: int, message_bytes_max: int) -> None:
        self._metadata_units_max = metadata_units_max
        self._message_bytes_max = message_bytes_max
        self._reader = CommitReader(
            metadata_units_max=metadata_units_max,
            offsets_max=validation.offsets_fitting(message_bytes_max),
        )

    def parse(self, message: bytes) -> CommitOffsets:
        """The commit in a CommitOffsetsRequest. Raises the Invalid… error that fits."""
        commit = self._reader.read_commit(message)
        if commit is not None:
            return commit
        return self._check(message)

    def parse_stream(self, message: bytes) -> Iterator[tuple[int, CommitOffsets | InvalidField]]:
        """The commits in a StreamCommitsRequest, each with its sequence, or its own refusal.

        They are read as they are asked for, a few at a time, whatever else is read meanwhile.
        Raises InvalidRequest, and at once, if the message as a whole is none.
        """
        count, names = self._reader.count_stream(message)
        check_commit_count(count)
        if names is not None:
            return self._plain_commits(message, names)
        request = validation.parse(offset_service_pb2.StreamCommitsRequest, message)
        check_commit_count(len(request.commits))
        return ((each.sequence, self._outcome(each.commit)) for each in request.commits)

    def _plain_commits(
        self, message: bytes, names: Bytes
    ) -> Iterator[tuple[int, CommitOffsets | InvalidField]]:
        for each in chain.from_iterable(self._reader.read_stream(message, names)):
            yield each.sequence, each.commit or self._outcome(message[each.start : each.end])

    def _outcome(
        self, commit: bytes | offset_service_pb2.CommitOffsetsRequest
    ) -> CommitOffsets | InvalidField:
        """A commit that the kernel left alone, as protobuf and the validation have it."""
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
