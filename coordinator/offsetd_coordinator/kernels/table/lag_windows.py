"""The lag window of an offset: its newest samples, of offset, commit time and lag.

As in Burrow, a sample that comes soon after the newest one replaces it, and keeps its time. So the
samples span a fixed time, however often a consumer commits. Times have whole seconds, as there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.registry import inline_kernel

from offsetd_coordinator.kernels.columns import (
    LAG_BITS,
    LAG_MAX,
    SAMPLE_COUNT,
    SAMPLE_DISTANCE_MS,
    SAMPLE_LAG,
    SAMPLE_OFFSET,
    SAMPLE_TIME_MS,
    SAMPLES,
    SAMPLES_MAX,
    Table,
)

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Int64s

_SECOND_MS: Final = 1000


@inline_kernel
def _sample_at(count: int) -> int:
    """The column of the sample with this number, counted from 0."""
    return SAMPLES + 2 * (count % SAMPLES_MAX)


@inline_kernel
def note_sample(table: Table, window: int, offset: int, time_ms: int, lag: int) -> None:
    """Add a sample to a window, or replace the newest one, if that is not old enough."""
    row = table.windows[window]
    count = row[SAMPLE_COUNT]
    time_s = max(time_ms, 0) // _SECOND_MS
    if count > 0:
        newest = _sample_at(count - 1)
        newest_s = row[newest + 1] >> LAG_BITS
        if (time_s - newest_s) * _SECOND_MS < table.counters[SAMPLE_DISTANCE_MS]:
            count -= 1
            time_s = newest_s
    at = _sample_at(count)
    row[at] = offset
    row[at + 1] = (time_s << LAG_BITS) | min(lag, LAG_MAX)
    row[SAMPLE_COUNT] = count + 1


@inline_kernel
def read_samples(table: Table, window: int, samples: Int64s) -> int:
    """Write the samples of a window, the oldest first, to `samples`. Returns their number."""
    row = table.windows[window]
    total = row[SAMPLE_COUNT]
    count = min(total, SAMPLES_MAX)
    for place in range(count):
        at = _sample_at(total - count + place)
        samples[place, SAMPLE_OFFSET] = row[at]
        samples[place, SAMPLE_TIME_MS] = (row[at + 1] >> LAG_BITS) * _SECOND_MS
        samples[place, SAMPLE_LAG] = row[at + 1] & LAG_MAX
    return int(count)
