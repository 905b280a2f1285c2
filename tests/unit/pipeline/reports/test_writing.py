"""A report is a page that needs no network, and its tables beside it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from offsetd_pipeline.reports import (
    Finding,
    Level,
    Plot,
    Report,
    Section,
    Table,
    plots,
    write_report,
)
from offsetd_pipeline.reports.writing import rendered

if TYPE_CHECKING:
    from pathlib import Path

_GROUPS = Table(
    name="groups",
    title="Groups",
    rows=pa.table({"group": [f"g<{number}>" for number in range(60)], "log_bytes": range(60)}),
)
_REPORT = Report(
    title="Audit of <folder>",
    time=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    facts={"log_bytes": 2048},
    findings=(Finding(Level.WARNING, "3 groups & more expire."),),
    sections=(
        Section(
            title="All",
            parts=(_GROUPS, Plot(title="Bytes", svg=plots.bars({"a": 1.0}))),
        ),
    ),
)


def test_tables_are_beside_the_page(tmp_path: Path) -> None:
    page = write_report(_REPORT, tmp_path / "new" / "folder")
    assert pq.read_table(page.parent / "groups.parquet").equals(_GROUPS.rows)
    assert sorted(each.name for each in page.parent.iterdir()) == ["groups.parquet", "report.html"]


def test_a_report_takes_the_place_of_the_last_one(tmp_path: Path) -> None:
    write_report(_REPORT, tmp_path)
    page = write_report(attrs.evolve(_REPORT, title="Again"), tmp_path)
    assert "<title>Again</title>" in page.read_text(encoding="utf-8")


def test_a_page_needs_no_network() -> None:
    assert not re.search(r"<(script|link|img|iframe)|@import|(src|href)=\"http", rendered(_REPORT))


def test_what_was_found_is_no_markup() -> None:
    page = rendered(_REPORT)
    assert "Audit of &lt;folder&gt;" in page
    assert "3 groups &amp; more expire." in page
    assert "g&lt;0&gt;" in page
    assert "g<0>" not in page


def test_a_page_shows_the_first_rows_and_says_how_many_there_are() -> None:
    page = rendered(_REPORT)
    assert "The first 50 of 60 rows; all are in <code>groups.parquet</code>" in page
    assert "g&lt;49&gt;" in page
    assert "g&lt;50&gt;" not in page


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "No rows, in"),
        (1, '<p class="soft">1 row, in'),
        (60, "The first 50 of 60 rows"),
        (7, "7 rows, in"),
    ],
)
def test_a_page_says_how_many_rows_there_are(count: int, text: str) -> None:
    table = attrs.evolve(_GROUPS, rows=_GROUPS.rows.slice(0, count))
    assert text in rendered(attrs.evolve(_REPORT, sections=(Section(title="A", parts=(table,)),)))


def test_rows_that_somebody_else_writes_are_left_to_them(tmp_path: Path) -> None:
    table = attrs.evolve(_GROUPS, row_count=1000, is_written=True)
    report = attrs.evolve(_REPORT, sections=(Section(title="A", parts=(table,)),))
    page = write_report(report, tmp_path)
    assert not (tmp_path / "groups.parquet").exists()
    assert "The first 50 of 1,000 rows; all are in" in page.read_text(encoding="utf-8")


def test_a_page_does_not_say_that_all_rows_are_beside_it_where_some_are_not(
    tmp_path: Path,
) -> None:
    table = attrs.evolve(_GROUPS, row_count=1000)
    report = attrs.evolve(_REPORT, sections=(Section(title="A", parts=(table,)),))
    page = write_report(report, tmp_path).read_text(encoding="utf-8")
    assert pq.read_table(tmp_path / "groups.parquet").num_rows == 60
    assert "The first 50 of 1,000 rows; the first 60 are in <code>groups.parquet</code>" in page


def test_what_a_number_column_does_not_have_stands_where_its_numbers_do() -> None:
    rows = pa.table({"group": ["a", None], "gap_ms": [None, 1_000]})
    table = Table(name="gaps", title="Gaps", rows=rows)
    page = rendered(attrs.evolve(_REPORT, sections=(Section(title="All", parts=(table,)),)))
    assert re.findall(r'<td class="(\w+)">-</td>', page) == ["number", "short"]
