"""Replays the batches of a log into the table: what a load spends its time in.

Plain batches (not compressed, neither transactional nor control) and plain records (a committed
offset, or the tombstone of one, that decodes) are done here. At anything else the kernel stops
and says where; the caller deals with it and calls again. Nothing of a record is applied before it
is known to be plain and there is room, so stopping leaves no half of a record behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import (
    load_i16,
    load_i32,
    load_i64,
    load_unsigned_varint,
)
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
from offsetd_storage.kernels.registry import inline_kernel, kernel

from offsetd_coordinator.kernels.columns import (
    BASE_OFFSET,
    BATCH_AT,
    BATCH_END,
    BROKEN_BATCH,
    DONE,
    HEADER_COUNT,
    KEY_SIZE,
    KEY_START,
    LAST_OFFSET,
    LEADER_EPOCH,
    MALFORMED_BATCH,
    NEEDS_ROOM,
    NOT_PLAIN_BATCH,
    NOT_PLAIN_RECORD,
    OFFSET_NEXT,
    PENDING_COUNT,
    RECORD_AT,
    RECORD_END,
    RECORD_OFFSET,
    RECORDS_LEFT,
    TABLE,
    VALUE_SIZE,
    VALUE_START,
    OffsetKey,
    OffsetValue,
    Table,
)
from offsetd_coordinator.kernels.entries import METADATA_SIZE_MAX, has_room
from offsetd_coordinator.kernels.offsets import find_or_add_offset, remove_offset, set_offset
from offsetd_coordinator.kernels.request_ids import (
    find_request_id_header,
    has_room_for_request,
    hash_request,
    remember_request,
)
from offsetd_coordinator.kernels.utf8 import utf16_length

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s, TableArrays

_NOT_PLAIN_ATTRIBUTES: Final = 0x37  # codec (bits 0 to 2), transactional (4), control (5)
_KEY_BYTES_MIN: Final = 10  # record type, two lengths, partition
_VALUE_VERSION_LAST: Final = 4


@kernel(f"int64({TABLE}, uint8[::1], int64, int64[::1])")
def replay_batches(arrays: TableArrays, buffer: Bytes, end: int, cursor: Int64s) -> int:
    """Replay the checked batches from `cursor` to `end` of a padded buffer.

    Returns DONE, or why it stopped at what the cursor then describes.
    """
    table = Table(*arrays)
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
    """Point the cursor at the first record of its batch; False if no whole batch is there."""
    at = cursor[BATCH_AT]
    if end - at < BATCH_HEADER_BYTES:
        return False
    batch_bytes = LENGTH_EXCLUDES_BYTES + load_i32(buffer, at + BATCH_LENGTH_AT)
    if batch_bytes < BATCH_HEADER_BYTES or batch_bytes > end - at:
        return False
    base_offset = load_i64(buffer, at + BASE_OFFSET_AT)
    cursor[BATCH_END] = at + batch_bytes
    cursor[RECORD_AT] = at + BATCH_HEADER_BYTES
    cursor[RECORDS_LEFT] = load_i32(buffer, at + COUNT_AT)
    cursor[BASE_OFFSET] = base_offset
    cursor[LAST_OFFSET] = base_offset + load_i32(buffer, at + LAST_OFFSET_DELTA_AT)
    return True


@inline_kernel
def _replay_records(table: Table, buffer: Bytes, cursor: Int64s) -> int:
    """Replay the records that are left of a batch; DONE, or why it stopped."""
    record_at = cursor[RECORD_AT]
    for left in range(cursor[RECORDS_LEFT], 0, -1):
        record = load_record(buffer, record_at, cursor[BATCH_END])
        record_end = record[0]
        stop = MALFORMED_BATCH if record_end < 0 else _replay_record(table, buffer, cursor, record)
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
    """Tell the caller about the record that the kernel stops at."""
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
    """Apply one record; DONE, or why it was left alone."""
    record_end, delta, offset_delta, key_start, key_size, start, size, headers_at, headers = record
    is_plain, key = load_offset_key(buffer, key_start, key_size)
    if not is_plain:
        return NOT_PLAIN_RECORD
    if size < 0:
        if headers != 0 or table.counters[PENDING_COUNT] != 0:
            return NOT_PLAIN_RECORD
        remove_offset(table, buffer, key)
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
    entry = find_or_add_offset(table, buffer, key)
    if entry < 0:
        return NOT_PLAIN_RECORD
    set_offset(table, entry, buffer, key, value, cursor[BASE_OFFSET] + offset_delta)
    if id_size > 0:
        hashed, hashed_2 = hash_request(
            table, buffer, key.group_start, key.group_size, id_start, id_size
        )
        remember_request(table, hashed, hashed_2, cursor[LAST_OFFSET], timestamp)
    return DONE


@inline_kernel
def load_offset_key(buffer: Bytes, start: int, size: int) -> tuple[bool, OffsetKey]:
    """(True, key) of record types 0 and 1 with nothing behind the partition, else (False, _)."""
    other = (False, OffsetKey(0, 0, 0, 0, 0))
    if size < _KEY_BYTES_MIN or load_i16(buffer, start) & ~1 != 0:
        return other
    names_size = size - _KEY_BYTES_MIN
    group_size = load_i16(buffer, start + 2)
    if group_size < 0 or group_size > names_size:
        return other
    topic_at = start + 4 + group_size
    topic_size = load_i16(buffer, topic_at)
    if topic_size != names_size - group_size:
        return other
    partition = load_i32(buffer, topic_at + 2 + topic_size)
    return True, OffsetKey(start + 4, group_size, topic_at + 2, topic_size, partition)


@inline_kernel
def load_offset_value(buffer: Bytes, start: int, size: int) -> tuple[bool, OffsetValue]:
    """(True, value) of an OffsetCommitValue that decodes, else (False, _).

    Loads may reach a few bytes past the value, into the next record or the padding; the checks
    behind them tell.
    """
    other = (False, OffsetValue(0, 0, 0, 0, 0, 0))
    end = start + size
    version = load_i16(buffer, start)
    if size < 2 or version < 0 or version > _VALUE_VERSION_LAST:
        return other
    offset = load_i64(buffer, start + 2)
    position = start + 10
    leader_epoch = -1
    if version >= 3:
        leader_epoch = load_i32(buffer, position)
        position += 4
    metadata_size, position = _load_text_size(buffer, position, end, version)
    metadata_start = position
    if metadata_size < 0 or metadata_size > min(end - position, METADATA_SIZE_MAX):
        return other
    commit_timestamp = load_i64(buffer, position + metadata_size)
    position += metadata_size + 8
    expire_timestamp = -1
    if version == 1:
        expire_timestamp = load_i64(buffer, position)
        position += 8
    if version >= 4:
        position = _skip_tags(buffer, position, end)
    if position < 0 or position > end:
        return other
    if metadata_size > 0 and utf16_length(buffer, metadata_start, metadata_size) < 0:
        return other
    return True, OffsetValue(
        offset, leader_epoch, metadata_start, metadata_size, commit_timestamp, expire_timestamp
    )


@inline_kernel
def _load_text_size(buffer: Bytes, position: int, end: int, version: int) -> tuple[int, int]:
    """(size, where the text starts); -1 for null and for a length that does not end."""
    if version < 4:
        return load_i16(buffer, position), position + 2
    length, position = load_unsigned_varint(buffer, position, end)
    return length - 1, position


@inline_kernel
def _skip_tags(buffer: Bytes, position: int, end: int) -> int:
    """Where a section of tagged fields ends, or -1 if it does not end before `end`."""
    count, position = load_unsigned_varint(buffer, position, end)
    while position >= 0 and count > 0:
        _, position = load_unsigned_varint(buffer, position, end)
        if position < 0:
            return -1
        size, position = load_unsigned_varint(buffer, position, end)
        if position < 0 or size > end - position:
            return -1
        position += size
        count -= 1
    return position
