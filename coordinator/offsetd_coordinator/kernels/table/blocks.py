"""Blocks hold the stored offsets and find them by group, topic and partition.

A block has the offsets of a group and a topic in 64 partitions that differ only in their low six
bits. Its mask has a bit for each stored offset. Their rows of `Table.entries` are adjacent, in the
order of the partitions. An *entry* is the number of a block and of a bit. It stays the same when
its row moves: because a partition of the block is added or removed, because the block moves to
more room, or because unused rows are removed.

The blocks of a group form a doubly linked list that starts at the group's name. Links store the
row + 1, so that 0 is no row and fresh memory is empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.bitmap import count_ones
from offsetd_storage.kernels.registry import inline_kernel, kernel

from offsetd_coordinator.kernels.columns import (
    BLOCK_COUNT,
    BLOCK_PARTITION_BITS,
    BLOCK_PARTITIONS,
    ENTRY_COLUMNS,
    ENTRY_COUNT,
    ENTRY_END,
    ENTRY_LIST,
    ENTRY_UNUSED,
    FREE,
    GROUP_COUNT,
    GROUP_TOPIC,
    LINKS,
    MASK,
    PLACE,
    PLACE_ROWS_BITS,
    PLACE_START_BITS,
    REVISION,
    SEED,
    TIME_EPOCH,
    TOPIC_ENTRIES,
    Table,
)
from offsetd_coordinator.kernels.table.free_rows import free_row, take_row
from offsetd_coordinator.kernels.table.keyed_hash import hash_words, tag_of
from offsetd_coordinator.kernels.table.names import drop_name_if_unused
from offsetd_coordinator.kernels.table.slots import (
    add_slot,
    has_tag,
    home_of,
    remove_slot,
    row_in,
    slot_after,
)

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Int64s

LOW_HALF: Final = (1 << 32) - 1
_BIT_MASK: Final = BLOCK_PARTITIONS - 1
_PLACE_BASE_BITS: Final = PLACE_START_BITS + PLACE_ROWS_BITS
_START_MASK: Final = (1 << PLACE_START_BITS) - 1
_ROWS_MASK: Final = (1 << PLACE_ROWS_BITS) - 1


@inline_kernel
def pack(high: int, low: int) -> int:
    """Returns two int32 in one int64."""
    return (high << 32) | (low & LOW_HALF)


@inline_kernel
def low_half(packed: int) -> int:
    """The low int32, as it was before it was packed."""
    return ((packed & LOW_HALF) ^ (1 << 31)) - (1 << 31)


@inline_kernel
def base_of(partition: int) -> int:
    """The upper bits of a partition, which all partitions of its block have."""
    return partition >> BLOCK_PARTITION_BITS


@inline_kernel
def block_base(table: Table, block: int) -> int:
    """The upper bits of the partitions of a block."""
    return int(table.blocks[block, PLACE] >> _PLACE_BASE_BITS)


@inline_kernel
def group_of(table: Table, entry: int) -> int:
    """The name of an entry's group."""
    return int(table.blocks[entry >> BLOCK_PARTITION_BITS, GROUP_TOPIC] >> 32)


@inline_kernel
def topic_of(table: Table, entry: int) -> int:
    """The name of an entry's topic."""
    return int(table.blocks[entry >> BLOCK_PARTITION_BITS, GROUP_TOPIC] & LOW_HALF)


@inline_kernel
def partition_of(table: Table, entry: int) -> int:
    """The partition of an entry."""
    base = block_base(table, entry >> BLOCK_PARTITION_BITS)
    return int((base << BLOCK_PARTITION_BITS) | (entry & _BIT_MASK))


@inline_kernel
def row_of(table: Table, entry: int) -> int:
    """The row of an entry in `Table.entries`; valid until an entry is added or removed."""
    block = entry >> BLOCK_PARTITION_BITS
    before = (1 << (entry & _BIT_MASK)) - 1
    return int(first_row(table, block) + count_ones(table.blocks[block, MASK] & before))


@inline_kernel
def first_row(table: Table, block: int) -> int:
    """The first row of a block. The block uses one row for each bit set in its mask."""
    return int(table.blocks[block, PLACE] & _START_MASK)


@inline_kernel
def _rows_kept(table: Table, block: int) -> int:
    """The number of rows that a block has reserved; it may use fewer."""
    return int((table.blocks[block, PLACE] >> PLACE_START_BITS) & _ROWS_MASK)


@inline_kernel
def _place(base: int, rows: int, start: int) -> int:
    return (base << _PLACE_BASE_BITS) | (rows << PLACE_START_BITS) | start


@inline_kernel
def block_tag(table: Table, group: int, topic: int, base: int) -> int:
    """The tag under which a block is found in `Table.slots`."""
    seeds = table.counters
    return tag_of(hash_words(pack(group, topic), base, seeds[SEED + 2], seeds[SEED + 3]))


@inline_kernel
def find_block(table: Table, group: int, topic: int, base: int, tag: int) -> int:
    """The block of a group's and a topic's partitions, or -1."""
    slots = table.slots
    group_topic = pack(group, topic)
    at = home_of(slots, tag)
    while slots[at] != 0:
        if has_tag(slots[at], tag):
            block = row_in(slots[at])
            if table.blocks[block, GROUP_TOPIC] == group_topic and block_base(table, block) == base:
                return block
        at = slot_after(slots, at)
    return -1


@inline_kernel
def find_entry(table: Table, group: int, topic: int, partition: int) -> int:
    """The entry of an offset, or -1."""
    base = base_of(partition)
    block = find_block(table, group, topic, base, block_tag(table, group, topic, base))
    if block < 0 or (table.blocks[block, MASK] >> (partition & _BIT_MASK)) & 1 == 0:
        return -1
    return (block << BLOCK_PARTITION_BITS) | (partition & _BIT_MASK)


@inline_kernel
def find_or_add_block(table: Table, group: int, topic: int, base: int) -> int:
    """The block of a group's and a topic's partitions. Adds it if there is none.

    The caller has made room, and must then add an entry to a new block.
    """
    tag = block_tag(table, group, topic, base)
    block = find_block(table, group, topic, base, tag)
    if block >= 0:
        return block
    counters = table.counters
    blocks = table.blocks
    block = take_row(blocks, LINKS, counters, BLOCK_COUNT)
    blocks[block, GROUP_TOPIC] = pack(group, topic)
    blocks[block, MASK] = 0
    blocks[block, PLACE] = _place(base, 0, counters[ENTRY_END])
    add_slot(table.slots, tag, block)

    entry_list = table.names[group, ENTRY_LIST]
    first = entry_list >> 32
    blocks[block, LINKS] = pack(first, 0)
    if first != 0:
        blocks[first - 1, LINKS] = pack(blocks[first - 1, LINKS] >> 32, block + 1)
    else:
        counters[GROUP_COUNT] += 1
    table.names[group, ENTRY_LIST] = pack(block + 1, low_half(entry_list))
    return block


@inline_kernel
def find_or_add_row(table: Table, block: int, partition: int) -> int:
    """The row of a partition in a block. Adds the row, with revision -1, if there is none.

    The caller has made room.
    """
    bit = partition & _BIT_MASK
    mask = table.blocks[block, MASK]
    at = count_ones(mask & ((1 << bit) - 1))
    if (mask >> bit) & 1 != 0:
        return int(first_row(table, block) + at)
    count = count_ones(mask)
    if count == _rows_kept(table, block):
        _widen(table, block, count)
    start = first_row(table, block)
    for row in range(start + count, start + at, -1):
        _copy_row(table.entries, row - 1, table.entries, row)
    row = start + at
    table.entries[row, REVISION] = -1
    table.entries[row, TIME_EPOCH] = 0
    table.blocks[block, MASK] = mask | (1 << bit)
    table.counters[ENTRY_COUNT] += 1
    # The count is in the low half.
    table.names[table.blocks[block, GROUP_TOPIC] >> 32, ENTRY_LIST] += 1
    table.names[table.blocks[block, GROUP_TOPIC] & LOW_HALF, TOPIC_ENTRIES] += 1
    return int(row)


@inline_kernel
def _widen(table: Table, block: int, count: int) -> None:
    """Give a full block more rows: the next row if that was never used, else a larger place."""
    counters = table.counters
    start = first_row(table, block)
    base = block_base(table, block)
    if start + count == counters[ENTRY_END]:
        table.blocks[block, PLACE] = _place(base, count + 1, start)
        counters[ENTRY_END] += 1
        return
    rows = min(count + max(count >> 1, 1), BLOCK_PARTITIONS)
    target = int(counters[ENTRY_END])
    for at in range(count):
        _copy_row(table.entries, start + at, table.entries, target + at)
    table.blocks[block, PLACE] = _place(base, rows, target)
    counters[ENTRY_END] += rows
    counters[ENTRY_UNUSED] += count


@inline_kernel
def _copy_row(entries: Int64s, row: int, target: Int64s, target_row: int) -> None:
    for column in range(ENTRY_COLUMNS):
        target[target_row, column] = entries[row, column]


@inline_kernel
def remove_row(table: Table, entry: int) -> None:
    """Remove the row of an entry, its block if that is now empty, and names that nothing uses."""
    block = entry >> BLOCK_PARTITION_BITS
    group, topic = group_of(table, entry), topic_of(table, entry)
    row = row_of(table, entry)
    end = first_row(table, block) + count_ones(table.blocks[block, MASK])
    for at in range(row, end - 1):
        _copy_row(table.entries, at + 1, table.entries, at)
    table.blocks[block, MASK] &= ~(1 << (entry & _BIT_MASK))
    table.counters[ENTRY_COUNT] -= 1
    table.names[group, ENTRY_LIST] -= 1
    table.names[topic, TOPIC_ENTRIES] -= 1
    if table.blocks[block, MASK] == 0:
        _remove_block(table, block, group, topic)
    drop_name_if_unused(table, group)
    if topic != group:
        drop_name_if_unused(table, topic)


@inline_kernel
def _remove_block(table: Table, block: int, group: int, topic: int) -> None:
    """Free a block without entries, and its rows."""
    counters = table.counters
    blocks = table.blocks
    base = block_base(table, block)
    remove_slot(table.slots, block_tag(table, group, topic, base), block)
    counters[ENTRY_UNUSED] += _rows_kept(table, block)

    entry_list = table.names[group, ENTRY_LIST]
    first = entry_list >> 32
    after = blocks[block, LINKS] >> 32
    before = low_half(blocks[block, LINKS])
    if before != 0:
        blocks[before - 1, LINKS] = pack(after, low_half(blocks[before - 1, LINKS]))
    else:
        first = after
    if after != 0:
        blocks[after - 1, LINKS] = pack(blocks[after - 1, LINKS] >> 32, before)
    table.names[group, ENTRY_LIST] = pack(first, low_half(entry_list))
    if first == 0:
        counters[GROUP_COUNT] -= 1

    blocks[block, GROUP_TOPIC] = FREE
    free_row(blocks, LINKS, counters, BLOCK_COUNT, block)


@inline_kernel
def list_block(table: Table, block: int, found: Int64s, at: int) -> int:
    """Write the entries of a block, by partition, to `found`, starting at `at`. Returns the end."""
    mask = table.blocks[block, MASK]
    while mask != 0:
        found[at] = (block << BLOCK_PARTITION_BITS) | count_ones((mask & -mask) - 1)
        mask &= mask - 1
        at += 1
    return at


@inline_kernel
def list_group_entries(table: Table, group: int, found: Int64s) -> None:
    """Fill `found` with all entries of a group, as many as it has.

    The newest block is the first in the list. The list is written from the end, so that the blocks
    of one commit keep its order.
    """
    at = found.size
    block = (table.names[group, ENTRY_LIST] >> 32) - 1
    while block >= 0:
        at -= count_ones(table.blocks[block, MASK])
        list_block(table, block, found, at)
        block = (table.blocks[block, LINKS] >> 32) - 1


@inline_kernel
def entry_count(table: Table, group: int) -> int:
    """The number of entries of a group."""
    return low_half(table.names[group, ENTRY_LIST])


@kernel("int64(int64[:, ::1], int64, int64[:, ::1], int64[:, ::1])")
def compact_blocks(blocks: Int64s, block_end: int, entries: Int64s, target: Int64s) -> int:
    """Copy the rows of all blocks to the front of `target`, without gaps. Returns their number."""
    end = 0
    for block in range(block_end):
        if blocks[block, GROUP_TOPIC] == FREE:
            continue
        place = blocks[block, PLACE]
        count = count_ones(blocks[block, MASK])
        for at in range(count):
            _copy_row(entries, (place & _START_MASK) + at, target, end + at)
        blocks[block, PLACE] = _place(place >> _PLACE_BASE_BITS, count, end)
        end += count
    return end
