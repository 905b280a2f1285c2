"""`offsetd log`: the subcommands and their options. Each imports its implementation when called.

`describe`, `dump` and `verify` read a data folder without a server and change nothing. Beside a
running server they read only below the recovery points. `clean`, `retain`, `repair` and `recreate`
change a folder that no server has open. All accept a Kafka broker's folder as well as offsetd's.
"""

from pathlib import Path
from typing import Annotated, Final

import typer
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC

from offsetd_coordinator.commands.terminal import Terminal

FolderOption = Annotated[
    Path,
    typer.Option("--data-dir", metavar="DIR", help="The data folder, offsetd's or a broker's."),
]
PartitionOption = Annotated[
    list[int] | None,
    typer.Option(
        "--partition",
        "-p",
        metavar="N",
        min=0,
        max=2**31 - 1,
        help="Only this one; may be repeated.",
    ),
]
TopicOption = Annotated[
    str, typer.Option("--topic", metavar="TOPIC", help="Whose partitions are meant.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="One setting; may be repeated.", metavar="NAME=VALUE"),
]
CleaningOption = Annotated[
    bool, typer.Option("--cleaning", help="Show what cleaning and retention have to do.")
]
DecoderOption = Annotated[
    bool, typer.Option("--offsets-decoder", help="Show the records' keys and values, as JSON.")
]
RollOption = Annotated[
    bool, typer.Option("--roll-active", help="End the segments that take appends before.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Change nothing; say what would go, and what be left.")
]
ShowOption = Annotated[bool, typer.Option("--dry-run", help="Only show it, as without --execute.")]
ExecuteOption = Annotated[
    bool, typer.Option("--execute", help="Do it; else only show what would be left out or lost.")
]

DEFAULT_FOLDER: Final = Path("offsetd-data")


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds the group `log`."""
    group = typer.Typer(help="The log in a data folder, without a server.", no_args_is_help=True)
    app.add_typer(group, name="log")
    _register_looks(group, terminal)
    _register_verify(group, terminal)
    _register_clean(group, terminal)
    _register_retain(group, terminal)
    _register_repair(group, terminal)
    _register_recreate(group, terminal)


def _register_looks(group: typer.Typer, terminal: Terminal) -> None:
    @group.command("describe")
    def describe(
        data_dir: FolderOption = DEFAULT_FOLDER,
        topic: TopicOption = OFFSETS_TOPIC,
        partition: PartitionOption = None,
        cleaning: CleaningOption = False,
    ) -> None:
        """Show the offsets, segments, bytes and records of each partition.

        Every batch is checked; the first bad one is named under PROBLEM. With --cleaning: how much
        was written since the last round, up to where the next one may go, from when on the first
        tombstones can go, what retention would take away, and until when a timestamp from the
        future blocks it. What a round would save is said by clean --dry-run.

        Examples:
            offsetd log describe --data-dir offsetd-data
            offsetd log describe --partition 9 --cleaning -o json
        """
        from offsetd_coordinator.commands import log_looks  # noqa: PLC0415

        log_looks.describe(terminal, data_dir, topic, partition, cleaning=cleaning)

    @group.command("dump")
    def dump(
        data_dir: FolderOption = DEFAULT_FOLDER,
        topic: TopicOption = OFFSETS_TOPIC,
        partition: PartitionOption = None,
        offsets_decoder: DecoderOption = False,
    ) -> None:
        """Print every batch and record.

        The lines are those of Kafka's DumpLogSegments, whatever --output says.

        Examples:
            offsetd log dump --data-dir offsetd-data --partition 9
            offsetd log dump --offsets-decoder | grep billing
        """
        from offsetd_coordinator.commands import log_looks  # noqa: PLC0415

        log_looks.dump(terminal, data_dir, topic, partition, decode_offsets=offsets_decoder)


def _register_verify(group: typer.Typer, terminal: Terminal) -> None:
    @group.command("verify")
    def verify(
        data_dir: FolderOption = DEFAULT_FOLDER,
        topic: Annotated[
            str | None,
            typer.Option("--topic", metavar="TOPIC", help="Only this one's partitions."),
        ] = None,
        partition: PartitionOption = None,
    ) -> None:
        """Check every batch, record, index and checkpoint, and what a start would miss.

        Without --topic and --partition all is checked that a server opens: the offsets, the
        settings that were changed at run time, and the audit log.
        Where each group lies is checked too. Prints file, position and reason of everything that is
        wrong, and exits with 1 if there is anything damaged. A batch from the future, which holds
        back retention, is a warning: it is as it was written, and there is nothing to repair.

        Examples:
            offsetd log verify --data-dir offsetd-data
            offsetd log verify --partition 9 -o json
        """
        from offsetd_coordinator.commands import log_looks  # noqa: PLC0415

        log_looks.verify(terminal, data_dir, topic, partition)


def _register_clean(group: typer.Typer, terminal: Terminal) -> None:
    @group.command("clean")
    def clean(
        data_dir: FolderOption = DEFAULT_FOLDER,
        topic: TopicOption = OFFSETS_TOPIC,
        partition: PartitionOption = None,
        roll_active: RollOption = False,
        dry_run: DryRunOption = False,
        assignments: SetOption = None,
    ) -> None:
        """Compact the offsets log, or another topic, of a server or broker that is stopped.

        The folder is locked and recovered, as at a start, each partition is cleaned once, however
        clean it is, and the folder is closed. Numbers are of the segments that may be cleaned: the
        one that takes appends may not. Settings are those of serve, log.cleaner.* and a topic's
        (delete.retention.ms, ...); of a topic that the server does not know, cleanup.policy has to
        be among them. A broker's folder stays a broker's: nothing of offsetd is left in it. Exits
        with 3 if only some partitions could be cleaned, with 0 if there was nothing to clean.

        Examples:
            offsetd log clean --data-dir offsetd-data --dry-run
            offsetd log clean --roll-active --set delete.retention.ms=0
        """
        from offsetd_coordinator.commands import log_clean  # noqa: PLC0415

        log_clean.clean(
            terminal,
            data_dir,
            topic,
            partition,
            assignments or (),
            rolls=roll_active,
            is_dry=dry_run,
        )


def _register_retain(group: typer.Typer, terminal: Terminal) -> None:
    @group.command("retain")
    def retain(
        data_dir: FolderOption = DEFAULT_FOLDER,
        topic: TopicOption = OFFSETS_TOPIC,
        partition: PartitionOption = None,
        dry_run: DryRunOption = False,
        assignments: SetOption = None,
    ) -> None:
        """Take away the oldest segments that are due, where no server has the folder open.

        The folder is locked and recovered, as at a start, each partition is looked at once, and the
        folder is closed. Segments go that lie below the log's start, are beyond retention.bytes, or
        older than retention.ms; of a topic that is only compacted, just the first. Settings that
        were changed while a server ran count; --set goes before them. A broker's folder stays a
        broker's: nothing of offsetd is left in it. Exits with 3 if only some partitions could be
        looked at.

        Examples:
            offsetd log retain --topic __offsetd_audit --dry-run
            offsetd log retain --topic __offsetd_audit --set retention.ms=86400000
        """
        from offsetd_coordinator.commands import log_retain  # noqa: PLC0415

        log_retain.retain(terminal, data_dir, topic, partition, assignments or (), is_dry=dry_run)


def _register_repair(group: typer.Typer, terminal: Terminal) -> None:
    @group.command("repair")
    def repair(
        data_dir: FolderOption = DEFAULT_FOLDER,
        topic: TopicOption = OFFSETS_TOPIC,
        partition: PartitionOption = None,
        dry_run: ShowOption = False,
        execute: ExecuteOption = False,
        assignments: SetOption = None,
    ) -> None:
        """Keep all that is whole of damaged partitions, and have them served again.

        For a quarantined partition whose folder no server has open. Every valid batch is kept, also
        those that the journal or the quarantine file holds. Shows the bytes that are left out, what
        is missing, and the groups that can be read in these bytes: what they committed there is
        lost, and what they had before counts again. A segment that is written anew stays beside as
        it was. Without --partition, all damaged partitions of the topic are meant.

        Examples:
            offsetd log repair --data-dir offsetd-data
            offsetd log repair --partition 9 --execute
        """
        _check_not_both(dry_run, execute)
        from offsetd_coordinator.commands import log_repair  # noqa: PLC0415

        log_repair.repair(
            terminal, data_dir, topic, partition, assignments or (), is_dry=not execute
        )


def _register_recreate(group: typer.Typer, terminal: Terminal) -> None:
    @group.command("recreate")
    def recreate(
        topic: Annotated[str, typer.Option("--topic", metavar="TOPIC", help="Of which topic.")],
        data_dir: FolderOption = DEFAULT_FOLDER,
        partition: PartitionOption = None,
        dry_run: ShowOption = False,
        execute: ExecuteOption = False,
        assignments: SetOption = None,
    ) -> None:
        """Have partitions begin anew, empty: with --execute all that they hold is lost.

        For a partition that is quarantined and cannot be brought back, and for a topic of the
        server's own whose records nobody needs any more. Its folder may be missing. It goes on at
        the offset at which it ended, so that no offset is given to another record. Of
        __consumer_offsets say which --partition; of another topic it is partition 0 without.

        Examples:
            offsetd log recreate --topic __consumer_offsets --partition 9
            offsetd log recreate --topic __consumer_offsets --partition 9 --execute
        """
        _check_not_both(dry_run, execute)
        from offsetd_coordinator.commands import log_recreate  # noqa: PLC0415

        log_recreate.recreate(
            terminal, data_dir, topic, partition, assignments or (), is_dry=not execute
        )


def _check_not_both(dry_run: bool, execute: bool) -> None:
    """Raises typer.BadParameter if a command is asked to show only and to do it."""
    if dry_run and execute:
        raise typer.BadParameter("--dry-run and --execute exclude each other")
