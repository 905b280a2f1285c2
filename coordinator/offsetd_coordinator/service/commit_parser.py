"""Checked commits from the bytes of requests: the kernel reads what is plain, protobuf the rest."""

from __future__ import annotations

from typing import NamedTuple

from offsetd.v1 import offset_service_pb2

from offsetd_coordinator.commit_wire import CommitReader
from offsetd_coordinator.requests import CommitOffsets
from offsetd_coordinator.service import validation


class SequencedCommit(NamedTuple):
    """One commit of a stream's message: checked, or the bytes that `CommitParser.parse` takes."""

    sequence: int
    commit: CommitOffsets | bytes


class CommitParser:
    """For the event loop's thread. A commit that breaks a rule is refused by the validation."""

    def __init__(self, *, metadata_units_max: int) -> None:
        self._metadata_units_max = metadata_units_max
        self._reader = CommitReader(metadata_units_max=metadata_units_max)

    def parse(self, message: bytes) -> CommitOffsets:
        """The commit in a CommitOffsetsRequest. Raises the Invalid… error that fits."""
        return self._reader.read_commit(message) or self._parse_slowly(message)

    def split(self, message: bytes) -> list[SequencedCommit]:
        """The commits in a StreamCommitsRequest. Raises InvalidRequest if it is none."""
        read = self._reader.read_stream(message)
        if read is not None:
            return [
                SequencedCommit(each.sequence, each.commit or message[each.start : each.end])
                for each in read
            ]
        request = validation.parse(offset_service_pb2.StreamCommitsRequest, message)
        return [
            SequencedCommit(each.sequence, each.commit.SerializeToString())
            for each in request.commits
        ]

    def checked(self, commit: CommitOffsets | bytes) -> CommitOffsets:
        """A commit that `split` gave. Raises the Invalid… error that fits."""
        return self._parse_slowly(commit) if isinstance(commit, bytes) else commit

    def _parse_slowly(self, message: bytes) -> CommitOffsets:
        request = validation.parse(offset_service_pb2.CommitOffsetsRequest, message)
        return validation.commit_offsets(request, metadata_units_max=self._metadata_units_max)
