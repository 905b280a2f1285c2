"""`offsetd log`: the subcommands and their options. Each imports its implementation when called.

`describe`, `dump`, `verify` and `transactions list` read a data folder without a server and change
nothing. While a server has the folder open, they read only below the recovery points. `clean`,
`retain`, `repair`, `recreate` and `transactions abort` change a folder that no server has open.
Those that only read, `clean` and `retain` accept a Kafka broker's folder as well as offsetd's.
"""

from pathlib import Path
from typing import Annotated, Final

import typer
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC

from offsetd_coordinator.commands.terminal import Terminal


def given_folder(text: str | Path) -> Path:
    """A folder of the command line. Raises typer.BadParameter for an empty one: it would be `.`."""
    if not str(text):
        raise typer.BadParameter("it is empty: give the path of a folder")
    return Path(text)


FolderOption = Annotated[
    Path,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        parser=given_folder,
        help="The data folder, offsetd's or a broker's.",
    ),
]
PartitionOption = Annotated[
    list[int] | None,
    typer.Option(
        "--partition",
        "-p",
        metavar="N",
        min=0,
        max=2**31 - 1,
        help="Only this partition; may be repeated.",
    ),
]
TopicOption = Annotated[
    str, typer.Option("--topic", metavar="TOPIC", help="The topic of the partitions.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="One setting; may be repeated.", metavar="NAME=VALUE"),
]
CleaningOption = Annotated[
    bool, typer.Option("--cleaning", help="Show what cleaning and retention would do.")
]
DecoderOption = Annotated[
    bool, typer.Option("--offsets-decoder", help="Show the records' keys and values, as JSON.")
]
RollOption = Annotated[bool, typer.Option("--roll-active", help="First roll the active segments.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Change nothing; show what would be deleted and kept.")
]
ShowOption = Annotated[
    bool, typer.Option("--dry-run", help="Change nothing, as without --execute.")
]
ByGroupOption = Annotated[
    bool, typer.Option("--by-group", help="Show what is lost by group, not by file.")
]
ExecuteOption = Annotated[
    bool, typer.Option("--execute", help="Do it. Without it, only show what would be lost.")
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
    _register_transactions(group, terminal)


def _register_looks(group: typer.Typer, terminal: Terminal) -> None:
    @group.command("describe")
    def describe(
        data_dir: FolderOption = DEFAULT_FOLDER,
        topic: TopicOption = OFFSETS_TOPIC,
        partition: PartitionOption = None,
        cleaning: CleaningOption = False,
    ) -> None:
        """Show the offsets, segments, bytes and records of each partition.

        Every batch is checked; PROBLEM names the first bad one. --cleaning shows how much was
        written since the last round, up to which offset the next round may clean, when the first
        tombstones can be removed, how much retention would delete, and until when a timestamp in
        the future blocks retention. Use clean --dry-run to see how much a round would save.

        Examples:
            offsetd log describe --data-dir offsetd-data
            offsetd log describe --partition 9 --cleaning -o json
        """
        from offsetd_coordinator.commands import log_inspection  # noqa: PLC0415

        log_inspection.describe(terminal, data_dir, topic, partition, cleaning=cleaning)

    @group.command("dump")
    def dump(
        data_dir: FolderOption = DEFAULT_FOLDER,
        topic: TopicOption = OFFSETS_TOPIC,
        partition: PartitionOption = None,
        offsets_decoder: DecoderOption = False,
    ) -> None:
        """Print every batch and record.

        The lines are those of Kafka's DumpLogSegments. --output does not change them.

        Examples:
            offsetd log dump --data-dir offsetd-data --partition 9
            offsetd log dump --offsets-decoder | grep billing
        """
        from offsetd_coordinator.commands import log_inspection  # noqa: PLC0415

        log_inspection.dump(terminal, data_dir, topic, partition, decode_offsets=offsets_decoder)


def _register_verify(group: typer.Typer, terminal: Terminal) -> None:
    @group.command("verify")
    def verify(
        data_dir: FolderOption = DEFAULT_FOLDER,
        topic: Annotated[
            str | None,
            typer.Option("--topic", metavar="TOPIC", help="Only the partitions of this topic."),
        ] = None,
        partition: PartitionOption = None,
    ) -> None:
        """Check every batch, record, index and checkpoint, and look for missing files.

        Without --topic and --partition, this checks everything that a server opens: the offsets,
        the settings that were changed at run time, and the audit log. It also checks that each
        group is in the right partition. It prints the file, position and reason of every problem,
        and exits with 1 if anything is damaged. A batch with a timestamp in the future, which holds
        retention back, is a warning: it was written like that, and needs no repair.

        Examples:
            offsetd log verify --data-dir offsetd-data
            offsetd log verify --partition 9 -o json
        """
        from offsetd_coordinator.commands import log_inspection  # noqa: PLC0415

        log_inspection.verify(terminal, data_dir, topic, partition)


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
        """Compact the offsets log, or another topic, of a stopped server or broker.

        The folder is locked and recovered as at a start. Each partition is cleaned once, however
        clean it is, and the folder is closed. The numbers are those of the segments that may be
        cleaned; the active segment may not. The settings are those of serve: log.cleaner.* and a
        topic's (delete.retention.ms, ...). For a topic that the server does not know, set
        cleanup.policy, too. A broker's folder stays a broker's: no file of offsetd is left in it.
        The exit code is 3 if only some partitions could be cleaned, and 0 if there was nothing to
        clean.

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
        """Delete the oldest segments that are due, in a folder that no server has open.

        The folder is locked and recovered as at a start. Each partition is checked once, and the
        folder is closed. A segment is due if it lies below the log's start, is beyond
        retention.bytes, or is older than retention.ms. For a topic that is only compacted, only the
        first rule applies. Settings that were changed while a server ran apply; --set overrides
        them. A broker's folder stays a broker's: no file of offsetd is left in it. The exit code is
        3 if only some partitions could be checked.

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
        by_group: ByGroupOption = False,
        dry_run: ShowOption = False,
        execute: ExecuteOption = False,
        assignments: SetOption = None,
    ) -> None:
        """Keep all valid batches of damaged partitions, so that they are served again.

        For quarantined partitions in a folder that no server has open. Every valid batch is kept,
        also those that the journal or the quarantine file holds. The command shows the bytes that
        are left out, what is missing, and the groups that can be read in these bytes. With
        --by-group it shows each record that is lost, and the offset that applies after the repair.
        The original of a rewritten segment is kept beside it, and the audit log gets an entry.
        Without --partition, all damaged partitions of the topic are repaired.

        Examples:
            offsetd log repair --data-dir offsetd-data --by-group
            offsetd log repair --partition 9 --execute
        """
        _check_not_both(dry_run, execute)
        from offsetd_coordinator.commands import log_repair  # noqa: PLC0415

        log_repair.repair(
            terminal,
            data_dir,
            topic,
            partition,
            assignments or (),
            is_dry=not execute,
            by_group=by_group,
        )


def _register_recreate(group: typer.Typer, terminal: Terminal) -> None:
    @group.command("recreate")
    def recreate(
        topic: Annotated[
            str, typer.Option("--topic", metavar="TOPIC", help="The topic of the partitions.")
        ],
        data_dir: FolderOption = DEFAULT_FOLDER,
        partition: PartitionOption = None,
        dry_run: ShowOption = False,
        execute: ExecuteOption = False,
        assignments: SetOption = None,
    ) -> None:
        """Recreate partitions empty. With --execute, all their records are lost.

        For a quarantined partition that cannot be repaired, and for a topic of the server's own
        whose records are no longer needed. The partition's folder may be missing. New records
        continue at the offset at which the log ended, so that no offset is given to another record.
        --partition is required for __consumer_offsets; for another topic the default is 0.

        Examples:
            offsetd log recreate --topic __consumer_offsets --partition 9
            offsetd log recreate --topic __consumer_offsets --partition 9 --execute
        """
        _check_not_both(dry_run, execute)
        from offsetd_coordinator.commands import log_recreate  # noqa: PLC0415

        log_recreate.recreate(
            terminal, data_dir, topic, partition, assignments or (), is_dry=not execute
        )


def _register_transactions(group: typer.Typer, terminal: Terminal) -> None:
    transactions = typer.Typer(
        help="Transactions without an end, in a folder that a broker wrote.", no_args_is_help=True
    )
    group.add_typer(transactions, name="transactions")

    @transactions.command("list")
    def list_transactions(
        data_dir: FolderOption = DEFAULT_FOLDER,
        topic: TopicOption = OFFSETS_TOPIC,
        partition: PartitionOption = None,
    ) -> None:
        """Show the transactions that nothing has ended.

        Their offsets are pending: fetches that require stable offsets wait for them, they do not
        expire, and the cleaner does not go beyond the first one.

        Examples:
            offsetd log transactions list --data-dir offsetd-data
        """
        from offsetd_coordinator.commands import log_transactions  # noqa: PLC0415

        log_transactions.list_open(terminal, data_dir, topic, partition)

    @transactions.command("abort")
    def abort_transaction(
        producer_id: Annotated[
            int, typer.Option("--producer-id", metavar="ID", min=0, help="The producer to abort.")
        ],
        data_dir: FolderOption = DEFAULT_FOLDER,
        topic: TopicOption = OFFSETS_TOPIC,
        partition: PartitionOption = None,
        dry_run: ShowOption = False,
        execute: ExecuteOption = False,
        assignments: SetOption = None,
    ) -> None:
        """Abort the open transactions of one producer: their pending offsets are discarded.

        For a folder that offsetd has taken over from a broker, and that no server has open. Without
        --partition, the producer's transactions in all partitions of the topic are aborted. The
        audit log gets an entry. While a broker still has the folder, use kafka-transactions.sh.

        Examples:
            offsetd log transactions abort --producer-id 4000 --data-dir offsetd-data
            offsetd log transactions abort --producer-id 4000 --partition 9 --execute
        """
        _check_not_both(dry_run, execute)
        from offsetd_coordinator.commands import log_transactions  # noqa: PLC0415

        log_transactions.abort(
            terminal, data_dir, topic, partition, assignments or (), producer_id, is_dry=not execute
        )


def _check_not_both(dry_run: bool, execute: bool) -> None:
    """Raises typer.BadParameter if both --dry-run and --execute are given."""
    if dry_run and execute:
        raise typer.BadParameter("--dry-run and --execute exclude each other")
