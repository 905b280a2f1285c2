"""offsetd_clients.cli.migrate_steps: what it prints is what docs/reference/migrate.md says."""

from __future__ import annotations

import re
from pathlib import Path

from offsetd_clients.cli.migrate_steps import DIFF_COLUMNS, OUTCOME_COLUMNS, PLAN_COLUMNS
from offsetd_clients.cli.migrate_zookeeper_move import MIRROR_COLUMNS
from offsetd_clients.migration.differences import State
from offsetd_clients.migration.outcomes import Outcome

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "migrate.md").read_text("utf-8")


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
