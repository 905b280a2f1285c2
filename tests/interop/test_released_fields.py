"""The fields that a release printed stay, in their order; new fields come behind them.

`tests/golden/cli/fields-RELEASE.json` has the fields of each command, as the page of that release
documents them. A release keeps its file with
`OFFSETD_WRITE_GOLDEN=1 pytest tests/interop/test_released_fields.py`.
"""

from __future__ import annotations

import json
import os
import tomllib
from typing import TYPE_CHECKING, Final

import pytest
from interop.test_documented_fields import documented
from promised import ROOT

if TYPE_CHECKING:
    from pathlib import Path

FOLDER: Final = ROOT / "tests" / "golden" / "cli"
RELEASES: Final = sorted(FOLDER.glob("fields-*.json"))


def names() -> dict[str, list[str]]:
    return {command: [field.name for field in fields] for command, fields in documented().items()}


def test_the_fields_of_this_version_are_kept() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    kept = FOLDER / f"fields-{project['version']}.json"
    if os.environ.get("OFFSETD_WRITE_GOLDEN"):
        kept.write_text(json.dumps(names(), indent=1) + "\n")
    assert kept in RELEASES
    assert json.loads(kept.read_text()).keys() <= names().keys()


@pytest.mark.parametrize("kept", RELEASES, ids=lambda path: path.stem)
def test_new_fields_come_behind_those_of_a_release(kept: Path) -> None:
    now = names()
    for command, fields in json.loads(kept.read_text()).items():
        assert now[command][: len(fields)] == fields, command
