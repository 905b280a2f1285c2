"""How many commits groups make, as far as can be told in bounded memory, and how many they may."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest
from offsetd_coordinator.administration.audit import AuditEvent
from offsetd_coordinator.configuration.config_state import UpdateConfig
from offsetd_coordinator.configuration.dynamic_settings import CommitGuardConfig
from offsetd_coordinator.errors import CommitRateExceeded
from offsetd_coordinator.runtime.commit_guards import (
    WINDOW_MS,
    CommitGuards,
    CommitQuota,
    GroupActivity,
)
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.simulated_files import SimulatedFiles
from serving_nodes import ServingNode, serving_node

if TYPE_CHECKING:
    from collections.abc import Sequence

BEGIN_MS = 10 * WINDOW_MS


def activity_of(commits: Sequence[bytes], *, top_max: int = 20, at_once: int = 1) -> GroupActivity:
    """What is counted of these commits, all in the window that begins at BEGIN_MS."""
    activity = GroupActivity()
    activity.top_max = top_max
    for start in range(0, len(commits), at_once):
        several = commits[start : start + at_once]
        if at_once == 1:
            activity.note(several[0], BEGIN_MS)
        else:
            activity.note_all(iter(several), BEGIN_MS)
    return activity


def taken(quota: CommitQuota, now_ms: int, count: int, group_id: bytes = b"g") -> int:
    """How many of so many commits at once are let through."""
    through = 0
    for _ in range(count):
        try:
            quota.take(group_id, now_ms)
        except CommitRateExceeded:
            continue
        through += 1
    return through


def test_the_groups_with_most_commits_are_told_once_their_window_is_whole() -> None:
    activity = activity_of([b"b"] * 3 + [b"a"] * 5 + [b"c"], top_max=2)
    assert activity.top(BEGIN_MS + WINDOW_MS - 1) == []
    assert activity.top(BEGIN_MS + WINDOW_MS) == [(b"a", 5), (b"b", 3)]


def test_commits_that_are_counted_together_count_as_one_by_one() -> None:
    random = Random(1)
    commits = [b"%d" % random.randrange(1900) for _ in range(5000)] + [b"x" * 255, b"x" * 300] * 99
    random.shuffle(commits)
    alone, together = activity_of(commits), activity_of(commits, at_once=300)
    assert together.top(BEGIN_MS + WINDOW_MS) == alone.top(BEGIN_MS + WINDOW_MS)
    together.note_all([b"a", b"b", b"a"], BEGIN_MS + WINDOW_MS)
    assert together.top(BEGIN_MS + 2 * WINDOW_MS) == [(b"a", 2), (b"b", 1)]


@pytest.mark.parametrize("next_commit_ms", [0, 1, WINDOW_MS - 1])
def test_a_group_that_falls_out_of_the_top_has_no_figures(next_commit_ms: int) -> None:
    activity = activity_of([b"a"] * 5)
    activity.note(b"b", BEGIN_MS + WINDOW_MS + next_commit_ms)
    assert activity.top(BEGIN_MS + 2 * WINDOW_MS - 1) == [(b"a", 5)]
    assert activity.top(BEGIN_MS + 2 * WINDOW_MS) == [(b"b", 1)]
    assert activity.top(BEGIN_MS + 3 * WINDOW_MS) == []


def test_after_a_silence_nothing_old_is_told() -> None:
    activity = activity_of([b"a"])
    activity.note(b"b", BEGIN_MS + 7 * WINDOW_MS)
    assert activity.top(BEGIN_MS + 7 * WINDOW_MS) == []


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 300])
@pytest.mark.parametrize("seed", range(5))
def test_of_more_groups_than_are_counted_a_large_one_is_never_missed(
    seed: int, at_once: int
) -> None:
    random = Random(seed)
    commits = [b"%d" % random.randrange(30_000) for _ in range(40_000)]
    for large in range(300):
        commits += [b"large-%d" % large] * large
    random.shuffle(commits)
    activity = activity_of(commits, at_once=at_once)
    top = activity.top(BEGIN_MS + WINDOW_MS)
    assert len(top) == 20
    assert len(activity._counts) <= 2000
    made, missed_max = Counter(commits), len(commits) / 1000
    for group_id, commits_made in made.items():
        told = activity._counts[group_id]
        assert commits_made - missed_max <= told <= commits_made, group_id
    assert all(made[each.group_id] >= 300 - 20 - missed_max for each in top)


def test_long_group_ids_are_cut_and_counted_together() -> None:
    activity = activity_of([b"g" * 257, b"g" * 300, b"g" * 255])
    assert activity.top(BEGIN_MS + WINDOW_MS) == [(b"g" * 256, 2), (b"g" * 255, 1)]


@pytest.mark.parametrize(("rate", "burst", "at_once"), [(5, 0, 5), (5, 1, 1), (1, 10, 10)])
def test_a_burst_is_let_through_and_then_the_rate(rate: int, burst: int, at_once: int) -> None:
    quota = CommitQuota()
    quota.configure(rate=rate, burst=burst)
    assert taken(quota, BEGIN_MS, 100) == at_once
    assert quota.refusals == 100 - at_once
    through = sum(taken(quota, BEGIN_MS + ms, 1) for ms in range(1, 10_001))
    assert abs(through - 10 * rate) <= 1
    assert taken(quota, BEGIN_MS + 100_000, 100) == at_once, "after a rest, all of it again"


def test_who_comes_again_when_it_is_told_is_let_through() -> None:
    quota = CommitQuota()
    quota.configure(rate=3, burst=2)
    assert taken(quota, BEGIN_MS, 2) == 2
    with pytest.raises(CommitRateExceeded) as caught:
        quota.take(b"g", BEGIN_MS)
    wait_ms = caught.value.retry_after_ms
    assert wait_ms == 334
    assert caught.value.variables["group"] == "g"
    assert taken(quota, BEGIN_MS + wait_ms, 5) == 1


def test_each_group_has_a_bucket_of_its_own() -> None:
    quota = CommitQuota()
    quota.configure(rate=2, burst=0)
    for group_id in (b"a", b"b", b"l" * 1000, b"l" * 1001):
        assert taken(quota, BEGIN_MS, 10, group_id) == 2


def test_idle_groups_are_forgotten_and_the_others_bounded() -> None:
    quota = CommitQuota()
    quota.configure(rate=1, burst=2)
    for number in range(5000):
        quota.take(b"%d" % number, BEGIN_MS)
    assert len(quota._buckets) == 5000
    for second in range(2, 2600):
        quota.take(b"busy", BEGIN_MS + second * 1000)
    assert len(quota._buckets) == 1
    for number in range(70_000):
        quota.take(b"%d" % number, BEGIN_MS)
    assert len(quota._buckets) == 65_536


def test_settings_hold_from_the_moment_they_are_set() -> None:
    guards = CommitGuards()
    for _ in range(100):
        guards.admit(b"g", BEGIN_MS)
    assert len(guards.quota._buckets) == 0
    guards.configure(CommitGuardConfig(rate_max=2, top_groups_max=1))
    guards.admit(b"g", BEGIN_MS)
    guards.admit(b"g", BEGIN_MS)
    with pytest.raises(CommitRateExceeded):
        guards.admit(b"g", BEGIN_MS)
    guards.configure(CommitGuardConfig())
    guards.admit(b"g", BEGIN_MS)
    assert guards.activity.top(BEGIN_MS + WINDOW_MS) == [(b"g", 4)], "refused ones count, too"


def unchanged_ms_of(node: ServingNode) -> set[int]:
    return {shard.unchanged_ms for shard in node.runtime.shards.values()}


async def test_what_is_set_while_a_server_runs_guards_the_next_one_too() -> None:
    texts = {"commit.unchanged.suppress.ms": "6000", "group.commit.rate.max": "3"}
    change = UpdateConfig(topic=None, changes=texts)
    event = AuditEvent(time_ms=0, method="UpdateConfig", topic=None, what={})
    files, clock = SimulatedFiles(), ManualClock()
    for is_set_before in (False, True):
        async with serving_node(files=files, clock=clock) as node:
            assert unchanged_ms_of(node) == {6000 if is_set_before else 0}
            assert node.runtime.commit_guards.quota.is_on is is_set_before
            assert node.runtime.commit_guards.activity.top_max == 20
            await node.administration.update_config(change, event)
            assert unchanged_ms_of(node) == {6000}
            assert node.runtime.commit_guards.quota.is_on
