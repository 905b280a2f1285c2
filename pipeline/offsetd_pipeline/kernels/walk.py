"""Checks batches and counts their records, without reading their content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import load_i16, load_i32, load_i64
from offsetd_storage.kernels.encode import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    COUNT_AT,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    PRODUCER_ID_AT,
)
from offsetd_storage.kernels.registry import kernel
from offsetd_storage.kernels.scan import END, I32_MAX, batch_flaw, batch_size

from offsetd_pipeline.kernels import records
from offsetd_pipeline.kernels.records import (
    CONTROL_BIT,
    FILE_POSITION,
    LEADER_EPOCH_LAST,
    OFFSET_NEXT,
    REASON,
    RECORDS,
    SEGMENT_BASE_OFFSET,
    TRANSACTIONAL_BIT,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Numbers = npt.NDArray[np.int64]

# The reasons why a call ended, in addition to those of `scan`.
FULL: Final = 20  # Take the marks or the transactions, and call again.
# The batch begins below FLOOR and lacks records: the caller must count those at or above it.
STRADDLES: Final = 21

# The slots of `state` are those of `records`. RECORDS is kept over all calls, and counts records at
# or above FLOOR. The slots below follow. The caller sets these before the first call:
_SLOT: Final = records.STATE_SLOTS
FLOOR: Final = _SLOT  # Records below this offset are skipped.
MARK_RECORDS: Final = _SLOT + 1  # The least number of records between two marks.
MARK_DUE: Final = _SLOT + 2  # The number of records at which the next mark is made.
# The caller sets this before each call:
STRADDLING: Final = _SLOT + 3  # The straddling batch's records at or above FLOOR; -1 if unknown.
# Each call sets these for the caller:
MARKS: Final = _SLOT + 4  # The number of rows in use.
TRANSACTIONS: Final = _SLOT + 5  # The number of rows in use.
STATE_SLOTS: Final = _SLOT + 6

# Columns of a mark: base offset of a batch, number of records before it, position in the file.
MARK_COLUMNS: Final = 3
# Columns of a batch or marker of a transaction: base offset, producer, whether it is a marker,
# start.
TRANSACTION_COLUMNS: Final = 4


@kernel("int64(uint8[::1], int64, int64, int64[::1], int64[:, ::1], int64[:, ::1])")
def walk_batches(
    buffer: Bytes, start: int, end: int, state: Numbers, marks: Numbers, transactions: Numbers
) -> int:
    """Checks the batches from `start` to `end`.

    Returns the position of the first batch that was not finished, or `end`. `state[REASON]` says
    why it stopped there.
    """
    position = start
    reason = END
    state[MARKS] = 0
    state[TRANSACTIONS] = 0
    while position < end:
        if state[MARKS] == marks.shape[0] or state[TRANSACTIONS] == transactions.shape[0]:
            reason = FULL
            break
        reason = batch_flaw(
            buffer,
            position,
            end,
            state[OFFSET_NEXT],
            state[SEGMENT_BASE_OFFSET] + I32_MAX,
            state[LEADER_EPOCH_LAST],
        )
        if reason != END:
            break
        base_offset = load_i64(buffer, position + BASE_OFFSET_AT)
        last_offset = base_offset + load_i32(buffer, position + LAST_OFFSET_DELTA_AT)
        count = load_i32(buffer, position + COUNT_AT)
        if last_offset >= state[FLOOR]:
            if base_offset < state[FLOOR]:
                if state[STRADDLING] < 0 and count != last_offset - base_offset + 1:
                    reason = STRADDLES
                    break
                count = last_offset - state[FLOOR] + 1
                if state[STRADDLING] >= 0:
                    count = state[STRADDLING]
            if state[RECORDS] >= state[MARK_DUE]:
                row = state[MARKS]
                marks[row, 0] = base_offset
                marks[row, 1] = state[RECORDS]
                marks[row, 2] = state[FILE_POSITION] + position
                state[MARKS] += 1
                state[MARK_DUE] = state[RECORDS] + state[MARK_RECORDS]
            attributes = load_i16(buffer, position + ATTRIBUTES_AT)
            if attributes & (TRANSACTIONAL_BIT | CONTROL_BIT) != 0 and count > 0:
                row = state[TRANSACTIONS]
                transactions[row, 0] = base_offset
                transactions[row, 1] = load_i64(buffer, position + PRODUCER_ID_AT)
                transactions[row, 2] = attributes & CONTROL_BIT
                transactions[row, 3] = position
                state[TRANSACTIONS] += 1
            state[RECORDS] += count
        state[OFFSET_NEXT] = last_offset + 1
        epoch = load_i32(buffer, position + LEADER_EPOCH_AT)
        state[LEADER_EPOCH_LAST] = max(state[LEADER_EPOCH_LAST], epoch)
        position += batch_size(buffer, position)
    state[REASON] = reason
    return position
