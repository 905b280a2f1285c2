"""The fast road into the server: commits read from a request's bytes by a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from offsetd_storage.kernels import padded_copy

from offsetd_coordinator.kernels.columns import COMMIT_COLUMNS
from offsetd_coordinator.kernels.commit_wire import (
    NO_ROOM,
    NOT_PLAIN,
    READ_COMMIT_COLUMNS,
    SETTING_METADATA_UNITS_MAX,
    SETTING_SEED,
    SETTINGS,
    read_commits,
)
from offsetd_coordinator.offset_table import fresh_hash_seeds
from offsetd_coordinator.requests import CommitOffsets

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s

_COMMITS_MIN: Final = 64
_ROWS_MIN: Final = 256
_UINT64_MASK: Final = (1 << 64) - 1


class ReadCommit(NamedTuple):
    """One commit of a stream's message.

    `commit` is None if it is not plain: then protobuf has to read `message[start:end]`, and the
    validation to say what is wrong with it, if anything is.
    """

    sequence: int
    commit: CommitOffsets | None
    start: int
    end: int


class CommitReader:
    """Reads `CommitOffsetsRequest` and `StreamCommitsRequest`; for one thread."""

    def __init__(self, *, metadata_units_max: int) -> None:
        self._settings = np.zeros(SETTINGS, np.int64)
        self._settings[SETTING_METADATA_UNITS_MAX] = metadata_units_max
        # Who knew the seeds could make all partitions of a commit collide.
        self._settings[SETTING_SEED : SETTING_SEED + 2] = fresh_hash_seeds()[:2]
        self._make_room(_COMMITS_MIN, _ROWS_MIN)

    def read_commit(self, message: bytes) -> CommitOffsets | None:
        """The commit in a CommitOffsetsRequest, or None if it is not plain."""
        read = self._read(message, is_stream=False)
        return None if read is None else read[0].commit

    def read_stream(self, message: bytes) -> list[ReadCommit] | None:
        """The commits in a StreamCommitsRequest; None if what is around them is not plain."""
        return self._read(message, is_stream=True)

    def _read(self, message: bytes, *, is_stream: bool) -> list[ReadCommit] | None:
        names = padded_copy(message)
        size = len(message)
        while True:
            count = read_commits(
                names, size, is_stream, self._settings, self._commits, self._columns, self._slots
            )
            if count != NO_ROOM:
                break
            self._make_room(2 * len(self._commits), 2 * len(self._columns))
        if count == NOT_PLAIN:
            return None
        return _commits_of(message, names, self._commits[:count].tolist(), self._columns)

    def _make_room(self, commits: int, rows: int) -> None:
        self._commits = np.empty((commits, READ_COMMIT_COLUMNS), np.int64)
        self._columns = np.empty((rows, COMMIT_COLUMNS), np.int64)
        self._slots = np.empty(2 * rows, np.int64)


def _commits_of(
    message: bytes, names: Bytes, rows: list[list[int]], all_columns: Int64s
) -> list[ReadCommit]:
    read = []
    for (
        sequence,
        start,
        size,
        group_start,
        group_size,
        request_id_start,
        request_id_size,
        first_row,
        row_count,
        reports_end_offsets,
    ) in rows:
        commit = None
        if row_count != NOT_PLAIN:
            commit = CommitOffsets(
                group_id=message[group_start : group_start + group_size],
                group_start=group_start,
                request_id=message[request_id_start : request_id_start + request_id_size],
                request_id_start=request_id_start,
                names=names,
                # A copy: the next message is read into the same columns.
                columns=all_columns[first_row : first_row + row_count].copy(),
                reports_end_offsets=bool(reports_end_offsets),
            )
        read.append(ReadCommit(sequence & _UINT64_MASK, commit, start, start + size))
    return read
