"""`archive`: adds the new records of data folders to an archive in Parquet."""

from pathlib import Path
from typing import Annotated

import typer
from offsetd_clients.cli.printing.terminal import EXIT_PARTLY, Terminal

from offsetd_pipeline.archive.reports import (
    archived_report,
    beginnings_told,
    damage_told,
    gap_told,
    moment,
    orphans_told,
    vanished_told,
)
from offsetd_pipeline.archive.run import Archived, archive
from offsetd_pipeline.jobs.failures import told_failures
from offsetd_pipeline.jobs.session import (
    ConfOption,
    MasterOption,
    PyFilesOption,
    SparkOptions,
    job_session,
    told_progress,
)
from offsetd_pipeline.read_options import OnDamage
from offsetd_pipeline.reports import write_report

COLUMNS = ("manifest", "records", "files", "bytes", "log_partitions", "missing", "damaged_bytes")

FoldersArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="FOLDER", help="The data folders of all nodes, offsetd's or a broker's."
    ),
]
ToOption = Annotated[
    Path, typer.Option("--to", metavar="ARCHIVE", help="The archive; created if it does not exist.")
]
OnDamageOption = Annotated[
    OnDamage, typer.Option(help="What to do with bytes that are not a valid batch.")
]
FailOnGapOption = Annotated[
    bool,
    typer.Option(
        "--fail-on-gap", help="Add nothing if records were removed before they were archived."
    ),
]
ReportOption = Annotated[
    Path | None,
    typer.Option("--report", metavar="FOLDER", help="Write a page and its tables to this folder."),
]


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds the job to the command line."""

    @app.command("archive")
    def archive_(
        folders: FoldersArgument,
        *,
        to: ToOption,
        on_damage: OnDamageOption = OnDamage.FAIL,
        fail_on_gap: FailOnGapOption = False,
        report: ReportOption = None,
        master: MasterOption = "",
        conf: ConfOption = None,
        py_files: PyFilesOption = None,
    ) -> None:
        """Add the new records of data folders to an archive, each record once.

        The new records count only once all of them are written. Exits with 3 if damaged bytes were
        skipped.

        Examples:
            python -m offsetd_pipeline archive offsetd-data --to archive
            python -m offsetd_pipeline archive node-1 node-2 node-3 --to archive --report report
        """
        options = SparkOptions(master=master, settings=conf or (), py_files=py_files or ())
        with (
            job_session("archive", options, terminal) as spark,
            told_failures(terminal),
            terminal.progress("archiving") as progress,
            told_progress(spark, progress, "log partitions"),
        ):
            archived = archive(spark, folders, to, on_damage=on_damage, fail_on_gap=fail_on_gap)
        _print(archived, terminal)
        if report is not None:
            try:
                page = write_report(archived_report(archived, str(to)), report)
            except OSError as error:
                terminal.fail(f"archived; the report could not be written: {error}")
            terminal.note(f"report: {page}")
        if archived.damage:
            raise SystemExit(EXIT_PARTLY)


def _print(archived: Archived, terminal: Terminal) -> None:
    manifest = archived.manifest
    if manifest is None:
        terminal.rows(COLUMNS, [])
        terminal.note("nothing new")
    else:
        row = {
            "manifest": manifest.number,
            "records": manifest.record_count,
            "files": len(manifest.files),
            "bytes": sum(each.size_bytes for each in manifest.files),
            "log_partitions": len(manifest.positions),
            "missing": sum(each.missing_count for each in manifest.gaps),
            "damaged_bytes": sum(each.size_bytes for each in manifest.damage),
        }
        terminal.rows(COLUMNS, [row])
    for gap in archived.gaps:
        terminal.note(f"warning: {gap_told(gap)}")
    for text in beginnings_told(archived):
        terminal.note(text)
    if archived.vanished_count:
        terminal.note(vanished_told(archived))
    for each in archived.held_up:
        terminal.note(
            f"warning: log partition {each.log_partition} is archived up to {each.log_offset} only:"
            f" a transaction of producer {each.producer_id} is open since {moment(each.since_ms)}"
        )
    for damage in archived.damage:
        terminal.note(f"warning: {damage_told(damage)}")
    if archived.orphan_count:
        terminal.note(orphans_told(archived))
