"""`migrate`: bulk moves of offsets from any source to a server."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import attrs
import typer
from offsetd_clients.calling.connection import checked_address
from offsetd_clients.cli.arguments.option_groups import with_options
from offsetd_clients.cli.arguments.options import ReasonOption
from offsetd_clients.cli.migration import migrate_steps as steps
from offsetd_clients.cli.migration.migrate_selection import with_selection
from offsetd_clients.cli.printing.dry_runs import OnlyShowOption, check_dry_or_not, told_dry_run
from offsetd_clients.cli.printing.terminal import EXIT_FAILED, EXIT_PARTLY, Terminal
from offsetd_clients.migration.differences import State
from offsetd_clients.migration.selection import Selection

from offsetd_pipeline.jobs.failures import told_failures
from offsetd_pipeline.jobs.session import SparkOptions, job_session
from offsetd_pipeline.jobs.source_options import (
    SOURCE_HELP,
    ReportOption,
    passed_over,
    server_options,
    with_reading,
    with_spark,
)
from offsetd_pipeline.migration import (
    Migration,
    MigrationOptions,
    RunResult,
    VerifyResult,
    opened_migration,
    write_migration,
)
from offsetd_pipeline.migration.migrating import PARALLELISM
from offsetd_pipeline.offset_sources import SourceOptions, named_source
from offsetd_pipeline.plurals import counted

COLUMNS = ("outcome", "groups", "offsets")
REFUSED_LISTED_MAX = 20


def _checked(value: str) -> str:
    try:
        return checked_address(value)
    except ValueError as error:
        raise typer.BadParameter(f"{error}.") from None


ToOption = Annotated[
    str, typer.Option("--to", metavar="HOST:PORT", help="The server.", callback=_checked)
]
StateOption = Annotated[
    Path,
    typer.Option(
        "--state",
        file_okay=False,
        metavar="FOLDER",
        help="The folder of the plan and of the progress, from which a run goes on.",
    ),
]
VerifyOption = Annotated[
    bool, typer.Option("--verify", help="Only check that all offsets are stored as planned.")
]
AllowAheadOption = Annotated[
    bool,
    typer.Option(
        "--allow-ahead", help="Accept larger offsets: consumers may have moved and gone on."
    ),
]


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds the job to the command line."""

    @app.command("migrate")
    @with_selection
    @_with_moving
    @with_reading
    @with_spark
    def migrate(
        source: Annotated[str, typer.Argument(metavar="SOURCE", help=SOURCE_HELP)],
        *,
        to: ToOption,
        state: StateOption,
        selection: Selection,
        moving: MigrationOptions,
        reading: SourceOptions,
        where: SparkOptions,
        dry_run: OnlyShowOption = False,
        execute: steps.ExecuteOption = False,
        verify: VerifyOption = False,
        allow_ahead: AllowAheadOption = False,
        report: ReportOption = None,
    ) -> None:
        """Move offsets to a server in bulk: plan it and show the effect, or execute it.

        Each group is moved as a whole, or not at all. A move replaces stored offsets only with
        --overwrite, and never those written since the plan. After a kill, the same command goes on.
        Exits with 3 if some groups were refused.

        Examples:
            python -m offsetd_pipeline migrate zk-export.txt --to localhost:7171 --state moving
            python -m offsetd_pipeline migrate broker-data --to localhost:7171 --state m --execute
            python -m offsetd_pipeline migrate old.csv --to localhost:7171 --state m --verify
        """
        check_dry_or_not(dry_run=dry_run, execute=execute)
        if verify and execute:
            raise typer.BadParameter("--execute verifies, too: say one of them")
        options = attrs.evolve(moving, selection=selection)
        server = server_options(to, reading.connection)
        with told_failures(terminal), ExitStack() as stack:
            named = named_source(source)
            spark = stack.enter_context(job_session("migrate", where, terminal))
            told = stack.enter_context(terminal.progress("migrating"))
            opened = opened_migration(spark, named, server, state, options, reading, report=told)
            migration = stack.enter_context(opened)
            did = _steps(migration, execute=execute, only_verify=verify, allow_ahead=allow_ahead)
            page = None if report is None else write_migration(migration, report, *did)
        _print(terminal, migration, *did)
        if page is not None:
            terminal.note(f"{page}")
        if not execute and not verify:
            told_dry_run(terminal)
        _exit(terminal, *did)


def _moving(
    *,
    overwrite: list[State] | None,
    allow_partial: bool,
    force: bool,
    retention: str,
    rate: float | None,
    parallelism: int,
    unaudited: bool,
    reason: str,
) -> MigrationOptions:
    if unaudited and reason:
        raise typer.BadParameter("--reason is for the audit log, which keeps nothing")
    run_options = steps.run_options(
        execute=False, overwrite=overwrite, allow_partial=allow_partial, retention=retention
    )
    return MigrationOptions(
        overwrite=run_options.overwrite,
        allow_partial=allow_partial,
        force=force,
        sets_retention=run_options.sets_retention,
        retention=run_options.retention,
        rate=rate,
        parallelism=parallelism,
        reason=reason,
        is_audited=not unaudited,
    )


def _flag(name: str, text: str) -> tuple[Any, Any]:
    return Annotated[bool, typer.Option(name, help=text)], False


_with_moving = with_options(
    "moving",
    _moving,
    {
        "overwrite": (
            Annotated[
                list[State] | None,
                typer.Option(
                    metavar="STATE",
                    help="Replace stored offsets in this state: behind, ahead, "
                    "conflict; repeatable.",
                ),
            ],
            None,
        ),
        "allow_partial": (steps.PartialOption, False),
        "force": _flag("--force", "Also groups of a folder that had members."),
        "retention": (
            Annotated[
                str,
                typer.Option(
                    metavar="TIME",
                    help="The retention of the groups on the server: a time such as 90d, never, "
                    "default (the server's setting), or as-is.",
                ),
            ],
            "never",
        ),
        "rate": (steps.RateOption, None),
        "parallelism": (
            Annotated[
                int,
                typer.Option(
                    min=1, metavar="N", help="At most this many concurrent writing tasks."
                ),
            ],
            PARALLELISM,
        ),
        "unaudited": _flag("--unaudited", "Write no audit records, which is faster."),
        "reason": (ReasonOption, ""),
    },
)


def _steps(
    migration: Migration, *, execute: bool, only_verify: bool, allow_ahead: bool
) -> tuple[RunResult | None, VerifyResult | None]:
    if only_verify:
        return None, migration.verify(allow_ahead=allow_ahead)
    # A run executes exactly the plan that was shown. A dry run makes a new plan.
    if migration.header is None or (not execute and not migration.is_begun):
        migration.plan()
    done = migration.run(execute=execute)
    if not execute or done.stopped_by:
        return done, None
    return done, migration.verify(allow_ahead=allow_ahead)


def _print(
    terminal: Terminal, migration: Migration, run: RunResult | None, verified: VerifyResult | None
) -> None:
    header = migration.header
    assert header is not None, "there is a plan"
    if run is not None:
        terminal.rows(
            COLUMNS,
            [
                {"outcome": outcome, "groups": count, "offsets": run.offset_counts[outcome]}
                for outcome, count in run.group_counts.items()
            ],
        )
    states = ", ".join(f"{count:,} {state}" for state, count in header.counts.items())
    groups = f"{counted(header.group_count, 'group')}, {counted(header.offset_count, 'offset')}"
    terminal.note(f"plan {header.plan_id}: {groups}{': ' if states else ''}{states}")
    if header.bad_line_count:
        terminal.note(passed_over(header.bad_line_count, len(header.bad_lines)))
        for line in header.bad_lines:
            terminal.note(line)
    if run is not None:
        _note_refused(terminal, run)
    if verified is not None:
        told = ", ".join(f"{count:,} {state}" for state, count in verified.counts.items())
        wrong = f"{verified.difference_count:,} differ" + (f": {told}" if told else "")
        ahead = f", {verified.ahead_count:,} ahead, as allowed" if verified.ahead_count else ""
        terminal.note(f"verified: {counted(verified.offset_count, 'offset')}, {wrong}{ahead}")


def _note_refused(terminal: Terminal, run: RunResult) -> None:
    first: list[dict[str, Any]] = run.refused.slice(0, REFUSED_LISTED_MAX).to_pylist()
    for each in first:
        terminal.note(f"group {each['group']}: {each['problem']}")
    if run.refused_count > len(first):
        more = run.refused_count - len(first)
        terminal.note(f"… and {more:,} more refused: --report FOLDER has all, in outcomes.parquet")


def _exit(terminal: Terminal, run: RunResult | None, verified: VerifyResult | None) -> None:
    if run is not None and (run.stopped_by or run.refused_count):
        is_partly = run.refused_count < run.group_count
        if run.stopped_by:
            told = f"stopped {run.stopped_by}; run it again to go on"
            code = EXIT_PARTLY if run.group_counts.get("migrated") else EXIT_FAILED
        else:
            told = f"{counted(run.refused_count, 'group')} refused"
            code = EXIT_PARTLY if is_partly else EXIT_FAILED
        terminal.fail(told, code)
    if verified is not None and verified.difference_count:
        differ = "differs" if verified.difference_count == 1 else "differ"
        terminal.fail(f"{counted(verified.difference_count, 'offset')} {differ}", EXIT_FAILED)
