"""Lag of stored offsets, and verdicts on it. The rules are in `kernels.table.lag_verdicts`."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from offsetd_coordinator.kernels import columns
from offsetd_coordinator.kernels.table.expired_offsets import list_from
from offsetd_coordinator.kernels.table.lag_verdicts import judge_blocks, judge_lags

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s
    from offsetd_coordinator.state.offset_table import OffsetTable

_LAG_MAX: Final = (1 << 63) - 1


class LagVerdict(enum.IntEnum):
    """Burrow's verdicts, with its numbers, which are those of `offsetd.v1.LagVerdict`.

    A group is OK, WARN, or ERR if a partition of it has stopped, stalls or was rewound.
    """

    UNKNOWN = columns.LAG_UNJUDGED
    """No commit since the start of the server reported an end offset."""
    OK = columns.LAG_OK
    WARN = columns.LAG_WARN
    ERR = columns.LAG_ERR
    STOP = columns.LAG_STOP
    STALL = columns.LAG_STALL
    REWIND = columns.LAG_REWIND


def of_group(worst: int) -> LagVerdict:
    """The verdict on a group, from the highest number among those of its partitions."""
    return LagVerdict(min(worst, LagVerdict.ERR))


class PartitionLag(NamedTuple):
    """The lag of a group in a partition. Without a known end, `end_offset` and `lag` are -1."""

    topic: bytes
    partition: int
    offset: int
    end_offset: int
    lag: int
    verdict: LagVerdict


class JudgedLag(NamedTuple):
    """The verdict on a group, and its lag: the sum over the partitions with a known end.

    `lag` is None if no end is known.
    """

    verdict: LagVerdict = LagVerdict.UNKNOWN
    lag: int | None = None

    def joined(self, other: JudgedLag) -> JudgedLag:
        """The lag of the partitions of both. They have no partition in common."""
        lags = [each for each in (self.lag, other.lag) if each is not None]
        return JudgedLag(max(self.verdict, other.verdict), _summed(lags))


def _summed(lags: list[int]) -> int | None:
    return min(sum(lags), _LAG_MAX) if lags else None


class LagJudge:
    """Judges at one moment, by windows of one length. For the thread that changes the table."""

    def __init__(self, now_ms: int, window_ms: int) -> None:
        self._now_ms = now_ms
        self._window_ms = window_ms
        self._samples = np.empty((columns.SAMPLES_MAX + 1, columns.SAMPLE_COLUMNS), np.int64)

    def lags(self, offsets: OffsetTable, entries: Int64s) -> Int64s:
        """A row of the columns LAG_ROW for each entry."""
        lags = np.empty((entries.size, columns.LAG_ROW_COLUMNS), np.int64)
        terms = self._now_ms, self._window_ms, self._samples
        judge_lags(offsets.arrays, np.ascontiguousarray(entries), *terms, lags)
        return lags

    def partition_lags(self, offsets: OffsetTable, entries: Int64s) -> list[PartitionLag]:
        """The lag of each entry, as values, in their order."""
        places = offsets.partitions_of(entries)
        return [
            PartitionLag(topic, partition, offset, end, lag, LagVerdict(verdict))
            for (topic, partition), (verdict, offset, end, lag) in zip(
                places, self.lags(offsets, entries).tolist(), strict=True
            )
        ]

    def group_lag(self, offsets: OffsetTable, entries: Int64s) -> JudgedLag:
        """The lag of the group that has these entries."""
        rows = self.lags(offsets, entries)
        lags = [each for each in rows[:, columns.LAG_ROW_LAG].tolist() if each >= 0]
        worst = int(rows[:, columns.LAG_ROW_VERDICT].max(initial=0))
        return JudgedLag(of_group(worst), _summed(lags))

    def judge_part(self, offsets: OffsetTable, part: TablePart, rows_max: int) -> None:
        """Judges about this many further rows of a table, and adds the verdicts to the part."""
        terms = rows_max, self._now_ms, self._window_ms, self._samples
        judge_blocks(offsets.arrays, part.cursor, *terms, part.worst, part.counts)


class TablePart:
    """The judged part of a table: the worst verdict by the row of the group's name, and counts."""

    def __init__(self, offsets: OffsetTable) -> None:
        self.cursor = np.zeros(1, np.int64)
        self.worst: Bytes = np.zeros(offsets.name_rows, np.uint8)
        self.counts = np.zeros(columns.LAG_VERDICTS, np.int64)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left of the table."""
        return bool(self.cursor[0] < 0)


def entries_from(offsets: OffsetTable, group_id: bytes, cursor: Int64s, found: Int64s) -> Int64s:
    """Some entries of a group, from the block `cursor[0]` on; moves it, to -1 at the end."""
    group = offsets.group_row(group_id)
    if group < 0:
        cursor[0] = -1
        return found[:0]
    return found[: list_from(offsets.arrays, group, cursor, found)]
