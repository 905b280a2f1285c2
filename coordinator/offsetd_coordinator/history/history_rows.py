"""The rows of a group as of an earlier log offset. Not for the event loop's thread.

Everything is read in slices: no kernel call and no Python list grows with the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from offsetd_storage.kernels import padded_buffer, padded_copy

from offsetd_coordinator.committed_offsets import OffsetRows
from offsetd_coordinator.cooperative_scheduling import SLICE_ROWS
from offsetd_coordinator.errors import CoordinatorNotAvailable
from offsetd_coordinator.history.offset_events import (
    TRIES_MAX,
    changes_of_row,
    compacted,
    rows_of_changes,
)
from offsetd_coordinator.kernels import columns
from offsetd_coordinator.kernels.records import change_records as found_columns
from offsetd_coordinator.kernels.records.change_records import (
    CHANGE_COLUMNS,
    COMMITTED,
    CURSOR_SLOTS,
    UNREADABLE,
    read_changes,
)
from offsetd_coordinator.kernels.records.row_comparison import copy_changes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_coordinator.kernels.columns import Bytes, Int64s
    from offsetd_coordinator.runtime.commit_log import PartitionReader

_CHUNK_BYTES: Final = 1 << 18
_KEPT_ROWS_MIN: Final = 64 * SLICE_ROWS
_IS_DELETED: Final = columns.ROW_END_OFFSET  # `copy_changes` writes 1 or 0 to this column.


def rows_before(log: PartitionReader, limit: int, end: int, group_id: bytes) -> OffsetRows:
    """The offsets that a group had just before log offset `limit`, sorted.

    Unreadable offsets are included. Raises HistoryCompacted if cleaning may have removed some of
    them, CorruptBatch, OSError.
    """
    for _ in range(TRIES_MAX):
        segments = log.segments
        before, after = _Newest(), _Newest()
        for part in _changes(log, end, group_id):
            offsets = part.rows[:, columns.ROW_REVISION]
            before.take(part.take(np.flatnonzero(offsets < limit)))
            later = part.take(np.flatnonzero(offsets >= limit))
            # Negated, so that the first batch after the limit counts as the newest.
            later.rows[:, columns.ROW_REVISION] *= -1
            after.take(later)
        # A read while the cleaner swaps segments may mix old and new segments.
        if log.segments[: len(segments)] == segments:
            break
    else:
        raise CoordinatorNotAvailable("the log is being cleaned all the time")
    last = before.rows()
    _check_whole(log, limit, last, after.rows())
    rows = last.take(np.flatnonzero(last.rows[:, _IS_DELETED] == 0))
    rows.rows[:, columns.ROW_END_OFFSET] = -1
    return rows


def _check_whole(log: PartitionReader, limit: int, last: OffsetRows, after: OffsetRows) -> None:
    """Raises HistoryCompacted if records below `limit` may have been cleaned away."""
    gapless_from, superseders_end = log.gapless_from, log.superseders_end
    oldest = max(gapless_from, superseders_end)
    if limit < gapless_from:
        raise compacted(oldest)
    # Each removed record has a later record of its partition below `superseders_end`.
    doubtful = after.take(np.flatnonzero(-after.rows[:, columns.ROW_REVISION] < superseders_end))
    places = doubtful.places_in(last)
    is_known = places >= 0
    known = last.rows[places[is_known], columns.ROW_REVISION]
    if not is_known.all() or (known < gapless_from).any():
        raise compacted(oldest)


class _Newest:
    """The newest row of each partition, which may be a deletion."""

    def __init__(self) -> None:
        self._parts: list[OffsetRows] = []
        self._count = 0
        self._kept = 0

    def take(self, rows: OffsetRows) -> None:
        if not len(rows):
            return
        self._parts.append(rows.with_own_texts())
        self._count += len(rows)
        if self._count >= 2 * self._kept + _KEPT_ROWS_MIN:
            self._parts = [self.rows().with_own_texts()]
            self._count = self._kept = len(self._parts[0])

    def rows(self) -> OffsetRows:
        """The newest rows, sorted."""
        return OffsetRows.joined(self._parts).sorted() if self._parts else OffsetRows.of(())


def _changes(log: PartitionReader, end: int, group_id: bytes) -> Iterator[OffsetRows]:
    """Yields a group's changes up to `end` in order, a slice at a time. `end` is a batch's end."""
    found = np.empty((SLICE_ROWS, CHANGE_COLUMNS), np.int64)
    group = padded_copy(group_id)
    for buffer, size in log.read_chunks(_CHUNK_BYTES, offset=0, offset_limit=end):
        cursor = np.zeros(CURSOR_SLOTS, np.int64)
        count = len(found)
        while count == len(found):
            count = read_changes(buffer, size, group, len(group_id), cursor, found)
            if count:
                yield _rows_of(buffer, found[:count], group_id)


def _rows_of(buffer: Bytes, found: Int64s, group_id: bytes) -> OffsetRows:
    kinds = found[:, found_columns.KIND]
    if (kinds > UNREADABLE).any():  # Python reads Kafka's old keys and compressed batches.
        changes = (each for row in found.tolist() for each in changes_of_row(buffer, row))
        rows = rows_of_changes(each for each in changes if each.group_id == group_id)
        rows.rows[:, _IS_DELETED] = rows.rows[:, columns.PUT_IS_TOMBSTONE]
        rows.rows[:, columns.PUT_IS_TOMBSTONE] = 0
        return rows
    sizes = np.where(kinds == COMMITTED, found[:, found_columns.METADATA_SIZE], 0)
    texts = padded_buffer(int((found[:, found_columns.TOPIC_SIZE] + sizes).sum()))
    rows_of = np.empty((len(found), columns.ROW_COLUMNS), np.int64)
    copy_changes(buffer, found, len(found), rows_of, texts)
    return OffsetRows(texts, rows_of)
