"""docs/conformance/classic-groups.md: what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[3]
FILES = {
    "G": "unit/coordinator/membership/test_classic_group.py",
    "J": "unit/coordinator/membership/test_joining.py",
    "R": "unit/coordinator/membership/test_rebalance.py",
    "M": "unit/coordinator/membership/test_group_membership.py",
    "C": "unit/coordinator/runtime/test_member_calls.py",
    "F": "fault/test_membership.py",
}


def test_every_test_that_the_map_names_is_where_it_says() -> None:
    page = (TESTS.parent / "docs/conformance/classic-groups.md").read_text()
    rows = [line.split("|")[2] for line in page.splitlines() if line.startswith("| test")]
    found = 0
    for row in rows:
        letter = ""
        for before, name in re.findall(r"([GJRMCF])? ?`(test_\w+)`", row):
            letter = before or letter
            assert f"def {name}(" in (TESTS / FILES[letter]).read_text(), name
            found += 1
        assert re.search(r"`test_|\bP\b", row), row
    assert found > 50
