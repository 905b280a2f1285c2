"""Stored offsets: the rows of `Table.entries`, found by group, topic and partition.

The entries of a group form a list, linked both ways, that starts at the group's name. Rows and
links are kept + 1, so that 0 is none and fresh memory is empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import copy_bytes
from offsetd_storage.kernels.offset_records import METADATA_SIZE_MAX
from offsetd_storage.kernels.registry import inline_kernel, kernel

from offsetd_coordinator.kernels.columns import (
    ENTRY_COUNT,
    ENTRY_END,
    ENTRY_FREE,
    ENTRY_LIST,
    FREE,
    GROUP_COUNT,
    GROUP_TOPIC,
    LINKS,
    METADATA_END,
    METADATA_SIZE_BITS,
    METADATA_SPAN,
    METADATA_UNUSED,
    NAME_BYTES_END,
    NAME_COUNT,
    PARTITION_EPOCH,
    REVISION,
    SEED,
    TOPIC_ENTRIES,
    UNDECODABLE,
    Table,
)
from offsetd_coordinator.kernels.keyed_hash import hash_words, tag_of
from offsetd_coordinator.kernels.names import drop_name_if_unused
from offsetd_coordinator.kernels.slots import (
    add_slot,
    has_tag,
    home_of,
    remove_slot,
    row_in,
    slot_after,
)

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s

LOW_HALF: Final = (1 << 32) - 1
assert METADATA_SIZE_MAX < 1 << METADATA_SIZE_BITS, "a span holds the size of what is read"
PADDING: Final = 16


@inline_kernel
def pack(high: int, low: int) -> int:
    """Two int32 in one int64."""
    return (high << 32) | (low & LOW_HALF)


@inline_kernel
def low_half(packed: int) -> int:
    """The low int32, as it was before it was packed."""
    return ((packed & LOW_HALF) ^ (1 << 31)) - (1 << 31)


@inline_kernel
def entry_tag(table: Table, group: int, topic: int, partition: int) -> int:
    """The tag under which an entry is found in `Table.slots`."""
    seeds = table.counters
    return tag_of(hash_words(pack(group, topic), partition, seeds[SEED + 2], seeds[SEED + 3]))


@inline_kernel
def find_entry(table: Table, group: int, topic: int, partition: int, tag: int) -> int:
    """The row of an offset, or -1."""
    slots = table.slots
    group_topic = pack(group, topic)
    at = home_of(slots, tag)
    while slots[at] != 0:
        if has_tag(slots[at], tag):
            entry = row_in(slots[at])
            if (
                table.entries[entry, GROUP_TOPIC] == group_topic
                and table.entries[entry, PARTITION_EPOCH] >> 32 == partition
            ):
                return entry
        at = slot_after(slots, at)
    return -1


@inline_kernel
def add_entry(table: Table, group: int, topic: int, partition: int, tag: int) -> int:
    """A row for an offset that has none, without metadata; the caller has made room."""
    counters = table.counters
    entries = table.entries
    if counters[ENTRY_FREE] != 0:
        entry = int(counters[ENTRY_FREE] - 1)
        counters[ENTRY_FREE] = entries[entry, LINKS]
        table.end_offsets[entry] = 0
    else:
        entry = int(counters[ENTRY_END])
        counters[ENTRY_END] += 1
    counters[ENTRY_COUNT] += 1
    entries[entry, GROUP_TOPIC] = pack(group, topic)
    entries[entry, PARTITION_EPOCH] = pack(partition, -1)
    entries[entry, REVISION] = -1
    entries[entry, METADATA_SPAN] = 0
    add_slot(table.slots, tag, entry)

    entry_list = table.names[group, ENTRY_LIST]
    first = entry_list >> 32
    entries[entry, LINKS] = pack(first, 0)
    if first != 0:
        entries[first - 1, LINKS] = pack(entries[first - 1, LINKS] >> 32, entry + 1)
    else:
        counters[GROUP_COUNT] += 1
    table.names[group, ENTRY_LIST] = pack(entry + 1, low_half(entry_list) + 1)
    table.names[topic, TOPIC_ENTRIES] += 1
    return entry


@inline_kernel
def remove_entry(table: Table, entry: int) -> None:
    """Free the row of an offset, and its names where nothing else has them."""
    counters = table.counters
    entries = table.entries
    group = entries[entry, GROUP_TOPIC] >> 32
    topic = entries[entry, GROUP_TOPIC] & LOW_HALF
    tag = entry_tag(table, group, topic, entries[entry, PARTITION_EPOCH] >> 32)
    remove_slot(table.slots, tag, entry)
    _forget_metadata(table, entry)

    entry_list = table.names[group, ENTRY_LIST]
    first = entry_list >> 32
    after = entries[entry, LINKS] >> 32
    before = low_half(entries[entry, LINKS])
    if before != 0:
        entries[before - 1, LINKS] = pack(after, low_half(entries[before - 1, LINKS]))
    else:
        first = after
    if after != 0:
        entries[after - 1, LINKS] = pack(entries[after - 1, LINKS] >> 32, before)
    table.names[group, ENTRY_LIST] = pack(first, low_half(entry_list) - 1)
    table.names[topic, TOPIC_ENTRIES] -= 1
    if first == 0:
        counters[GROUP_COUNT] -= 1

    entries[entry, GROUP_TOPIC] = FREE
    entries[entry, LINKS] = counters[ENTRY_FREE]
    counters[ENTRY_FREE] = entry + 1
    counters[ENTRY_COUNT] -= 1
    drop_name_if_unused(table, group)
    if topic != group:
        drop_name_if_unused(table, topic)


@inline_kernel
def set_metadata(table: Table, entry: int, buffer: Bytes, start: int, size: int) -> None:
    """Store the metadata of an entry, in place of what it had; the caller has made room."""
    span = table.entries[entry, METADATA_SPAN]
    if span <= 0 or (span & METADATA_SIZE_MAX) != size:
        _forget_metadata(table, entry)
        if size == 0:
            return
        counters = table.counters
        span = (counters[METADATA_END] << METADATA_SIZE_BITS) | size
        counters[METADATA_END] += size
        table.entries[entry, METADATA_SPAN] = span
    copy_bytes(table.metadata, span >> METADATA_SIZE_BITS, buffer, start, size)


@inline_kernel
def set_undecodable(table: Table, entry: int) -> None:
    """Mark that the record of an entry cannot be read."""
    _forget_metadata(table, entry)
    table.entries[entry, METADATA_SPAN] = UNDECODABLE


@inline_kernel
def _forget_metadata(table: Table, entry: int) -> None:
    span = table.entries[entry, METADATA_SPAN]
    if span > 0:
        table.counters[METADATA_UNUSED] += span & METADATA_SIZE_MAX
    table.entries[entry, METADATA_SPAN] = 0


@inline_kernel
def has_room(table: Table, name_bytes: int, metadata_bytes: int) -> bool:
    """Whether one more entry fits, with two new names and metadata of these sizes."""
    counters = table.counters
    entry_count = counters[ENTRY_COUNT] + 1
    name_count = counters[NAME_COUNT] + 2
    return bool(
        entry_count <= table.entries.shape[0]
        and 4 * entry_count <= 3 * table.slots.size
        and name_count <= table.names.shape[0]
        and 4 * name_count <= 3 * table.name_slots.size
        and counters[NAME_BYTES_END] + name_bytes + PADDING <= table.name_bytes.size
        and counters[METADATA_END] + metadata_bytes + PADDING <= table.metadata.size
    )


@kernel("int64(int64[:, ::1], int64, uint8[::1], uint8[::1])")
def compact_metadata(entries: Int64s, entry_end: int, metadata: Bytes, target: Bytes) -> int:
    """Copy the metadata of all entries to the front of `target`; returns where it ends there."""
    end = 0
    for entry in range(entry_end):
        span = entries[entry, METADATA_SPAN]
        if entries[entry, GROUP_TOPIC] == FREE or span <= 0:
            continue
        size = span & METADATA_SIZE_MAX
        copy_bytes(target, end, metadata, span >> METADATA_SIZE_BITS, size)
        entries[entry, METADATA_SPAN] = (end << METADATA_SIZE_BITS) | size
        end += size
    return end
