"""Writes a report as a page that needs no network, and its tables as Parquet."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from jinja2 import Environment, PackageLoader, StrictUndefined

from offsetd_pipeline.files import make_folder, write_file
from offsetd_pipeline.plurals import counted
from offsetd_pipeline.reports.formats import headings, is_number, shown
from offsetd_pipeline.reports.report import Report, Table

PAGE: Final = "report.html"


def write_report(report: Report, folder: Path) -> Path:
    """Writes the page and the tables; returns the page's path. It writes the page last.

    Existing files with these names are replaced. Raises OSError.
    """
    make_folder(folder)
    for section in report.sections:
        for part in section.parts:
            if isinstance(part, Table) and not part.is_written:
                out = BytesIO()
                pq.write_table(part.rows, out, compression="zstd")
                write_file(folder / f"{part.name}.parquet", out.getvalue())
    page = folder / PAGE
    write_file(page, rendered(report).encode())
    return page


def rendered(report: Report) -> str:
    """The page as HTML."""
    environment = Environment(
        loader=PackageLoader("offsetd_pipeline", "reports"),
        autoescape=True,
        undefined=StrictUndefined,
    )
    environment.globals.update(
        shown=shown,
        headings=headings,
        is_number=is_number,
        first_rows=_first_rows,
        is_number_column=_is_number_column,
        told_rows=_told_rows,
    )
    return environment.get_template("report.html.j2").render(report=report)


def _first_rows(table: Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.rows.slice(0, table.shown_rows).to_pylist()
    return rows


def _is_number_column(rows: Sequence[dict[str, Any]], name: str) -> bool:
    return any(is_number(row[name]) for row in rows)


def _told_rows(table: Table, shown_count: int) -> str:
    written_count = table.count if table.is_written else table.rows.num_rows
    if shown_count == table.count:
        return f"{counted(table.count, 'row')}, in" if table.count else "No rows, in"
    first = f"The first {shown_count:,} of {counted(table.count, 'row')}"
    if written_count == table.count:
        return f"{first}; all are in"
    return f"{first}; the first {written_count:,} are in"
