"""Batches of offsets that administrators write.

Each offset has its own times, and may be a tombstone. Apart from that, the records are those of a
commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import copy_bytes, store_varint
from offsetd_storage.kernels.encode import (
    BATCH_HEADER_BYTES,
    NO_HEADERS_BYTES,
    put_record_start,
    record_size,
    seal_batch,
)
from offsetd_storage.kernels.registry import inline_kernel, kernel

from offsetd_coordinator.kernels.columns import (
    COMMIT,
    METADATA_SIZE,
    PUT_COMMIT_TIMESTAMP,
    PUT_EXPIRE_TIMESTAMP,
    PUT_IS_TOMBSTONE,
    TOPIC_SIZE,
    TOPIC_START,
    Commit,
)
from offsetd_coordinator.kernels.records.commit_batch import (
    CommitTimes,
    headers_size_of,
    key_size_of,
    put_headers,
    put_key,
    put_value,
    tags_size_of,
    value_size_of,
)

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s

_NULL: Final = -1


@kernel(f"int64({COMMIT}, int64, int64, int64)")
def count_fitting_puts(
    names: Bytes,
    columns: Int64s,
    group_start: int,
    group_size: int,
    request_id_start: int,
    request_id_size: int,
    first: int,
    value_version: int,
    bytes_max: int,
) -> int:
    """The number of rows, starting at `first`, that fit a batch. The first has the request id."""
    puts = Commit(names, columns, group_start, group_size, request_id_start, request_id_size)
    headers_size = headers_size_of(puts)
    size = BATCH_HEADER_BYTES
    for row in range(first, columns.shape[0]):
        key_size, value_size = _sizes(puts, row, value_version)
        size += record_size(0, row - first, key_size, value_size, headers_size)
        if size > bytes_max:
            return row - first
        headers_size = NO_HEADERS_BYTES
    return int(columns.shape[0] - first)


@kernel(f"int64({COMMIT}, int64, int64, int64, int64, int64, int64, uint8[::1])")
def put_offsets(
    names: Bytes,
    columns: Int64s,
    group_start: int,
    group_size: int,
    request_id_start: int,
    request_id_size: int,
    first: int,
    count: int,
    value_version: int,
    now_ms: int,
    base_offset: int,
    leader_epoch: int,
    out: Bytes,
) -> int:
    """Write a batch with the records of `count` rows, starting at `first`. Returns its size.

    `out` has enough room, and some padding.
    """
    puts = Commit(names, columns, group_start, group_size, request_id_start, request_id_size)
    headers_size = headers_size_of(puts)
    position = BATCH_HEADER_BYTES
    for row in range(first, first + count):
        key_size, value_size = _sizes(puts, row, value_version)
        position = put_record_start(
            out, position, 0, row - first, key_size, value_size, headers_size
        )
        if value_size == _NULL:
            copy_bytes(out, position, names, columns[row, TOPIC_START], key_size)
            position = store_varint(out, position + key_size, _NULL)
        else:
            kept_ms = columns[row, PUT_COMMIT_TIMESTAMP]
            times = CommitTimes(
                now_ms if kept_ms < 0 else kept_ms, columns[row, PUT_EXPIRE_TIMESTAMP]
            )
            position = put_key(puts, row, out, position)
            position = store_varint(out, position, value_size)
            position = put_value(puts, row, times, value_version, out, position)
        position = put_headers(puts, headers_size, out, position)
        headers_size = NO_HEADERS_BYTES
    seal_batch(
        out, 0, position, base_offset, count - 1, count, now_ms, now_ms, 0, -1, -1, -1, leader_epoch
    )
    return position


@inline_kernel
def _sizes(puts: Commit, row: int, value_version: int) -> tuple[int, int]:
    """Bytes of a record's key and of its value."""
    columns = puts.columns
    if columns[row, PUT_IS_TOMBSTONE] != 0:
        return columns[row, TOPIC_SIZE], _NULL
    value_size = value_size_of(columns[row, METADATA_SIZE], value_version)
    value_size += tags_size_of(columns[row, PUT_EXPIRE_TIMESTAMP], value_version)
    return key_size_of(puts, row), value_size
