"""Checked commits from the bytes of requests: the kernel reads what is plain, protobuf the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd.v1 import offset_service_pb2

from offsetd_coordinator.commit_wire import CommitReader
from offsetd_coordinator.errors import InvalidField
from offsetd_coordinator.service import validation

if TYPE_CHECKING:
    from offsetd_coordinator.requests import CommitOffsets


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
            return [(each.sequence, self._outcome(each.commit)) for each in request.commits]
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
