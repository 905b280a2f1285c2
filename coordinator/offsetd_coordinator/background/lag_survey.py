"""The background task that judges the lag of all groups, for metrics.

A survey looks at the shards one by one, in turns of the event loop. Its report is replaced as a
whole, so that a scrape, on its own thread, only reads it.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import structlog

from offsetd_coordinator.cooperative_scheduling import Turns, parts
from offsetd_coordinator.kernels import columns
from offsetd_coordinator.large_groups.lag_reading import judge_of, judged
from offsetd_coordinator.state.lag_judge import LagJudge, LagVerdict, of_group

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsetd_coordinator.runtime.runtime import Runtime
    from offsetd_coordinator.shard.shard import Shard
    from offsetd_coordinator.state.lag_judge import PartitionLag

_log = structlog.get_logger(__name__)

_INTERVAL_SECONDS: Final = 15.0
"""The pause between two surveys: Prometheus seldom asks more often."""
_REST_SHARE: Final = 20.0
"""The pause is at least this multiple of the time that the survey took."""


class GroupLag(NamedTuple):
    """A group that metrics show."""

    group_id: bytes
    member_count: int
    verdict: LagVerdict
    partitions: tuple[PartitionLag, ...]
    """Sorted by topic and partition."""


class LagReport(NamedTuple):
    """The result of a survey. The counts are of all groups and partitions that have a verdict."""

    groups: Mapping[LagVerdict, int]
    partitions: Mapping[LagVerdict, int]
    shown: tuple[GroupLag, ...] = ()
    """Sorted by id."""
    left_out: int = 0
    """Groups with offsets that are not shown."""
    compatibility: str = "none"
    seconds: float = 0.0


class LagSurvey:
    """Surveys of one node. For the event loop's thread; `report` for any thread."""

    def __init__(self, runtime: Runtime) -> None:
        self.report: LagReport | None = None
        self._runtime = runtime
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts the task. The first survey runs at once."""
        self._running = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Ends a running survey between two turns."""
        if self._running is not None:
            self._running.cancel()

    async def _run(self) -> None:
        while True:
            seconds = 0.0
            try:
                self.report = await self.survey()
                seconds = self.report.seconds
            except Exception:  # noqa: BLE001  Commits go on.
                _log.exception("a defect in a survey of lag: it continues with the next one")
            await asyncio.sleep(max(_INTERVAL_SECONDS, _REST_SHARE * seconds))

    async def survey(self) -> LagReport:
        """Judges every group, by the settings in force."""
        began_seconds = time.monotonic()
        config = self._runtime.lag_config
        groups, partitions = await self._counts()
        shown, left_out = await self._shown(config.partitions_max)
        return LagReport(
            _by_verdict(groups),
            _by_verdict(partitions),
            shown,
            left_out,
            config.compatibility,
            time.monotonic() - began_seconds,
        )

    async def _counts(self) -> tuple[list[int], list[int]]:
        """The number of groups, and of partitions, by the number of their verdict."""
        groups, partitions = np.zeros((2, columns.LAG_VERDICTS), np.int64)
        judge = judge_of(self._runtime)
        for shard in tuple(self._runtime.shards.values()):
            if judge is None or not shard.offsets.counters[columns.WINDOW_COUNT]:
                continue
            part = await judged(shard.offsets, judge)
            partitions += part.counts
            worst = np.minimum(part.worst, LagVerdict.ERR)
            groups += np.bincount(worst, minlength=columns.LAG_VERDICTS)
        return groups.tolist(), partitions.tolist()

    async def _shown(self, partitions_max: int) -> tuple[tuple[GroupLag, ...], int]:
        """The groups that metrics show, and the number of those that are left out.

        The first groups by id, each with all its partitions. One that has too many for what is
        left of the bound is left out.
        """
        if not partitions_max:
            return (), 0
        turns, least, total = Turns(), list[tuple[bytes, int]](), 0
        for number, shard in tuple(self._runtime.shards.items()):
            for part in parts(shard.offsets.group_ids()):
                total += len(part)
                least += [(group_id, number) for group_id in part]
                if len(least) > 2 * partitions_max:
                    least = heapq.nsmallest(partitions_max, least)
                await turns.spend(len(part))
        shown: list[GroupLag] = []
        for group_id, number in heapq.nsmallest(partitions_max, least):
            found = self._runtime.shards.get(number)
            count = 0 if found is None else found.offsets.count(group_id)
            if found is not None and 0 < count <= partitions_max:
                partitions_max -= count
                shown.append(self._group(found, group_id))
                await turns.spend(count)
        return tuple(shown), total - len(shown)

    def _group(self, shard: Shard, group_id: bytes) -> GroupLag:
        judge = judge_of(self._runtime) or LagJudge(0, 0)
        lags = judge.partition_lags(shard.offsets, shard.offsets.entries_of(group_id))
        worst = max((lag.verdict for lag in lags), default=LagVerdict.UNKNOWN)
        live = shard.membership.live(group_id)
        members = 0 if live is None else len(live.members)
        return GroupLag(group_id, members, of_group(worst), tuple(sorted(lags)))


def _by_verdict(counts: list[int]) -> dict[LagVerdict, int]:
    return {verdict: counts[verdict] for verdict in LagVerdict if verdict}
