"""Finds the batches of producers with an id, and delete horizons, by the batches' headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import load_i16, load_i32, load_i64
from offsetd_storage.kernels.decode import load_record
from offsetd_storage.kernels.encode import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    BASE_TIMESTAMP_AT,
    BATCH_HEADER_BYTES,
    COUNT_AT,
    LAST_OFFSET_DELTA_AT,
    MAX_TIMESTAMP_AT,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
)
from offsetd_storage.kernels.registry import inline_kernel, kernel
from offsetd_storage.kernels.scan import (
    END,
    HORIZON_BIT,
    INCOMPLETE,
    INDEX_FULL,
    batch_size,
    header_flaw,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Numbers = npt.NDArray[np.int64]

# Slots of `state`.
ROWS: Final = 0  # in use
REASON: Final = 1
DELETE_HORIZON: Final = 2  # The earliest one found so far; the caller begins with NO_HORIZON.
STATE_SLOTS: Final = 3

NO_HORIZON: Final = 2**63 - 1

# Columns of a row.
FIRST_OFFSET: Final = 0
LAST_OFFSET: Final = 1
PRODUCER_ID: Final = 2
PRODUCER_EPOCH: Final = 3
KIND: Final = 4
MAX_TIMESTAMP: Final = 5
ROW_COLUMNS: Final = 6

# Kinds of batches. The kind of a marker is Kafka's `ControlRecordType`.
ABORT: Final = 0
COMMIT: Final = 1
OTHER_CONTROL: Final = 2
EMPTY_CONTROL: Final = 3
PLAIN: Final = 4
TRANSACTIONAL: Final = 5

_TRANSACTIONAL_BIT: Final = 0x10
_CONTROL_BIT: Final = 0x20
_MARKER_KEY_BYTES: Final = 4  # Version and type.


@inline_kernel
def _kind(buffer: Bytes, position: int, end: int) -> int:
    attributes = load_i16(buffer, position + ATTRIBUTES_AT)
    if attributes & _CONTROL_BIT == 0:
        return TRANSACTIONAL if attributes & _TRANSACTIONAL_BIT else PLAIN
    if load_i32(buffer, position + COUNT_AT) == 0:
        return EMPTY_CONTROL
    record = load_record(buffer, position + BATCH_HEADER_BYTES, end)
    if record[0] < 0 or record[4] < _MARKER_KEY_BYTES:
        return OTHER_CONTROL
    marker = load_i16(buffer, record[3] + 2)
    return marker if marker in (ABORT, COMMIT) else OTHER_CONTROL


@kernel("int64(uint8[::1], int64, int64, int64[::1], int64[:, ::1])")
def find_producers(buffer: Bytes, start: int, end: int, state: Numbers, rows: Numbers) -> int:
    """Write a row for each batch of a producer between `start` and `end`.

    Neighbouring batches of the same producer, epoch and kind share a row, if they are not markers.

    Returns the start of the first batch that is not whole or has a wrong header, or `end`.
    """
    row = -1
    position = start
    reason = END
    while position < end:
        if row + 1 == rows.shape[0]:
            reason = INDEX_FULL
            break
        reason = header_flaw(buffer, position, end)
        if reason != END:
            break
        size = batch_size(buffer, position)
        if size > end - position:
            reason = INCOMPLETE
            break
        if load_i16(buffer, position + ATTRIBUTES_AT) & HORIZON_BIT:
            horizon = load_i64(buffer, position + BASE_TIMESTAMP_AT)
            state[DELETE_HORIZON] = min(state[DELETE_HORIZON], horizon)
        producer_id = load_i64(buffer, position + PRODUCER_ID_AT)
        if producer_id >= 0:
            kind = _kind(buffer, position, position + size)
            epoch = load_i16(buffer, position + PRODUCER_EPOCH_AT)
            first_offset = load_i64(buffer, position + BASE_OFFSET_AT)
            if (
                kind < PLAIN
                or row < 0
                or rows[row, PRODUCER_ID] != producer_id
                or rows[row, PRODUCER_EPOCH] != epoch
                or rows[row, KIND] != kind
            ):
                row += 1
                rows[row, FIRST_OFFSET] = first_offset
                rows[row, PRODUCER_ID] = producer_id
                rows[row, PRODUCER_EPOCH] = epoch
                rows[row, KIND] = kind
            last_offset_delta = load_i32(buffer, position + LAST_OFFSET_DELTA_AT)
            rows[row, LAST_OFFSET] = first_offset + last_offset_delta
            rows[row, MAX_TIMESTAMP] = load_i64(buffer, position + MAX_TIMESTAMP_AT)
        position += size
    state[ROWS] = row + 1
    state[REASON] = reason
    return position
