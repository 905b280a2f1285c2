"""Building blocks with which kernels read the records inside a batch whose header was checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import load_varint, load_varlong
from offsetd_storage.kernels.registry import inline_kernel, kernel

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Numbers = npt.NDArray[np.int64]

RECORD_COLUMNS: Final = 9  # What `load_record` gives, in its order.
RECORD_BYTES_MIN: Final = 7  # Length, attributes, two deltas, key and value null, no headers.


@inline_kernel
def load_record(
    buffer: Bytes, position: int, end: int
) -> tuple[int, int, int, int, int, int, int, int, int]:
    """The record at `position` of records that end at `end`:

    (record_end, timestamp_delta, offset_delta, key_start, key_size, value_start, value_size,
    headers_start, header_count). A size of -1 is null. `record_end` is -1, and the rest zero,
    unless the record, its lengths and the count of its headers fit exactly as Kafka wants them;
    the headers themselves are for `load_header`.
    """
    malformed = (-1, 0, 0, 0, 0, 0, 0, 0, 0)
    body_size, position = load_varint(buffer, position, end)
    if position < 0 or body_size < 0 or body_size > end - position:
        return malformed
    record_end = position + body_size
    timestamp_delta, position = load_varlong(buffer, position + 1, record_end)
    if position < 0:
        return malformed
    offset_delta, position = load_varint(buffer, position, record_end)
    if position < 0:
        return malformed
    key_size, key_start = load_varint(buffer, position, record_end)
    if key_start < 0 or key_size < -1:
        return malformed
    # A size beyond the end leaves no byte before it for the next varint, which says so.
    value_size, value_start = load_varint(buffer, key_start + max(key_size, 0), record_end)
    if value_start < 0 or value_size < -1:
        return malformed
    header_count, headers_start = load_varint(buffer, value_start + max(value_size, 0), record_end)
    if headers_start < 0 or header_count < 0 or header_count > record_end - headers_start:
        return malformed
    if header_count == 0 and headers_start != record_end:
        return malformed
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
