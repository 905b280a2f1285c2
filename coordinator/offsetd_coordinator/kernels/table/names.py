"""Names of groups and topics, each kept once: the rows of `Table.names`.

A name is kept while an entry has it as its group or its topic. After that, its row is used again,
and its bytes are reclaimed. Functions here change only names; `blocks` keeps the entry counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import copy_bytes, equal_bytes, load_i64, load_u8
from offsetd_storage.kernels.registry import inline_kernel, kernel

from offsetd_coordinator.kernels.columns import (
    ENTRY_LIST,
    FREE,
    NAME_BYTES_END,
    NAME_BYTES_UNUSED,
    NAME_COUNT,
    NAME_SIZE_BITS,
    NAME_SPAN,
    SEED,
    TABLE,
    TOPIC_ENTRIES,
    Table,
)
from offsetd_coordinator.kernels.table.free_rows import free_row, take_row
from offsetd_coordinator.kernels.table.keyed_hash import hash_bytes, tag_of
from offsetd_coordinator.kernels.table.slots import (
    add_slot,
    has_tag,
    home_of,
    remove_slot,
    row_in,
    slot_after,
)

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s, TableArrays

_SIZE_MASK: Final = (1 << NAME_SIZE_BITS) - 1


@inline_kernel
def name_start(table: Table, name: int) -> int:
    """The position at which a name starts in `Table.name_bytes`."""
    return int(table.names[name, NAME_SPAN] >> NAME_SIZE_BITS)


@inline_kernel
def name_size(table: Table, name: int) -> int:
    """The length of a name in bytes."""
    return int(table.names[name, NAME_SPAN] & _SIZE_MASK)


@inline_kernel
def is_name(table: Table, name: int, buffer: Bytes, start: int, size: int) -> bool:
    """Returns whether `buffer` has this name. No name matches a free row, whose size is invalid."""
    return name_size(table, name) == size and equal_bytes(
        table.name_bytes, name_start(table, name), buffer, start, size
    )


@inline_kernel
def is_name_before(table: Table, name: int, other: int) -> bool:
    """Returns whether `name` sorts before `other` by its bytes."""
    name_bytes = table.name_bytes
    start, other_start = name_start(table, name), name_start(table, other)
    size, other_size = name_size(table, name), name_size(table, other)
    least = min(size, other_size)
    at = 0
    while at + 8 <= least:
        word, other_word = load_i64(name_bytes, start + at), load_i64(name_bytes, other_start + at)
        if word != other_word:
            break
        at += 8
    while at < least:
        byte, other_byte = load_u8(name_bytes, start + at), load_u8(name_bytes, other_start + at)
        if byte != other_byte:
            return bool(byte < other_byte)
        at += 1
    return size < other_size


@inline_kernel
def name_tag(table: Table, buffer: Bytes, start: int, size: int) -> int:
    """The tag under which a name is found in `Table.name_slots`."""
    seeds = table.counters
    return tag_of(hash_bytes(buffer, start, size, seeds[SEED], seeds[SEED + 1]))


@inline_kernel
def find_name(table: Table, buffer: Bytes, start: int, size: int, tag: int) -> int:
    """The row of a name, or -1."""
    slots = table.name_slots
    at = home_of(slots, tag)
    while slots[at] != 0:
        if has_tag(slots[at], tag):
            name = row_in(slots[at])
            if is_name(table, name, buffer, start, size):
                return name
        at = slot_after(slots, at)
    return -1


@inline_kernel
def add_name(table: Table, buffer: Bytes, start: int, size: int, tag: int) -> int:
    """Add a name that is not stored yet; the caller has made room. Returns its row."""
    counters = table.counters
    name = take_row(table.names, ENTRY_LIST, counters, NAME_COUNT)
    bytes_end = counters[NAME_BYTES_END]
    copy_bytes(table.name_bytes, bytes_end, buffer, start, size)
    table.names[name, NAME_SPAN] = (bytes_end << NAME_SIZE_BITS) | size
    table.names[name, ENTRY_LIST] = 0
    table.names[name, TOPIC_ENTRIES] = 0
    add_slot(table.name_slots, tag, name)
    counters[NAME_BYTES_END] = bytes_end + size
    return name


@inline_kernel
def drop_name_if_unused(table: Table, name: int) -> None:
    """Free a name that no entry has as its group or its topic."""
    if table.names[name, ENTRY_LIST] != 0 or table.names[name, TOPIC_ENTRIES] != 0:
        return
    start = name_start(table, name)
    size = name_size(table, name)
    remove_slot(table.name_slots, name_tag(table, table.name_bytes, start, size), name)
    counters = table.counters
    table.names[name, NAME_SPAN] = FREE
    free_row(table.names, ENTRY_LIST, counters, NAME_COUNT, name)
    counters[NAME_BYTES_UNUSED] += size


@kernel("int64(int64[:, ::1], int64, uint8[::1], uint8[::1])")
def compact_names(names: Int64s, name_end: int, name_bytes: Bytes, target: Bytes) -> int:
    """Copy the bytes of all names to the front of `target`; returns their size."""
    end = 0
    for name in range(name_end):
        span = names[name, NAME_SPAN]
        if span == FREE:
            continue
        size = span & _SIZE_MASK
        copy_bytes(target, end, name_bytes, span >> NAME_SIZE_BITS, size)
        names[name, NAME_SPAN] = (end << NAME_SIZE_BITS) | size
        end += size
    return end


@kernel(f"void({TABLE}, uint8[::1], int64[::1], int64[::1])")
def locate_names(arrays: TableArrays, buffer: Bytes, ends: Int64s, found: Int64s) -> None:
    """Write the row of each name, or -1. `buffer` has the names without gaps, up to `ends`."""
    table = Table(*arrays)
    start = 0
    for at in range(ends.size):
        size = ends[at] - start
        found[at] = find_name(table, buffer, start, size, name_tag(table, buffer, start, size))
        start = ends[at]
