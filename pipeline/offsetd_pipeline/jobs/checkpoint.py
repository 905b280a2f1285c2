"""`checkpoint`: commits the offsets of a streaming query's checkpoint to a group."""

from collections.abc import Iterator
from typing import Annotated

import typer
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.printing.change_summary import summary
from offsetd_clients.cli.printing.dry_runs import (
    ExecuteOption,
    OnlyShowOption,
    check_dry_or_not,
    told_dry_run,
)
from offsetd_clients.cli.printing.plain_text import error_words
from offsetd_clients.cli.printing.terminal import Row, Terminal
from pyspark.errors import PySparkException

from offsetd_pipeline.jobs.session import ConfOption, MasterOption, SparkOptions, job_session
from offsetd_pipeline.queries.checkpoint_import import CheckpointImport, import_checkpoint
from offsetd_pipeline.queries.checkpoints import (
    Checkpoint,
    CheckpointUnreadable,
    Through,
    from_checkpoint,
)

COLUMNS = ("group", "topic", "partition", "offset", "new_offset", "change")

PathArgument = Annotated[
    str, typer.Argument(metavar="PATH", help="The query's checkpoint folder, or its URL.")
]
GroupOption = Annotated[str, typer.Option("--group", metavar="GROUP", help="The group.")]
ThroughOption = Annotated[
    Through, typer.Option(help="The last batch that is done, or the one planned after it.")
]
AllowBackOption = Annotated[
    bool, typer.Option("--allow-back", help="Also set offsets back where the group is further.")
]


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds the job to the command line."""

    @app.command("checkpoint")
    def checkpoint(
        path: PathArgument,
        *,
        group: GroupOption,
        through: ThroughOption = Through.COMMITTED,
        allow_back: AllowBackOption = False,
        dry_run: OnlyShowOption = False,
        execute: ExecuteOption = False,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
        master: MasterOption = "",
        conf: ConfOption = None,
    ) -> None:
        """Commit the Kafka offsets of a streaming query's checkpoint to a group.

        Nothing happens without --execute. Offsets of the group that are further stay. Folders of
        this machine are read without Spark, URLs with it.

        Examples:
            python -m offsetd_pipeline checkpoint checkpoints/billing --group billing
            python -m offsetd_pipeline checkpoint s3a://b/billing --group billing --execute
        """
        check_dry_or_not(dry_run=dry_run, execute=execute)
        found = _read(path, through, SparkOptions(master=master, settings=conf or ()), terminal)
        with connected(address, timeout, terminal) as client:
            done = import_checkpoint(found, client, group, allow_back=allow_back, execute=execute)
        _print(found, done, terminal)
        if done.changes and not execute:
            told_dry_run(terminal)


def _read(path: str, through: Through, options: SparkOptions, terminal: Terminal) -> Checkpoint:
    try:
        if "://" not in path:
            return from_checkpoint(path, through=through)
        with job_session("checkpoint", options, terminal) as spark:
            return from_checkpoint(path, through=through, spark=spark)
    except (CheckpointUnreadable, OSError, PySparkException) as error:
        terminal.fail(error_words(error))


def _print(checkpoint: Checkpoint, done: CheckpointImport, terminal: Terminal) -> None:
    terminal.rows(COLUMNS, _rows(done))
    terminal.note(f"query {checkpoint.query_id}, batch {checkpoint.batch_id}")
    later = checkpoint.planned_batch_id
    if later is not None and later > checkpoint.batch_id:
        terminal.note(f"batch {later} is planned, and may be done in part; it does not count")
    elif later is not None:
        terminal.note(f"batch {later} may be done in part: what is not will not be read")
    for each in checkpoint.passed_over:
        terminal.note(f"source {each.source} is passed over: {each.reason}")
    if done.changes:
        terminal.note(summary((each.before, each.after) for each in done.changes))
    if done.held_back:
        terminal.note(f"{len(done.held_back)} stay, as the group is further there (--allow-back)")
    if done.unchanged:
        terminal.note(f"{len(done.unchanged)} are there already")


def _rows(done: CheckpointImport) -> Iterator[Row]:
    for each in sorted((*done.changes, *done.held_back)):
        kind = "ahead"
        if each in done.held_back:
            kind = "held back"
        elif each.before is None:
            kind = "new"
        elif each.after < each.before:
            kind = "back"
        yield {
            "group": done.group_id,
            "topic": each.topic_partition.topic,
            "partition": each.topic_partition.partition,
            "offset": each.before,
            "new_offset": each.after,
            "change": kind,
        }
