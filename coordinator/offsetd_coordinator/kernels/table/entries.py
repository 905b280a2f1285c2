"""The stored fields of an offset: a row of `Table.entries`, and for a few offsets one of `extras`.

An offset is plain if it has a commit timestamp, perhaps a leader epoch, and nothing else: one word
holds both. An offset has a row of `extras` instead if it has metadata, an expire timestamp or a
reported end offset, if its record cannot be read, or if its numbers are too large for that word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from offsetd_storage.kernels.byte_order import copy_bytes
from offsetd_storage.kernels.offset_records import METADATA_SIZE_MAX
from offsetd_storage.kernels.registry import inline_kernel, kernel

from offsetd_coordinator.kernels.columns import (
    BLOCK_COUNT,
    BLOCK_PARTITIONS,
    COMMIT_TIMESTAMP,
    ENTRY_END,
    ENTRY_UNUSED,
    ENTRY_UNUSED_FREE,
    ENTRY_UNUSED_TIMES,
    EPOCH_BITS,
    EXPIRE_TIMESTAMP,
    EXTRA_COUNT,
    LAG_WINDOW,
    METADATA_END,
    METADATA_SIZE_BITS,
    METADATA_SPAN,
    METADATA_UNUSED,
    NAME_BYTES_END,
    NAME_COUNT,
    NO_EXPIRY,
    OFFSET,
    PLAIN_TIME_MAX,
    REPORTED_END,
    REVISION,
    SAMPLE_COUNT,
    SAMPLE_DISTANCE_MS,
    STORED_EPOCH,
    TIME_EPOCH,
    UNDECODABLE,
    WINDOW_COUNT,
    Table,
)
from offsetd_coordinator.kernels.table.blocks import row_of
from offsetd_coordinator.kernels.table.free_rows import free_row, take_row
from offsetd_coordinator.kernels.table.lag_windows import note_sample

if TYPE_CHECKING:
    from offsetd_storage.kernels.offset_records import OffsetValue

    from offsetd_coordinator.kernels.columns import Bytes, Int64s

assert METADATA_SIZE_MAX < 1 << METADATA_SIZE_BITS, "a span holds the size of what is read"
PADDING: Final = 16
_EPOCH_MASK: Final = (1 << EPOCH_BITS) - 1


class Entry(NamedTuple):
    """A stored offset as it is read; `end_offset` is -1 if none was reported."""

    offset: int
    revision: int
    commit_timestamp: int
    expire_timestamp: int
    leader_epoch: int
    metadata_span: int
    end_offset: int


@inline_kernel
def load_entry(table: Table, entry: int) -> Entry:
    """Returns the stored fields of an entry."""
    return load_row(table, row_of(table, entry))


@inline_kernel
def load_row(table: Table, row: int) -> Entry:
    """Returns the stored fields of a row of `entries`."""
    offset, revision = table.entries[row, OFFSET], table.entries[row, REVISION]
    word = table.entries[row, TIME_EPOCH]
    if word >= 0:
        epoch = (word & _EPOCH_MASK) - 1
        return Entry(offset, revision, word >> EPOCH_BITS, NO_EXPIRY, epoch, 0, -1)
    extra = table.extras[-1 - word]
    return Entry(
        offset,
        revision,
        extra[COMMIT_TIMESTAMP],
        extra[EXPIRE_TIMESTAMP],
        extra[STORED_EPOCH],
        extra[METADATA_SPAN],
        extra[REPORTED_END] - 1,
    )


@inline_kernel
def store_row(table: Table, row: int, buffer: Bytes, value: OffsetValue, revision: int) -> None:
    """Store a value; a reported end offset stays, unless it is below the value's offset: then it is
    stale. The caller has made room.
    """
    entries = table.entries
    entries[row, OFFSET] = value.offset
    entries[row, REVISION] = revision
    is_plain = (
        value.metadata_size == 0
        and value.expire_timestamp == NO_EXPIRY
        and 0 <= value.commit_timestamp <= PLAIN_TIME_MAX
        and -1 <= value.leader_epoch < _EPOCH_MASK
    )
    if entries[row, TIME_EPOCH] >= 0 and is_plain:
        entries[row, TIME_EPOCH] = _time_epoch(value)
        return
    extra = _extra_of(table, row)
    extras = table.extras
    extras[extra, COMMIT_TIMESTAMP] = value.commit_timestamp
    extras[extra, EXPIRE_TIMESTAMP] = value.expire_timestamp
    extras[extra, STORED_EPOCH] = value.leader_epoch
    _set_metadata(table, extra, buffer, value.metadata_start, value.metadata_size)
    if extras[extra, REPORTED_END] <= value.offset:
        extras[extra, REPORTED_END] = 0  # It is stale.
    if is_plain and extras[extra, REPORTED_END] == 0 and extras[extra, LAG_WINDOW] == 0:
        _free_extra(table, extra)
        entries[row, TIME_EPOCH] = _time_epoch(value)


@inline_kernel
def _time_epoch(value: OffsetValue) -> int:
    return (value.commit_timestamp << EPOCH_BITS) | (value.leader_epoch + 1)


@inline_kernel
def mark_undecodable(table: Table, row: int) -> None:
    """Note that the record of a row cannot be read."""
    extra = _extra_of(table, row)
    _forget_metadata(table, extra)
    table.extras[extra, METADATA_SPAN] = UNDECODABLE


@inline_kernel
def note_end_offset(table: Table, row: int, end_offset: int) -> None:
    """Keep a reported end offset; the caller has made room. If it is below the offset, it is
    discarded, and no end offset is known. Otherwise it is also a sample of the lag.
    """
    offset = table.entries[row, OFFSET]
    extra = _extra_of(table, row)
    extras = table.extras
    if end_offset < offset:
        extras[extra, REPORTED_END] = 0
        return
    extras[extra, REPORTED_END] = end_offset + 1
    if table.counters[SAMPLE_DISTANCE_MS] != 0:
        if extras[extra, LAG_WINDOW] == 0:
            window = take_row(table.windows, SAMPLE_COUNT, table.counters, WINDOW_COUNT)
            table.windows[window, SAMPLE_COUNT] = 0
            extras[extra, LAG_WINDOW] = window + 1
        window = extras[extra, LAG_WINDOW] - 1
        note_sample(table, window, offset, extras[extra, COMMIT_TIMESTAMP], end_offset - offset)


@inline_kernel
def forget_row(table: Table, row: int) -> None:
    """Free the row of `extras`, if any, of a row that is about to be removed."""
    word = table.entries[row, TIME_EPOCH]
    if word < 0:
        _forget_metadata(table, -1 - word)
        _free_extra(table, -1 - word)


@inline_kernel
def _extra_of(table: Table, row: int) -> int:
    """The row of `extras` of a row. Adds one with the stored fields if there is none."""
    word = table.entries[row, TIME_EPOCH]
    if word < 0:
        return int(-1 - word)
    extras = table.extras
    extra = take_row(extras, COMMIT_TIMESTAMP, table.counters, EXTRA_COUNT)
    extras[extra, COMMIT_TIMESTAMP] = word >> EPOCH_BITS
    extras[extra, EXPIRE_TIMESTAMP] = NO_EXPIRY
    extras[extra, METADATA_SPAN] = 0
    extras[extra, REPORTED_END] = 0
    extras[extra, STORED_EPOCH] = (word & _EPOCH_MASK) - 1
    extras[extra, LAG_WINDOW] = 0
    table.entries[row, TIME_EPOCH] = -1 - extra
    return extra


@inline_kernel
def _free_extra(table: Table, extra: int) -> None:
    """Free a row of `extras` that no longer has metadata, with its lag window."""
    window = table.extras[extra, LAG_WINDOW] - 1
    if window >= 0:
        free_row(table.windows, SAMPLE_COUNT, table.counters, WINDOW_COUNT, window)
    free_row(table.extras, COMMIT_TIMESTAMP, table.counters, EXTRA_COUNT, extra)


@inline_kernel
def _set_metadata(table: Table, extra: int, buffer: Bytes, start: int, size: int) -> None:
    """Store metadata, in place of what was there."""
    span = table.extras[extra, METADATA_SPAN]
    if span <= 0 or (span & METADATA_SIZE_MAX) != size:
        _forget_metadata(table, extra)
        if size == 0:
            return
        counters = table.counters
        span = (counters[METADATA_END] << METADATA_SIZE_BITS) | size
        counters[METADATA_END] += size
        table.extras[extra, METADATA_SPAN] = span
    copy_bytes(table.metadata, span >> METADATA_SIZE_BITS, buffer, start, size)


@inline_kernel
def _forget_metadata(table: Table, extra: int) -> None:
    span = table.extras[extra, METADATA_SPAN]
    if span > 0:
        table.counters[METADATA_UNUSED] += span & METADATA_SIZE_MAX
    table.extras[extra, METADATA_SPAN] = 0


@inline_kernel
def has_room(table: Table, name_bytes: int, metadata_bytes: int) -> bool:
    """Returns whether one more entry fits, with two new names and metadata of these sizes."""
    counters = table.counters
    block_count = counters[BLOCK_COUNT] + 1
    name_count = counters[NAME_COUNT] + 2
    return bool(
        has_entry_room(table)
        and has_extra_room(table)
        and block_count <= table.blocks.shape[0]
        and 4 * block_count <= 3 * table.slots.size
        and name_count <= table.names.shape[0]
        and 4 * name_count <= 3 * table.name_slots.size
        and counters[NAME_BYTES_END] + name_bytes + PADDING <= table.name_bytes.size
        and counters[METADATA_END] + metadata_bytes + PADDING <= table.metadata.size
    )


@inline_kernel
def has_entry_room(table: Table) -> bool:
    """Returns whether a block can move to the end, and no compaction of the rows is due."""
    end, unused = table.counters[ENTRY_END], table.counters[ENTRY_UNUSED]
    return bool(
        end + BLOCK_PARTITIONS <= table.entries.shape[0]
        and ENTRY_UNUSED_TIMES * unused <= end + ENTRY_UNUSED_FREE
    )


@inline_kernel
def has_extra_room(table: Table) -> bool:
    """Returns whether one more row of `extras` fits."""
    return bool(table.counters[EXTRA_COUNT] + 1 <= table.extras.shape[0])


@inline_kernel
def has_window_room(table: Table) -> bool:
    """Returns whether one more lag window fits."""
    return bool(table.counters[WINDOW_COUNT] + 1 <= table.windows.shape[0])


@kernel("int64(int64[:, ::1], int64, uint8[::1], uint8[::1])")
def compact_metadata(extras: Int64s, extra_end: int, metadata: Bytes, target: Bytes) -> int:
    """Copy all metadata to the front of `target`; returns its size."""
    end = 0
    for extra in range(extra_end):
        span = extras[extra, METADATA_SPAN]
        if span <= 0:
            continue
        size = span & METADATA_SIZE_MAX
        copy_bytes(target, end, metadata, span >> METADATA_SIZE_BITS, size)
        extras[extra, METADATA_SPAN] = (end << METADATA_SIZE_BITS) | size
        end += size
    return end
