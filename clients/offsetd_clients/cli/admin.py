"""`offsetd admin`. Other packages add subcommands by entry points (`offsetd.admin_commands`)."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Annotated

import typer

from offsetd_clients.admin_values import (
    CleaningRound,
    CompactedLog,
    ConfigSetting,
    LogPartition,
    UncleanablePartition,
)
from offsetd_clients.cli import audit, health, quotas
from offsetd_clients.cli.application import group_with
from offsetd_clients.cli.arguments.options import DryRunOption, ReasonOption
from offsetd_clients.cli.arguments.whole_numbers import INT32_MAX
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.printing.cluster_summary import report_cluster
from offsetd_clients.cli.printing.config_table import print_config
from offsetd_clients.cli.printing.server_summary import (
    fail_if_any,
    note_settings_problem,
    server_lines,
    server_troubles,
    why_records_stay,
)
from offsetd_clients.cli.printing.terminal import (
    EXIT_FAILED,
    EXIT_PARTLY,
    EXIT_WRONG_USE,
    Row,
    Terminal,
    time_text,
)
from offsetd_clients.plurals import counted

CLEAN_TIMEOUT_S_DEFAULT = 600.0
# The gRPC service of each health name that users see.
HEALTH = {"server": "", "cleaner": "offsetd.cleaner"}

STATUS_COLUMNS = (
    "partition",
    "log_start_offset",
    "log_end_offset",
    "segments",
    "bytes",
    "dirty_ratio",
    "first_dirty",
    "first_uncleanable",
    "oldest_dirty_s",
    "state",
    "problem",
)
STATUS_DROPPABLE = (
    "first_uncleanable",
    "oldest_dirty_s",
    "first_dirty",
    "log_start_offset",
    "segments",
    "dirty_ratio",
)
CLEAN_COLUMNS = (
    "partition",
    "bytes_before",
    "bytes_after",
    "records_before",
    "records_after",
    "segments_before",
    "segments_after",
    "seconds",
    "problem",
)
CLEAN_DROPPABLE = ("segments_before", "segments_after", "seconds")
RETRY_COLUMNS = (
    "partition",
    "reason",
    "damaged",
    "failures",
    "first_failure",
    "last_failure",
    "next_retry",
)
DELETE_COLUMNS = ("topic", "partition", "log_start_offset", "deleted_bytes", "revision")

TopicOption = Annotated[
    str, typer.Option("--topic", metavar="TOPIC", help="The topic; default: the offsets topic.")
]
PartitionsOption = Annotated[
    list[int] | None,
    typer.Option(
        "--partition", min=0, max=INT32_MAX, metavar="N", help="Only this one; repeatable."
    ),
]


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds `admin` with its subcommands."""
    admin = typer.Typer(
        cls=group_with("offsetd.admin_commands", terminal),
        help="Inspect and change a running server.",
        no_args_is_help=True,
    )
    _register_status(admin, terminal)
    _register_config(admin, terminal)
    _register_clean(admin, terminal)
    _register_retry(admin, terminal)
    _register_delete_records(admin, terminal)
    audit.register(admin, terminal)
    health.register(admin, terminal)
    quotas.register(admin, terminal)
    app.add_typer(admin, name="admin")


def _register_status(admin: typer.Typer, terminal: Terminal) -> None:
    @admin.command("status")
    def status(
        *,
        topic: TopicOption = "",
        partitions: PartitionsOption = None,
        all_partitions: Annotated[
            bool,
            typer.Option(
                "--partitions", help="Print all partitions, not only those with problems."
            ),
        ] = False,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Print the health of the server and of its log.

        Notes on the whole server go to stderr. A terminal shows only partitions with problems,
        unless you ask for others; a pipe, and the formats of -o, get all of them. Exits with 1 if
        the server does not serve, its cleaner is stalled, commits are refused because the disk is
        full, or a log is damaged or cannot be cleaned. In a cluster: prints its nodes and its log
        partitions, and fails if a node does not answer or a log partition is not served.

        Examples:
            offsetd admin status
            offsetd admin status --partitions
            offsetd admin status --partition 9
            offsetd admin status -o json > status.json
        """
        with connected(address, timeout, terminal) as client:
            served = client.get_server_info()
            health = {name: client.is_serving(service) for name, service in HEALTH.items()}
            terminal.note("\n".join(server_lines(served, health)))
            note_settings_problem(served, terminal)
            for problem in served.problems:
                terminal.note(problem)
            if served.state != "serving":
                # A server in this state does not describe its log.
                terminal.fail(f"the server is {served.state}")
            if served.cluster_id and not topic:
                cluster = client.describe_cluster()
                in_trouble = report_cluster(
                    cluster, terminal, named=partitions or (), all_partitions=all_partitions
                )
                fail_if_any(server_troubles(served, health) + in_trouble, terminal)
                return
            described = client.describe_log(topic, partitions or ())
        in_trouble = _report_log(
            topic, described, terminal, all_partitions=bool(partitions) or all_partitions
        )
        fail_if_any(server_troubles(served, health) + in_trouble, terminal)


def _report_log(
    topic: str, described: Sequence[LogPartition], terminal: Terminal, *, all_partitions: bool
) -> list[str]:
    """Prints the partitions of a log. Returns the names of those in trouble."""
    troubled = [each for each in described if _problem(each) is not None]
    if all_partitions or not terminal.is_drawing:
        terminal.rows(STATUS_COLUMNS, map(_status_row, described), droppable=STATUS_DROPPABLE)
    else:
        terminal.note(_log_line(topic, described))
        if troubled:
            terminal.rows(STATUS_COLUMNS, map(_status_row, troubled))
    for each in described:
        if each.blocked_retention is not None:
            blocked = each.blocked_retention
            terminal.note(
                f"partition {each.partition}: retention is blocked until"
                f" {time_text(blocked.blocked_until_time)} by a timestamp in the segment at"
                f" {blocked.base_offset}, {time_text(blocked.timestamp)}; it holds"
                f" {blocked.held_bytes} bytes that are due"
            )
    return [f"partition {each.partition}" for each in troubled]


def _register_config(admin: typer.Typer, terminal: Terminal) -> None:
    @admin.command("config")
    def config(
        assignments: Annotated[
            list[str] | None,
            typer.Argument(metavar="NAME[=VALUE]", help="The setting to set, or to show."),
        ] = None,
        *,
        unset: Annotated[
            list[str] | None,
            typer.Option("--unset", metavar="NAME", help="Remove a dynamic value; repeatable."),
        ] = None,
        topic: Annotated[
            str,
            typer.Option("--topic", metavar="TOPIC", help="Of this topic; default: the server."),
        ] = "",
        changed: Annotated[
            bool, typer.Option("--changed", help="Show only changed settings.")
        ] = False,
        long: Annotated[
            bool, typer.Option("--long", help="Also show meanings and bounds.")
        ] = False,
        dry_run: DryRunOption = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Show settings, or change some while the server runs: all of them or none.

        Examples:
            offsetd admin config --changed
            offsetd admin config offsets.retention.minutes --long
            offsetd admin config log.cleaner.threads=2 --reason "much to clean"
            offsetd admin config --unset log.cleaner.threads
            offsetd admin config --topic __consumer_offsets segment.ms=3600000 --dry-run
        """
        changes, names = _read_assignments(assignments or (), terminal)
        if names and (changes or unset):
            terminal.fail("either show settings or change some", EXIT_WRONG_USE)
        with connected(address, timeout, terminal) as client:
            if changes or unset:
                settings: Sequence[ConfigSetting] = client.update_config(
                    changes,
                    remove=unset or (),
                    topic=topic,
                    validate_only=dry_run,
                    reason=reason,
                ).settings
            else:
                settings = client.describe_config(topic, names)
                note_settings_problem(client.get_server_info(), terminal)
        if changed:
            settings = [each for each in settings if each.source != "default" or each.problem]
        print_config(settings, terminal, long=long)
        for each in settings:
            if each.problem:
                terminal.note(f"{each.name}: {each.problem}")
        if dry_run:
            terminal.note("dry run: nothing was changed")


def _register_clean(admin: typer.Typer, terminal: Terminal) -> None:
    @admin.command("clean")
    def clean(
        *,
        topic: TopicOption = "",
        partitions: PartitionsOption = None,
        roll_active: Annotated[
            bool, typer.Option("--roll-active", help="Roll the active segments first.")
        ] = False,
        dry_run: Annotated[
            bool,
            typer.Option("--dry-run", help="Change nothing; print the size that would be left."),
        ] = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = CLEAN_TIMEOUT_S_DEFAULT,
    ) -> None:
        """Compact the log once, even if it is clean, and wait for the end.

        If the time runs out, the cleaning goes on in the server. Exits with 3 if only some
        partitions could be cleaned.

        Examples:
            offsetd admin clean --dry-run
            offsetd admin clean --partition 9 --roll-active
        """
        with connected(address, timeout, terminal) as client, terminal.progress("cleaning"):
            compacted = client.compact_log(
                topic,
                partitions or (),
                roll_active=roll_active,
                validate_only=dry_run,
                reason=reason,
            )
            is_idle = not any(each.round or each.failure for each in compacted.partitions)
            hint = why_records_stay(client, topic) if is_idle else ""
        rows = [
            _round_row(each.partition, each.round, each.failure)
            for each in compacted.partitions
            if each.round is not None or each.failure
        ]
        terminal.rows(CLEAN_COLUMNS, rows, droppable=CLEAN_DROPPABLE)
        _conclude(compacted, terminal, hint, dry_run=dry_run, rolls=roll_active)


def _register_retry(admin: typer.Typer, terminal: Terminal) -> None:
    @admin.command("retry")
    def retry(
        partitions: Annotated[
            list[int], typer.Argument(metavar="PARTITION", min=0, help="An uncleanable partition.")
        ],
        *,
        topic: TopicOption = "",
        dry_run: DryRunOption = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Let the cleaner retry partitions at once that could not be cleaned.

        Examples:
            offsetd admin retry 9 --reason "the disk has room again"
        """
        with connected(address, timeout, terminal) as client:
            retried = [
                (
                    partition,
                    client.retry_partition(
                        partition, topic, validate_only=dry_run, reason=reason
                    ).uncleanable,
                )
                for partition in dict.fromkeys(partitions)
            ]
        rows = [
            _failure_row(partition, failure)
            for partition, failure in retried
            if failure is not None
        ]
        terminal.rows(RETRY_COLUMNS, rows)
        for partition, failure in retried:
            if failure is None:
                terminal.note(f"partition {partition}: nothing is wrong")
        if dry_run:
            terminal.note("dry run: nothing was done")


def _register_delete_records(admin: typer.Typer, terminal: Terminal) -> None:
    @admin.command("delete-records")
    def delete_records(
        log: Annotated[
            str, typer.Argument(metavar="TOPIC:PARTITION", help="The partition to delete from.")
        ],
        *,
        before: Annotated[
            int | None,
            typer.Option("--before", min=0, metavar="OFFSET", help="Delete below this offset."),
        ] = None,
        everything: Annotated[
            bool, typer.Option("--all", help="Delete all present records.")
        ] = False,
        dry_run: DryRunOption = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Raise the start of a partition's log. Segments below the new start are deleted.

        Examples:
            offsetd admin delete-records __offsetd_audit:0 --before 1000 --dry-run
            offsetd admin delete-records __offsetd_audit:0 --all
        """
        topic, colon, partition = log.rpartition(":")
        if not colon or not topic or not (partition.isascii() and partition.isdigit()):
            terminal.fail(f"{log!r} is not TOPIC:PARTITION", EXIT_WRONG_USE)
        if everything == (before is not None):
            terminal.fail("say either --before OFFSET or --all", EXIT_WRONG_USE)
        with connected(address, timeout, terminal) as client:
            deleted = client.delete_records(
                topic, int(partition), before, validate_only=dry_run, reason=reason
            )
        row: Row = {
            "topic": topic,
            "partition": int(partition),
            "log_start_offset": deleted.log_start_offset,
            "deleted_bytes": deleted.deleted_bytes,
            "revision": deleted.revision.log_offset if deleted.revision else None,
        }
        terminal.rows(DELETE_COLUMNS, [row])
        if dry_run:
            terminal.note("dry run: nothing was deleted")


def _read_assignments(
    assignments: Iterable[str], terminal: Terminal
) -> tuple[dict[str, str], list[str]]:
    """Splits the arguments into settings to set and settings to show."""
    changes: dict[str, str] = {}
    names: list[str] = []
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            names.append(name)
        elif name in changes:
            terminal.fail(f"{name} is set twice", EXIT_WRONG_USE)
        else:
            changes[name] = value
    return changes, names


def _log_line(topic: str, described: Sequence[LogPartition]) -> str:
    """One line about the log, for output without its partitions."""
    sound = [each for each in described if not each.quarantine_reason]
    segments = counted(sum(len(each.segments) for each in sound), "segment")
    size = counted(sum(each.size_bytes for each in sound), "byte")
    log = f"{topic or '__consumer_offsets'}: {counted(len(described), 'partition')}"
    return f"{log} (listed by --partitions), {segments}, {size}"


def _problem(partition: LogPartition) -> str | None:
    if partition.quarantine_reason:
        return partition.quarantine_reason
    if partition.cleaning is not None and partition.cleaning.uncleanable is not None:
        return partition.cleaning.uncleanable.reason
    return None


def _status_row(partition: LogPartition) -> Row:
    row: dict[str, object] = {
        "partition": partition.partition,
        "problem": _problem(partition),
    }
    if partition.quarantine_reason:
        return row | {"state": "quarantined"}
    row |= {
        "log_start_offset": partition.log_start_offset,
        "log_end_offset": partition.log_end_offset,
        "segments": len(partition.segments),
        "bytes": partition.size_bytes,
    }
    cleaning = partition.cleaning
    if cleaning is not None:
        row |= {
            "dirty_ratio": round(cleaning.dirty_ratio, 4),
            "first_dirty": cleaning.first_dirty_offset,
            "first_uncleanable": cleaning.first_uncleanable_offset,
            "oldest_dirty_s": _seconds(cleaning.oldest_dirty_age),
            "state": str(cleaning.state),
        }
    return row


def _round_row(partition: int, finished: CleaningRound | None, failure: str) -> Row:
    row: dict[str, object] = {"partition": partition, "problem": failure or None}
    if finished is not None:
        row |= {
            "bytes_before": finished.bytes_before,
            "bytes_after": finished.bytes_after,
            "records_before": finished.records_before,
            "records_after": finished.records_after,
            "segments_before": finished.segments_before,
            "segments_after": finished.segments_after,
            "seconds": _seconds(finished.duration),
        }
    return row


def _conclude(
    compacted: CompactedLog, terminal: Terminal, hint: str, *, dry_run: bool, rolls: bool
) -> None:
    rounds = [each.round for each in compacted.partitions if each.round is not None]
    failed = [each for each in compacted.partitions if each.failure]
    if rounds:
        before = sum(each.bytes_before for each in rounds)
        saved = before - sum(each.bytes_after for each in rounds)
        terminal.note(
            f"{'a pass would save' if dry_run else 'saved'} {saved} of {before} bytes in"
            f" {len(rounds)} {'partition' if len(rounds) == 1 else 'partitions'}"
        )
    elif not failed:
        hint += "" if rolls else "; --roll-active ends those that take appends"
        terminal.note(f"nothing to clean: no partition has a segment that may be cleaned{hint}")
    if failed:
        names = ", ".join(str(each.partition) for each in failed)
        code = EXIT_PARTLY if len(failed) < len(compacted.partitions) else EXIT_FAILED
        terminal.fail(f"cannot be cleaned: {names}", code)


def _failure_row(partition: int, failure: UncleanablePartition) -> Row:
    return {
        "partition": partition,
        "reason": failure.reason,
        "damaged": failure.is_damaged,
        "failures": failure.failures_in_row,
        "first_failure": failure.first_failure_time,
        "last_failure": failure.last_failure_time,
        "next_retry": failure.next_retry_time,
    }


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else round(duration.total_seconds(), 3)
