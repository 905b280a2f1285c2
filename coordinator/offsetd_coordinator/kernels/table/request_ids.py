"""Recent request ids: a ring of rows in the order of arrival, and their hash slots.

A keyed hash of 128 bits over group and id identifies a row. A new row removes the rows that are
older than the window, counted from its timestamp, and the oldest row if the ring is full.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import load_i16, load_i64, store_i16, store_i64
from offsetd_storage.kernels.decode import load_header
from offsetd_storage.kernels.registry import inline_kernel, kernel

from offsetd_coordinator.kernels.columns import (
    REQUEST_COLUMNS,
    REQUEST_COUNT,
    REQUEST_COUNT_MAX,
    REQUEST_FIRST,
    REQUEST_HASH,
    REQUEST_HASH_2,
    REQUEST_LAST_OFFSET,
    REQUEST_TIMESTAMP,
    REQUEST_WINDOW_MS,
    SEED,
    Table,
)
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
    from offsetd_coordinator.kernels.columns import Bytes, Int64s

HEADER_NAME: Final = b"offsetd-request-id"
"""The record header, on the first record of a batch, that holds the request id."""

HEADER_NAME_SIZE: Final = 18
_NAME_WORD: Final = int.from_bytes(b"offsetd-", "big")
_NAME_WORD_2: Final = int.from_bytes(b"request-", "big")
_NAME_WORD_3: Final = int.from_bytes(b"id", "big")


@inline_kernel
def store_header_name(out: Bytes, position: int) -> int:
    """Write `HEADER_NAME`. Returns its end."""
    store_i64(out, position, _NAME_WORD)
    store_i64(out, position + 8, _NAME_WORD_2)
    store_i16(out, position + 16, _NAME_WORD_3)
    return position + HEADER_NAME_SIZE


@inline_kernel
def find_request_id_header(buffer: Bytes, position: int, end: int, count: int) -> tuple[int, int]:
    """Returns (start, size) of the request id in a record's headers, or (0, 0) if there is none."""
    for _ in range(count):
        position, name_start, name_size, start, size = load_header(buffer, position, end)
        if position < 0:
            break
        if (
            name_size == HEADER_NAME_SIZE
            and load_i64(buffer, name_start) == _NAME_WORD
            and load_i64(buffer, name_start + 8) == _NAME_WORD_2
            and load_i16(buffer, name_start + 16) == _NAME_WORD_3
            and size > 0
        ):
            return start, size
    return 0, 0


@inline_kernel
def hash_request(
    table: Table, buffer: Bytes, group_start: int, group_size: int, id_start: int, id_size: int
) -> tuple[int, int]:
    """Returns a hash of 128 bits over a group and a request id."""
    seeds = table.counters
    first, second, third, fourth = seeds[SEED], seeds[SEED + 1], seeds[SEED + 2], seeds[SEED + 3]
    group = hash_bytes(buffer, group_start, group_size, first, second)
    group_2 = hash_bytes(buffer, group_start, group_size, third, fourth)
    return (
        hash_bytes(buffer, id_start, id_size, first ^ group, second),
        hash_bytes(buffer, id_start, id_size, third ^ group_2, fourth),
    )


@inline_kernel
def find_request(table: Table, hashed: int, hashed_2: int) -> int:
    """The row of a request id, or -1."""
    slots = table.request_slots
    tag = tag_of(hashed)
    at = home_of(slots, tag)
    while slots[at] != 0:
        if has_tag(slots[at], tag):
            row = row_in(slots[at])
            if (
                table.requests[row, REQUEST_HASH] == hashed
                and table.requests[row, REQUEST_HASH_2] == hashed_2
            ):
                return row
        at = slot_after(slots, at)
    return -1


@inline_kernel
def has_room_for_request(table: Table, timestamp: int) -> bool:
    """Returns whether one more id fits at `timestamp`, perhaps in place of the oldest one."""
    counters = table.counters
    capacity = table.requests.shape[0]
    return (
        counters[REQUEST_COUNT] < capacity
        or capacity >= counters[REQUEST_COUNT_MAX]
        or _oldest_is_due(table, timestamp)
    )


@inline_kernel
def remember_request(
    table: Table, hashed: int, hashed_2: int, last_offset: int, timestamp: int
) -> None:
    """Remember an id with its answer; the caller has made room."""
    counters = table.counters
    if counters[REQUEST_COUNT_MAX] == 0:
        return
    # Old ids are removed before the search. So an id that is used again after its window gets a
    # new row, and is not forgotten with the ids of the time of its first use.
    while counters[REQUEST_COUNT] > 0 and _oldest_is_due(table, timestamp):
        _forget_oldest(table)
    row = find_request(table, hashed, hashed_2)
    if row < 0:
        capacity = table.requests.shape[0]
        if counters[REQUEST_COUNT] == capacity:
            _forget_oldest(table)
        row = counters[REQUEST_FIRST] + counters[REQUEST_COUNT]
        if row >= capacity:
            row -= capacity
        counters[REQUEST_COUNT] += 1
        table.requests[row, REQUEST_HASH] = hashed
        table.requests[row, REQUEST_HASH_2] = hashed_2
        add_slot(table.request_slots, tag_of(hashed), row)
    table.requests[row, REQUEST_LAST_OFFSET] = last_offset
    table.requests[row, REQUEST_TIMESTAMP] = timestamp


@inline_kernel
def _oldest_is_due(table: Table, timestamp: int) -> bool:
    first = table.counters[REQUEST_FIRST]
    window_ms = table.counters[REQUEST_WINDOW_MS]
    return bool(table.requests[first, REQUEST_TIMESTAMP] < timestamp - window_ms)


@inline_kernel
def _forget_oldest(table: Table) -> None:
    counters = table.counters
    first = counters[REQUEST_FIRST]
    remove_slot(table.request_slots, tag_of(table.requests[first, REQUEST_HASH]), first)
    counters[REQUEST_COUNT] -= 1
    first += 1
    counters[REQUEST_FIRST] = 0 if first == table.requests.shape[0] else first


@kernel("void(int64[::1], int64[:, ::1], int64[:, ::1], int64[::1])")
def move_requests(counters: Int64s, old: Int64s, new: Int64s, new_slots: Int64s) -> None:
    """Copy the ring to the front of a larger one, with new, empty slots."""
    row = counters[REQUEST_FIRST]
    for at in range(counters[REQUEST_COUNT]):
        for column in range(REQUEST_COLUMNS):
            new[at, column] = old[row, column]
        add_slot(new_slots, tag_of(new[at, REQUEST_HASH]), at)
        row = 0 if row + 1 == old.shape[0] else row + 1
    counters[REQUEST_FIRST] = 0
