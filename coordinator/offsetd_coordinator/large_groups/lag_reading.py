"""The lag of groups of any size, judged in turns of the event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from offsetd_coordinator.cooperative_scheduling import ITEMS_PER_TURN, SLICE_ROWS, Turns, next_turn
from offsetd_coordinator.kernels import columns
from offsetd_coordinator.state.lag_judge import (
    JudgedLag,
    LagJudge,
    TablePart,
    entries_from,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from offsetd_coordinator.committed_offsets import OffsetRows
    from offsetd_coordinator.runtime.runtime import Runtime
    from offsetd_coordinator.state.lag_judge import PartitionLag
    from offsetd_coordinator.state.offset_table import OffsetTable


def judge_of(runtime: Runtime) -> LagJudge | None:
    """Judges as of now. None if no verdicts are given, by `lag.window.ms`."""
    window_ms = runtime.lag_config.window_ms
    return LagJudge(runtime.moment().wall_ms, window_ms) if window_ms else None


async def lag_of(runtime: Runtime, group_id: bytes) -> JudgedLag:
    """The verdict on a group, and its lag. Both are unknown if no verdicts are given."""
    judge = judge_of(runtime)
    if judge is None:
        return JudgedLag()
    offsets = runtime.shard_of(group_id)[1].offsets
    if offsets.count(group_id) <= SLICE_ROWS:
        return judge.group_lag(offsets, offsets.entries_of(group_id))
    whole, cursor, found = JudgedLag(), np.zeros(1, np.int64), np.empty(SLICE_ROWS, np.int64)
    while cursor[0] >= 0:
        entries = entries_from(offsets, group_id, cursor, found)
        whole = whole.joined(judge.group_lag(offsets, entries))
        await next_turn()
    return whole


async def lags_of(
    runtime: Runtime, group_id: bytes, rows: OffsetRows
) -> AsyncIterator[PartitionLag]:
    """The lag of these offsets of a group, as far as it is known."""
    judge, turns = judge_of(runtime), Turns()
    if judge is None:
        return
    offsets = runtime.shard_of(group_id)[1].offsets
    names = np.concatenate((np.frombuffer(group_id, np.uint8), rows.texts))
    keys = rows.rows[:, [columns.TOPIC_START, columns.TOPIC_SIZE, columns.PARTITION]]
    keys += np.array((len(group_id), 0, 0), np.int64)
    for first in range(0, len(keys), ITEMS_PER_TURN):
        part = keys[first : first + ITEMS_PER_TURN]
        entries = offsets.locate_keys(names, len(group_id), part)
        for lag in judge.partition_lags(offsets, entries[entries >= 0]):
            if lag.lag >= 0:
                yield lag
        await turns.spend(len(part))


async def judged(offsets: OffsetTable, judge: LagJudge) -> TablePart:
    """A whole table, judged in turns. It may change meanwhile."""
    part = TablePart(offsets)
    while not part.is_whole:
        judge.judge_part(offsets, part, SLICE_ROWS)
        await next_turn()
    return part
