"""The guide's table of rights is the one that the server checks by."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from offsetd_coordinator.security.required_rights import METHOD_RIGHTS, Right

if TYPE_CHECKING:
    from collections.abc import Iterable

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "security.md"
RIGHT = re.compile(r"\b([A-Z]\w+) (Group|Topic|Cluster)\b")


def told(rights: Iterable[Right]) -> set[tuple[str, str]]:
    return {(right.operation.value, right.resource_type.value) for right in rights}


def test_the_guide_tells_what_each_method_needs_and_leaves_out() -> None:
    rows: dict[str, tuple[set[tuple[str, str]], set[tuple[str, str]]]] = {}
    for line in GUIDE.read_text("utf-8").splitlines():
        cells = line.split("|")
        if len(cells) == 5 and re.match(r" `[A-Z]\w+`", cells[1]):
            needs, hidden = set(RIGHT.findall(cells[2])), set(RIGHT.findall(cells[3]))
            for method in re.findall(r"`(\w+)`", cells[1]):
                assert method not in rows, f"{method} is in the table twice"
                rows[method] = needs, hidden
    assert rows == {
        method: (told(rights.needs), told(rights.shows)) for method, rights in METHOD_RIGHTS.items()
    }
