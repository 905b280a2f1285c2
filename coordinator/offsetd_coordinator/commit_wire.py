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
    SETTING_ROWS_MAX,
    SETTING_SEED,
    SETTINGS,
    count_commits,
    read_commits,
)
from offsetd_coordinator.offset_table import fresh_hash_seeds
from offsetd_coordinator.requests import CommitOffsets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_coordinator.kernels.columns import Bytes, Int64s

COMMITS_AT_ONCE: Final = 64
"""Of a stream's message: so many are read, and held, at one time."""
_ROWS_MIN: Final = 256
_ROWS_KEPT_MAX: Final = 4096
_UINT64_MASK: Final = (1 << 64) - 1


class ReadCommit(NamedTuple):
    """One commit of a stream's message.

    `commit` is None if it is not plain: then protobuf has to read `message[start:end]`, and the
    validation to say what is wrong with it, if anything is. The next one begins at `next_start`.
    """

    sequence: int
    commit: CommitOffsets | None
    start: int
    end: int
    next_start: int


class CommitReader:
    """Reads `CommitOffsetsRequest` and `StreamCommitsRequest`; for one thread."""

    def __init__(self, *, metadata_units_max: int, offsets_max: int) -> None:
        """A commit of more than `offsets_max` offsets is not plain."""
        self._settings = np.zeros(SETTINGS, np.int64)
        self._settings[SETTING_METADATA_UNITS_MAX] = metadata_units_max
        self._settings[SETTING_ROWS_MAX] = offsets_max
        # Who knew the seeds could make all partitions of a commit collide.
        self._settings[SETTING_SEED : SETTING_SEED + 2] = fresh_hash_seeds()[:2]
        self._commits = np.empty((COMMITS_AT_ONCE, READ_COMMIT_COLUMNS), np.int64)
        self._make_room(_ROWS_MIN)

    @property
    def reserved_bytes(self) -> int:
        """Bytes of the arrays that are kept for the next message."""
        return self._commits.nbytes + self._columns.nbytes + self._slots.nbytes

    def read_commit(self, message: bytes) -> CommitOffsets | None:
        """The commit in a CommitOffsetsRequest, or None if it is not plain."""
        names = padded_copy(message)
        return self._read(message, names, 0, is_stream=False)[0].commit

    def count_stream(self, message: bytes) -> tuple[int, Bytes | None]:
        """How many commits a StreamCommitsRequest has, and the padded copy for `read_stream`.

        None if what is around the commits is not plain: then there may be more of them, and
        `read_stream` cannot read it.
        """
        names = padded_copy(message)
        count = count_commits(names, len(message))
        return (count, names) if count >= 0 else (-1 - count, None)

    def read_stream(self, message: bytes, names: Bytes) -> Iterator[list[ReadCommit]]:
        """The commits in a StreamCommitsRequest, a few at a time; `names` is of `count_stream`.

        Other messages may be read meanwhile.
        """
        position = 0
        while position < len(message):
            read = self._read(message, names, position, is_stream=True)
            yield read
            position = read[-1].next_start

    def _read(
        self, message: bytes, names: Bytes, position: int, *, is_stream: bool
    ) -> list[ReadCommit]:
        while True:
            count = read_commits(
                names,
                position,
                len(message),
                is_stream,
                self._settings,
                self._commits,
                self._columns,
                self._slots,
            )
            if count != NO_ROOM:
                break
            self._make_room(2 * len(self._columns))
        assert count > 0, "what is read was counted"
        read = _commits_of(message, names, self._commits[:count].tolist(), self._columns)
        if len(self._columns) > _ROWS_KEPT_MAX:
            self._make_room(_ROWS_MIN)
        return read

    def _make_room(self, rows: int) -> None:
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
        next_start,
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
        read.append(ReadCommit(sequence & _UINT64_MASK, commit, start, start + size, next_start))
    return read
