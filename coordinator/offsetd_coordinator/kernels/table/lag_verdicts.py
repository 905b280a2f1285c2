"""Judges the lag of offsets by Burrow's rules: of some entries, or of a whole table in slices.

The rules are in `docs/guides/lag.md`; ADR 0072 says where they differ from Burrow's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_storage.kernels.bitmap import count_ones
from offsetd_storage.kernels.registry import inline_kernel, kernel

from offsetd_coordinator.kernels.columns import (
    BLOCK_END,
    COMMIT_TIMESTAMP,
    FREE,
    GROUP_TOPIC,
    LAG_MAX,
    LAG_OK,
    LAG_REWIND,
    LAG_ROW_END,
    LAG_ROW_LAG,
    LAG_ROW_OFFSET,
    LAG_ROW_VERDICT,
    LAG_STALL,
    LAG_STOP,
    LAG_UNJUDGED,
    LAG_WARN,
    LAG_WINDOW,
    MASK,
    OFFSET,
    REPORTED_END,
    SAMPLE_LAG,
    SAMPLE_OFFSET,
    SAMPLE_TIME_MS,
    SAMPLES_MAX,
    TABLE,
    TIME_EPOCH,
    Table,
)
from offsetd_coordinator.kernels.table.blocks import first_row, row_of
from offsetd_coordinator.kernels.table.entries import load_row
from offsetd_coordinator.kernels.table.lag_windows import read_samples

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s, TableArrays


@inline_kernel
def _verdict(samples: Int64s, count: int, is_complete: bool, now_ms: int, window_ms: int) -> int:
    """The verdict on the first `count` samples, of which the last is the present state."""
    last = count - 1
    if samples[last, SAMPLE_LAG] <= 0:
        return LAG_OK
    span_ms = samples[last, SAMPLE_TIME_MS] - samples[0, SAMPLE_TIME_MS]
    if not is_complete:
        span_ms = max(span_ms, window_ms)
    if now_ms - samples[last, SAMPLE_TIME_MS] > span_ms:
        return LAG_STOP
    if not is_complete:
        return LAG_OK
    if _is_rewound(samples, count):
        return LAG_REWIND
    moves, lag_falls = False, False
    for at in range(count):
        if samples[at, SAMPLE_LAG] <= 0:
            return LAG_OK
        if at > 0:
            moves |= samples[at, SAMPLE_OFFSET] != samples[at - 1, SAMPLE_OFFSET]
            lag_falls |= samples[at, SAMPLE_LAG] < samples[at - 1, SAMPLE_LAG]
    if not moves:
        return LAG_STALL
    return LAG_OK if lag_falls else LAG_WARN


@inline_kernel
def _is_rewound(samples: Int64s, count: int) -> bool:
    """Whether the offset fell, and has not come back to where it first fell from."""
    before = -1
    for at in range(1, count):
        if before < 0 and samples[at, SAMPLE_OFFSET] < samples[at - 1, SAMPLE_OFFSET]:
            before = samples[at - 1, SAMPLE_OFFSET]
        if before >= 0 and samples[at, SAMPLE_OFFSET] >= before:
            return False
    return bool(before >= 0)


@kernel("int64(int64[:, ::1], int64, boolean, int64, int64)")
def judge_samples(
    samples: Int64s, count: int, is_complete: bool, now_ms: int, window_ms: int
) -> int:
    """The verdict on samples, the oldest first. The last one is the present state.

    `is_complete` says whether the window is full. If not, it counts as if it spanned `window_ms`.
    """
    return int(_verdict(samples, count, is_complete, now_ms, window_ms))


@inline_kernel
def _judge_row(table: Table, row: int, now_ms: int, window_ms: int, samples: Int64s) -> int:
    """The verdict on a row of `entries`; none if its lag or its history is not known."""
    word = table.entries[row, TIME_EPOCH]
    if word >= 0:
        return LAG_UNJUDGED
    extra = table.extras[-1 - word]
    if extra[REPORTED_END] == 0 or extra[LAG_WINDOW] == 0:
        return LAG_UNJUDGED
    count = read_samples(table, extra[LAG_WINDOW] - 1, samples)
    samples[count, SAMPLE_OFFSET] = table.entries[row, OFFSET]
    samples[count, SAMPLE_TIME_MS] = extra[COMMIT_TIMESTAMP]
    samples[count, SAMPLE_LAG] = min(
        extra[REPORTED_END] - 1 - samples[count, SAMPLE_OFFSET], LAG_MAX
    )
    return int(_verdict(samples, count + 1, count == SAMPLES_MAX, now_ms, window_ms))


@kernel(f"void({TABLE}, int64[::1], int64, int64, int64[:, ::1], int64[:, ::1])")
def judge_lags(
    arrays: TableArrays,
    entries: Int64s,
    now_ms: int,
    window_ms: int,
    samples: Int64s,
    lags: Int64s,
) -> None:
    """Write the lag and the verdict of each entry to its row of `lags`, in the LAG columns.

    `samples` is scratch space for SAMPLES_MAX + 1 samples.
    """
    table = Table(*arrays)
    for at in range(entries.size):
        row = row_of(table, entries[at])
        stored = load_row(table, row)
        lags[at, LAG_ROW_VERDICT] = _judge_row(table, row, now_ms, window_ms, samples)
        lags[at, LAG_ROW_OFFSET] = stored.offset
        lags[at, LAG_ROW_END] = stored.end_offset
        lags[at, LAG_ROW_LAG] = stored.end_offset - stored.offset if stored.end_offset >= 0 else -1


@kernel(f"void({TABLE}, int64[::1], int64, int64, int64, int64[:, ::1], uint8[::1], int64[::1])")
def judge_blocks(
    arrays: TableArrays,
    cursor: Int64s,
    rows_max: int,
    now_ms: int,
    window_ms: int,
    samples: Int64s,
    worst: Bytes,
    counts: Int64s,
) -> None:
    """Judge about `rows_max` rows, starting at the block `cursor[0]`, which moves; -1 is the end.

    Adds each verdict to `counts`, and writes the worst one of each group to `worst`, which has a
    byte for every name. `samples` is scratch space as in `judge_lags`.
    """
    table = Table(*arrays)
    end = table.counters[BLOCK_END]
    block = cursor[0]
    looked = 0
    while block < end and looked < rows_max:
        group_topic = table.blocks[block, GROUP_TOPIC]
        looked += 1
        if group_topic != FREE and group_topic >> 32 < worst.size:
            group = group_topic >> 32
            start, rows = first_row(table, block), count_ones(table.blocks[block, MASK])
            looked += rows
            for row in range(start, start + rows):
                verdict = _judge_row(table, row, now_ms, window_ms, samples)
                counts[verdict] += 1
                worst[group] = max(worst[group], verdict)
        block += 1
    cursor[0] = -1 if block >= end else block
