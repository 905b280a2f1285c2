"""Runs: what is stored, what is refused, and that a kill anywhere changes nothing of that."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from migrations import T0_MS, FakeSource, FakeTarget, Killed, KillSwitch, found
from offsetd_clients import Bounds, GroupNotEmpty, TopicPartition, Unavailable
from offsetd_clients.errors import Failure
from offsetd_clients.migration.differences import State
from offsetd_clients.migration.migration_journal import Journal, Step
from offsetd_clients.migration.outcomes import GroupOutcome, MigrationStopped, Outcome
from offsetd_clients.migration.plan_file import Plan, write_plan
from offsetd_clients.migration.rates import RateLimit
from offsetd_clients.migration.run import RunOptions, run
from offsetd_clients.migration.selection import Selection
from offsetd_clients.migration.undo import undo
from offsetd_clients.migration.values import FoundGroup, Problem, ProblemKind

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from offsetd_clients.migration.target import Stored

PROBLEM = Problem(kind=ProblemKind.BAD_VALUE, where="/z", detail="no offset", group_id="bad")
GROUPS = [
    FoundGroup(group_id="a", offsets=(found("t", 0, 10, metadata="m"), found("t", 1, 20))),
    FoundGroup(group_id="bad", offsets=(found("t", 0, 1),), problems=(PROBLEM,)),
    FoundGroup(group_id="b", offsets=(found("u", 3, 30, time_ms=T0_MS - 5),)),
    FoundGroup(group_id="none", offsets=()),
]
WHOLE = {
    "a": {"t:0": (10, "m", T0_MS), "t:1": (20, "", T0_MS)},
    "b": {"u:3": (30, "", T0_MS - 5)},
}


def plan_of(folder: Path, groups: list[FoundGroup] | None = None) -> Plan:
    path = folder / "plan"
    write_plan(path, FakeSource(list(groups or GROUPS)), Selection(), created_ms=0)
    return Plan.open(path)


def ran(plan: Plan, target: FakeTarget, **options: Any) -> dict[str, GroupOutcome]:
    chosen = RunOptions(**{"execute": True, "now_ms": lambda: T0_MS, **options})
    with Journal.open(plan.path, plan.plan_id) as journal:
        outcomes = run(plan, journal, target, chosen, RateLimit(None))  # type: ignore[arg-type]
        return {each.group_id: each for each in outcomes}


def undone(plan: Plan, target: FakeTarget, *, execute: bool = True) -> dict[str, GroupOutcome]:
    with Journal.open(plan.path, plan.plan_id) as journal:
        outcomes = undo(plan, journal, target, execute=execute)  # type: ignore[arg-type]
        return {each.group_id: each for each in outcomes}


def of_all(outcomes: dict[str, GroupOutcome]) -> dict[str, Outcome]:
    return {group_id: each.outcome for group_id, each in outcomes.items()}


def test_groups_are_stored_with_their_commit_times_and_those_with_problems_are_not(
    tmp_path: Path,
) -> None:
    plan, target = plan_of(tmp_path), FakeTarget()
    outcomes = ran(plan, target)
    assert of_all(outcomes) == {
        "a": Outcome.MIGRATED,
        "bad": Outcome.REFUSED,
        "b": Outcome.MIGRATED,
        "none": Outcome.ALREADY,
    }
    assert "/z: bad-value" in outcomes["bad"].problem
    assert target.offsets() == WHOLE
    assert target.retentions == {"a": "never", "b": "never"}
    assert set(of_all(ran(plan, target)).values()) == {Outcome.ALREADY, Outcome.REFUSED}
    assert len(target.request_ids) == 2


def test_a_group_that_has_a_retention_of_its_own_keeps_it(tmp_path: Path) -> None:
    plan, target = plan_of(tmp_path), FakeTarget()
    target.retentions = {"a": timedelta(days=3), "b": None}
    ran(plan, target)
    assert target.retentions == {"a": timedelta(days=3), "b": "never"}
    undone(plan, target)
    assert target.retentions == {"a": timedelta(days=3), "b": None}


@pytest.mark.parametrize("execute", [False, True])
@pytest.mark.parametrize(
    ("retentions", "options"),
    [
        pytest.param({"a": timedelta(days=7)}, {}, id="the group's own"),
        pytest.param({}, {"retention": timedelta(days=7)}, id="the run's"),
        pytest.param({}, {"retention": None}, id="the server's, as the run says"),
        pytest.param({}, {"sets_retention": False}, id="the server's, as it is"),
    ],
)
def test_a_group_of_which_an_offset_would_expire_at_once_is_refused(
    tmp_path: Path, retentions: dict[str, Any], options: dict[str, Any], *, execute: bool
) -> None:
    week_ms = 7 * 24 * 3_600_000
    groups = [
        FoundGroup(group_id="a", offsets=(found("t", 0, 1, time_ms=T0_MS), found("t", 1, 2))),
        FoundGroup(group_id="b", offsets=(found("t", 0, 3, time_ms=T0_MS + 1),)),
        FoundGroup(group_id="c", offsets=(attrs.evolve(found("t", 0, 4), commit_time_ms=None),)),
    ]
    target = FakeTarget(retentions=dict(retentions), server_retention=timedelta(days=7))
    options |= {"execute": execute, "now_ms": lambda: T0_MS + week_ms}
    outcomes = ran(plan_of(tmp_path, groups), target, **options)
    assert outcomes["a"].problem == (
        "2 offsets would expire at once, kept for 7 days, 0:00:00:"
        " t:0 is of 2023-11-14 22:13:20+00:00; t:1 is of 2023-11-14 22:13:20+00:00"
    )
    done = Outcome.MIGRATED if execute else Outcome.WOULD_MIGRATE
    assert of_all(outcomes) == {"a": Outcome.REFUSED, "b": done, "c": done}
    assert "a" not in target.offsets()


def test_a_dry_run_changes_nothing_and_says_what_would_be(tmp_path: Path) -> None:
    plan, target = plan_of(tmp_path), FakeTarget()
    outcomes = ran(plan, target, execute=False)
    assert (outcomes["a"].outcome, outcomes["a"].offset_count) == (Outcome.WOULD_MIGRATE, 2)
    assert (target.groups, target.retentions) == ({}, {})
    with Journal.open(plan.path, plan.plan_id) as journal:
        assert journal.newest_step("a") is None


def test_what_was_found_of_a_group_with_problems_is_moved_if_that_is_asked_for(
    tmp_path: Path,
) -> None:
    plan, target = plan_of(tmp_path), FakeTarget()
    assert ran(plan, target, allow_partial=True)["bad"].outcome is Outcome.MIGRATED
    assert target.offsets()["bad"] == {"t:0": (1, "", T0_MS)}


@pytest.mark.parametrize(
    ("stored", "state"), [(5, State.BEHIND), (50, State.AHEAD), (10, State.CONFLICT)]
)
def test_what_somebody_stored_here_stays_unless_it_may_be_overwritten(
    tmp_path: Path, stored: int, state: State
) -> None:
    plan, target = plan_of(tmp_path), FakeTarget()
    target.commit("a", "t", 0, stored, time_ms=1)
    outcome = ran(plan, target)["a"]
    assert outcome.outcome is Outcome.REFUSED
    assert f"t:0 is {state} here: {stored}, not 10" in outcome.problem
    assert target.offsets()["a"] == {"t:0": (stored, "", 1)}
    for other in (State.BEHIND, State.AHEAD, State.CONFLICT):
        if other is not state:
            refused = ran(plan, target, overwrite=frozenset({other}))["a"]
            assert refused.outcome is Outcome.REFUSED
    assert ran(plan, target, overwrite=frozenset({state}))["a"].outcome is Outcome.MIGRATED
    assert target.offsets()["a"] == WHOLE["a"]


def test_an_offset_that_its_partition_has_not_is_refused_and_never_moved_to_the_nearest(
    tmp_path: Path,
) -> None:
    plan, target = plan_of(tmp_path), FakeTarget()
    target.known_bounds = {TopicPartition("t", 1): Bounds(0, 19)}
    outcomes = ran(plan, target, check_bounds=True, overwrite=frozenset(State))
    assert outcomes["a"].outcome is Outcome.REFUSED
    assert "t:1 has no 20: it has 0 to 19" in outcomes["a"].problem
    assert "a" not in target.offsets()


def test_a_groups_own_refusal_stops_no_other_and_all_else_stops_the_run(tmp_path: Path) -> None:
    plan, target = plan_of(tmp_path), FakeTarget()
    failure = Failure(code="FAILED_PRECONDITION", reason="NON_EMPTY_GROUP", message="members")
    target.refusals["a"] = GroupNotEmpty(failure)
    outcomes = ran(plan, target)
    assert outcomes["a"].problem == "NON_EMPTY_GROUP: members"
    assert outcomes["b"].outcome is Outcome.MIGRATED
    target = FakeTarget()
    target.refusals["b"] = Unavailable(Failure(code="UNAVAILABLE", message="gone"))
    (tmp_path / "other").mkdir()
    plan = plan_of(tmp_path / "other")
    with pytest.raises(MigrationStopped, match="at group 'b'"):
        ran(plan, target)
    assert set(target.offsets()) == {"a"}  # Whole, and the rest not at all.
    del target.refusals["b"]
    assert of_all(ran(plan, target))["b"] is Outcome.MIGRATED
    assert target.offsets() == WHOLE


def test_killed_at_any_point_and_run_again_it_ends_in_the_same_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in count(1):
        folder = tmp_path / str(at)
        folder.mkdir()
        plan, target = plan_of(folder), FakeTarget()
        target.commit("a", "t", 1, 7)
        with monkeypatch.context() as patched:
            target.kills = KillSwitch(at)
            target.kills.watch_journal(patched)
            try:
                ran(plan, target, overwrite=frozenset({State.BEHIND}))
            except Killed:
                pass
            else:
                assert at > 20, "there are some points to be killed at"
                return
        target.kills = KillSwitch()
        for each in target.offsets().values():
            assert each.keys() in ({"t:0", "t:1"}, {"t:1"}, {"u:3"}), (
                "a group is whole or as it was"
            )
        ran(plan, target, overwrite=frozenset({State.BEHIND}))
        assert target.offsets() == WHOLE
        assert target.retentions == {"a": "never", "b": "never"}
        undone(plan, target)
        assert target.offsets() == {"a": {"t:1": (7, "", T0_MS)}}
        assert target.retentions == {"a": None}


def test_what_was_undone_may_be_run_again_at_once(tmp_path: Path) -> None:
    plan, target = plan_of(tmp_path), FakeTarget()
    ran(plan, target)
    assert of_all(undone(plan, target, execute=False))["a"] is Outcome.WOULD_UNDO
    assert target.offsets() == WHOLE
    assert of_all(undone(plan, target))["a"] is Outcome.UNDONE
    assert (target.offsets(), target.retentions) == ({}, {})
    assert of_all(undone(plan, target))["a"] is Outcome.ALREADY
    assert of_all(ran(plan, target))["a"] is Outcome.MIGRATED
    assert target.offsets() == WHOLE
    # A server that remembers the first request would answer, and store nothing.
    assert len(set(target.request_ids)) == len(target.request_ids) == 4


def test_what_somebody_wrote_since_is_not_undone(tmp_path: Path) -> None:
    plan, target = plan_of(tmp_path), FakeTarget()
    ran(plan, target)
    target.commit("a", "t", 0, 11)
    outcomes = undone(plan, target)
    assert outcomes["a"].outcome is Outcome.REFUSED
    assert "t:0" in outcomes["a"].problem
    assert (target.offsets()["a"]["t:0"][0], set(target.offsets())) == (11, {"a"})


def test_a_group_that_was_committed_to_beside_a_run_is_not_undone(tmp_path: Path) -> None:
    plan, target = plan_of(tmp_path), FakeTarget()
    ran(plan, target)
    target.commit("a", "other", 0, 1)
    for execute in (False, True):
        outcome = undone(plan, target, execute=execute)["a"]
        assert outcome.outcome is Outcome.REFUSED
        assert "1 offset written since the run, as other:0" in outcome.problem
    assert target.offsets()["a"] == {**WHOLE["a"], "other:0": (1, "", T0_MS)}


def test_what_was_there_beside_a_run_is_left_by_its_undoing_unless_written_since(
    tmp_path: Path,
) -> None:
    for name, is_written in (("left", False), ("written", True)):
        (tmp_path / name).mkdir()
        plan, target = plan_of(tmp_path / name), FakeTarget()
        target.commit("a", "other", 0, 1)
        target.commit("a", "t", 1, 20)  # As planned: the run leaves it.
        ran(plan, target)
        target.delete("a", [TopicPartition("t", 0)])
        ran(plan, target)  # Another one goes on with what the first has noted.
        if is_written:
            target.commit("a", "t", 1, 20)
        assert (undone(plan, target)["a"].outcome is Outcome.REFUSED) == is_written
        if not is_written:
            others = {"other:0": (1, "", T0_MS), "t:1": (20, "", T0_MS)}
            assert target.offsets()["a"] == others


def test_a_journal_without_the_other_offsets_tells_by_the_order_of_revisions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, target = plan_of(tmp_path), FakeTarget()
    target.commit("a", "other", 0, 1)
    monkeypatch.setattr("offsetd_clients.migration.run.others_of", lambda *_: None)
    ran(plan, target)
    assert undone(plan, target, execute=False)["a"].outcome is Outcome.WOULD_UNDO
    target.commit("a", "other", 0, 2)
    assert "other:0" in undone(plan, target)["a"].problem


def test_a_group_with_members_here_is_not_undone(tmp_path: Path) -> None:
    plan, target = plan_of(tmp_path), FakeTarget()
    ran(plan, target)
    target.lease_holder = "host-1"
    outcome = undone(plan, target)["a"]
    assert (outcome.outcome, outcome.problem) == (
        Outcome.REFUSED,
        "host-1 holds its lease here",
    )
    assert target.offsets() == WHOLE


def test_a_run_that_has_nothing_to_do_hides_no_earlier_one_from_its_undoing(
    tmp_path: Path,
) -> None:
    plan, target = plan_of(tmp_path), FakeTarget()
    ran(plan, target)
    with Journal.open(plan.path, plan.plan_id) as journal:
        for step in (Step.CUTOVER, Step.ROLLBACK):
            journal.finish(journal.begin(step, "a", {}), None)
    assert ran(plan, target)["a"].outcome is Outcome.ALREADY
    with Journal.open(plan.path, plan.plan_id) as journal:
        assert journal.newest_step("a") is Step.ROLLBACK
    assert undone(plan, target)["a"].offset_count == 2
    assert (target.offsets(), target.retentions) == ({}, {})


def test_undoing_takes_back_what_all_runs_have_stored(tmp_path: Path) -> None:
    plan, target = plan_of(tmp_path), FakeTarget()
    ran(plan, target)
    for _ in range(2):
        target.delete("a", [TopicPartition("t", 1)])
        assert ran(plan, target)["a"].offset_count == 1
    outcome = undone(plan, target)["a"]
    assert (outcome.outcome, outcome.offset_count) == (Outcome.UNDONE, 2)
    assert (target.offsets(), target.retentions) == ({}, {})


def test_what_a_run_found_before_it_is_restored_also_behind_another_run(tmp_path: Path) -> None:
    plan, target = plan_of(tmp_path), FakeTarget()
    target.commit("a", "t", 0, 7)
    ran(plan, target, overwrite=frozenset({State.BEHIND}))
    target.delete("a", [TopicPartition("t", 1)])
    ran(plan, target)
    assert undone(plan, target)["a"].offset_count == 2
    assert (target.offsets(), target.retentions) == ({"a": {"t:0": (7, "", T0_MS)}}, {"a": None})


def test_a_run_behind_an_undoing_carries_nothing_of_what_was_undone(tmp_path: Path) -> None:
    plan, target = plan_of(tmp_path), FakeTarget()
    ran(plan, target)
    undone(plan, target)
    target.commit("a", "t", 1, 20)
    assert ran(plan, target)["a"].offset_count == 1
    assert undone(plan, target)["a"].offset_count == 1
    assert (target.offsets(), target.retentions) == ({"a": {"t:1": (20, "", T0_MS)}}, {"a": None})


def test_what_a_killed_run_has_stored_is_undone_without_and_behind_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in count(1):
        for is_run_again in (False, True):
            folder = tmp_path / f"{at}-{is_run_again}"
            folder.mkdir()
            plan, target = plan_of(folder), FakeTarget()
            with monkeypatch.context() as patched:
                target.kills = KillSwitch(at)
                target.kills.watch_journal(patched)
                try:
                    ran(plan, target)
                except Killed:
                    pass
                else:
                    assert at > 20, "there are some points to be killed at"
                    return
            target.kills = KillSwitch()
            if "a" in target.groups:
                target.delete("a", [TopicPartition("t", 1)])
            if is_run_again:
                ran(plan, target)
            undone(plan, target)
            assert target.offsets() == {}
            assert set(target.retentions.values()) <= {None}
            ran(plan, target)
            assert target.offsets() == WHOLE


def test_a_retention_that_somebody_has_set_since_is_left_by_an_undoing(tmp_path: Path) -> None:
    for sets_retention in (True, False):
        folder = tmp_path / str(sets_retention)
        folder.mkdir()
        plan, target = plan_of(folder), FakeTarget()
        target.retentions = {"a": None}
        ran(plan, target, sets_retention=sets_retention)
        target.retentions |= {"a": timedelta(days=3), "b": timedelta(days=4)}
        assert of_all(undone(plan, target))["b"] is Outcome.UNDONE
        assert target.offsets() == {}
        assert target.retentions == {"a": timedelta(days=3), "b": timedelta(days=4)}


def test_a_second_run_sets_no_retention_over_one_that_was_set_since(tmp_path: Path) -> None:
    plan, target = plan_of(tmp_path), FakeTarget()
    ran(plan, target)
    target.retentions["a"] = timedelta(days=3)
    target.delete("a", [TopicPartition("t", 1)])
    ran(plan, target)
    assert target.retentions["a"] == timedelta(days=3)


@pytest.mark.parametrize("partition", [3, 5])
def test_what_is_committed_while_groups_are_undone_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partition: int
) -> None:
    plan, target = plan_of(tmp_path), FakeTarget()
    ran(plan, target)
    read = FakeTarget.stored

    def stored(self: FakeTarget, group_ids: Iterable[str]) -> dict[str, Stored]:
        found = read(self, group_ids)
        if len(found) > 1:  # Many groups: until one's turn comes, some time goes by.
            self.commit("b", "u", partition, 31)
        return found

    monkeypatch.setattr(FakeTarget, "stored", stored)
    assert undone(plan, target)["b"].outcome is Outcome.REFUSED
    assert target.offsets() == {"b": {**WHOLE["b"], f"u:{partition}": (31, "", T0_MS)}}


def test_an_undoing_killed_at_any_point_and_repeated_ends_in_the_same_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in count(1):
        folder = tmp_path / str(at)
        folder.mkdir()
        plan, target = plan_of(folder), FakeTarget()
        target.commit("a", "t", 1, 7)
        ran(plan, target, overwrite=frozenset({State.BEHIND}))
        with monkeypatch.context() as patched:
            target.kills = KillSwitch(at)
            target.kills.watch_journal(patched)
            try:
                undone(plan, target)
            except Killed:
                pass
            else:
                assert at > 15, "there are some points to be killed at"
                return
        target.kills = KillSwitch()
        outcomes = undone(plan, target)
        assert not [each for each in outcomes.values() if each.problem]
        assert target.offsets() == {"a": {"t:1": (7, "", T0_MS)}}
