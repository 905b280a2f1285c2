"""Offsets of one group at one moment: as values, by column, or as rows.

They do not change when the table changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import attrs
import numpy as np
from offsetd_storage.kernels import padded_buffer, padded_copy

from offsetd_coordinator.errors import RecordUndecodable, undecodable_offset
from offsetd_coordinator.kernels import columns
from offsetd_coordinator.kernels.records.row_comparison import move_texts
from offsetd_coordinator.kernels.table.copied_rows import (
    copy_entries,
    keep_newest,
    match_rows,
    sort_rows,
    texts_size,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from offsetd_coordinator.kernels.columns import Bytes, Int64s, TableArrays

_ROWS_AT_ONCE: Final = 1024


class CommittedOffset(NamedTuple):
    """One stored offset. In `leader_epoch`, `expire_timestamp_ms` and `end_offset`, -1 means none.

    If `is_decodable` is False, only topic, partition and revision are known.
    """

    topic: bytes
    partition: int
    offset: int
    leader_epoch: int
    metadata: bytes
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    revision: int
    end_offset: int
    is_decodable: bool = True


class CommittedColumns(NamedTuple):
    """Stored offsets, sorted by topic and partition: columns of `CommittedOffset`'s fields."""

    topics: Sequence[bytes]
    partitions: Sequence[int]
    offsets: Sequence[int]
    leader_epochs: Sequence[int]
    metadata: Sequence[bytes]
    expire_timestamps_ms: Sequence[int]
    end_offsets: Sequence[int]
    are_decodable: Sequence[bool]

    def places(self) -> dict[tuple[bytes, int], int]:
        """The place of each partition in the columns."""
        named = zip(self.topics, self.partitions, strict=True)
        return dict(zip(named, range(len(self.topics)), strict=True))


class OffsetRow(NamedTuple):
    """One row as a value. -1 means none. `is_tombstone` means that the offset was deleted."""

    topic: bytes
    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: bytes = b""
    expire_timestamp_ms: int = -1
    commit_timestamp_ms: int = -1
    revision: int = -1
    is_decodable: bool = True
    is_tombstone: bool = False


@attrs.frozen(eq=False)
class OffsetRows:
    """Offsets as rows of the columns in `kernels.columns`; their spans refer to padded `texts`."""

    texts: Bytes
    rows: Int64s

    @classmethod
    def of_entries(cls, table: TableArrays, entries: Int64s) -> OffsetRows:
        """The rows that a table stores for these entries, in their order."""
        rows = np.empty((entries.size, columns.ROW_COLUMNS), np.int64)
        texts = padded_buffer(texts_size(table, entries))
        copy_entries(table, entries, rows, 0, texts)
        return cls(texts, rows)

    @classmethod
    def of(cls, offsets: Iterable[OffsetRow]) -> OffsetRows:
        """A row for each offset, in their order. No row has an end offset."""
        texts = bytearray()
        rows = []
        for each in offsets:
            topic_at = len(texts)
            texts += each.topic + each.metadata
            rows.append(
                (
                    topic_at,
                    len(each.topic),
                    each.partition,
                    each.offset,
                    each.leader_epoch,
                    topic_at + len(each.topic),
                    len(each.metadata) if each.is_decodable else columns.UNDECODABLE,
                    each.expire_timestamp_ms,
                    each.is_tombstone,
                    each.commit_timestamp_ms,
                    each.revision,
                    -1,
                )
            )
        table = np.array(rows, np.int64).reshape(len(rows), columns.ROW_COLUMNS)
        return cls(padded_copy(texts), table)

    @classmethod
    def joined(cls, parts: Sequence[OffsetRows]) -> OffsetRows:
        """The rows of all parts, one part after the other."""
        texts = np.concatenate([each.texts for each in parts])
        rows = np.concatenate([each.rows for each in parts])
        at = row = 0
        for each in parts:
            end = row + len(each.rows)
            rows[row:end, columns.TOPIC_START] += at
            rows[row:end, columns.METADATA_START] += at
            at, row = at + each.texts.size, end
        return cls(texts, rows)

    def __len__(self) -> int:
        return len(self.rows)

    def sorted(self) -> OffsetRows:
        """The newest row of each partition, without deleted ones, sorted by topic and partition."""
        order, scratch = np.empty((2, len(self.rows)), np.int64)
        sort_rows(self.texts, self.rows, order, scratch)
        kept = keep_newest(self.texts, self.rows, order)
        return self.take(order[:kept])

    def with_own_texts(self) -> OffsetRows:
        """A copy of these rows with only their own texts."""
        rows = self.rows.copy()
        sizes = rows[:, columns.TOPIC_SIZE] + np.maximum(rows[:, columns.METADATA_SIZE], 0)
        texts = padded_buffer(int(sizes.sum()))
        size = move_texts(self.texts, rows, texts)
        return OffsetRows(padded_copy(texts[:size].data), rows)

    def take(self, places: Int64s | slice) -> OffsetRows:
        """Some of the rows."""
        return OffsetRows(self.texts, np.ascontiguousarray(self.rows[places]))

    def places_in(self, others: OffsetRows) -> Int64s:
        """The place of each row's partition in `others`, or -1. Both are sorted."""
        places = np.empty(len(self.rows), np.int64)
        match_rows(self.texts, self.rows, others.texts, others.rows, places)
        return places

    def topic(self, place: int) -> bytes:
        """The topic of a row."""
        start, size = self.rows[place, columns.TOPIC_START : columns.TOPIC_SIZE + 1].tolist()
        return self.texts[start : start + size].tobytes()

    def partition(self, place: int) -> tuple[bytes, int]:
        """The topic and the partition of a row."""
        return self.topic(place), int(self.rows[place, columns.PARTITION])

    def metadata(self, place: int) -> bytes:
        """The metadata of a decodable row."""
        start, size = self.rows[place, columns.METADATA_START : columns.METADATA_SIZE + 1].tolist()
        return self.texts[start : start + size].tobytes()

    @property
    def are_decodable(self) -> npt.NDArray[np.bool_]:
        """Whether the record of each row can be read."""
        return np.not_equal(self.rows[:, columns.METADATA_SIZE], columns.UNDECODABLE)

    def refusal_of(self, group_id: bytes, place: int) -> RecordUndecodable:
        """The error for a row whose record cannot be read."""
        return undecodable_offset(group_id, *self.partition(place))

    def committed(self) -> Iterator[CommittedOffset]:
        """Each row as a value."""
        texts, topics = self.texts, dict[tuple[int, int], bytes]()
        for first in range(0, len(self.rows), _ROWS_AT_ONCE):
            for row in self.rows[first : first + _ROWS_AT_ONCE].tolist():
                start, size, partition, offset, epoch, metadata_at, metadata_size, *times = row
                expires_ms, _, committed_ms, revision, end_offset = times
                topic = topics.get((start, size))
                if topic is None:
                    topic = topics[start, size] = texts[start : start + size].tobytes()
                metadata = b""
                if metadata_size > 0:
                    metadata = texts[metadata_at : metadata_at + metadata_size].tobytes()
                yield CommittedOffset(
                    topic,
                    partition,
                    offset,
                    epoch,
                    metadata,
                    committed_ms,
                    expires_ms,
                    revision,
                    end_offset,
                    metadata_size != columns.UNDECODABLE,
                )
