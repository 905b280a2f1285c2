"""cli.migration.migrate_steps: what it prints is what docs/reference/migrate.md says."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from migrations import FakeSource
from offsetd_clients.cli.migration import migrate_steps
from offsetd_clients.cli.migration.migrate_steps import DIFF_COLUMNS, OUTCOME_COLUMNS, PLAN_COLUMNS
from offsetd_clients.cli.migration.migrate_zookeeper_mirror import MIRROR_COLUMNS
from offsetd_clients.cli.printing.terminal import Terminal
from offsetd_clients.migration.differences import Difference, State
from offsetd_clients.migration.outcomes import Outcome
from offsetd_clients.migration.selection import Selection
from offsetd_clients.migration.values import FoundGroup, FoundOffset

PAGE = (Path(__file__).parents[5] / "docs" / "reference" / "migrate.md").read_text("utf-8")


def documented() -> dict[str, tuple[str, ...]]:
    """The fields of each section, in order."""
    sections = re.split(r"^### (.*)$", PAGE, flags=re.MULTILINE)[1:]
    return {
        title: tuple(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
        for title, text in zip(sections[::2], sections[1::2], strict=True)
    }


def test_the_fields_of_each_step_are_those_of_the_page() -> None:
    found = documented()
    assert found["`offsetd migrate … plan`"] == PLAN_COLUMNS
    assert found["`offsetd migrate … diff`, `verify`"] == DIFF_COLUMNS
    assert found["`offsetd migrate … run`, `cutover`, `rollback`, `undo`"] == OUTCOME_COLUMNS
    assert found["`offsetd migrate zookeeper mirror`"] == MIRROR_COLUMNS


def test_every_state_and_outcome_is_on_the_page() -> None:
    for each in State:
        assert f"`{each}`" in PAGE
    for outcome in Outcome:
        assert f"`{outcome}`" in PAGE or outcome.startswith("would-"), outcome


def found(state: State) -> Difference:
    offset = FoundOffset(topic="orders", partition=0, offset=5)
    return Difference(group_id="billing", found=offset, stored=None, state=state)


@pytest.mark.parametrize(
    ("states", "told"),
    [
        ([State.EQUAL, State.EQUAL], "1 group, 2 offsets: 0 differ\n"),
        ([State.EQUAL, State.AHEAD], "1 group, 2 offsets: 0 differ, 1 ahead here\n"),
        (
            [State.AHEAD, State.AHEAD, State.DELETED],
            "1 group, 3 offsets: 0 differ, 2 ahead here, 1 deleted at the source\n",
        ),
    ],
)
def test_what_is_allowed_to_be_ahead_is_counted_apart(
    monkeypatch: pytest.MonkeyPatch, states: list[State], told: str
) -> None:
    group = SimpleNamespace(group_id="billing")

    def compared(*_: Any) -> list[Any]:
        return [(group, list(map(found, states)), ())]

    monkeypatch.setattr(migrate_steps, "compared", compared)
    stderr = StringIO()
    plan: Any = SimpleNamespace(summary=SimpleNamespace(group_count=1))
    target: Any = None
    migrate_steps.verify_step(Terminal(StringIO(), stderr), plan, target, None, allow_ahead=True)
    assert stderr.getvalue() == told


def planned(offsets_per_group: int = 1) -> FakeSource:
    offsets = tuple(
        FoundOffset(topic="orders", partition=each, offset=5, metadata="m" * 1000)
        for each in range(offsets_per_group)
    )
    return FakeSource([FoundGroup(group_id="billing", offsets=offsets)])


def told_of_a_plan(source: FakeSource, selection: Selection) -> str:
    stderr = StringIO()
    migrate_steps.plan_step(Terminal(StringIO(), stderr), source, selection, None)
    return stderr.getvalue()


def test_what_a_plan_names_and_does_not_find_is_told() -> None:
    selection = Selection(include=("bill.*", "sales"), renames={"biling": "b"})
    assert told_of_a_plan(planned(), selection).splitlines()[-2:] == [
        "nothing was found of group 'sales'",
        "nothing was found of group 'biling' to rename",
    ]
    assert "nothing was found" not in told_of_a_plan(planned(), Selection(include=("billing",)))


def test_a_plan_warns_of_a_group_that_is_too_large_for_a_batch() -> None:
    told = told_of_a_plan(planned(2000), Selection())
    assert "billing" in told
    assert "max.message.bytes" in told
    assert "max.message.bytes" not in told_of_a_plan(planned(10), Selection())
