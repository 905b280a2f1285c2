"""Skips the batches of a log that are plainly right, so that only the rest is checked by record.

The caller has checked the checksums. A batch is plain if it is not compressed and not a control
batch, and if all its records are committed offsets or their tombstones that decode, of groups
whose hash belongs to this partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import load_i16, load_i32
from offsetd_storage.kernels.decode import load_header, load_record
from offsetd_storage.kernels.encode import (
    ATTRIBUTES_AT,
    BATCH_HEADER_BYTES,
    COUNT_AT,
    LAST_OFFSET_DELTA_AT,
)
from offsetd_storage.kernels.offset_records import load_offset_key, load_offset_value
from offsetd_storage.kernels.registry import inline_kernel, kernel
from offsetd_storage.kernels.scan import batch_size
from offsetd_storage.kernels.utf8 import utf16_length

from offsetd_coordinator.kernels.table.group_placement import log_partition_of

if TYPE_CHECKING:
    from offsetd_storage.kernels.offset_records import OffsetKey

    from offsetd_coordinator.kernels.columns import Bytes

_NOT_PLAIN_ATTRIBUTES: Final = 0x27  # codec (bits 0 to 2), control (5)


@kernel("int64(uint8[::1], int64, int64, int64, int64)")
def skip_plain_batches(buffer: Bytes, start: int, end: int, partition: int, partitions: int) -> int:
    """The start of the first batch that is not plain, or that does not end by `end`. The batches
    begin at `start`, and their checksums were checked.
    """
    position = start
    while end - position >= BATCH_HEADER_BYTES:
        batch_end = position + batch_size(buffer, position)
        if batch_end > end or not _is_plain(buffer, position, batch_end, partition, partitions):
            return position
        position = batch_end
    return position


@inline_kernel
def _is_plain(buffer: Bytes, start: int, end: int, partition: int, partitions: int) -> bool:
    if load_i16(buffer, start + ATTRIBUTES_AT) & _NOT_PLAIN_ATTRIBUTES != 0:
        return False
    last_offset_delta = load_i32(buffer, start + LAST_OFFSET_DELTA_AT)
    position = start + BATCH_HEADER_BYTES
    for _ in range(load_i32(buffer, start + COUNT_AT)):
        record = load_record(buffer, position, end)
        position, _, delta, key_start, key_size, value_start, value_size, headers_at, count = record
        if position < 0 or delta < 0 or delta > last_offset_delta:
            return False
        if not _headers_end_at(buffer, headers_at, count, position):
            return False
        decodes, key = load_offset_key(buffer, key_start, key_size)
        if not decodes or not _is_well_placed(buffer, key, partition, partitions):
            return False
        if value_size >= 0:
            decodes, _ = load_offset_value(buffer, value_start, value_size)
            if not decodes:
                return False
    return position == end


@inline_kernel
def _headers_end_at(buffer: Bytes, position: int, count: int, end: int) -> bool:
    for _ in range(count):
        position = load_header(buffer, position, end)[0]
        if position < 0:
            return False
    return position == end


@inline_kernel
def _is_well_placed(buffer: Bytes, key: OffsetKey, partition: int, partitions: int) -> bool:
    """Returns whether both names are UTF-8 and the group belongs to this partition."""
    if utf16_length(buffer, key.group_start, key.group_size) < 0:
        return False
    if utf16_length(buffer, key.topic_start, key.topic_size) < 0:
        return False
    return partition == log_partition_of(buffer, key.group_start, key.group_size, partitions)
