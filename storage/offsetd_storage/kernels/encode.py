"""Building blocks with which kernels write Kafka's records and batches, format v2.

A batch is written front to back: leave `BATCH_HEADER_BYTES` free, and put the records after them.
Then `seal_batch` fills in the header and computes its checksum. One record, with h headers:

    position = put_record_start(out, position, timestamp_delta, offset_delta,
                                key_size, value_size, headers_size)
    ... key bytes at position ...
    position = put_varint(out, position + key_size, value_size)
    ... value bytes ...
    position = put_varint(out, position + value_size, h)
    then h times put_header

If key and value are in buffers and there are no headers, one call of `put_record` is enough. A size
of -1 is a null key or value; do not add -1 to a position. The caller makes room: `record_size` and
`header_size` return sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import (
    copy_bytes,
    store_i8,
    store_i16,
    store_i32,
    store_i64,
    store_varint,
    varint_size,
)
from offsetd_storage.kernels.crc32c import checksum
from offsetd_storage.kernels.registry import inline_kernel

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]

BATCH_HEADER_BYTES: Final = 61
MAGIC: Final = 2

# The positions of a batch's fields, in bytes from its start.
BASE_OFFSET_AT: Final = 0
BATCH_LENGTH_AT: Final = 8
LEADER_EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
LAST_OFFSET_DELTA_AT: Final = 23
BASE_TIMESTAMP_AT: Final = 27
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_ID_AT: Final = 43
PRODUCER_EPOCH_AT: Final = 51
BASE_SEQUENCE_AT: Final = 53
COUNT_AT: Final = 57
LENGTH_EXCLUDES_BYTES: Final = 12  # The length does not count the offset and itself.

NO_HEADERS_BYTES: Final = 1  # Only their count, zero.


@inline_kernel
def record_body_size(
    timestamp_delta: int, offset_delta: int, key_size: int, value_size: int, headers_size: int
) -> int:
    """The value of a record's own length field. `headers_size` includes the count of headers."""
    return (
        1  # attributes
        + varint_size(timestamp_delta)
        + varint_size(offset_delta)
        + varint_size(key_size)
        + max(key_size, 0)
        + varint_size(value_size)
        + max(value_size, 0)
        + headers_size
    )


@inline_kernel
def record_size(
    timestamp_delta: int, offset_delta: int, key_size: int, value_size: int, headers_size: int
) -> int:
    """Bytes of a whole record, its length field included."""
    body = record_body_size(timestamp_delta, offset_delta, key_size, value_size, headers_size)
    return varint_size(body) + body


@inline_kernel
def put_record_start(
    out: Bytes,
    position: int,
    timestamp_delta: int,
    offset_delta: int,
    key_size: int,
    value_size: int,
    headers_size: int,
) -> int:
    """Write a record up to the length of its key. Returns the position for the key's bytes."""
    body = record_body_size(timestamp_delta, offset_delta, key_size, value_size, headers_size)
    position = store_varint(out, position, body)
    store_i8(out, position, 0)
    position = store_varint(out, position + 1, timestamp_delta)
    position = store_varint(out, position, offset_delta)
    return store_varint(out, position, key_size)


put_varint = store_varint  # (out, position, value) -> its end


@inline_kernel
def put_bytes(out: Bytes, position: int, source: Bytes, start: int, size: int) -> int:
    """Write a varint length and the bytes, or only -1 for null. Returns their end."""
    position = store_varint(out, position, size)
    if size > 0:
        copy_bytes(out, position, source, start, size)
        position += size
    return position


@inline_kernel
def header_size(name_size: int, value_size: int) -> int:
    """Bytes of one record header."""
    return varint_size(name_size) + name_size + varint_size(value_size) + max(value_size, 0)


@inline_kernel
def put_header(
    out: Bytes,
    position: int,
    name: Bytes,
    name_start: int,
    name_size: int,
    value: Bytes,
    value_start: int,
    value_size: int,
) -> int:
    """Write one record header. Returns its end."""
    position = put_bytes(out, position, name, name_start, name_size)
    return put_bytes(out, position, value, value_start, value_size)


@inline_kernel
def put_record(
    out: Bytes,
    position: int,
    timestamp_delta: int,
    offset_delta: int,
    key: Bytes,
    key_start: int,
    key_size: int,
    value: Bytes,
    value_start: int,
    value_size: int,
) -> int:
    """Write a whole record without headers. Returns its end."""
    position = put_record_start(
        out, position, timestamp_delta, offset_delta, key_size, value_size, NO_HEADERS_BYTES
    )
    if key_size > 0:
        copy_bytes(out, position, key, key_start, key_size)
        position += key_size
    position = put_bytes(out, position, value, value_start, value_size)
    store_i8(out, position, 0)
    return position + 1


@inline_kernel
def seal_batch(
    out: Bytes,
    start: int,
    records_end: int,
    base_offset: int,
    last_offset_delta: int,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    attributes: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    leader_epoch: int,
) -> None:
    """Fill in the 61-byte header at `start`; the records lie from there to `records_end`."""
    store_i64(out, start + BASE_OFFSET_AT, base_offset)
    store_i32(out, start + BATCH_LENGTH_AT, records_end - start - LENGTH_EXCLUDES_BYTES)
    store_i32(out, start + LEADER_EPOCH_AT, leader_epoch)
    store_i8(out, start + MAGIC_AT, MAGIC)
    store_i16(out, start + ATTRIBUTES_AT, attributes)
    store_i32(out, start + LAST_OFFSET_DELTA_AT, last_offset_delta)
    store_i64(out, start + BASE_TIMESTAMP_AT, base_timestamp)
    store_i64(out, start + MAX_TIMESTAMP_AT, max_timestamp)
    store_i64(out, start + PRODUCER_ID_AT, producer_id)
    store_i16(out, start + PRODUCER_EPOCH_AT, producer_epoch)
    store_i32(out, start + BASE_SEQUENCE_AT, base_sequence)
    store_i32(out, start + COUNT_AT, count)
    store_i32(out, start + CRC_AT, checksum(out, start + ATTRIBUTES_AT, records_end))
