"""Plans: what is written is read again, and nothing but that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from migrations import FakeSource, found
from offsetd_clients.migration.migration_journal import Journal, JournalBusy, PlanBegun, Step
from offsetd_clients.migration.plan_file import BadPlan, Plan, planned_groups, write_plan
from offsetd_clients.migration.selection import Selection
from offsetd_clients.migration.values import (
    FoundGroup,
    PlannedGroup,
    Problem,
    ProblemKind,
    SourceFailed,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROBLEM = Problem(kind=ProblemKind.BAD_VALUE, where="/a", detail="é", group_id="g2")
NOBODYS = Problem(kind=ProblemKind.BAD_NAME, where="file:3", detail="no path")
GROUPS = [
    FoundGroup(
        group_id="g1",
        offsets=(found("t", 1, 5, place="/x", version=3, order=9), found("t", 0, 4, metadata="ü")),
        owners=("c1",),
    ),
    FoundGroup(group_id="g2", offsets=(), owners=None, problems=(PROBLEM,)),
]


def planned(path: Path, source: FakeSource, selection: Selection | None = None) -> Plan:
    write_plan(path, source, selection or Selection(), created_ms=7)
    return Plan.open(path)


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    selection = Selection(include=("g.",), renames={"g1": "h1"})
    plan = planned(tmp_path / "plan", FakeSource([*GROUPS, NOBODYS]), selection)
    assert list(plan.groups()) == [
        PlannedGroup(
            source_group_id="g1",
            group_id="h1",
            offsets=tuple(reversed(GROUPS[0].offsets)),  # Sorted.
            owners=("c1",),
        ),
        PlannedGroup(
            source_group_id="g2", group_id="g2", offsets=(), owners=None, problems=(PROBLEM,)
        ),
    ]
    assert list(plan.problems()) == [PROBLEM, NOBODYS]
    assert (plan.selection, plan.created_ms, plan.source.kind) == (selection, 7, "fake")
    summary = plan.summary
    assert (summary.group_count, summary.offset_count, summary.problem_count) == (2, 2, 2)


def test_two_plans_of_the_same_source_are_different_plans(tmp_path: Path) -> None:
    one, other = (planned(tmp_path / name, FakeSource(list(GROUPS))) for name in "ab")
    assert one.plan_id != other.plan_id


def test_each_changed_byte_and_each_cut_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    planned(path, FakeSource(list(GROUPS)))
    content = path.read_bytes()
    for at in range(0, len(content), 7):
        changed = bytearray(content)
        changed[at] ^= 1
        path.write_bytes(changed)
        with pytest.raises(BadPlan):
            Plan.open(path)
    for end in range(0, len(content) - 1, 11):
        path.write_bytes(content[:end])
        with pytest.raises(BadPlan):
            Plan.open(path)


def test_a_plan_of_a_later_version_is_not_guessed_at(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    planned(path, FakeSource(list(GROUPS)))
    path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":2', 1))
    with pytest.raises(BadPlan, match="version 2"):
        Plan.open(path)


def test_a_source_that_fails_leaves_no_plan_and_the_one_before_as_it_was(tmp_path: Path) -> None:
    class Failing(FakeSource):
        def groups(self) -> Iterator[FoundGroup | Problem]:
            yield GROUPS[0]
            raise SourceFailed("gone")

    path = tmp_path / "plan"
    before = planned(path, FakeSource(list(GROUPS)))
    with pytest.raises(SourceFailed):
        write_plan(path, Failing(), Selection(), created_ms=0)
    assert Plan.open(path) == before
    assert [each.name for each in tmp_path.iterdir()] == ["plan"]


def test_a_plan_that_was_begun_is_not_replaced_nor_is_its_source_read(tmp_path: Path) -> None:
    class Unread(FakeSource):
        def groups(self) -> Iterator[FoundGroup | Problem]:
            raise AssertionError("it is read")

    path = tmp_path / "plan"
    before = planned(path, FakeSource(list(GROUPS)))
    with Journal.open(path, before.plan_id) as journal:
        with pytest.raises(JournalBusy):
            write_plan(path, Unread(), Selection(), created_ms=0)
        journal.begin(Step.RUN, "g1", {})
    with pytest.raises(PlanBegun, match=r"plan\.journal says: name another file"):
        write_plan(path, Unread(), Selection(), created_ms=0)
    assert Plan.open(path) == before
    with Journal.open(path, before.plan_id) as journal:
        assert journal.newest_step("g1") is Step.RUN


def test_a_plan_that_was_only_looked_at_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    with Journal.open(path, planned(path, FakeSource(list(GROUPS))).plan_id):
        pass  # A dry run.
    with Journal.open(path, planned(path, FakeSource(list(GROUPS))).plan_id) as journal:
        assert journal.newest_step("g1") is None


def test_two_groups_do_not_become_one() -> None:
    source = FakeSource([FoundGroup(group_id=each, offsets=()) for each in ("a", "b")])
    kept, problem = planned_groups(source, Selection(renames={"a": "b"}))
    assert isinstance(kept, PlannedGroup)
    assert isinstance(problem, Problem)
    assert (kept.source_group_id, problem.kind, problem.where) == ("a", ProblemKind.DUPLICATE, "b")


def test_a_partition_that_is_there_twice_is_not_moved_and_named() -> None:
    double = FoundGroup(
        group_id="g", offsets=(found("t", 0, 1, place="/a"), found("t", 0, 2, place="/b"))
    )
    [group] = planned_groups(FakeSource([double]), Selection())
    assert isinstance(group, PlannedGroup)
    assert (group.offsets, group.problems[0].kind) == ((), ProblemKind.DUPLICATE)
    assert "/a, /b" in group.problems[0].detail


def test_topics_that_are_not_chosen_stay_behind_and_groups_of_nothing_else_with_them() -> None:
    source = FakeSource(
        [
            FoundGroup(group_id="a", offsets=(found("t", 0, 1), found("u", 0, 1))),
            FoundGroup(group_id="b", offsets=(found("u", 0, 1),)),
            FoundGroup(group_id="c", offsets=()),
        ]
    )
    groups = list(planned_groups(source, Selection(exclude_topics=("u",))))
    assert all(isinstance(each, PlannedGroup) for each in groups)
    assert [(g.group_id, len(g.offsets)) for g in groups if isinstance(g, PlannedGroup)] == [
        ("a", 1),
        ("c", 0),
    ]
