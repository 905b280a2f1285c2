"""A migration as a report: a page, with its data as Parquet next to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import attrs
from pyspark.sql import functions as sf

from offsetd_pipeline.migration.migrating import LISTED_MAX
from offsetd_pipeline.plurals import counted
from offsetd_pipeline.reports import Finding, Level, Plot, Report, Section, Table, write_report
from offsetd_pipeline.reports.plots import bars

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame

    from offsetd_pipeline.migration.migrating import Migration
    from offsetd_pipeline.migration.plan_folder import PlanHeader
    from offsetd_pipeline.migration.results import RunResult, VerifyResult

_STATES: Final = {
    "missing": "not there yet",
    "equal": "there already",
    "behind": "the server has a smaller offset",
    "ahead": "the server has a larger offset",
    "conflict": "the same offset, with other metadata or another leader epoch",
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@attrs.frozen(kw_only=True)
class _Page:
    """The tables of the page: their first rows, and the means to write all rows."""

    migration: Migration
    run: RunResult | None
    verified: VerifyResult | None

    def whole_tables(self) -> dict[str, DataFrame | None]:
        """The tables that Spark writes, as folders of Parquet."""
        run = self.run
        found = {"plan": self.migration.planned()}
        if run is not None:
            found["outcomes"] = self.migration.outcomes(dry_run=run.is_dry_run)
        if self.verified is not None:
            found["differences"] = self.migration.differences()
        found["bad-lines"] = self.migration.bad_lines()
        return found


def write_migration(
    migration: Migration, folder: Path, run: RunResult | None, verified: VerifyResult | None
) -> Path:
    """Writes the page, and `plan.parquet`, `outcomes.parquet` and `differences.parquet`.

    If lines were skipped, it also writes `bad-lines.parquet`.
    """
    page = _Page(migration=migration, run=run, verified=verified)
    for name, rows in page.whole_tables().items():
        if rows is not None:
            place = folder.absolute() / f"{name}.parquet"  # Spark may run in another folder.
            rows.write.mode("overwrite").parquet(str(place))
    return write_report(report_of(migration, run, verified), folder)


def report_of(migration: Migration, run: RunResult | None, verified: VerifyResult | None) -> Report:
    """The content of the page."""
    header = migration.header
    assert header is not None, "there is a plan"
    page = _Page(migration=migration, run=run, verified=verified)
    is_dry_run = run is not None and run.is_dry_run
    return Report(
        title="Migration of offsets" + (" (dry run)" if is_dry_run else ""),
        time=datetime.now(UTC),
        facts={
            "from": header.source,
            "to": header.server,
            "planned at": _EPOCH + timedelta(milliseconds=header.created_ms),
            "groups": header.group_count,
            "offsets": header.offset_count,
            "plan": header.plan_id,
        },
        findings=(*_plan_findings(header), *_run_findings(run), *_verify_findings(verified)),
        sections=(*_outcome_sections(page), *_plan_sections(page, header)),
    )


def _plan_findings(header: PlanHeader) -> Iterator[Finding]:
    if header.bad_line_count:
        listed = "; ".join(header.bad_lines)
        text = f"{counted(header.bad_line_count, 'line')} passed over: {listed}"
        more = header.bad_line_count - len(header.bad_lines)
        rest = f"; and {more:,} more: all are in bad-lines.parquet" if more else ""
        yield Finding(Level.WARNING, text + rest)
    if header.refused_group_count:
        count = counted(header.refused_group_count, "group")
        yield Finding(Level.WARNING, f"{count} refused by the plan: see the table of groups")


def _run_findings(run: RunResult | None) -> Iterator[Finding]:
    if run is None:
        return
    if run.stopped_by:
        yield Finding(Level.WARNING, f"Stopped {run.stopped_by}. Run it again to go on.")
    for outcome, count in run.group_counts.items():
        level = Level.WARNING if outcome == "refused" else Level.GOOD
        offsets = counted(run.offset_counts[outcome], "offset")
        yield Finding(level, f"{counted(count, 'group')} {outcome}: {offsets}")


def _verify_findings(verified: VerifyResult | None) -> Iterator[Finding]:
    if verified is None:
        return
    as_planned = verified.offset_count - verified.ahead_count - verified.difference_count
    if as_planned == verified.offset_count:
        text = f"All {as_planned:,} offsets stand at the server as planned"
        yield Finding(Level.GOOD, text if as_planned else "The plan has no offsets to verify")
    else:
        text = f"{as_planned:,} of {counted(verified.offset_count, 'offset')} as planned"
        yield Finding(Level.NOTE, f"{text} at the server")
    if verified.ahead_count:
        text = f"{counted(verified.ahead_count, 'offset')} further by now, which was allowed"
        yield Finding(Level.NOTE, text)
    for state, count in verified.counts.items():
        yield Finding(Level.WARNING, f"{counted(count, 'offset')} not as planned: {state}")


def _outcome_sections(page: _Page) -> Iterator[Section]:
    run = page.run
    if run is not None:
        outcomes = page.migration.outcomes(dry_run=run.is_dry_run)
        if outcomes is not None:
            first = outcomes.orderBy(sf.col("outcome") != "refused", "group").limit(LISTED_MAX)
            table = Table(
                name="outcomes",
                title="Groups",
                note="Those that were refused first.",
                rows=first.toArrow(),
                row_count=run.group_count,
                is_written=True,
            )
            yield Section(title="What became of groups", parts=(table,))
    if page.verified is not None and page.verified.difference_count:
        table = Table(
            name="differences",
            title="Offsets that do not stand as planned",
            rows=page.verified.differences,
            row_count=page.verified.difference_count,
            is_written=True,
        )
        yield Section(title="Verified", parts=(table,))


def _plan_sections(page: _Page, header: PlanHeader) -> Iterator[Section]:
    if header.counts:
        names = {f"{each}: {_STATES.get(each, each)}": n for each, n in header.counts.items()}
        yield Section(
            title="The plan",
            note="How the server stood to what the source has, when the plan was made.",
            parts=(Plot(title="Offsets by state", svg=bars(names)), *_plan_table(page, header)),
        )


def _plan_table(page: _Page, header: PlanHeader) -> Iterator[Table]:
    planned = page.migration.planned()
    if planned is None:
        return
    columns = ("group", "topic", "partition", "offset", "stored_offset", "state", "refusal")
    by_state = sf.col("state") == "equal"
    rows = planned.orderBy(by_state, "group", "topic", "partition").select(*columns)
    yield Table(
        name="plan",
        title="Offsets",
        note="Those first that were not there already.",
        rows=rows.limit(LISTED_MAX).toArrow(),
        row_count=planned.count() if header.refused_group_count else header.offset_count,
        is_written=True,
    )
