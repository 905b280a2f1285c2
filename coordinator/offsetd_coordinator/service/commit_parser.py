"""Checked commits from the bytes of requests: the kernel reads what is plain, protobuf the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd.v1 import offset_service_pb2

from offsetd_coordinator.commit_wire import CommitReader
from offsetd_coordinator.errors import InvalidField, InvalidRequest
from offsetd_coordinator.service import validation

if TYPE_CHECKING:
    from offsetd_coordinator.requests import CommitOffsets


COMMITS_PER_MESSAGE_MAX: Final = 10_000
"""Of a stream's message: what is read at once holds up every other caller."""


def check_commit_count(count: int) -> None:
    """Raises InvalidRequest if a stream's message holds too many commits."""
    if count > COMMITS_PER_MESSAGE_MAX:
        raise InvalidRequest(
            "commits", f"{count} commits in a message: at most {COMMITS_PER_MESSAGE_MAX}"
        )


class CommitParser:
    """For the event loop's thread. A commit that breaks a rule is refused by the validation."""

    def __init__(self, *, metadata_units_max: int) -> None:
        self._metadata_units_max = metadata_units_max
        self._reader = CommitReader(metadata_units_max=metadata_units_max)

    def parse(self, message: bytes) -> CommitOffsets:
        """The commit in a CommitOffsetsRequest. Raises the Invalid… error that fits."""
        commit = self._reader.read_commit(message)
        if commit is not None:
            return commit
        return self._check(message)

    def parse_stream(self, message: bytes) -> list[tuple[int, CommitOffsets | InvalidField]]:
        """The commits in a StreamCommitsRequest, each with its sequence, or its own refusal.

        Raises InvalidRequest if the message as a whole is none.
        """
        commits = self._reader.read_stream(message)
        if commits is None:
            request = validation.parse(offset_service_pb2.StreamCommitsRequest, message)
            check_commit_count(len(request.commits))
            return [(each.sequence, self._outcome(each.commit)) for each in request.commits]
        check_commit_count(len(commits))
        return [
            (each.sequence, each.commit or self._outcome(message[each.start : each.end]))
            for each in commits
        ]

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
        return validation.commit_offsets(commit, metadata_units_max=self._metadata_units_max)
