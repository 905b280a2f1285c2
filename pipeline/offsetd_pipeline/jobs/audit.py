"""`audit`: the problems of a data folder, and the groups that cause them."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import attrs
import typer
from offsetd_clients.cli.printing.terminal import EXIT_PARTLY, OutputFormat, Terminal, time_text
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.views.folder_view import read_folder

from offsetd_pipeline.audit import Audit, AuditScope, Thresholds, audit
from offsetd_pipeline.audit.page import report_of
from offsetd_pipeline.audit.summary import summary_tables
from offsetd_pipeline.jobs.audit_options import parsed_now, with_scope, with_thresholds
from offsetd_pipeline.jobs.failures import told_failures
from offsetd_pipeline.jobs.session import (
    ConfOption,
    MasterOption,
    PyFilesOption,
    SparkOptions,
    job_session,
    told_progress,
)
from offsetd_pipeline.reports import write_report

EndOffsetsOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="CSV, Parquet or JSON: topic, partition, end_offset[, sampled_at]; for the lag.",
    ),
]
TopOption = Annotated[int, typer.Option(min=1, max=1000, help="Number of rows in each table.")]
NowOption = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Take this time as now; ISO 8601, UTC without a zone."),
]
ReportOption = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Write a page, and all tables as Parquet, to this folder."),
]


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds the job to the command line."""

    @app.command("audit")
    @with_scope
    @with_thresholds
    def run(
        scope: AuditScope,
        *,
        end_offsets: EndOffsetsOption = None,
        top: TopOption = 5,
        now: NowOption = None,
        report: ReportOption = None,
        thresholds: Thresholds,
        master: MasterOption = "",
        conf: ConfOption = None,
        py_files: PyFilesOption = None,
    ) -> None:
        """Audit a data folder: who commits too often, what expires, and the state of the log.

        The output has the problems first; each table has its worst rows first. Nothing is changed.
        Exits with 3 if damage was skipped.

        Examples:
            python -m offsetd_pipeline audit offsetd-data
            python -m offsetd_pipeline audit offsetd-data --report audit-report
            python -m offsetd_pipeline audit /var/lib/kafka --group billing --since 2026-11-20
            python -m offsetd_pipeline audit offsetd-data --end-offsets ends.csv -o json
        """
        spark_options = SparkOptions(master=master, settings=conf or (), py_files=py_files or ())
        asked = {"now": parsed_now(now), "thresholds": thresholds, "end_offsets": end_offsets}
        found = _audited(scope, asked, spark_options, terminal)
        _print(found, top, terminal)
        if report is not None:
            try:
                page = write_report(report_of(found), report)
            except OSError as error:
                terminal.fail(f"the report could not be written: {error}")
            terminal.note(f"report: {page}")
        if found.damage.num_rows:
            raise SystemExit(EXIT_PARTLY)


def _audited(
    scope: AuditScope, asked: dict[str, Any], options: SparkOptions, terminal: Terminal
) -> Audit:
    with told_failures(terminal):
        read_folder(OsFiles(), Path(scope.folder))  # Report a wrong path before Spark starts.
        with job_session("audit", options, terminal) as spark, terminal.progress("audit") as told:

            def telling(what: str) -> AbstractContextManager[object]:
                return told_progress(spark, told, what)

            return audit(spark, scope, telling=telling, **asked)


def _print(found: Audit, top: int, terminal: Terminal) -> None:
    match terminal.output_format:
        case OutputFormat.JSON:
            terminal.lines(
                [json.dumps(_document(found), ensure_ascii=False, indent=2, default=_value)]
            )
        case OutputFormat.JSONL:
            terminal.lines(_json_lines(found))
        case OutputFormat.CSV:
            terminal.rows(("level", "finding"), _finding_rows(found))
        case OutputFormat.TABLE:
            terminal.rows(("level", "finding"), _finding_rows(found))
            for title, rows in summary_tables(found, top):
                terminal.lines([""])
                terminal.rows(list(rows[0]), rows, title=title)


def _finding_rows(found: Audit) -> Iterator[dict[str, object]]:
    for finding in found.findings:
        yield {"level": finding.level.value, "finding": finding.text}


def _document(found: Audit) -> dict[str, object]:
    return {
        "folder": found.folder,
        "now": found.now,
        "thresholds": attrs.asdict(found.thresholds) | {"expiry_base": found.expiry_base.value},
        "totals": found.totals,
        "row_counts": {name: found.row_count(name) for name in found.tables()},
        "findings": list(_finding_rows(found)),
        "tables": {name: rows.to_pylist() for name, rows in found.tables().items()},
    }


def _json_lines(found: Audit) -> Iterator[str]:
    """A line for each finding and each row, with its kind."""
    tables = {name: rows.to_pylist() for name, rows in found.tables().items()}
    for name, rows in {"findings": list(_finding_rows(found)), **tables}.items():
        for row in rows:
            yield json.dumps({"table": name, **row}, ensure_ascii=False, default=_value)


def _value(value: object) -> str:
    return time_text(value) if isinstance(value, datetime) else str(value)
