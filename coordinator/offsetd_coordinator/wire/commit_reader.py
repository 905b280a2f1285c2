"""Commits that a kernel reads from a request's bytes: the server's fast path."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
from offsetd_storage.kernels import padded_copy

from offsetd_coordinator.kernels.columns import COMMIT_COLUMNS
from offsetd_coordinator.kernels.wire.commit_fields import (
    FIRST_ROW,
    GROUP_SIZE,
    GROUP_START,
    MESSAGE_NEXT,
    MESSAGE_SIZE,
    MESSAGE_START,
    NO_ROOM,
    NOT_PLAIN,
    READ_COMMIT_COLUMNS,
    REPORTS_END_OFFSETS,
    REQUEST_ID_SIZE,
    REQUEST_ID_START,
    ROWS,
    SEQUENCE,
    SETTING_METADATA_UNITS_MAX,
    SETTING_ROWS_MAX,
    SETTING_SEED,
    SETTINGS,
    count_commits,
    read_commits,
)
from offsetd_coordinator.requests import CommitOffsets
from offsetd_coordinator.state.offset_table import fresh_hash_seeds

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s

COMMITS_AT_ONCE: Final = 512
"""The number of commits of a stream's message that are read and held at one time."""
_ROWS_KEPT: Final = 4096  # Offsets that are read at once; a single commit may have more.
_UINT64_MASK: Final = (1 << 64) - 1


@attrs.frozen
class ReadCommits:
    """Commits of one message, in arrays that the next read overwrites.

    `commits` has one row for each commit, with the columns that `kernels.wire.commit_fields` lists.
    `columns` has one row for each partition of each commit. If there are several commits, all of
    them are plain (`kernels.wire.commit_fields` defines plain commits).
    """

    message: bytes
    names: Bytes
    commits: Int64s
    columns: Int64s
    # Whether any of the commits reports end offsets. It is False for a single commit.
    report_end_offsets: bool

    @cached_property
    def all_group_ids(self) -> list[bytes]:
        """The group id of each commit."""
        return self.group_ids(slice(None))

    @property
    def alone(self) -> tuple[int, CommitOffsets | bytes]:
        """The only commit and its sequence number. A commit that is not plain is given as bytes."""
        row = self.commits[0].tolist()
        sequence = row[SEQUENCE] & _UINT64_MASK
        if row[ROWS] != NOT_PLAIN:
            return sequence, self._commit(row)
        start = row[MESSAGE_START]
        return sequence, self.message[start : start + row[MESSAGE_SIZE]]

    @property
    def position_next(self) -> int:
        """The byte of the message at which the next commit starts."""
        return int(self.commits[-1, MESSAGE_NEXT])

    def group_ids(self, places: Int64s | list[int] | slice) -> list[bytes]:
        """The group ids of the commits at these places."""
        message, spans = self.message, self.commits[places, GROUP_START : GROUP_SIZE + 1]
        return [message[start : start + size] for start, size in spans.tolist()]

    def commit(self, place: int) -> CommitOffsets:
        """The plain commit at `place`, as a value that the next read does not change."""
        return self._commit(self.commits[place].tolist())

    def _commit(self, row: list[int]) -> CommitOffsets:
        first_row = row[FIRST_ROW]
        group_start, request_id_start = row[GROUP_START], row[REQUEST_ID_START]
        return CommitOffsets(
            group_id=self.message[group_start : group_start + row[GROUP_SIZE]],
            group_start=group_start,
            request_id=self.message[request_id_start : request_id_start + row[REQUEST_ID_SIZE]],
            request_id_start=request_id_start,
            names=self.names,
            # A copy: the next message is read into the same columns.
            columns=self.columns[first_row : first_row + row[ROWS]].copy(),
            reports_end_offsets=bool(row[REPORTS_END_OFFSETS]),
        )


class CommitReader:
    """Reads `CommitOffsetsRequest` and `StreamCommitsRequest`; for one thread."""

    def __init__(self, *, metadata_units_max: int, offsets_max: int) -> None:
        """A commit with more than `offsets_max` offsets is not plain."""
        self._settings = np.zeros(SETTINGS, np.int64)
        self._settings[SETTING_METADATA_UNITS_MAX] = metadata_units_max
        self._settings[SETTING_ROWS_MAX] = offsets_max
        # With known seeds, a client could make all partitions of a commit collide.
        self._settings[SETTING_SEED : SETTING_SEED + 2] = fresh_hash_seeds()[:2]
        self._commits = np.empty((COMMITS_AT_ONCE, READ_COMMIT_COLUMNS), np.int64)
        self._make_room(_ROWS_KEPT)

    @property
    def reserved_bytes(self) -> int:
        """The size in bytes of the arrays that are kept for the next message."""
        return self._commits.nbytes + self._columns.nbytes + self._slots.nbytes

    def read_commit(self, message: bytes) -> CommitOffsets | None:
        """The commit in a CommitOffsetsRequest, or None if it is not plain."""
        read = self._read(message, padded_copy(message), 0, 1, is_stream=False)
        _, commit = read.alone
        return None if isinstance(commit, bytes) else commit

    def count_stream(self, message: bytes) -> tuple[int, Bytes | None]:
        """The number of commits in a StreamCommitsRequest, and a padded copy for `read_stream`.

        The copy is None if the message's own fields are not plain. Then the message may have more
        commits than this number, and `read_stream` cannot read it.
        """
        names = padded_copy(message)
        count = count_commits(names, len(message))
        return (count, names) if count >= 0 else (-1 - count, None)

    def read_stream(
        self, message: bytes, names: Bytes, position: int, commits_max: int
    ) -> ReadCommits:
        """Reads up to `commits_max` commits of a StreamCommitsRequest from byte `position`.

        `names` is the copy that `count_stream` returned.
        """
        return self._read(message, names, position, commits_max, is_stream=True)

    def _read(
        self, message: bytes, names: Bytes, position: int, commits_max: int, *, is_stream: bool
    ) -> ReadCommits:
        while True:
            columns = self._columns
            count = read_commits(
                names,
                position,
                len(message),
                is_stream,
                self._settings,
                self._commits[:commits_max],
                columns,
                self._slots,
            )
            if count != NO_ROOM:
                break
            self._make_room(2 * len(columns))
        assert count > 0, "the message still has commits"
        if len(columns) > _ROWS_KEPT:
            self._make_room(_ROWS_KEPT)
        commits = self._commits[:count]
        reports = count > 1 and bool(np.count_nonzero(commits[:, REPORTS_END_OFFSETS]))
        return ReadCommits(message, names, commits, columns, reports)

    def _make_room(self, rows: int) -> None:
        self._columns = np.empty((rows, COMMIT_COLUMNS), np.int64)
        self._slots = np.empty(2 * rows, np.int64)
