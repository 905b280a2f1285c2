"""Verdicts on lag: by cases, against Burrow's documented rules, and of commits to a shard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsetd_coordinator.kernels import columns
from offsetd_coordinator.kernels.table.lag_verdicts import judge_samples
from offsetd_coordinator.state.lag_judge import LagJudge, LagVerdict, TablePart, of_group
from shards import NOW_MS, ask, commit, entry, new_shard

if TYPE_CHECKING:
    from offsetd_coordinator.shard.shard import Shard

pytestmark = pytest.mark.kernel

OK, WARN, ERR = LagVerdict.OK, LagVerdict.WARN, LagVerdict.ERR
STOP, STALL, REWIND = LagVerdict.STOP, LagVerdict.STALL, LagVerdict.REWIND
UNKNOWN = LagVerdict.UNKNOWN

WINDOW_MS: Final = 600_000
MINUTE_MS: Final = 60_000


class Sample(NamedTuple):
    """What a consumer had committed at a time, and its lag then."""

    offset: int
    time_ms: int
    lag: int


def every_minute(*states: tuple[int, int]) -> list[Sample]:
    """Samples of (offset, lag)."""
    return [Sample(offset, at * MINUTE_MS, lag) for at, (offset, lag) in enumerate(states)]


def judged(samples: list[Sample], *, after_ms: int = 0, is_complete: bool = True) -> LagVerdict:
    """The verdict, some time after the last sample."""
    rows = np.array([(each.offset, each.time_ms, each.lag) for each in samples], np.int64)
    now_ms = samples[-1].time_ms + after_ms
    return LagVerdict(judge_samples(rows, len(rows), is_complete, now_ms, WINDOW_MS))


def by_burrow(samples: list[Sample], now_ms: int) -> LagVerdict:
    """The rules of Burrow's page on evaluation, as they are told there, one after the other."""
    offsets = [each.offset for each in samples]
    lags = [each.lag for each in samples]
    if lags[-1] == 0:
        return OK
    first_ms, last_ms = samples[0].time_ms, samples[-1].time_ms
    if now_ms - last_ms > last_ms - first_ms:
        return STOP
    falls = [at for at in range(1, len(offsets)) if offsets[at] < offsets[at - 1]]
    if falls and max(offsets[falls[0] :]) < offsets[falls[0] - 1]:
        return REWIND
    if 0 in lags:
        return OK
    if len(set(offsets)) == 1:
        return STALL
    return WARN if lags == sorted(lags) else OK


@pytest.mark.parametrize(
    ("states", "after_ms", "verdict"),
    [
        pytest.param([(n, 0) for n in range(11)], 0, OK, id="no lag"),
        pytest.param([(n, 0) for n in range(11)], 10**9, OK, id="no lag, and it has ended"),
        pytest.param([(n, 5 - n % 2) for n in range(11)], 0, OK, id="the lag falls at times"),
        pytest.param([(n, 5 + n) for n in range(11)], 0, WARN, id="the lag grows"),
        pytest.param([(n, 5) for n in range(11)], 0, WARN, id="the lag stays"),
        pytest.param([(7, 5 + n) for n in range(11)], 0, STALL, id="the offset does not move"),
        pytest.param([(7, 0)] + [(7, n) for n in range(10)], 0, OK, id="there was no lag"),
        pytest.param([(n, 5) for n in range(11)], 600_001, STOP, id="longer than the window"),
        pytest.param([(n, 5) for n in range(11)], 600_000, WARN, id="as long as the window"),
        pytest.param([(n, n) for n in range(11)], 600_001, STOP, id="it stopped after no lag"),
        pytest.param([(n, 1) for n in range(10)] + [(3, 9)], 0, REWIND, id="it fell"),
        pytest.param([(n, 0) for n in range(10)] + [(3, 9)], 0, REWIND, id="it fell from the end"),
        pytest.param([(9, 1), (3, 7), (9, 1)] + [(9, 1)] * 8, 0, OK, id="it fell and came back"),
        pytest.param([(9, 1), (3, 7), (8, 9)] + [(8, 9)] * 8, 0, REWIND, id="it is almost back"),
    ],
)
def test_each_rule_by_cases(
    states: list[tuple[int, int]], after_ms: int, verdict: LagVerdict
) -> None:
    samples = every_minute(*states)
    assert judged(samples, after_ms=after_ms) is verdict
    assert by_burrow(samples, samples[-1].time_ms + after_ms) is verdict


_NUMBERS: Final = st.integers(0, 4)


@given(
    st.lists(st.tuples(_NUMBERS, st.integers(0, 3), _NUMBERS), min_size=1, max_size=11),
    st.integers(0, 40),
)
def test_a_full_window_is_judged_as_burrow_says(
    steps: list[tuple[int, int, int]], after: int
) -> None:
    samples, time_ms = [], 0
    for offset, wait, lag in steps:
        time_ms += wait
        samples.append(Sample(offset, time_ms, lag))
    assert judged(samples, after_ms=after) is by_burrow(samples, time_ms + after)


@pytest.mark.parametrize(("after_ms", "verdict"), [(WINDOW_MS, OK), (WINDOW_MS + 1, STOP)])
def test_a_window_that_is_not_full_says_only_that_a_consumer_stopped(
    after_ms: int, verdict: LagVerdict
) -> None:
    stalled_and_rewound = every_minute((9, 1), (3, 7), (3, 8))
    assert judged(stalled_and_rewound, after_ms=after_ms, is_complete=False) is verdict


@pytest.mark.parametrize(
    ("worst", "verdict"),
    [(UNKNOWN, UNKNOWN), (OK, OK), (WARN, WARN), (STOP, ERR), (STALL, ERR), (REWIND, ERR)],
)
def test_a_group_is_ok_warned_of_or_in_error(worst: LagVerdict, verdict: LagVerdict) -> None:
    assert of_group(worst) is verdict


class Consumer:
    """Commits of one group to a shard that keeps lag, at times of the test's clock."""

    def __init__(self, shard: Shard, group_id: str = "g") -> None:
        self.shard = shard
        self.group_id = group_id
        self.now_ms = NOW_MS

    def commits(
        self, offset: int, end: int | None, *, partition: int = 0, every_s: int = 60
    ) -> None:
        """One commit, after a wait."""
        self.now_ms += 1000 * every_s
        more = {} if end is None else {"end_offset": end}
        request = commit(self.group_id, entry("t", partition, offset, **more))
        assert ask(self.shard, request, self.now_ms).refusal is None

    def verdict(self, after_ms: int = 0) -> LagVerdict:
        """The verdict on the group, some time after its last commit."""
        offsets = self.shard.offsets
        judge = LagJudge(self.now_ms + after_ms, WINDOW_MS)
        entries = offsets.entries_of(self.group_id.encode())
        return max(each.verdict for each in judge.partition_lags(offsets, entries))


def judging_shard() -> Shard:
    shard = new_shard()
    shard.keep_lag_of(WINDOW_MS)
    return shard


def windows(shard: Shard) -> int:
    return int(shard.offsets.counters[columns.WINDOW_COUNT])


def test_a_consumer_that_stands_still_stalls_once_the_window_is_full() -> None:
    consumer = Consumer(judging_shard())
    for minute in range(9):
        consumer.commits(5, 10 + minute)
        assert consumer.verdict() is OK
    consumer.commits(5, 30)
    assert consumer.verdict() is STALL
    consumer.commits(6, 40)
    assert consumer.verdict() is WARN
    consumer.commits(36, 41)
    assert consumer.verdict() is OK


def test_a_consumer_that_commits_often_is_judged_by_the_same_time_as_one_that_commits_rarely() -> (
    None
):
    consumer = Consumer(judging_shard())
    for second in range(500):
        consumer.commits(5, 10 + second, every_s=1)
    assert consumer.verdict() is OK
    for second in range(100):
        consumer.commits(5, 1000 + second, every_s=1)
    assert consumer.verdict() is STALL


def test_a_consumer_with_lag_stops_after_the_window_and_one_without_never() -> None:
    behind, up_to_date = Consumer(judging_shard()), Consumer(judging_shard())
    behind.commits(5, 6)
    up_to_date.commits(6, 6)
    assert behind.verdict(WINDOW_MS) is OK
    assert behind.verdict(WINDOW_MS + 1) is STOP
    assert up_to_date.verdict(10 * WINDOW_MS) is OK


def test_a_rewound_consumer_is_told_until_it_has_come_back() -> None:
    consumer = Consumer(judging_shard())
    for minute in range(10):
        consumer.commits(100 + minute, 100 + minute)
    consumer.commits(20, 110)
    assert consumer.verdict() is REWIND
    consumer.commits(108, 110)
    assert consumer.verdict() is REWIND
    consumer.commits(109, 110)
    assert consumer.verdict() is OK


def test_a_commit_that_reports_no_end_still_says_that_the_consumer_lives() -> None:
    consumer = Consumer(judging_shard())
    consumer.commits(5, 20)
    consumer.commits(6, None, every_s=500)
    assert consumer.verdict(WINDOW_MS) is OK
    consumer.commits(30, None)  # Beyond the end that is known: nothing is known any more.
    assert consumer.verdict() is UNKNOWN
    consumer.commits(31, 40)
    assert consumer.verdict() is OK


def test_a_group_without_reports_or_with_verdicts_off_has_no_verdict_and_no_window() -> None:
    silent = Consumer(judging_shard())
    silent.commits(5, None)
    off = Consumer(new_shard())
    off.commits(5, 9)
    for consumer in silent, off:
        assert consumer.verdict(10 * WINDOW_MS) is UNKNOWN
        assert windows(consumer.shard) == 0


def test_the_worst_partition_counts_and_a_whole_table_is_judged_alike() -> None:
    shard = judging_shard()
    good, bad = Consumer(shard, "good"), Consumer(shard, "bad")
    for minute in range(10):
        good.commits(minute, minute)
        for partition in range(200):
            wait_s = 0 if partition else 60
            bad.commits(
                7 if partition == 130 else minute, minute + 8, partition=partition, every_s=wait_s
            )
    assert good.verdict() is OK
    assert bad.verdict() is STALL
    part, judge = TablePart(shard.offsets), LagJudge(bad.now_ms, WINDOW_MS)
    turns = 0
    while not part.is_whole:
        judge.judge_part(shard.offsets, part, 100)
        turns += 1
    assert turns >= 2
    assert part.counts.tolist() == [0, 1, 199, 0, 0, 1, 0]
    rows = {group: shard.offsets.group_row(group) for group in (b"good", b"bad")}
    assert {group: part.worst[row] for group, row in rows.items()} == {b"good": OK, b"bad": STALL}


def test_the_lag_of_each_partition_is_what_was_reported() -> None:
    shard = judging_shard()
    consumer = Consumer(shard)
    consumer.commits(5, 20, partition=3)
    consumer.commits(6, None, partition=4)
    judge, entries = LagJudge(consumer.now_ms, WINDOW_MS), shard.offsets.entries_of(b"g")
    assert sorted(judge.partition_lags(shard.offsets, entries)) == [
        (b"t", 3, 5, 20, 15, OK),
        (b"t", 4, 6, -1, -1, UNKNOWN),
    ]


def test_windows_are_freed_with_their_offsets_and_begin_anew() -> None:
    shard = judging_shard()
    for round_ in range(3):
        consumer = Consumer(shard)
        for minute in range(12):
            for partition in range(500 if minute == 0 else 1):
                consumer.commits(5, 9, partition=partition, every_s=0 if partition else 60)
        assert windows(shard) == 500
        assert consumer.verdict() is STALL, f"round {round_}"
        for partition in range(500):
            shard.offsets.remove(b"g", b"t", partition)
        assert windows(shard) == 0
    assert shard.offsets.counters[columns.WINDOW_END] == 500


def test_a_lag_beyond_31_bits_is_a_large_lag() -> None:
    consumer = Consumer(judging_shard())
    for minute in range(10):
        consumer.commits(minute, 2**62)
    assert consumer.verdict() is WARN
