"""Replays the batches of a log into the table. A load spends most of its time here.

The kernel replays plain batches (not compressed, transactional or control) and plain records (a
committed offset or its tombstone, which decodes). At anything else, it stops and reports the
position; the caller handles it and calls again. A record is applied only when it is known to be
plain and there is room, so a stop leaves no record half applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import equal_bytes, load_i16, load_i32, load_i64
from offsetd_storage.kernels.decode import load_record
from offsetd_storage.kernels.encode import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    BASE_TIMESTAMP_AT,
    BATCH_HEADER_BYTES,
    BATCH_LENGTH_AT,
    COUNT_AT,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    LENGTH_EXCLUDES_BYTES,
)
from offsetd_storage.kernels.offset_records import OffsetKey, load_offset_key, load_offset_value
from offsetd_storage.kernels.registry import inline_kernel, kernel
from offsetd_storage.kernels.utf8 import utf16_length

from offsetd_coordinator.kernels.columns import (
    BASE_OFFSET,
    BATCH_AT,
    BATCH_END,
    BROKEN_BATCH,
    DONE,
    HEADER_COUNT,
    KEY_SIZE,
    KEY_START,
    LAST_BLOCK,
    LAST_GROUP,
    LAST_GROUP_SIZE,
    LAST_GROUP_START,
    LAST_OFFSET,
    LAST_TOPIC,
    LAST_TOPIC_SIZE,
    LAST_TOPIC_START,
    LEADER_EPOCH,
    MALFORMED_BATCH,
    MERGING,
    NEEDS_ROOM,
    NOT_PLAIN_BATCH,
    NOT_PLAIN_RECORD,
    OFFSET_NEXT,
    OPEN_TRANSACTIONS,
    RECORD_AT,
    RECORD_END,
    RECORD_OFFSET,
    RECORDS_LEFT,
    REVISION,
    SETTLED_END,
    SETTLED_START,
    TABLE,
    VALUE_SIZE,
    VALUE_START,
    Table,
)
from offsetd_coordinator.kernels.table.blocks import (
    base_of,
    block_base,
    find_or_add_block,
    find_or_add_row,
)
from offsetd_coordinator.kernels.table.entries import has_room, store_row
from offsetd_coordinator.kernels.table.request_ids import (
    find_request_id_header,
    has_room_for_request,
    hash_request,
    remember_request,
)
from offsetd_coordinator.kernels.table.stored_offsets import (
    find_or_add_names,
    remove_offset,
)

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s, TableArrays

_NOT_PLAIN_ATTRIBUTES: Final = 0x37  # codec (bits 0 to 2), transactional (4), control (5)


@kernel(f"int64({TABLE}, uint8[::1], int64, int64[::1])")
def replay_batches(arrays: TableArrays, buffer: Bytes, end: int, cursor: Int64s) -> int:
    """Replay the checked batches from `cursor` to `end` of a padded buffer.

    Returns DONE, or the reason to stop at the record or batch that the cursor then describes.
    """
    return replay_into(Table(*arrays), buffer, end, cursor)


@inline_kernel
def replay_into(table: Table, buffer: Bytes, end: int, cursor: Int64s) -> int:
    """Does what `replay_batches` does, for a table that is already unpacked."""
    while cursor[BATCH_AT] < end:
        if cursor[RECORD_AT] == 0:
            if not _open_batch(buffer, end, cursor):
                return BROKEN_BATCH
            attributes = load_i16(buffer, cursor[BATCH_AT] + ATTRIBUTES_AT)
            if attributes & _NOT_PLAIN_ATTRIBUTES != 0:
                return NOT_PLAIN_BATCH
        stop = _replay_records(table, buffer, cursor)
        if stop != DONE:
            return stop
        table.counters[OFFSET_NEXT] = cursor[LAST_OFFSET] + 1
        table.counters[LEADER_EPOCH] = load_i32(buffer, cursor[BATCH_AT] + LEADER_EPOCH_AT)
        cursor[BATCH_AT] = cursor[BATCH_END]
        cursor[RECORD_AT] = 0
    return DONE


@inline_kernel
def _open_batch(buffer: Bytes, end: int, cursor: Int64s) -> bool:
    """Move the cursor to the first record of its batch. Returns False if the batch is not whole."""
    at = cursor[BATCH_AT]
    if end - at < BATCH_HEADER_BYTES:
        return False
    batch_bytes = LENGTH_EXCLUDES_BYTES + load_i32(buffer, at + BATCH_LENGTH_AT)
    if batch_bytes < BATCH_HEADER_BYTES or batch_bytes > end - at:
        return False
    base_offset = load_i64(buffer, at + BASE_OFFSET_AT)
    cursor[BATCH_END] = at + batch_bytes
    cursor[SETTLED_END] = 0
    cursor[LAST_GROUP_SIZE] = -1
    cursor[RECORD_AT] = at + BATCH_HEADER_BYTES
    cursor[RECORDS_LEFT] = load_i32(buffer, at + COUNT_AT)
    cursor[BASE_OFFSET] = base_offset
    cursor[LAST_OFFSET] = base_offset + load_i32(buffer, at + LAST_OFFSET_DELTA_AT)
    return True


@inline_kernel
def _replay_records(table: Table, buffer: Bytes, cursor: Int64s) -> int:
    """Replay the remaining records of a batch. Returns DONE, or the reason to stop."""
    record_at = cursor[RECORD_AT]
    for left in range(cursor[RECORDS_LEFT], 0, -1):
        record = load_record(buffer, record_at, cursor[BATCH_END])
        record_end = record[0]
        if record_end < 0 or not 0 <= record[2] <= cursor[LAST_OFFSET] - cursor[BASE_OFFSET]:
            stop = MALFORMED_BATCH
        else:
            stop = _replay_record(table, buffer, cursor, record)
        if stop != DONE:
            cursor[RECORD_AT] = record_at
            cursor[RECORDS_LEFT] = left
            _describe_record(cursor, record)
            return stop
        record_at = record_end
    return DONE


@inline_kernel
def _describe_record(
    cursor: Int64s, record: tuple[int, int, int, int, int, int, int, int, int]
) -> None:
    """Describe the record at which the kernel stops. The caller may then remove names."""
    cursor[LAST_GROUP_SIZE] = -1
    record_end, _, offset_delta, key_start, key_size, value_start, value_size, _, headers = record
    cursor[RECORD_OFFSET] = cursor[BASE_OFFSET] + offset_delta
    cursor[RECORD_END] = record_end
    cursor[KEY_START] = key_start
    cursor[KEY_SIZE] = key_size
    cursor[VALUE_START] = value_start
    cursor[VALUE_SIZE] = value_size
    cursor[HEADER_COUNT] = headers


@inline_kernel
def _replay_record(
    table: Table,
    buffer: Bytes,
    cursor: Int64s,
    record: tuple[int, int, int, int, int, int, int, int, int],
) -> int:
    """Apply one record. Returns DONE, or the reason for which it was not applied."""
    record_end, delta, offset_delta, key_start, key_size, start, size, headers_at, headers = record
    is_plain, key = load_offset_key(buffer, key_start, key_size)
    if not is_plain:
        return NOT_PLAIN_RECORD
    if size < 0:
        if headers != 0:
            return NOT_PLAIN_RECORD
        if table.counters[OPEN_TRANSACTIONS] != 0 and not _is_settled(buffer, cursor, key):
            return NOT_PLAIN_RECORD
        remove_offset(table, buffer, key)
        cursor[LAST_GROUP_SIZE] = -1
        return DONE
    is_plain, value = load_offset_value(buffer, start, size)
    if not is_plain:
        return NOT_PLAIN_RECORD
    if not has_room(table, key_size, size):
        return NEEDS_ROOM
    id_start, id_size = find_request_id_header(buffer, headers_at, record_end, headers)
    timestamp = load_i64(buffer, cursor[BATCH_AT] + BASE_TIMESTAMP_AT) + delta
    if id_size > 0 and not has_room_for_request(table, timestamp):
        return NEEDS_ROOM
    if not _has_last_names(buffer, cursor, key):
        group, topic = find_or_add_names(table, buffer, key)
        if group < 0:
            return NOT_PLAIN_RECORD
        _note_names(cursor, key, group, topic)
    row = find_or_add_row(table, _block_at(table, cursor, base_of(key.partition)), key.partition)
    revision = cursor[BASE_OFFSET] + offset_delta
    if cursor[MERGING] != 0 and table.entries[row, REVISION] > revision:
        return DONE  # The stored offset was written later, while this transaction was open.
    store_row(table, row, buffer, value, revision)
    if id_size > 0:
        hashed, hashed_2 = hash_request(
            table, buffer, key.group_start, key.group_size, id_start, id_size
        )
        remember_request(table, hashed, hashed_2, cursor[LAST_OFFSET], timestamp)
    return DONE


@inline_kernel
def _has_last_names(buffer: Bytes, cursor: Int64s, key: OffsetKey) -> bool:
    """Returns whether group and topic are those of the previous record, as they mostly are."""
    return bool(
        cursor[LAST_GROUP_SIZE] == key.group_size
        and cursor[LAST_TOPIC_SIZE] == key.topic_size
        and equal_bytes(buffer, cursor[LAST_GROUP_START], buffer, key.group_start, key.group_size)
        and equal_bytes(buffer, cursor[LAST_TOPIC_START], buffer, key.topic_start, key.topic_size)
    )


@inline_kernel
def _note_names(cursor: Int64s, key: OffsetKey, group: int, topic: int) -> None:
    cursor[LAST_GROUP_START] = key.group_start
    cursor[LAST_GROUP_SIZE] = key.group_size
    cursor[LAST_GROUP] = group
    cursor[LAST_TOPIC_START] = key.topic_start
    cursor[LAST_TOPIC_SIZE] = key.topic_size
    cursor[LAST_TOPIC] = topic
    cursor[LAST_BLOCK] = -1


@inline_kernel
def _block_at(table: Table, cursor: Int64s, base: int) -> int:
    """The block of a record whose names are in the cursor: mostly that of the previous record."""
    block = cursor[LAST_BLOCK]
    if block < 0 or block_base(table, block) != base:
        block = find_or_add_block(table, cursor[LAST_GROUP], cursor[LAST_TOPIC], base)
        cursor[LAST_BLOCK] = block
    return int(block)


@inline_kernel
def _is_settled(buffer: Bytes, cursor: Int64s, key: OffsetKey) -> bool:
    """Returns whether it is known that no transaction is open for the group."""
    start, end = cursor[SETTLED_START], cursor[SETTLED_END]
    return (
        end > 0
        and end - start == key.group_size
        and equal_bytes(buffer, start, buffer, key.group_start, key.group_size)
    )


@kernel("boolean(uint8[::1], int64, int64)")
def has_only_offsets(buffer: Bytes, start: int, end: int) -> bool:
    """Returns whether all records of a batch are offsets that decode and have no headers."""
    position = start + BATCH_HEADER_BYTES
    for _ in range(load_i32(buffer, start + COUNT_AT)):
        record = load_record(buffer, position, end)
        position, _, offset_delta, key_start, key_size, value_start, value_size, _, headers = record
        if position < 0 or value_size < 0 or headers != 0:
            return False
        if not 0 <= offset_delta <= load_i32(buffer, start + LAST_OFFSET_DELTA_AT):
            return False
        is_plain, key = load_offset_key(buffer, key_start, key_size)
        if (
            not is_plain
            or utf16_length(buffer, key.group_start, key.group_size) < 0
            or utf16_length(buffer, key.topic_start, key.topic_size) < 0
            or not load_offset_value(buffer, value_start, value_size)[0]
        ):
            return False
    return True
