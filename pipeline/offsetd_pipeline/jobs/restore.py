"""`restore`: restores the offsets of an archive on a server."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from offsetd_clients import OffsetClient
from offsetd_clients.cli.arguments.options import NamedGroupsOption, ReasonOption, TopicsOption
from offsetd_clients.cli.arguments.reset_targets import parse_time
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
    explain,
)
from offsetd_clients.cli.printing.dry_runs import (
    ExecuteOption,
    OnlyShowOption,
    check_dry_or_not,
    told_dry_run,
)
from offsetd_clients.cli.printing.plain_text import error_words
from offsetd_clients.cli.printing.terminal import EXIT_FAILED, EXIT_PARTLY, Row, Terminal
from pyspark.sql import SparkSession

from offsetd_pipeline.archive.archive_table import GroupSelection
from offsetd_pipeline.archive.manifests import ArchiveError
from offsetd_pipeline.archive.reports import restored_report, warnings_of
from offsetd_pipeline.archive.restored_groups import Outcome, Restored, RestoredGroup
from offsetd_pipeline.archive.restoring import (
    OtherSource,
    RestoreOptions,
    TimeNotArchived,
    restore,
)
from offsetd_pipeline.jobs.archive import ReportOption
from offsetd_pipeline.jobs.failures import SPARK_ERRORS, cause_of
from offsetd_pipeline.jobs.session import (
    ConfOption,
    MasterOption,
    PyFilesOption,
    SparkOptions,
    job_session,
    told_progress,
)
from offsetd_pipeline.reports import write_report

TIMEOUT_S_DEFAULT = 600.0  # A call imports many offsets.
COLUMNS = ("group", "outcome", "offsets", "written", "others", "deleted", "expiring", "problem")

ArchiveArgument = Annotated[
    Path, typer.Argument(metavar="ARCHIVE", help="An archive made by `archive`.")
]
AtOption = Annotated[
    str | None,
    typer.Option(
        "--at", metavar="TIME", help="Restore to this time, UTC; default: the archive's end."
    ),
]
PrefixOption = Annotated[
    str,
    typer.Option("--group-prefix", metavar="TEXT", help="Also groups whose id has this prefix."),
]
DeleteOthersOption = Annotated[
    bool,
    typer.Option(
        "--delete-others", help="Delete present offsets that the groups did not have then."
    ),
]
OtherSourceOption = Annotated[
    bool,
    typer.Option("--from-other-source", help="Also if the archive is of another server's folder."),
]
AcceptGapsOption = Annotated[
    bool,
    typer.Option("--accept-gaps", help="Also if the archive may lack records of that time."),
]


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds the job to the command line."""

    @app.command("restore")
    def restore_(
        archive: ArchiveArgument,
        *,
        at: AtOption = None,
        groups: NamedGroupsOption = None,
        group_prefix: PrefixOption = "",
        topics: TopicsOption = None,
        delete_others: DeleteOthersOption = False,
        accept_gaps: AcceptGapsOption = False,
        from_other_source: OtherSourceOption = False,
        dry_run: OnlyShowOption = False,
        execute: ExecuteOption = False,
        reason: ReasonOption = "",
        report: ReportOption = None,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
        master: MasterOption = "",
        conf: ConfOption = None,
        py_files: PyFilesOption = None,
    ) -> None:
        """Restore offsets on a server from an archive: each group as a whole, or nothing of it.

        Nothing happens without --execute. Exits with 3 if some groups failed.

        Examples:
            python -m offsetd_pipeline restore archive --at 2026-11-21T08:00
            python -m offsetd_pipeline restore archive --group billing --execute
        """
        check_dry_or_not(dry_run=dry_run, execute=execute)
        time = None if at is None else parse_time(at)
        options = RestoreOptions(
            selection=GroupSelection(
                groups=tuple(dict.fromkeys(groups or ())),
                group_prefix=group_prefix,
                topics=tuple(topics or ()),
            ),
            delete_others=delete_others,
            accept_gaps=accept_gaps,
            from_other_source=from_other_source,
            validate_only=not execute,
            reason=reason,
        )
        spark_options = SparkOptions(master=master, settings=conf or (), py_files=py_files or ())
        with (
            connected(address, timeout, terminal) as client,
            job_session("restore", spark_options, terminal) as spark,
        ):
            restored = _restored(spark, archive, client, time, options, terminal)
        _print(restored, terminal)
        if report is not None:
            _write_report(restored, report, str(archive), address, terminal)
        if restored.is_dry_run:
            told_dry_run(terminal)
        _end(restored, address, terminal)


def _restored(
    spark: SparkSession,
    archive: Path,
    client: OffsetClient,
    time: datetime | None,
    options: RestoreOptions,
    terminal: Terminal,
) -> Restored:
    try:
        with (
            terminal.progress("restoring") as progress,
            told_progress(spark, progress, "what there was"),
        ):
            return restore(spark, archive, client, time, options)
    except TimeNotArchived as error:
        terminal.fail(f"{error}\n  --accept-gaps restores what is there")
    except OtherSource as error:
        terminal.fail(f"{error}\n  --from-other-source restores it there")
    except (ArchiveError, OSError) as error:
        terminal.fail(error_words(error))
    except SPARK_ERRORS as error:
        terminal.fail(cause_of(error))


def _print(restored: Restored, terminal: Terminal) -> None:
    told = [
        each
        for each in restored.groups
        if each.outcome is not Outcome.UNCHANGED or each.other_count
    ]
    terminal.rows(COLUMNS, map(_row, told))
    for text in warnings_of(restored):
        terminal.note(f"warning: {text}")
    counts = [f"{count} {each}" for each in Outcome if (count := restored.count(each))]
    terminal.note(f"groups: {', '.join(counts) or 'none'}")


def _row(group: RestoredGroup) -> Row:
    return {
        "group": group.group_id,
        "outcome": group.outcome.value,
        "offsets": group.offset_count,
        "written": group.written_count,
        "others": group.other_count,
        "deleted": group.deleted_count,
        "expiring": group.expiring_count,
        "problem": group.problem or None,
    }


def _write_report(
    restored: Restored, folder: Path, archive: str, address: str, terminal: Terminal
) -> None:
    try:
        page = write_report(restored_report(restored, archive, address), folder)
    except OSError as error:
        terminal.fail(f"the report could not be written: {error}")
    terminal.note(f"report: {page}")


def _end(restored: Restored, address: str, terminal: Terminal) -> None:
    failed = restored.count(Outcome.FAILED)
    if restored.stopped_by is not None:
        terminal.fail(explain(restored.stopped_by, address), EXIT_PARTLY)
    if failed:
        code = EXIT_PARTLY if failed < len(restored.groups) else EXIT_FAILED
        terminal.fail(f"of {len(restored.groups)} groups, {failed} failed", code)
