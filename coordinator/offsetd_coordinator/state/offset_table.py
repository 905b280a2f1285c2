"""The stored offsets of a shard: arrays, and the kernels that work on them.

This class owns the arrays and grows them. `kernels.columns` says what they contain; the other
kernels read and change them record by record.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final, cast

import numpy as np
from offsetd_storage.kernels import PADDING_BYTES, padded_buffer, padded_copy

from offsetd_coordinator.committed_offsets import CommittedColumns, CommittedOffset
from offsetd_coordinator.cooperative_scheduling import SLICE_ROWS
from offsetd_coordinator.kernels import columns
from offsetd_coordinator.kernels.columns import Table
from offsetd_coordinator.kernels.records.commit_batch import note_end_offsets
from offsetd_coordinator.kernels.records.tombstone_records import (
    OFFSET_KEY_FIXED_BYTES,
    put_offset_keys,
)
from offsetd_coordinator.kernels.table.blocks import LOW_HALF, compact_blocks
from offsetd_coordinator.kernels.table.entries import compact_metadata
from offsetd_coordinator.kernels.table.names import compact_names, locate_names
from offsetd_coordinator.kernels.table.request_ids import move_requests
from offsetd_coordinator.kernels.table.slots import refill_slots
from offsetd_coordinator.kernels.table.stored_offsets import (
    list_entries,
    list_misplaced,
    locate,
    read_entries,
    remove,
    store,
)
from offsetd_coordinator.kernels.table.table_directory import ROW_COLUMNS, fill_row
from offsetd_coordinator.state.anonymous_memory import PAGE_BYTES, grown, zeros

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    import numpy.typing as npt

    from offsetd_coordinator.kernels.columns import Bytes, Int64s, TableArrays
    from offsetd_coordinator.requests import CommitOffsets

# Each array starts with about a page, and grows by half. An array whose rows are used in order
# starts with 16 pages and grows by four: unused pages take no memory, and with smaller steps a load
# spent half of its time on growing.
_IN_ORDER_BYTES: Final = 16 * PAGE_BYTES
_BLOCKS_MIN: Final = _IN_ORDER_BYTES // (8 * columns.BLOCK_COLUMNS)
_EXTRAS_MIN: Final = _IN_ORDER_BYTES // (8 * columns.EXTRA_COLUMNS)
_ENTRIES_MIN: Final = _IN_ORDER_BYTES // (8 * columns.ENTRY_COLUMNS)
_NAMES_MIN: Final = _IN_ORDER_BYTES // (8 * columns.NAME_COLUMNS)
_WINDOWS_MIN: Final = _IN_ORDER_BYTES // (8 * columns.WINDOW_COLUMNS)
_REQUESTS_MIN: Final = PAGE_BYTES // (8 * columns.REQUEST_COLUMNS)
_SLOTS_MIN: Final = PAGE_BYTES // 8
_TIMES_ROWS: Final = 4
_LOCATE_COLUMNS: Final = 3
_NOWHERE: Final[Int64s] = np.empty(0, np.int64)
_NAME_SIZE_MASK: Final = (1 << columns.NAME_SIZE_BITS) - 1


def fresh_hash_seeds() -> tuple[int, int, int, int]:
    """Secret random seeds, valid for the life of a process."""
    return tuple(secrets.randbits(64) - (1 << 63) for _ in range(4))  # type: ignore[return-value]


class OffsetTable:
    """Offsets by group, topic and partition, with the recent request ids.

    Kernels take `arrays`, which is replaced when room is made. Kernels for several tables take
    `directory_row`, see `kernels.table.table_directory`; it stays the same array.
    """

    def __init__(
        self,
        *,
        request_window_ms: int,
        request_ids_max: int,
        hash_seeds: tuple[int, int, int, int],
    ) -> None:
        counters = np.zeros(columns.COUNTERS, np.int64)
        counters[columns.REQUEST_WINDOW_MS] = request_window_ms
        counters[columns.REQUEST_COUNT_MAX] = request_ids_max
        counters[columns.SEED : columns.SEED + 4] = hash_seeds
        self.counters: Int64s = counters
        requests = max(1, min(_REQUESTS_MIN, request_ids_max))
        self._table = Table(
            counters=counters,
            slots=zeros((_SLOTS_MIN,), np.int64),
            blocks=zeros((_BLOCKS_MIN, columns.BLOCK_COLUMNS), np.int64),
            entries=zeros((_ENTRIES_MIN, columns.ENTRY_COLUMNS), np.int64),
            extras=zeros((_EXTRAS_MIN, columns.EXTRA_COLUMNS), np.int64),
            name_slots=zeros((_SLOTS_MIN,), np.int64),
            names=zeros((_NAMES_MIN, columns.NAME_COLUMNS), np.int64),
            name_bytes=zeros((PAGE_BYTES,), np.uint8),
            metadata=zeros((PAGE_BYTES,), np.uint8),
            request_slots=zeros((_SLOTS_MIN,), np.int64),
            requests=zeros((requests, columns.REQUEST_COLUMNS), np.int64),
            windows=zeros((_WINDOWS_MIN, columns.WINDOW_COLUMNS), np.int64),
        )
        self.directory_row: Int64s = np.zeros(ROW_COLUMNS, np.int64)
        self._publish()

    @property
    def size(self) -> int:
        """The number of stored offsets."""
        return int(self.counters[columns.ENTRY_COUNT])

    @property
    def group_count(self) -> int:
        """The number of groups that have an offset."""
        return int(self.counters[columns.GROUP_COUNT])

    @property
    def reserved_bytes(self) -> int:
        """Bytes of all arrays. Less is in memory, because pages that were never used take none."""
        return sum(array.nbytes for array in self._table)

    def store(
        self,
        group_id: bytes,
        topic: bytes,
        partition: int,
        *,
        revision: int,
        offset: int,
        leader_epoch: int,
        metadata: bytes,
        commit_timestamp_ms: int,
        expire_timestamp_ms: int,
    ) -> None:
        """Stores an offset, in place of the one that was stored."""
        self._store(
            padded_copy(group_id + topic + metadata),
            len(group_id),
            len(topic),
            partition,
            revision,
            offset,
            leader_epoch,
            len(metadata),
            commit_timestamp_ms,
            expire_timestamp_ms,
        )

    def mark_undecodable(
        self, group_id: bytes, topic: bytes, partition: int, *, revision: int
    ) -> None:
        """Notes that an offset's record cannot be read, in place of the stored offset."""
        names = padded_copy(group_id + topic)
        unreadable = columns.UNDECODABLE
        self._store(
            names, len(group_id), len(topic), partition, revision, -1, -1, unreadable, -1, -1
        )

    def remove(self, group_id: bytes, topic: bytes, partition: int) -> bool:
        """Removes an offset. Returns whether it existed."""
        names = padded_copy(group_id + topic)
        return bool(remove(self.arrays, names, len(group_id), len(topic), partition))

    def revision_of(self, group_id: bytes, topic: bytes, partition: int) -> int | None:
        """The log offset of an offset's record, or None."""
        entries = self.locate(group_id, [(topic, partition)])
        return None if entries[0] < 0 else int(self._read(entries)[0, columns.READ_REVISION])

    def count(self, group_id: bytes, padded: Bytes | None = None) -> int:
        """The number of offsets of a group. A `padded` buffer begins with its id."""
        names = padded_copy(group_id) if padded is None else padded
        return int(list_entries(self.arrays, names, len(group_id), _NOWHERE))

    def read_columns(self, group_id: bytes) -> CommittedColumns:
        """All offsets of a group, sorted, by column. Cheaper than `read_group` for many offsets."""
        entries = self.entries_of(group_id)
        read = self._read(entries)
        starts, ends = read[:, columns.READ_TOPIC_START], read[:, columns.READ_TOPIC_END]
        spans, of_row = np.unique(
            starts << columns.NAME_SIZE_BITS | (ends - starts), return_inverse=True
        )
        names = list(map(self._name, spans.tolist()))
        by_name = np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)
        ranks = np.empty(len(names), np.int64)
        ranks[by_name] = np.arange(len(names))
        order = np.lexsort((read[:, columns.READ_PARTITION], ranks[of_row]))
        read = read[order]
        return CommittedColumns(
            [names[at] for at in of_row[order].tolist()],
            read[:, columns.READ_PARTITION].tolist(),
            read[:, columns.READ_OFFSET].tolist(),
            read[:, columns.READ_LEADER_EPOCH].tolist(),
            self._metadata_of(read),
            read[:, columns.READ_EXPIRE_TIMESTAMP].tolist(),
            read[:, columns.READ_END_OFFSET].tolist(),
            (read[:, columns.READ_METADATA_START] != columns.UNDECODABLE).tolist(),
        )

    def _metadata_of(self, read: Int64s) -> list[bytes]:
        texts = [b""] * len(read)
        spans = read[:, [columns.READ_METADATA_START, columns.READ_METADATA_END]]
        rows = np.flatnonzero(spans[:, 0] < spans[:, 1])
        for row, (start, end) in zip(rows.tolist(), spans[rows].tolist(), strict=True):
            texts[row] = self._table.metadata[start:end].tobytes()
        return texts

    def offsets_at(self, names: Bytes, group_size: int, keys: Int64s) -> list[int | None]:
        """The offset of each of these partitions; None if there is none or it cannot be read.

        `keys` has each topic's span in `names`, and the partition. `names` starts with the group.
        """
        found = np.empty(len(keys), np.int64)
        locate(self.arrays, names, group_size, keys, found)
        is_known = found >= 0
        read = self._read(found[is_known])
        found[is_known] = read[:, columns.READ_OFFSET]
        is_known[is_known] = read[:, columns.READ_METADATA_START] != columns.UNDECODABLE
        return _where(is_known, found)

    def revisions_at(self, names: Bytes, group_size: int, keys: Int64s) -> list[int | None]:
        """The log offset of each partition's record, even an unreadable one; None without one."""
        found = np.empty(len(keys), np.int64)
        locate(self.arrays, names, group_size, keys, found)
        is_known = found >= 0
        found[is_known] = self._read(found[is_known])[:, columns.READ_REVISION]
        return _where(is_known, found)

    def entries_of(self, group_id: bytes) -> Int64s:
        """The entries (see `kernels.table.blocks`) of all offsets of a group, in no order. They are
        valid until the next change.
        """
        entries = np.empty(self.count(group_id), np.int64)
        list_entries(self.arrays, padded_copy(group_id), len(group_id), entries)
        return entries

    def entries_of_topics(self, group_id: bytes, topics: Collection[bytes]) -> Int64s:
        """The entries of a group's offsets in any of the topics, in no order."""
        ends = np.cumsum([len(topic) for topic in topics], dtype=np.int64)
        names = np.empty(len(topics), np.int64)
        locate_names(self.arrays, padded_copy(b"".join(topics)), ends, names)
        entries = self.entries_of(group_id)
        return entries[np.isin(self._topics_of(entries), names)]

    def locate(self, group_id: bytes, partitions: Iterable[tuple[bytes, int]]) -> Int64s:
        """The entry of each partition's offset, or -1."""
        names = bytearray(group_id)
        keys = []
        for topic, partition in partitions:
            keys.append((len(names), len(topic), partition))
            names += topic
        rows = np.array(keys, np.int64).reshape(len(keys), _LOCATE_COLUMNS)
        found = np.empty(len(keys), np.int64)
        locate(self.arrays, padded_copy(names), len(group_id), rows, found)
        return found

    def locate_keys(self, names: Bytes, group_size: int, keys: Int64s) -> Int64s:
        """The entry of each partition's offset, or -1. For the parameters, see `offsets_at`."""
        found = np.empty(len(keys), np.int64)
        locate(self.arrays, names, group_size, np.ascontiguousarray(keys), found)
        return found

    def partitions_of(self, entries: Int64s) -> list[tuple[bytes, int]]:
        """The topic and partition of each of these entries."""
        topics = self._topics_of(entries)
        spans = self._table.names[topics, columns.NAME_SPAN]
        names = {span: self._name(span) for span in np.unique(spans).tolist()}
        partitions = self._read(entries)[:, columns.READ_PARTITION]
        return [
            (names[span], partition)
            for span, partition in zip(spans.tolist(), partitions.tolist(), strict=True)
        ]

    def keys_of(self, group_id: bytes, entries: Int64s) -> tuple[Bytes, Int64s]:
        """The record keys of entries of a group, concatenated, and the end of each."""
        spans = self._table.names[self._topics_of(entries), columns.NAME_SPAN]
        sizes = OFFSET_KEY_FIXED_BYTES + len(group_id) + (spans & _NAME_SIZE_MASK)
        ends = np.cumsum(sizes, dtype=np.int64)
        keys = padded_buffer(int(ends[-1]) if ends.size else 0)
        put_offset_keys(self.arrays, entries, ends, keys)
        return keys, ends

    @property
    def name_rows(self) -> int:
        """The number of rows for names. The row of every name is below it."""
        return len(self._table.names)

    def name_in(self, name_row: int) -> bytes:
        """The name in a row of names."""
        return self._name(int(self._table.names[name_row, columns.NAME_SPAN]))

    def group_row(self, group_id: bytes) -> int:
        """The row of a group's name, or -1. It is valid until the next change."""
        found = np.empty(1, np.int64)
        ends = np.array((len(group_id),), np.int64)
        locate_names(self.arrays, padded_copy(group_id), ends, found)
        return int(found[0])

    def group_ids(self) -> Iterator[bytes]:
        """The groups that have an offset, in no order.

        The table may change in between: a group that is added or removed may be listed or not, or
        twice.
        """
        first = 0
        while first < self.counters[columns.NAME_END]:
            end = min(first + SLICE_ROWS, int(self.counters[columns.NAME_END]))
            names = self._table.names[first:end]
            # In a free row, ENTRY_LIST is the link to the next free row, so it may differ from 0.
            spans = names[:, columns.NAME_SPAN]
            has_entries = (names[:, columns.ENTRY_LIST] != 0) & (spans != columns.FREE)
            yield from list(map(self._name, spans[has_entries].tolist()))
            first = end

    def misplaced_groups(self, partition: int, partitions: int) -> list[bytes]:
        """The groups whose hash belongs to another partition."""
        spans = np.empty(self.group_count, np.int64)
        count = list_misplaced(self.arrays, partition, partitions, spans)
        return [self._name(span) for span in spans[:count].tolist()]

    def expect(self, offsets: int) -> None:
        """Makes room for this many offsets, of any partitions, before they are stored."""
        rows = offsets + columns.BLOCK_PARTITIONS
        self._table = self._table._replace(entries=_with_rows(self._table.entries, rows))
        self._publish()

    def larger_entries(self, more_offsets: int) -> Int64s | None:
        """An empty array of entries, for `use_entries`, with room for this many more offsets.

        Returns None if there is enough room. Growing spends most of its time on the first write to
        new memory, so a thread should fill the array with zeros before.
        """
        entries = self._table.entries
        rows = int(self.counters[columns.ENTRY_END]) + more_offsets + columns.BLOCK_PARTITIONS
        if rows <= len(entries):
            return None
        return zeros((max(rows, len(entries) * _TIMES_ROWS), columns.ENTRY_COLUMNS), np.int64)

    def use_entries(self, larger: Int64s) -> None:
        """Moves the entries to an array of `larger_entries`, unless the present one is as large."""
        entries = self._table.entries
        if len(entries) < len(larger):
            end = int(self.counters[columns.ENTRY_END])
            larger[:end] = entries[:end]
            self._table = self._table._replace(entries=larger)
            self._publish()

    def make_room(self, name_bytes: int, metadata_bytes: int) -> None:
        """Makes room for one more offset, with two new names and metadata of these sizes, and one
        more request id.
        """
        counters = self.counters
        table = self._table
        block_count = int(counters[columns.BLOCK_COUNT]) + 1
        name_count = int(counters[columns.NAME_COUNT]) + 2
        self._table = table._replace(
            slots=_with_free_slots(table.slots, block_count),
            blocks=_with_rows(table.blocks, block_count),
            extras=_with_rows(table.extras, int(counters[columns.EXTRA_COUNT]) + 1),
            name_slots=_with_free_slots(table.name_slots, name_count),
            names=_with_rows(table.names, name_count),
            windows=_with_rows(table.windows, int(counters[columns.WINDOW_COUNT]) + 1),
        )
        self._make_room_for_entries()
        self._make_room_for_bytes(name_bytes, metadata_bytes)
        self._make_room_for_request()
        self._publish()

    def _publish(self) -> None:
        arrays = cast("TableArrays", tuple(self._table))
        fill_row(self.directory_row, arrays)
        self.arrays: TableArrays = arrays

    def _make_room_for_entries(self) -> None:
        counters = self.counters
        table = self._table
        end, unused = int(counters[columns.ENTRY_END]), int(counters[columns.ENTRY_UNUSED])
        if columns.ENTRY_UNUSED_TIMES * unused > end + columns.ENTRY_UNUSED_FREE:
            rows = (end - unused) * 3 // 2 + _ENTRIES_MIN
            more = zeros((rows, columns.ENTRY_COLUMNS), np.int64)
            end = compact_blocks(table.blocks, counters[columns.BLOCK_END], table.entries, more)
            counters[columns.ENTRY_END], counters[columns.ENTRY_UNUSED] = end, 0
        else:
            more = _with_rows(table.entries, end + columns.BLOCK_PARTITIONS)
        self._table = table._replace(entries=more)

    def _make_room_for_bytes(self, name_bytes: int, metadata_bytes: int) -> None:
        counters = self.counters
        table = self._table
        used, unused = int(counters[columns.NAME_BYTES_END]), columns.NAME_BYTES_UNUSED
        if used + name_bytes + PADDING_BYTES > table.name_bytes.size:
            target = _larger(used - int(counters[unused]) + name_bytes)
            name_end = counters[columns.NAME_END]
            end = compact_names(table.names, name_end, table.name_bytes, target)
            counters[columns.NAME_BYTES_END], counters[unused] = end, 0
            self._table = table = table._replace(name_bytes=target)
        used, unused = int(counters[columns.METADATA_END]), columns.METADATA_UNUSED
        if used + metadata_bytes + PADDING_BYTES > table.metadata.size:
            target = _larger(used - int(counters[unused]) + metadata_bytes)
            extra_end = counters[columns.EXTRA_END]
            end = compact_metadata(table.extras, extra_end, table.metadata, target)
            counters[columns.METADATA_END], counters[unused] = end, 0
            self._table = table._replace(metadata=target)

    def _make_room_for_request(self) -> None:
        counters = self.counters
        requests = self._table.requests
        rows = min(len(requests) * 3 // 2, int(counters[columns.REQUEST_COUNT_MAX]))
        if counters[columns.REQUEST_COUNT] < len(requests) or rows <= len(requests):
            return
        moved = zeros((rows, columns.REQUEST_COLUMNS), np.int64)
        slots = zeros((2 * rows,), np.int64)
        move_requests(counters, requests, moved, slots)
        self._table = self._table._replace(requests=moved, request_slots=slots)

    def note_end_offsets(self, commit: CommitOffsets) -> None:
        """Keeps the end offsets that a replayed commit reports."""
        row = 0
        while True:
            row = note_end_offsets(self.arrays, *commit.as_arguments(), row)
            if row == len(commit.columns):
                return
            self.make_room(0, 0)

    def _store(self, names: Bytes, group_size: int, topic_size: int, *value: int) -> None:
        while not store(self.arrays, names, group_size, topic_size, *value):
            self.make_room(group_size + topic_size, names.size - PADDING_BYTES)

    def _topics_of(self, entries: Int64s) -> Int64s:
        """The names of the topics of these entries."""
        blocks = self._table.blocks[entries >> columns.BLOCK_PARTITION_BITS]
        return cast("Int64s", blocks[:, columns.GROUP_TOPIC] & LOW_HALF)

    def _read(self, entries: Int64s) -> Int64s:
        """The stored fields of these entries, as a row of READ columns for each."""
        read = np.empty((entries.size, columns.READ_COLUMNS), np.int64)
        read_entries(self.arrays, np.ascontiguousarray(entries), read)
        return read

    def read_group(self, group_id: bytes) -> list[CommittedOffset]:
        """All offsets of a group, in no order."""
        read = self._read(self.entries_of(group_id))
        name_bytes, metadata = self._table.name_bytes, self._table.metadata
        topics: dict[tuple[int, int], bytes] = {}
        offsets = []
        # A row has the READ columns in their order. It is unpacked by position, which is fastest.
        for row in read.tolist():
            topic_start, topic_end, partition, offset, epoch, start, end, *times, end_offset = row
            commit_ms, expire_ms, revision = times
            topic = topics.get((topic_start, topic_end))
            if topic is None:
                topic = name_bytes[topic_start:topic_end].tobytes()
                topics[topic_start, topic_end] = topic
            text = metadata[start:end].tobytes() if start < end else b""
            offsets.append(
                CommittedOffset(
                    topic,
                    partition,
                    offset,
                    epoch,
                    text,
                    commit_ms,
                    expire_ms,
                    revision,
                    end_offset,
                    start != columns.UNDECODABLE,
                )
            )
        return offsets

    def _name(self, span: int) -> bytes:
        start = span >> columns.NAME_SIZE_BITS
        return self._table.name_bytes[start : start + (span & _NAME_SIZE_MASK)].tobytes()


def _with_rows(array: Int64s, rows: int) -> Int64s:
    """The array, or a larger copy, with at least this many rows."""
    return array if rows <= len(array) else grown(array, max(rows, len(array) * _TIMES_ROWS))


def _with_free_slots(slots: Int64s, rows: int) -> Int64s:
    """The slots, or more of them, so that a quarter stays free with `rows` rows."""
    if 4 * rows <= 3 * slots.size:
        return slots
    more = zeros((slots.size * 3 // 2,), np.int64)
    refill_slots(slots, more)
    return more


def _larger(used: int) -> Bytes:
    """An empty array of bytes, which `used` bytes fill to two thirds.

    So half as many bytes are added before all bytes must be moved again.
    """
    pages = -(-(used * 3 // 2 + PADDING_BYTES) // PAGE_BYTES)
    return cast("Bytes", zeros((pages * PAGE_BYTES,), np.uint8))


def _where(is_known: npt.NDArray[np.bool_], values: Int64s) -> list[int | None]:
    known = zip(values.tolist(), is_known.tolist(), strict=True)
    return [value if is_there else None for value, is_there in known]
