"""Checks runs of batches in one buffer by the batches' headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import load_i32, load_i64
from offsetd_storage.kernels.encode import (
    BASE_OFFSET_AT,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    MAX_TIMESTAMP_AT,
)
from offsetd_storage.kernels.registry import inline_kernel, kernel
from offsetd_storage.kernels.scan import BAD_OFFSET, END, INCOMPLETE, batch_size, header_flaw

if TYPE_CHECKING:
    from offsetd_storage.kernels.scan import Bytes, Numbers

# Columns of a run's position in the buffer.
SPAN_START: Final = 0
SPAN_END: Final = 1

# Columns of the results for a run, in the order of the fields of
# `offsetd_storage.batch.batch_runs.Run`. If the run has a flaw, the last two hold the flaw and its
# position in the run.
RUN_BATCHES: Final = 0
RUN_BATCH_BYTES_MAX: Final = 1
RUN_BASE_OFFSET: Final = 2
RUN_LAST_OFFSET: Final = 3
RUN_LEADER_EPOCH_MAX: Final = 4
RUN_TIMESTAMP_MIN: Final = 5  # The smallest of the batches' largest timestamps.
RUN_TIMESTAMP_MAX: Final = 6
RUN_TIMESTAMP_MAX_OFFSET: Final = 7  # The last offset of the first batch with RUN_TIMESTAMP_MAX.
RUN_COLUMNS: Final = 8
FLAW: Final = 8
FLAW_AT: Final = 9
FOUND_COLUMNS: Final = 10


@kernel("int64(uint8[::1], int64[:, ::1], int64[:, ::1])")
def look_at_runs(content: Bytes, spans: Numbers, found: Numbers) -> int:
    """Fill a row of `found` for each of `spans`. Returns the first row that has a flaw, or -1."""
    for row in range(spans.shape[0]):
        run = found[row]
        run[RUN_BATCHES] = 0
        run[FLAW] = END
        position, end = spans[row, SPAN_START], spans[row, SPAN_END]
        while position < end:
            run[FLAW] = _flaw(content, position, end, run)
            if run[FLAW] != END:
                break
            _note_batch(content, position, run)
            position += batch_size(content, position)
        run[FLAW_AT] = position - spans[row, SPAN_START]
        if run[FLAW] != END or run[RUN_BATCHES] == 0:
            return row
    return -1


@inline_kernel
def _flaw(content: Bytes, position: int, end: int, run: Numbers) -> int:
    """The flaw of a batch that follows those of `run`; END if it has none."""
    flaw = header_flaw(content, position, end)
    if flaw != END:
        return flaw
    base_offset = load_i64(content, position + BASE_OFFSET_AT)
    if run[RUN_BATCHES] > 0 and base_offset != run[RUN_LAST_OFFSET] + 1:
        return BAD_OFFSET
    return INCOMPLETE if batch_size(content, position) > end - position else END


@inline_kernel
def _note_batch(content: Bytes, position: int, run: Numbers) -> None:
    base_offset = load_i64(content, position + BASE_OFFSET_AT)
    last_offset = base_offset + load_i32(content, position + LAST_OFFSET_DELTA_AT)
    leader_epoch = load_i32(content, position + LEADER_EPOCH_AT)
    timestamp = load_i64(content, position + MAX_TIMESTAMP_AT)
    size = batch_size(content, position)
    if run[RUN_BATCHES] == 0:
        run[RUN_BATCH_BYTES_MAX] = size
        run[RUN_BASE_OFFSET] = base_offset
        run[RUN_LEADER_EPOCH_MAX] = leader_epoch
        run[RUN_TIMESTAMP_MIN] = run[RUN_TIMESTAMP_MAX] = timestamp
        run[RUN_TIMESTAMP_MAX_OFFSET] = last_offset
    run[RUN_BATCHES] += 1
    run[RUN_BATCH_BYTES_MAX] = max(run[RUN_BATCH_BYTES_MAX], size)
    run[RUN_LAST_OFFSET] = last_offset
    run[RUN_LEADER_EPOCH_MAX] = max(run[RUN_LEADER_EPOCH_MAX], leader_epoch)
    run[RUN_TIMESTAMP_MIN] = min(run[RUN_TIMESTAMP_MIN], timestamp)
    if timestamp > run[RUN_TIMESTAMP_MAX]:
        run[RUN_TIMESTAMP_MAX] = timestamp
        run[RUN_TIMESTAMP_MAX_OFFSET] = last_offset
