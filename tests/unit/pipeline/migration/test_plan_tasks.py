"""Files of a plan made, run and verified over a target in memory, also when killed anywhere."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pytest
from migrations import T0_MS, FakeTarget, Killed, KillSwitch
from offsetd_clients.errors import Failure, GroupRefused, OffsetdError
from offsetd_clients.migration.differences import State
from offsetd_clients.migration.rates import RateLimit
from offsetd_clients.migration.selection import Selection
from offsetd_pipeline.files import file_names, make_folder
from offsetd_pipeline.migration.plan_folder import (
    DRY_RUN,
    FOUND,
    OUTCOMES,
    PLAN,
    VERIFIED,
    PlanFolder,
)
from offsetd_pipeline.migration.plan_rows import (
    FOUND_NAMES,
    MEMBERS,
    MEMBERS_UNKNOWN,
    planned_groups,
)
from offsetd_pipeline.migration.plan_tasks import (
    UnitSession,
    UnitWork,
    plan_unit,
    run_unit,
    verify_unit,
)
from offsetd_pipeline.server_options import ServerOptions

if TYPE_CHECKING:
    from pathlib import Path

UNIT = "part-0.parquet"
FOUND_SCHEMA = pa.schema(
    [
        pa.field(
            name,
            {"partition": pa.int32(), "leader_epoch": pa.int32()}.get(
                name, pa.int64() if name in ("offset", "commit_time_ms") else pa.string()
            ),
        )
        for name in FOUND_NAMES
    ]
)


def row(group: str, topic: str, partition: int, offset: int, **more: Any) -> dict[str, Any]:
    return {
        "group": group,
        "source_group": group,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "commit_time_ms": T0_MS,
        **more,
    }


def problem(group: str, kind: str, what: str = "", place: str | None = None) -> dict[str, Any]:
    return {
        "group": group,
        "source_group": group,
        "problem_kind": kind,
        "problem": what,
        "place": place,
    }


GROUPS = [
    row("billing", "orders", 0, 42, metadata="m", leader_epoch=3),
    row("billing", "orders", 1, 7),
    row("shipping", "orders", 0, 5),
]
WHOLE = {
    "billing": {"orders:0": (42, "m", T0_MS), "orders:1": (7, "", T0_MS)},
    "shipping": {"orders:0": (5, "", T0_MS)},
}


@pytest.fixture
def folder(tmp_path: Path) -> PlanFolder:
    folder = PlanFolder(tmp_path / "moving")
    for part in (FOUND, PLAN, OUTCOMES, DRY_RUN, VERIFIED):
        make_folder(folder.path / part)
    return folder


def session(folder: PlanFolder, target: FakeTarget, **more: Any) -> UnitSession:
    work = UnitWork(
        **{
            "folder": folder,
            "server": ServerOptions(server="nowhere:1"),
            "plan_id": "p",
            "selection": Selection(),
            "overwrite": frozenset(),
            "allow_partial": False,
            "force": False,
            "has_members": False,
            "sets_retention": True,
            "retention": "never",
            "default_retention": "never",
            "retentions": {},
            "reason": "",
            "is_audited": True,
            "timeout_s": 1.0,
            **more,
        }
    )
    return UnitSession(work, target, RateLimit(None))  # type: ignore[arg-type]


def planned(
    folder: PlanFolder, target: FakeTarget, found: list[dict[str, Any]], **more: Any
) -> UnitSession:
    """The plan is made of what was found; what it runs by."""
    folder.write_rows(FOUND, UNIT, found, FOUND_SCHEMA)
    it = session(folder, target, **more)
    plan_unit(it, UNIT)
    return it


def outcomes(folder: PlanFolder, part: str = OUTCOMES) -> dict[str, tuple[str, str | None]]:
    rows = list(folder.rows(part, UNIT))
    assert len({each["group"] for each in rows}) == len(rows)
    return {each["group"]: (each["outcome"], each["problem"]) for each in rows}


def differing(it: UnitSession, *good: State) -> list[tuple[str, str]]:
    verify_unit(it, UNIT, good=frozenset({State.EQUAL, *good}))
    rows = it.work.folder.rows(VERIFIED, UNIT)
    return [
        (f"{each['group']} {each['topic']}:{each['partition']}", each["state"]) for each in rows
    ]


def test_groups_are_written_with_commit_times_and_verified(folder: PlanFolder) -> None:
    target = FakeTarget()
    it = planned(folder, target, GROUPS)
    assert len(differing(it)) == 3
    run_unit(it, UNIT, execute=False)
    assert outcomes(folder, DRY_RUN) == dict.fromkeys(WHOLE, ("would-migrate", None))
    assert target.offsets() == {}
    run_unit(it, UNIT, execute=True)
    assert outcomes(folder) == dict.fromkeys(WHOLE, ("migrated", None))
    assert target.offsets() == WHOLE
    assert target.retentions == dict.fromkeys(WHOLE, "never")
    assert differing(it) == []


def test_a_run_that_is_killed_anywhere_goes_on_and_writes_nothing_twice_or_back(
    folder: PlanFolder,
) -> None:
    points = kill_at = 0
    while kill_at <= points:
        target = FakeTarget()
        it = planned(folder, target, GROUPS)
        (folder.path / OUTCOMES / UNIT).unlink(missing_ok=True)
        target.kills = KillSwitch(kill_at)
        try:
            run_unit(it, UNIT, execute=True)
            assert kill_at == 0
            points = target.kills.passed
        except Killed:
            target.kills = KillSwitch()
        had = {group for group, stored in target.groups.items() if stored}
        if "billing" in had:
            # A consumer goes on meanwhile.
            target.commit("billing", "orders", 0, 60)
        run_unit(it, UNIT, execute=True)
        assert target.groups["shipping"].keys() == {
            each.topic_partition for each in it_puts(it, "shipping")
        }
        moved = 60 if "billing" in had else 42
        assert target.offsets()["billing"]["orders:0"][0] == moved
        assert target.offsets()["billing"]["orders:1"][0] == 7
        # Each group was written by one request, however often it was killed.
        assert len(target.request_ids) == 2
        assert set(target.request_ids) == {"migrate-p"}
        kill_at += 1
    assert points >= 4


def it_puts(it: UnitSession, group: str) -> list[Any]:
    rows = it.work.folder.rows(PLAN, UNIT)
    return [
        put.found for each in planned_groups(rows) if each.group_id == group for put in each.puts
    ]


def test_what_a_killed_run_wrote_is_found_there(folder: PlanFolder) -> None:
    target = FakeTarget()
    it = planned(folder, target, GROUPS)
    run_unit(it, UNIT, execute=True)
    (folder.path / OUTCOMES / UNIT).unlink()
    run_unit(it, UNIT, execute=True)
    assert outcomes(folder) == dict.fromkeys(WHOLE, ("already", None))
    assert len(target.request_ids) == 2


@pytest.mark.parametrize("stored", [None, 40, 42])
def test_what_was_written_there_since_the_plan_is_never_replaced(
    folder: PlanFolder, stored: int | None
) -> None:
    target = FakeTarget()
    if stored is not None:
        target.commit("billing", "orders", 0, stored)
    overwrite = frozenset({State.BEHIND, State.AHEAD, State.CONFLICT})
    it = planned(folder, target, GROUPS, overwrite=overwrite)
    target.commit("billing", "orders", 0, 50)
    run_unit(it, UNIT, execute=True)
    outcome, why = outcomes(folder)["billing"]
    assert outcome == "refused"
    assert "written here since the plan" in str(why)
    assert "orders:0 is ahead here: 50, not 42" in str(why)
    assert target.offsets()["billing"] == {"orders:0": (50, "", T0_MS)}
    assert outcomes(folder)["shipping"] == ("migrated", None)


@pytest.mark.parametrize(
    ("stored", "state"), [(41, State.BEHIND), (43, State.AHEAD), (42, State.CONFLICT)]
)
def test_what_stands_there_is_replaced_only_if_that_is_said(
    folder: PlanFolder, stored: int, state: State
) -> None:
    target = FakeTarget()
    target.commit("billing", "orders", 0, stored)
    it = planned(folder, target, GROUPS)
    run_unit(it, UNIT, execute=True)
    outcome, why = outcomes(folder)["billing"]
    assert (outcome, str(state) in str(why)) == ("refused", True)
    assert target.offsets()["billing"] == {"orders:0": (stored, "", T0_MS)}
    it = planned(folder, target, GROUPS, overwrite=frozenset({state}))
    run_unit(it, UNIT, execute=True)
    assert target.offsets() == WHOLE


def test_a_group_that_was_refused_is_tried_again_and_done_ones_are_not(
    folder: PlanFolder,
) -> None:
    target = FakeTarget()
    failure = Failure(code="FAILED_PRECONDITION", reason="GROUP_NOT_EMPTY", message="members")
    target.refusals["billing"] = GroupRefused(failure)
    it = planned(folder, target, GROUPS)
    run_unit(it, UNIT, execute=True)
    assert outcomes(folder)["billing"] == ("refused", "GROUP_NOT_EMPTY: members")
    target.refusals.clear()
    target.commit("shipping", "orders", 0, 99)
    run_unit(it, UNIT, execute=True)
    assert outcomes(folder) == dict.fromkeys(WHOLE, ("migrated", None))
    assert differing(it) == [("shipping orders:0", "ahead")]
    assert differing(it, State.AHEAD) == []


def test_an_error_that_is_no_groups_own_ends_it_and_nothing_is_noted(folder: PlanFolder) -> None:
    target = FakeTarget()
    target.refusals["shipping"] = OffsetdError(Failure(code="UNAVAILABLE", reason="", message="x"))
    it = planned(folder, target, GROUPS)
    with pytest.raises(OffsetdError):
        run_unit(it, UNIT, execute=True)
    assert folder.units(OUTCOMES) == []
    target.refusals.clear()
    run_unit(it, UNIT, execute=True)
    assert target.offsets() == WHOLE


@pytest.mark.parametrize(
    ("bad", "options", "what"),
    [
        ([problem("billing", "bad-value", "no number", "f:7")], {}, "f:7: bad-value: no number"),
        ([row("billing", "orders", 0, 43)], {}, "orders:0 is there 2 times"),
        (
            [{**row("billing", "t", 0, 1), "source_group": "old"}],
            {},
            "'billing', 'old' are all moved",
        ),
        ([problem("billing", MEMBERS)], {"has_members": True}, "it had members"),
        ([problem("billing", MEMBERS_UNKNOWN)], {"has_members": True}, "could not be read"),
    ],
)
def test_a_group_with_problems_is_refused_as_a_whole(
    folder: PlanFolder, bad: list[dict[str, Any]], options: dict[str, Any], what: str
) -> None:
    target = FakeTarget()
    rows = sorted([*GROUPS, *bad], key=lambda each: (each["group"], each["source_group"]))
    it = planned(folder, target, rows, **options)
    run_unit(it, UNIT, execute=True)
    outcome, why = outcomes(folder)["billing"]
    assert (outcome, what in str(why)) == ("refused", True), why
    assert target.offsets() == {"shipping": WHOLE["shipping"]}
    loose = attrs.evolve(it.work, allow_partial=True, force=True)
    plan_unit(attrs.evolve(it, work=loose), UNIT)
    run_unit(attrs.evolve(it, work=loose), UNIT, execute=True)
    assert target.offsets()["billing"]["orders:1"] == (7, "", T0_MS)


def test_offsets_that_would_expire_at_once_are_refused(folder: PlanFolder) -> None:
    target = FakeTarget()
    it = planned(folder, target, GROUPS, retention=timedelta(days=1))
    run_unit(it, UNIT, execute=True)
    assert "2 offsets would expire at once" in str(outcomes(folder)["billing"][1])
    it = planned(folder, target, GROUPS, retentions={"billing": "never"}, retention=timedelta(1))
    run_unit(it, UNIT, execute=True)
    assert outcomes(folder)["billing"] == ("migrated", None)
    assert target.retentions == {}
    assert outcomes(folder)["shipping"][0] == "refused"


def test_only_chosen_groups_and_topics_are_planned(folder: PlanFolder) -> None:
    target = FakeTarget()
    rows = sorted([*GROUPS, row("billing", "clicks", 0, 1)], key=lambda each: each["group"])
    selection = Selection(include=("bill.*",), exclude_topics=("cl.*",))
    it = planned(folder, target, rows, selection=selection)
    run_unit(it, UNIT, execute=True)
    assert target.offsets() == {"billing": WHOLE["billing"]}


def test_what_a_killed_spark_left_is_cleared_away(folder: PlanFolder) -> None:
    attempt = folder.path / FOUND / "_temporary" / "0"
    make_folder(attempt)
    (attempt / UNIT).touch()
    folder.clear()
    assert file_names(folder.path / FOUND) == []
