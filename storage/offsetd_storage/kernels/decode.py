"""Building blocks with which kernels read the records inside a batch whose header was checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import (
    load_i64,
    load_u8,
    load_varint,
    load_varlong,
    unzigzag,
)
from offsetd_storage.kernels.registry import inline_kernel, kernel

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Numbers = npt.NDArray[np.int64]

RECORD_COLUMNS: Final = 9  # The fields that `load_record` returns, in order.
RECORD_BYTES_MIN: Final = 7  # Length, attributes, two deltas, key and value null, no headers.


# The first 8 bytes of a record: a length of one or two bytes, and three numbers of one byte each.
_LONG_FORM_MASK: Final = 0x80_80_00_80_80_80_00_00 - (1 << 64)
_LONG_FORM: Final = 0x80_00_00_00_00_00_00_00 - (1 << 64)
_SHORT_FORM_MASK: Final = 0x80_00_80_80_80_00_00_00 - (1 << 64)
_MALFORMED: Final = (-1, 0, 0, 0, 0, 0, 0, 0, 0)


@inline_kernel
def load_record(
    buffer: Bytes, position: int, end: int
) -> tuple[int, int, int, int, int, int, int, int, int]:
    """The record at `position`, of records that end at `end`:

    (record_end, timestamp_delta, offset_delta, key_start, key_size, value_start, value_size,
    headers_start, header_count). A size of -1 is null. `record_end` is -1, and the rest zero,
    unless the record, its lengths and the count of its headers fit exactly, as Kafka requires. Read
    the headers with `load_header`.
    """
    record = load_usual_record(buffer, position, end)
    if record[0] < 0:
        record = load_any_record(buffer, position, end)
    return record


@inline_kernel
def load_usual_record(
    buffer: Bytes, position: int, end: int
) -> tuple[int, int, int, int, int, int, int, int, int]:
    """Return the result of `load_record` for a usual record, three times as fast.

    A usual record is below 8 KiB and has no headers, and each number except the length takes one
    byte. For all other records `record_end` is -1.
    """
    word = load_i64(buffer, position)
    if word & _LONG_FORM_MASK == _LONG_FORM:
        body_size = unzigzag(((word >> 56) & 0x7F) | ((word >> 41) & 0x3F80))
        start = position + 2
        word <<= 16
    elif word & _SHORT_FORM_MASK == 0:
        body_size = unzigzag((word >> 56) & 0x7F)
        start = position + 1
        word <<= 8
    else:
        return _MALFORMED
    record_end = start + body_size
    key_start = start + 4
    key_size = unzigzag((word >> 32) & 0x7F)
    value_at = key_start + max(key_size, 0)
    # The value's size is read only if it is inside the record. A negative length fails here, too.
    if record_end > end or key_size < -1 or value_at >= record_end - 1:
        return _MALFORMED
    raw = load_u8(buffer, value_at)
    value_size = unzigzag(raw)
    headers_start = value_at + 1 + max(value_size, 0) + 1
    if raw > 0x7F or value_size < -1 or headers_start != record_end:
        return _MALFORMED
    if load_u8(buffer, record_end - 1) != 0:
        return _MALFORMED
    return (
        record_end,
        unzigzag((word >> 48) & 0x7F),
        unzigzag((word >> 40) & 0x7F),
        key_start,
        key_size,
        value_at + 1,
        value_size,
        record_end,
        0,
    )


@inline_kernel
def load_any_record(
    buffer: Bytes, position: int, end: int
) -> tuple[int, int, int, int, int, int, int, int, int]:
    """Return the result of `load_record` for a record with numbers of any size."""
    body_size, position = load_varint(buffer, position, end)
    if position < 0 or body_size < 0 or body_size > end - position:
        return _MALFORMED
    record_end = position + body_size
    timestamp_delta, position = load_varlong(buffer, position + 1, record_end)
    if position < 0:
        return _MALFORMED
    offset_delta, position = load_varint(buffer, position, record_end)
    if position < 0:
        return _MALFORMED
    key_size, key_start = load_varint(buffer, position, record_end)
    if key_start < 0 or key_size < -1:
        return _MALFORMED
    # After a size beyond the end, the next varint has no bytes before the end, and fails.
    value_size, value_start = load_varint(buffer, key_start + max(key_size, 0), record_end)
    if value_start < 0 or value_size < -1:
        return _MALFORMED
    header_count, headers_start = load_varint(buffer, value_start + max(value_size, 0), record_end)
    if headers_start < 0 or header_count < 0 or header_count > record_end - headers_start:
        return _MALFORMED
    if header_count == 0 and headers_start != record_end:
        return _MALFORMED
    return (
        record_end,
        timestamp_delta,
        offset_delta,
        key_start,
        key_size,
        value_start,
        value_size,
        headers_start,
        header_count,
    )


@inline_kernel
def load_header(buffer: Bytes, position: int, end: int) -> tuple[int, int, int, int, int]:
    """The record header at `position`, of headers that end at `end`:

    (header_end, name_start, name_size, value_start, value_size). A value size of -1 is null.
    `header_end` is -1, and the rest zero, unless name and value fit before `end`.
    """
    malformed = (-1, 0, 0, 0, 0)
    name_size, name_start = load_varint(buffer, position, end)
    if name_start < 0 or name_size < 0 or name_size > end - name_start:
        return malformed
    value_size, value_start = load_varint(buffer, name_start + name_size, end)
    if value_start < 0 or value_size < -1 or value_size > end - value_start:
        return malformed
    return value_start + max(value_size, 0), name_start, name_size, value_start, value_size


@kernel("int64(uint8[::1], int64, int64, int64[:, ::1])")
def index_records(buffer: Bytes, start: int, end: int, rows: Numbers) -> int:
    """One row for each record from `start` to `end`, as many as `rows` has.

    Returns that number if these records fill the range exactly, -1 if bytes remain, and otherwise
    the number of records before the first one that is malformed.
    """
    position = start
    for row in range(rows.shape[0]):
        record = load_record(buffer, position, end)
        position = record[0]
        if position < 0:
            return row
        rows[row, 0] = record[0]
        rows[row, 1] = record[1]
        rows[row, 2] = record[2]
        rows[row, 3] = record[3]
        rows[row, 4] = record[4]
        rows[row, 5] = record[5]
        rows[row, 6] = record[6]
        rows[row, 7] = record[7]
        rows[row, 8] = record[8]
    return rows.shape[0] if position == end else -1
