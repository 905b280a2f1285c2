"""docs/conformance.md: the tests that it names are there, and each case of Kafka's stands once."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs/conformance.md").read_text()
OFFSET_CASES = 65
"""Names of test methods in Kafka 4.1.1's OffsetMetadataManagerTest."""


def rows(page: str) -> list[tuple[list[str], str]]:
    """Kafka's cases, and what stands beside them."""
    cells = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| test")]
    return [(re.findall(r"\btest\w+", cases), ours) for cases, ours in cells]


def missing(page: str) -> list[str]:
    """Tests that a page names and that are not where it says."""
    named = re.findall(r"`([a-z_/]+\.py)::(test_\w+)`", page)
    assert named, "the page names tests"
    return [
        f"{path}::{name}"
        for path, name in named
        if not (TESTS / path).exists() or f"def {name}(" not in (TESTS / path).read_text()
    ]


def test_every_test_that_the_page_names_is_there() -> None:
    assert missing(PAGE) == []


def test_a_test_that_is_not_there_is_found() -> None:
    here = "`tidy/test_conformance.py::test_a_test_that_is_not_there_is_found`"
    assert missing(f"{here} `tidy/test_conformance.py::test_of_nobody`, `no.py::test_x`") == [
        "tidy/test_conformance.py::test_of_nobody",
        "no.py::test_x",
    ]


def test_each_of_kafkas_cases_stands_in_one_row_with_a_test_or_a_reason() -> None:
    cases = [case for names, _ in rows(PAGE) for case in names]
    assert len(cases) == len(set(cases)) == OFFSET_CASES
    mapped, left_out = PAGE.split("## Left out, and why")
    assert all("::test_" in ours for _, ours in rows(mapped))
    assert all(ours.strip() and "::" not in ours for _, ours in rows(left_out))
