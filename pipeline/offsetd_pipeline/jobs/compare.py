"""`compare`: the differences between two sources of offsets."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import attrs
import typer
from offsetd_clients.cli.arguments.option_groups import with_options
from offsetd_clients.cli.printing.terminal import EXIT_FAILED, EXIT_WRONG_USE, Row, Terminal

from offsetd_pipeline.comparison import (
    CompareOptions,
    Comparison,
    Ignored,
    compare,
    write_comparison,
)
from offsetd_pipeline.jobs.failures import told_failures
from offsetd_pipeline.jobs.session import SparkOptions, job_session, told_progress
from offsetd_pipeline.jobs.source_options import (
    SOURCE_HELP,
    ReportOption,
    passed_over,
    with_reading,
    with_spark,
)
from offsetd_pipeline.offset_sources import SourceOptions, check_answers, named_source
from offsetd_pipeline.plurals import counted

COLUMNS = (
    *("group", "topic", "partition", "difference", "offset_a", "offset_b", "offsets_between"),
)
LISTED_MAX = 50


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds the job to the command line."""

    @app.command("compare")
    @_with_chosen
    @with_reading
    @with_spark
    def compare_(
        a: Annotated[str, typer.Argument(metavar="A", help=SOURCE_HELP)],
        b: Annotated[str, typer.Argument(metavar="B", help="The other source.")],
        *,
        chosen: SourceOptions,
        reading: SourceOptions,
        where: SparkOptions,
        ignore: Annotated[
            list[Ignored] | None,
            typer.Option("--ignore", help="Ignore this difference; repeatable."),
        ] = None,
        tolerance: Annotated[
            int,
            typer.Option(min=0, metavar="N", help="Accept differences of offsets up to this."),
        ] = 0,
        report: ReportOption = None,
    ) -> None:
        """Compare two sources of offsets of any kind: how B differs from A.

        Exits with 0 if they are the same, with 1 if not, and with 2 if they could not be compared.

        Examples:
            python -m offsetd_pipeline compare broker-data localhost:7171
            python -m offsetd_pipeline compare zk-export.txt localhost:7171 --report compared
            python -m offsetd_pipeline compare before.csv after.csv --group billing --tolerance 10
        """
        options = CompareOptions(ignored=frozenset(ignore or ()), tolerance=tolerance)
        narrowed = attrs.evolve(
            reading,
            groups=chosen.groups,
            group_prefix=chosen.group_prefix,
            topics=chosen.topics,
        )
        with told_failures(terminal, failed=EXIT_WRONG_USE), ExitStack() as stack:
            sources = named_source(a), named_source(b)
            for source in sources:  # Check this before Spark starts and reads the other source.
                check_answers(source, narrowed)
            spark = stack.enter_context(
                job_session("compare", where, terminal, failed=EXIT_WRONG_USE)
            )
            told = stack.enter_context(terminal.progress("comparing"))
            with told_progress(spark, told, "tasks"):
                found = compare(spark, *sources, options, source_options=narrowed)
            with found, told_progress(spark, told, "the report"):
                page = None if report is None else write_comparison(found, report)
            rows = list(_rows(found))
        _print(terminal, found, rows, page)
        if not found.is_same:
            raise typer.Exit(EXIT_FAILED)


def _chosen(
    *, group: list[str] | None, group_prefix: str, topic: list[str] | None
) -> SourceOptions:
    return SourceOptions(
        groups=tuple(group or ()), group_prefix=group_prefix, topics=tuple(topic or ())
    )


_with_chosen = with_options(
    "chosen",
    _chosen,
    {
        "group": (
            Annotated[
                list[str] | None,
                typer.Option("--group", metavar="GROUP", help="Only this group; repeatable."),
            ],
            None,
        ),
        "group_prefix": (
            Annotated[
                str,
                typer.Option(
                    "--group-prefix", metavar="TEXT", help="Only groups whose id has this prefix."
                ),
            ],
            "",
        ),
        "topic": (
            Annotated[
                list[str] | None,
                typer.Option("--topic", metavar="TOPIC", help="Only this topic; repeatable."),
            ],
            None,
        ),
    },
)


def _print(terminal: Terminal, found: Comparison, rows: list[Row], page: Path | None) -> None:
    terminal.rows(COLUMNS, rows)
    for line in _notes(found):
        terminal.note(line)
    if page is not None:
        terminal.note(f"{page}")


def _rows(found: Comparison) -> Iterator[Row]:
    for row in found.farthest.slice(0, LISTED_MAX).to_pylist():
        yield {name: row[name] for name in COLUMNS}


def _notes(found: Comparison) -> Iterator[str]:
    if found.difference_count > LISTED_MAX:
        more = found.difference_count - LISTED_MAX
        yield f"… and {more:,} more: --report FOLDER has all of them, in differences.parquet"
    for each in found.not_compared:
        yield f"{each}: not compared"
    for table in (found.a, found.b):
        if table.bad_line_count:
            yield f"{table.source}: {passed_over(table.bad_line_count, len(table.bad_lines))}"
            yield from table.bad_lines
    apart = found.options.tolerance
    within = f" (at most {counted(apart, 'offset')} apart)" if apart else ""
    counts = [f"{found.same_count:,} same{within}"]
    counts += [f"{count:,} {kind}" for kind, count in found.counts.items()]
    differ = "differs" if found.group_count == 1 else "differ"
    groups = f"; {counted(found.group_count, 'group')} {differ}" if found.counts else ""
    yield ", ".join(counts) + groups
