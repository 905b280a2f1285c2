"""offsetd_clients.migration.kafka.kafka_writes: what is written to a cluster, and what is not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from migrations import FakeSource, FakeTarget, Killed, KillSwitch, found
from offsetd_clients import Bounds, Lease, OffsetToCommit, TopicPartition
from offsetd_clients.migration.kafka.cluster import ClusterFailed, ClusterGroup, ClusterOffset
from offsetd_clients.migration.kafka.kafka_writes import (
    BackOptions,
    moves_back,
    moves_there,
    write_back,
)
from offsetd_clients.migration.migration_journal import Journal, Step
from offsetd_clients.migration.outcomes import GroupOutcome, MigrationStopped, Outcome
from offsetd_clients.migration.plan_file import Plan, write_plan
from offsetd_clients.migration.rates import RateLimit
from offsetd_clients.migration.selection import Selection
from offsetd_clients.migration.values import FoundGroup

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
GROUPS = [
    FoundGroup(group_id="a", offsets=(found("t", 0, 10), found("t", 1, 20))),
    FoundGroup(group_id="b", offsets=(found("t", 0, 30),)),
]


@attrs.define
class FakeCluster:
    """Offsets by group; what is written goes one by one, and may end in between."""

    groups: dict[str, dict[TopicPartition, int]] = attrs.field(factory=dict)
    members: dict[str, tuple[str, ...]] = attrs.field(factory=dict)
    problems: dict[str, str] = attrs.field(factory=dict)
    known_bounds: dict[TopicPartition, Bounds] = attrs.field(factory=dict)
    gone: set[TopicPartition] = attrs.field(factory=set)
    refused: set[TopicPartition] = attrs.field(factory=set)
    kills: KillSwitch = attrs.field(factory=KillSwitch)
    is_silent: bool = False
    address: str = "kafka:9092"
    writes: int = 0

    def read(self, group_ids: Iterable[str]) -> Iterator[ClusterGroup]:
        for group_id in group_ids:
            stored = sorted(self.groups.get(group_id, {}).items())
            yield ClusterGroup(
                group_id=group_id,
                members=self.members.get(group_id, ()),
                problem=self.problems.get(group_id, ""),
                offsets=tuple(
                    ClusterOffset(topic_partition=at, offset=offset, leader_epoch=None, metadata="")
                    for at, offset in stored
                ),
            )

    def bounds(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[TopicPartition, Bounds], set[TopicPartition]]:
        asked = set(partitions)
        known = {each: self.known_bounds.get(each, Bounds(0, 100)) for each in asked - self.gone}
        return known, asked & self.gone

    def set_offsets(self, group_id: str, offsets: Mapping[TopicPartition, OffsetToCommit]) -> None:
        if self.is_silent:
            raise ClusterFailed("silence", is_unreachable=True)
        for at, offset in sorted(offsets.items()):
            self.kills.point()
            if at not in self.refused:
                self.groups.setdefault(group_id, {})[at] = offset.offset
                self.writes += 1
        self.kills.point()
        if self.refused & offsets.keys():
            raise ClusterFailed("some are refused")


def plan_of(folder: Path, **renames: str) -> Plan:
    path = folder / "plan"
    write_plan(path, FakeSource(list(GROUPS)), Selection(renames=renames), created_ms=0)
    return Plan.open(path)


def target_of(**groups: dict[TopicPartition, int]) -> FakeTarget:
    target = FakeTarget()
    for group_id, offsets in groups.items():
        for at, offset in offsets.items():
            target.commit(group_id, at.topic, at.partition, offset)
    return target


def cluster_as_planned() -> FakeCluster:
    return FakeCluster(groups={"a": {P0: 10, P1: 20}, "b": {P0: 30}})


def moved_here(plan: Plan, *group_ids: str) -> None:
    """As a run leaves it."""
    note(plan, Step.RUN, *(group_ids or [each.group_id for each in plan.groups()]))


def note(plan: Plan, step: Step, *group_ids: str, is_done: bool = True) -> None:
    with Journal.open(plan.path, plan.plan_id) as journal:
        for group_id in group_ids:
            entry = journal.begin(step, group_id, None)
            if is_done:
                journal.finish(entry, None)


def target_as_planned() -> FakeTarget:
    return target_of(a={P0: 10, P1: 20}, b={P0: 30})


def rolled_back(
    plan: Plan, cluster: FakeCluster, target: FakeTarget, **options: Any
) -> dict[str, GroupOutcome]:
    ours: Any = target
    return written(plan, cluster, lambda journal: moves_back(plan, journal, ours), **options)


def moved_there(
    plan: Plan, cluster: FakeCluster, target: FakeTarget, *, force: bool = False
) -> dict[str, GroupOutcome]:
    ours: Any = target
    return written(plan, cluster, lambda _: moves_there(ours, force=force), step=Step.RUN)


def written(plan: Plan, cluster: Any, moves: Any, **options: Any) -> dict[str, GroupOutcome]:
    chosen = BackOptions(**{"execute": True, **options})
    with Journal.open(plan.path, plan.plan_id) as journal:
        outcomes = write_back(plan, journal, cluster, moves(journal), chosen, RateLimit(None))
        return {each.source_group_id: each for each in outcomes}


def test_the_cluster_gets_what_is_here_and_keeps_what_is_no_more_here(tmp_path: Path) -> None:
    plan, cluster = plan_of(tmp_path, b="renamed"), cluster_as_planned()
    moved_here(plan)
    target = target_of(a={P0: 15, TopicPartition("t", 2): 1}, renamed={P0: 35})
    outcomes = rolled_back(plan, cluster, target)
    assert {each.outcome for each in outcomes.values()} == {Outcome.ROLLED_BACK}
    assert cluster.groups == {
        "a": {P0: 15, P1: 20, TopicPartition("t", 2): 1},
        "b": {P0: 35},
    }
    assert {each.outcome for each in rolled_back(plan, cluster, target).values()} == {
        Outcome.ALREADY
    }
    assert cluster.writes == 3
    with Journal.open(plan.path, plan.plan_id) as journal:
        assert journal.newest_step("a") is Step.ROLLBACK


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    plan, cluster = plan_of(tmp_path), cluster_as_planned()
    moved_here(plan)
    outcomes = rolled_back(plan, cluster, target_of(a={P0: 15}, b={P0: 30}), execute=False)
    assert (outcomes["a"].outcome, outcomes["a"].offset_count) == (Outcome.WOULD_ROLL_BACK, 1)
    assert (outcomes["b"].outcome, cluster.writes) == (Outcome.ALREADY, 0)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"members": {"a": ("c at /h",)}}, "it has members at kafka:9092: c at /h"),
        ({"problems": {"a": "not authorized"}}, "not authorized"),
        (
            {"groups": {"a": {P0: 11}}},
            "1 offset: t:0 is 11 there, not 10 as planned",
        ),
        ({"gone": {P0}}, "1 offset: t:0 is not there"),
        ({"known_bounds": {P0: Bounds(0, 14)}}, "1 offset: t:0 has no 15: it has 0 to 14"),
        ({"known_bounds": {P0: Bounds(16, 20)}}, "1 offset: t:0 has no 15: it has 16 to 20"),
    ],
)
def test_a_group_that_something_stands_against_is_refused_as_a_whole(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    plan, cluster = plan_of(tmp_path), attrs.evolve(cluster_as_planned(), **changes)
    moved_here(plan)
    outcomes = rolled_back(plan, cluster, target_of(a={P0: 15, P1: 25}))
    assert (outcomes["a"].outcome, outcomes["a"].problem) == (Outcome.REFUSED, problem)
    assert cluster.writes == 0


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ((), "no run of this plan has moved it here"),
        (
            ((Step.RUN, False),),
            "the run of this plan has not moved it here to its end: run it again",
        ),
        (((Step.RUN, True), (Step.UNDO, True)), "its run was undone"),
    ],
)
def test_what_no_run_has_moved_here_does_not_go_to_the_cluster(
    tmp_path: Path, steps: tuple[tuple[Step, bool], ...], problem: str
) -> None:
    plan, cluster, target = plan_of(tmp_path), cluster_as_planned(), target_of(a={P0: 90})
    for step, is_done in steps:
        note(plan, step, "a", is_done=is_done)
    outcomes = rolled_back(plan, cluster, target)
    assert (outcomes["a"].outcome, outcomes["a"].problem) == (Outcome.REFUSED, problem)
    assert cluster.writes == 0
    note(plan, Step.RUN, "a")
    assert rolled_back(plan, cluster, target)["a"].outcome is Outcome.ROLLED_BACK


def test_topics_that_the_plan_leaves_out_stay_as_they_are_at_the_cluster(tmp_path: Path) -> None:
    path, other = tmp_path / "plan", TopicPartition("other", 0)
    write_plan(path, FakeSource(list(GROUPS)), Selection(exclude_topics=("other",)), created_ms=0)
    plan, cluster = Plan.open(path), cluster_as_planned()
    moved_here(plan)
    outcomes = rolled_back(plan, cluster, target_of(a={P0: 15, other: 1}))
    assert outcomes["a"].offset_count == 1
    assert cluster.groups["a"] == {P0: 15, P1: 20}


def test_what_the_cluster_lost_since_is_written_and_what_moved_there_only_if_it_may_be(
    tmp_path: Path,
) -> None:
    plan, target = plan_of(tmp_path), target_of(a={P0: 15}, b={P0: 35})
    moved_here(plan)
    cluster = FakeCluster(groups={"b": {P0: 31}})
    outcomes = rolled_back(plan, cluster, target)
    assert [each.outcome for each in outcomes.values()] == [Outcome.ROLLED_BACK, Outcome.REFUSED]
    assert rolled_back(plan, cluster, target, overwrite=True)["b"].outcome is Outcome.ROLLED_BACK
    assert cluster.groups == {"a": {P0: 15}, "b": {P0: 35}}


def test_groups_of_ours_go_only_where_nothing_else_is(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, a="new")
    cluster = FakeCluster(groups={"a": {P0: 1}, "b": {P0: 29}})
    outcomes = moved_there(plan, cluster, target_as_planned())
    assert (outcomes["a"].outcome, outcomes["b"].outcome) == (Outcome.MIGRATED, Outcome.REFUSED)
    assert outcomes["b"].problem == "1 offset: t:0 is 29 there, not absent as planned"
    assert cluster.groups == {"a": {P0: 1}, "b": {P0: 29}, "new": {P0: 10, P1: 20}}


def held(target: FakeTarget, group_id: str, monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
    """Has the group as it is, and `more`."""
    group = target.group
    monkeypatch.setattr(
        FakeTarget,
        "group",
        lambda _, asked: attrs.evolve(group(asked), **more if asked == group_id else {}),
    )


LEASE = Lease(
    holder="the-writer",
    epoch=1,
    ttl=timedelta(seconds=10),
    grant_time=datetime.fromtimestamp(0, UTC),
    expire_time=datetime.fromtimestamp(10, UTC),
)


def test_a_group_of_ours_that_somebody_holds_goes_nowhere_unless_it_must(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, cluster, target = plan_of(tmp_path, a="new"), FakeCluster(), target_as_planned()
    held(target, "a", monkeypatch, lease=LEASE)
    outcomes = moved_there(plan, cluster, target)
    assert outcomes["a"].problem == "the-writer holds its lease here"
    assert (outcomes["a"].outcome, outcomes["b"].outcome) == (Outcome.REFUSED, Outcome.MIGRATED)
    assert cluster.groups == {"b": {P0: 30}}
    assert moved_there(plan, cluster, target, force=True)["a"].outcome is Outcome.MIGRATED
    # What is there is not minded.
    assert moved_there(plan, cluster, target)["a"].outcome is Outcome.ALREADY


def test_a_group_of_ours_that_moved_on_since_is_to_be_planned_again(tmp_path: Path) -> None:
    plan, cluster, target = plan_of(tmp_path), FakeCluster(), target_as_planned()
    target.commit("a", "t", 0, 11)
    outcomes = moved_there(plan, cluster, target)
    assert outcomes["a"].problem == "plan it again: t:0 is 11 here by now"
    assert (outcomes["a"].outcome, cluster.groups) == (Outcome.REFUSED, {"b": {P0: 30}})
    assert moved_there(plan, cluster, target, force=True)["a"].outcome is Outcome.MIGRATED
    assert cluster.groups["a"] == {P0: 10, P1: 20}


def test_what_a_broker_refuses_of_a_group_is_told_and_another_try_finishes_it(
    tmp_path: Path,
) -> None:
    plan, target = plan_of(tmp_path), target_of(a={P0: 15, P1: 25}, b={P0: 35})
    moved_here(plan)
    cluster = cluster_as_planned()
    cluster.refused = {P1}
    outcomes = rolled_back(plan, cluster, target)
    assert outcomes["a"].problem == "offsets that are not written: 1 of 2: some are refused"
    assert outcomes["b"].outcome is Outcome.ROLLED_BACK
    cluster.refused = set()
    again = rolled_back(plan, cluster, target)
    assert (again["a"].outcome, again["a"].offset_count) == (Outcome.ROLLED_BACK, 1)


def test_where_nobody_answers_nothing_more_is_tried(tmp_path: Path) -> None:
    plan, cluster = plan_of(tmp_path), cluster_as_planned()
    moved_here(plan)
    cluster.is_silent = True
    with pytest.raises(MigrationStopped, match="'a'"):
        rolled_back(plan, cluster, target_of(a={P0: 15}, b={P0: 35}))


def test_killed_between_any_two_offsets_and_run_again_it_ends_in_the_same_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = target_of(a={P0: 15, P1: 25}, b={P0: 35})
    for moment in range(1, 100):
        folder = tmp_path / str(moment)
        folder.mkdir()
        plan, cluster = plan_of(folder), cluster_as_planned()
        moved_here(plan)
        cluster.kills = KillSwitch(moment)
        was_killed = False
        with monkeypatch.context() as patched:
            cluster.kills.watch_journal(patched)
            try:
                rolled_back(plan, cluster, target)
            except Killed:
                was_killed = True
        cluster.kills = KillSwitch()
        rolled_back(plan, cluster, target)
        assert cluster.groups == {"a": {P0: 15, P1: 25}, "b": {P0: 35}}, moment
        if not was_killed:
            assert moment > 10
            return
    raise AssertionError("it never came to its end")
