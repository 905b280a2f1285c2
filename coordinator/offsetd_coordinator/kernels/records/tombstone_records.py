"""Tombstones: writes the keys of stored offsets and batches of tombstones, and reads the batches.

A deletion with a request id has the id in a header of the first record of its last batch. If the
deletion has several batches, the first record of each batch has one more header. Its value is the
log offset of the deletion's first tombstone. So a replay knows which batches belong to one
deletion, and that the deletion is complete only with its last batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import (
    copy_bytes,
    equal_bytes,
    load_i16,
    load_i32,
    load_i64,
    store_i16,
    store_i32,
    store_varint,
)
from offsetd_storage.kernels.decode import load_header, load_record
from offsetd_storage.kernels.encode import (
    BASE_OFFSET_AT,
    BASE_TIMESTAMP_AT,
    BATCH_HEADER_BYTES,
    COUNT_AT,
    LAST_OFFSET_DELTA_AT,
    NO_HEADERS_BYTES,
    put_record_start,
    record_size,
    seal_batch,
)
from offsetd_storage.kernels.offset_records import load_offset_key
from offsetd_storage.kernels.registry import inline_kernel, kernel

from offsetd_coordinator.kernels.columns import TABLE, Table
from offsetd_coordinator.kernels.table.blocks import group_of, partition_of, topic_of
from offsetd_coordinator.kernels.table.names import name_size, name_start
from offsetd_coordinator.kernels.table.request_ids import find_request_id_header
from offsetd_coordinator.kernels.table.stored_offsets import find_offset

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s, TableArrays

START_HEADER_NAME: Final = b"offsetd-deletion"
"""The record header whose value, an int64, is the start of a deletion of several batches."""

_START_NAME_SIZE: Final = 16
_START_NAME_WORD: Final = int.from_bytes(b"offsetd-", "big")
_START_NAME_WORD_2: Final = int.from_bytes(b"deletion", "big")
_NULL: Final = -1
GROUP_AT: Final = 4
"""The position of the group in every key: after the record type and the name's length."""

OFFSET_KEY_FIXED_BYTES: Final = 10
"""The size of an offset's key without the names: record type, two lengths, partition."""

# The description of a batch of tombstones.
DELETED_GROUP_START: Final = 0
DELETED_GROUP_SIZE: Final = 1
DELETED_STARTS_AT: Final = 2  # the log offset of the deletion's first tombstone, or -1
DELETED_BASE_OFFSET: Final = 3
DELETED_LAST_OFFSET: Final = 4
DELETED_TIMESTAMP: Final = 5
DELETED_REQUEST_ID_START: Final = 6
DELETED_REQUEST_ID_SIZE: Final = 7
DELETED_HAS_GROUP: Final = 8  # 1 if the last record is not that of an offset
DELETED_COLUMNS: Final = 9

# A stored offset that a tombstone removes.
GONE_TOPIC_START: Final = 0
GONE_TOPIC_SIZE: Final = 1
GONE_PARTITION: Final = 2
GONE_IS_NEW_TOPIC: Final = 3  # 1 unless the previous row has the same topic
GONE_COLUMNS: Final = 4


@kernel(f"void({TABLE}, int64[::1], int64[::1], uint8[::1])")
def put_offset_keys(arrays: TableArrays, entries: Int64s, ends: Int64s, out: Bytes) -> None:
    """Write the key of each entry, in the form of commits. The keys end at `ends`."""
    table = Table(*arrays)
    for row in range(entries.size):
        entry = entries[row]
        group, topic = group_of(table, entry), topic_of(table, entry)
        group_size, topic_size = name_size(table, group), name_size(table, topic)
        position = ends[row] - OFFSET_KEY_FIXED_BYTES - group_size - topic_size
        store_i16(out, position, 1)
        store_i16(out, position + 2, group_size)
        copy_bytes(out, position + 4, table.name_bytes, name_start(table, group), group_size)
        position += 4 + group_size
        store_i16(out, position, topic_size)
        copy_bytes(out, position + 2, table.name_bytes, name_start(table, topic), topic_size)
        store_i32(out, position + 2 + topic_size, partition_of(table, entry))


@kernel("int64(int64[::1], int64, int64, int64)")
def count_fitting(ends: Int64s, first: int, headers_size: int, bytes_max: int) -> int:
    """The number of tombstones that fit a batch, for the keys that end at `ends`, from row `first`.

    The first record has headers of that size, their count included.
    """
    size = BATCH_HEADER_BYTES
    for row in range(first, ends.size):
        key_size = ends[row] - (ends[row - 1] if row > 0 else 0)
        size += record_size(0, row - first, key_size, _NULL, headers_size)
        if size > bytes_max:
            return row - first
        headers_size = NO_HEADERS_BYTES
    return ends.size - first


@kernel("int64(uint8[::1], int64[::1], int64, int64, uint8[::1], int64, int64, int64, uint8[::1])")
def put_tombstones(
    keys: Bytes,
    ends: Int64s,
    first: int,
    count: int,
    headers: Bytes,
    now_ms: int,
    base_offset: int,
    leader_epoch: int,
    out: Bytes,
) -> int:
    """Write a batch of `count` tombstones for the keys starting at row `first`. Returns its size.

    `headers` are the first record's headers, with their count before them. `out` has enough room.
    """
    position = BATCH_HEADER_BYTES
    for row in range(first, first + count):
        key_start = ends[row - 1] if row > 0 else 0
        key_size = ends[row] - key_start
        headers_size = headers.size if row == first else NO_HEADERS_BYTES
        position = put_record_start(out, position, 0, row - first, key_size, _NULL, headers_size)
        copy_bytes(out, position, keys, key_start, key_size)
        position = store_varint(out, position + key_size, _NULL)
        if row == first:
            copy_bytes(out, position, headers, 0, headers_size)
        else:
            out[position] = 0
        position += headers_size
    seal_batch(
        out, 0, position, base_offset, count - 1, count, now_ms, now_ms, 0, -1, -1, -1, leader_epoch
    )
    return position


@kernel(f"int64({TABLE}, uint8[::1], int64, int64, int64[::1], int64[:, ::1])")
def read_deletion(
    arrays: TableArrays, buffer: Bytes, start: int, end: int, deleted: Int64s, gone: Int64s
) -> int:
    """Read a batch that is about to be replayed and whose first record has headers.

    Returns -1 if it is not a deletion that must be remembered. Otherwise describes the batch in
    `deleted`, and the stored offsets that it removes in `gone`, which has a row for each record.
    Returns the number of these offsets.
    """
    table = Table(*arrays)
    position = start + BATCH_HEADER_BYTES
    count = 0
    for record_number in range(load_i32(buffer, start + COUNT_AT)):
        record = load_record(buffer, position, end)
        position, delta, _, key_start, key_size, _, value_size, headers_at, headers = record
        if position < 0 or value_size >= 0 or key_size < GROUP_AT:
            return -1
        if record_number == 0:
            _describe(buffer, start, key_start, delta, deleted)
            _read_headers(buffer, headers_at, position, headers, deleted)
            if deleted[DELETED_GROUP_SIZE] < 0 or deleted[DELETED_GROUP_SIZE] > key_size - GROUP_AT:
                return -1
            if deleted[DELETED_STARTS_AT] < 0 and deleted[DELETED_REQUEST_ID_SIZE] == 0:
                return -1
        deleted[DELETED_HAS_GROUP] = load_i16(buffer, key_start) & ~1 != 0
        is_offset, key = load_offset_key(buffer, key_start, key_size)
        if is_offset and find_offset(table, buffer, key) >= 0:
            gone[count, GONE_TOPIC_START] = key.topic_start
            gone[count, GONE_TOPIC_SIZE] = key.topic_size
            gone[count, GONE_PARTITION] = key.partition
            gone[count, GONE_IS_NEW_TOPIC] = (
                count == 0
                or gone[count - 1, GONE_TOPIC_SIZE] != key.topic_size
                or not equal_bytes(
                    buffer,
                    gone[count - 1, GONE_TOPIC_START],
                    buffer,
                    key.topic_start,
                    key.topic_size,
                )
            )
            count += 1
    return count


@inline_kernel
def _describe(buffer: Bytes, start: int, key_start: int, delta: int, deleted: Int64s) -> None:
    base_offset = load_i64(buffer, start + BASE_OFFSET_AT)
    deleted[DELETED_GROUP_START] = key_start + GROUP_AT
    deleted[DELETED_GROUP_SIZE] = load_i16(buffer, key_start + 2)
    deleted[DELETED_BASE_OFFSET] = base_offset
    deleted[DELETED_LAST_OFFSET] = base_offset + load_i32(buffer, start + LAST_OFFSET_DELTA_AT)
    deleted[DELETED_TIMESTAMP] = load_i64(buffer, start + BASE_TIMESTAMP_AT) + delta


@inline_kernel
def _read_headers(buffer: Bytes, position: int, end: int, count: int, deleted: Int64s) -> None:
    id_start, id_size = find_request_id_header(buffer, position, end, count)
    deleted[DELETED_REQUEST_ID_START] = id_start
    deleted[DELETED_REQUEST_ID_SIZE] = id_size
    deleted[DELETED_STARTS_AT] = -1
    for _ in range(count):
        position, name_at, size, value_at, value_size = load_header(buffer, position, end)
        if position < 0:
            return
        if (
            size == _START_NAME_SIZE
            and load_i64(buffer, name_at) == _START_NAME_WORD
            and load_i64(buffer, name_at + 8) == _START_NAME_WORD_2
            and value_size == 8
        ):
            deleted[DELETED_STARTS_AT] = load_i64(buffer, value_at)
