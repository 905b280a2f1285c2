"""Architecture decision records: gapless numbers, one form, a complete index, references."""

from __future__ import annotations

import pytest
from tidy import decisions
from tidy.tracked import ROOT, TRACKED, text_of

FOLDER = ROOT / "docs/adr"
INDEX = "index.md"
TEXTS = {path.name: path.read_text() for path in FOLDER.glob("*.md") if path.name != INDEX}
GOOD = """# 0001: One thing's way

Status: Accepted

Date: 2026-11-21

## Context

Why.

## Decision

What.

## Consequences

So.
"""
GOOD_NAME = "0001-one-things-way.md"
GOOD_ROW = f"| [0001]({GOOD_NAME}) | One thing's way | Accepted | 2026-11-21 | What. |"


def test_numbers_have_no_gaps() -> None:
    assert list(decisions.number_problems(TEXTS)) == []


def test_each_record_has_a_status_a_date_and_its_sections() -> None:
    problems = [
        f"{name}: {problem}"
        for name, text in TEXTS.items()
        for problem in decisions.record_problems(name, text, TEXTS)
    ]
    assert problems == []


def test_amendments_are_linked_both_ways() -> None:
    assert list(decisions.amendment_problems(TEXTS)) == []


def test_the_index_lists_each_record() -> None:
    assert list(decisions.index_problems((FOLDER / INDEX).read_text(), TEXTS)) == []


def test_each_record_that_a_file_names_exists() -> None:
    texts = {name: text_of(name) for name in TRACKED if name != "tests/tidy/test_decisions.py"}
    problems = [
        f"{name}: {problem}"
        for name, text in texts.items()
        if text is not None
        for problem in decisions.reference_problems(text, TEXTS)
    ]
    assert problems == []


@pytest.mark.parametrize("names", [["0002-a.md"], ["0001-a.md", "0003-b.md"], ["0001-a", "0001-b"]])
def test_a_gap_or_a_number_given_twice_is_found(names: list[str]) -> None:
    assert list(decisions.number_problems(names))


def test_a_good_record_has_no_problem() -> None:
    assert list(decisions.record_problems(GOOD_NAME, GOOD, [GOOD_NAME])) == []
    more = GOOD + "\n## Alternatives considered\n\nNone.\n"
    assert list(decisions.record_problems(GOOD_NAME, more, [GOOD_NAME])) == []


@pytest.mark.parametrize(
    ("part", "instead", "problem"),
    [
        ("# 0001: ", "# ", "it does not begin"),
        ("Status: Accepted\n\n", "", "it does not begin"),
        ("Date: 2026-11-21\n\n", "", "it does not begin"),
        ("One thing's way", "Another way", "by its title its name is 0001-another-way.md"),
        ("Accepted", "Perhaps", "status 'Perhaps'"),
        ("Accepted", "Superseded by [0002](0002-x.md)", "superseded by 0002-x.md, which"),
        ("2026-11-21", "2026-11-31", "date '2026-11-31'"),
        ("## Context", "## Why", "its sections are Why, Decision, Consequences"),
        ("## Consequences\n\nSo.\n", "", "its sections are Context, Decision"),
        ("Why.", "", "section Context is empty"),
    ],
)
def test_a_record_of_another_form_is_found(part: str, instead: str, problem: str) -> None:
    assert part in GOOD
    text = GOOD.replace(part, instead)
    (found,) = decisions.record_problems(GOOD_NAME, text, [GOOD_NAME])
    assert found.startswith(problem)


def test_an_amendment_that_one_side_does_not_name_is_found() -> None:
    one, other = "0001-a.md", "0002-b.md"
    amended_by, amends = f"Amended by: [0002]({other})\n", f"Amends: [0001]({one})\n"
    assert list(decisions.amendment_problems({one: amended_by, other: amends})) == []
    problem = ["0002-b.md amends 0001-a.md: only one of them says so"]
    assert list(decisions.amendment_problems({one: "", other: amends})) == problem
    assert list(decisions.amendment_problems({one: amended_by, other: ""})) == problem


@pytest.mark.parametrize(
    ("index", "problem"),
    [
        ("", "0 rows"),
        (f"{GOOD_ROW}\n{GOOD_ROW}", "2 rows"),
        (GOOD_ROW.replace("One thing", "Another"), "its row differs from its header"),
        (GOOD_ROW.replace("Accepted", "Proposed"), "its row differs from its header"),
        (GOOD_ROW.replace("-21", "-22"), "its row differs from its header"),
        (GOOD_ROW.replace("What.", ""), "0 rows"),
        (f"{GOOD_ROW}\n{GOOD_ROW.replace('0001', '0002')}", "not a record"),
    ],
)
def test_an_index_that_differs_is_found(index: str, problem: str) -> None:
    texts = {GOOD_NAME: GOOD}
    assert list(decisions.index_problems(GOOD_ROW, texts)) == []
    assert [found.split(": ")[1] for found in decisions.index_problems(index, texts)] == [problem]


@pytest.mark.parametrize(
    "text",
    [
        "ADR 0002",
        "ADR 1",
        "(`docs/adr/0002`)",
        "[why](docs/adr/0002-another.md)",
        f"[0002](../adr/{GOOD_NAME})",
        f"[ADR 0002]({GOOD_NAME})",
    ],
)
def test_a_reference_that_leads_nowhere_is_found(text: str) -> None:
    assert list(decisions.reference_problems(text, [GOOD_NAME]))


@pytest.mark.parametrize(
    "text",
    ["ADR 0001", f"[0001](x/{GOOD_NAME})", f"[why](docs/adr/{GOOD_NAME})", "docs/adr/index.md"],
)
def test_a_reference_that_leads_to_a_record_is_not_found(text: str) -> None:
    assert not list(decisions.reference_problems(text, [GOOD_NAME]))
