"""A comparison as a report: a page, and all differences as Parquet."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from offsetd_pipeline.comparison.differences import DifferenceKind
from offsetd_pipeline.offset_sources import write_bad_lines
from offsetd_pipeline.plurals import counted
from offsetd_pipeline.reports import Finding, Level, Plot, Report, Section, Table, write_report
from offsetd_pipeline.reports.plots import bars

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_pipeline.comparison.comparing import Comparison
    from offsetd_pipeline.offset_sources import OffsetTable

DIFFERENCES: Final = "differences"
GROUPS: Final = "groups"
_MEANINGS: Final = {
    DifferenceKind.MISSING_IN_A: "only B has it",
    DifferenceKind.MISSING_IN_B: "only A has it",
    DifferenceKind.AHEAD: "B has a larger offset",
    DifferenceKind.BEHIND: "B has a smaller offset",
    DifferenceKind.METADATA: "the same offset, with other metadata or another leader epoch",
    DifferenceKind.UNREADABLE: "one of them has an offset that cannot be read",
    DifferenceKind.DUPLICATE: "one of them has the partition more than once",
}
_GROUPS_DRAWN: Final = 15


def write_comparison(comparison: Comparison, folder: Path) -> Path:
    """Writes the page, `differences.parquet` and `groups.parquet`.

    Spark writes the Parquet files as folders. If lines of a source were skipped, it also writes
    `bad-lines-a.parquet` or `-b`.
    """
    there = folder.absolute()  # Spark may run in another folder.
    for name, rows in ((DIFFERENCES, comparison.differences), (GROUPS, comparison.groups)):
        rows.write.mode("overwrite").parquet(str(there / f"{name}.parquet"))
    for side, table in _sides(comparison):
        if table.bad_line_count:
            write_bad_lines(table, there / f"bad-lines-{side}.parquet")
    return write_report(report_of(comparison), folder)


def report_of(comparison: Comparison) -> Report:
    """The content of the page."""
    a, b = comparison.a, comparison.b
    return Report(
        title="Comparison of offsets",
        time=datetime.now(UTC),
        facts={
            "A": str(a.source),
            "B": str(b.source),
            "offsets in A": a.offset_count,
            "offsets in B": b.offset_count,
            "same in both": comparison.same_count,
            "different": comparison.difference_count,
            "groups that differ": comparison.group_count,
            "tolerance": comparison.options.tolerance,
            "not compared": sorted(map(str, comparison.options.ignored)) or None,
        },
        findings=tuple(_findings(comparison)),
        sections=() if comparison.is_same else _sections(comparison),
    )


def _findings(comparison: Comparison) -> list[Finding]:
    found = [
        Finding(Level.WARNING, f"{count:,} {kind}: {_MEANINGS[kind]}")
        for kind, count in comparison.counts.items()
    ] or [Finding(Level.GOOD, _sameness(comparison))]
    found += [Finding(Level.NOTE, f"{each}: not compared.") for each in comparison.not_compared]
    for side, table in _sides(comparison):
        found += _bad_lines(side, table)
    return found


def _sameness(comparison: Comparison) -> str:
    if not comparison.same_count:
        return "Neither has any offset that was asked for."
    apart = comparison.options.tolerance
    within = f", or no more than {counted(apart, 'offset')} apart" if apart else ""
    return f"Both have the same{within}."


def _sides(comparison: Comparison) -> tuple[tuple[str, OffsetTable], ...]:
    return ("a", comparison.a), ("b", comparison.b)


def _bad_lines(side: str, table: OffsetTable) -> list[Finding]:
    if not table.bad_line_count:
        return []
    listed = "; ".join(table.bad_lines)
    more = table.bad_line_count - len(table.bad_lines)
    text = f"{counted(table.bad_line_count, 'line')} of {table.source} passed over: {listed}"
    rest = f"; and {more:,} more: all are in bad-lines-{side}.parquet" if more else ""
    return [Finding(Level.WARNING, text + rest)]


def _sections(comparison: Comparison) -> tuple[Section, ...]:
    groups = comparison.by_group
    first = groups.slice(0, _GROUPS_DRAWN).to_pylist()
    return (
        Section(
            title="By group",
            parts=(
                Plot(
                    title="Groups that differ in most partitions",
                    svg=bars({each["group"]: each["partitions"] for each in first}),
                ),
                Table(
                    name=GROUPS,
                    title="Groups",
                    note="How many partitions of each group differ, by kind, and how many offsets"
                    " lie between A and B at most.",
                    rows=groups,
                    row_count=comparison.group_count,
                    is_written=True,
                ),
            ),
        ),
        Section(
            title="By partition",
            parts=(
                Table(
                    name=DIFFERENCES,
                    title="Differences",
                    note="Those that lie farthest apart first.",
                    rows=comparison.farthest,
                    row_count=comparison.difference_count,
                    is_written=True,
                ),
            ),
        ),
    )
