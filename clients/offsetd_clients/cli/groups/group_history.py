"""`offsetd watch` and `offsetd groups history|restore`: the history of offsets."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import chain, islice
from typing import Annotated

import typer

from offsetd_clients.cli.arguments.group_choice import (
    GroupChoice,
    told_left_out,
    with_any_groups,
    with_groups,
)
from offsetd_clients.cli.arguments.options import ReasonOption, TopicsOption
from offsetd_clients.cli.arguments.reset_targets import parse_time
from offsetd_clients.cli.arguments.topic_choice import ShownTopicsOption, TopicChoice
from offsetd_clients.cli.arguments.whole_numbers import INT64_MAX
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.each_group import each_group, report_failures
from offsetd_clients.cli.printing.change_summary import summary
from offsetd_clients.cli.printing.dry_runs import OnlyShowOption, check_dry_or_not, told_dry_run
from offsetd_clients.cli.printing.terminal import (
    OutputFormat,
    Row,
    Terminal,
    named_id,
    printable,
    time_text,
)
from offsetd_clients.errors import GroupNotFound, OffsetdError
from offsetd_clients.history_values import OffsetEvent, RestoredOffset
from offsetd_clients.sync.watch import OffsetWatch

EVENT_COLUMNS = (
    "time",
    "group",
    "topic",
    "partition",
    "event",
    "offset",
    "leader_epoch",
    "metadata",
    "log_partition",
    "revision",
)
EVENT_DROPPABLE = ("leader_epoch", "log_partition", "metadata", "event")
RESTORE_COLUMNS = ("group", "topic", "partition", "offset", "new_offset", "revision")

RevisionOption = Annotated[
    int | None,
    typer.Option(min=0, max=INT64_MAX, metavar="REVISION", help="Restore to this revision."),
]


def register_watch(app: typer.Typer, terminal: Terminal) -> None:
    """Adds `watch`."""

    @app.command("watch")
    @with_any_groups
    def watch(
        groups: GroupChoice,
        *,
        prefix: Annotated[
            str, typer.Option(metavar="TEXT", help="Also groups whose id has this prefix.")
        ] = "",
        topics: TopicsOption = None,
        since: Annotated[
            str,
            typer.Option(
                "--from",
                metavar="TOKEN",
                help="Start at this token; `oldest`: as far back as possible.",
            ),
        ] = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Print commits and deletions as they happen. Ctrl-C ends it and prints where to go on.

        Without names it watches all groups.

        Examples:
            offsetd watch
            offsetd watch billing --topic orders -o jsonl
            offsetd watch billing --from oldest | head
        """
        if groups.all_groups and prefix:
            raise typer.BadParameter("--prefix chooses groups: it cannot go with --all-groups")
        with connected(address, timeout, terminal) as client:
            for group_id in groups.named:
                try:
                    client.get_group(group_id)
                except GroupNotFound:
                    terminal.note(f"there is no {named_id(group_id)} yet: waiting for its commits")
            from_oldest = since == "oldest"
            watching = client.watch_offsets(
                groups.named,
                group_id_prefix=prefix,
                topics=topics or (),
                token="" if from_oldest else since,
                from_oldest=from_oldest,
            )
            with terminal.when_reader_leaves(watching.cancel), _ended_by_ctrl_c(watching):
                try:
                    _print_events(watching, terminal)
                except KeyboardInterrupt:  # This is a second Ctrl-C.
                    watching.cancel()
                finally:
                    # The reader of stdout may have left before it read all events. A watch that
                    # continues at this token would then skip events, so the token is not printed.
                    if watching.token not in ("", since) and not terminal.reader_is_gone:
                        terminal.note(f"go on with: --from {watching.token}", is_whole=True)


def register_groups(app: typer.Typer, terminal: Terminal) -> None:
    """Adds `history` and `restore` to `app`."""
    _register_history(app, terminal)
    _register_restore(app, terminal)


def _register_history(app: typer.Typer, terminal: Terminal) -> None:
    @app.command("history")
    @with_groups
    def history(
        groups: GroupChoice,
        *,
        since: Annotated[
            str | None, typer.Option("--from", metavar="TIME", help="From this time on; ISO 8601.")
        ] = None,
        until: Annotated[
            str | None, typer.Option("--to", metavar="TIME", help="Up to this time; ISO 8601.")
        ] = None,
        oldest_first: Annotated[
            bool, typer.Option("--oldest-first", help="Default: newest first.")
        ] = False,
        topics: ShownTopicsOption = None,
        limit: Annotated[
            int | None,
            typer.Option(min=1, max=INT64_MAX, metavar="N", help="At most this many rows a group."),
        ] = None,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Print commits and deletions of groups, as far back as the log is complete.

        The groups follow one another. Rows are printed as they come; a table repeats its header
        every thousand rows.

        Examples:
            offsetd groups history billing
            offsetd groups history billing --from 2026-11-20T21:00 --to 2026-11-20T22:00
            offsetd groups history billing --oldest-first -o csv
            offsetd groups history billing --topic orders:0,1 --limit 20
            offsetd groups history --all-groups --limit 1       # the last changes
        """
        chosen = TopicChoice.of(topics)
        first = None if since is None else parse_time(since)
        last = None if until is None else parse_time(until)
        with connected(address, timeout, terminal) as client:

            def events_of(group_id: str) -> Iterator[OffsetEvent]:
                events = client.list_offset_history(
                    group_id, since=first, until=last, oldest_first=oldest_first
                )
                try:
                    yield from islice((e for e in events if e.topic_partition in chosen), limit)
                    there.append(group_id)
                except GroupNotFound as error:
                    absent.append((group_id, error))

            there: list[str] = []
            absent: list[tuple[str, OffsetdError]] = []
            events = chain.from_iterable(map(events_of, groups.ids(client, terminal)))
            begun = list(islice(events, 1))
            if begun or there or not absent:
                rows = map(_event_row, chain(begun, events))
                terminal.rows_as_they_come(EVENT_COLUMNS, rows, droppable=EVENT_DROPPABLE)
        report_failures(absent, there, address, terminal)


def _register_restore(app: typer.Typer, terminal: Terminal) -> None:
    @app.command("restore")
    @with_groups
    def restore(
        groups: GroupChoice,
        *,
        to_datetime: Annotated[
            str | None,
            typer.Option(metavar="TIME", help="Restore to this time: ISO 8601, else UTC."),
        ] = None,
        to_revision: RevisionOption = None,
        force: Annotated[
            bool, typer.Option("--force", help="Also while the group has members or a lease.")
        ] = False,
        dry_run: OnlyShowOption = False,
        execute: Annotated[
            bool, typer.Option("--execute", help="Apply the changes; else only show them.")
        ] = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Restore earlier offsets of groups.

        The present ones are replaced, but stay in the history.

        To undo a reset, restore the revision before its own. A revision belongs to one group;
        several groups are restored to a time, one after the other.

        Examples:
            offsetd groups restore billing --to-datetime 2026-11-20T21:06:15.341
            offsetd groups restore billing --to-revision 17 --execute --reason "undone"
            offsetd groups restore --all-groups --to-datetime 2026-11-20T21:06 --execute
        """
        target = _target(to_datetime, to_revision)
        if to_revision is not None and len(groups.named) != 1:
            raise typer.BadParameter(
                "--to-revision is for one group: use --to-datetime for several"
            )
        check_dry_or_not(dry_run=dry_run, execute=execute)
        with connected(address, timeout, terminal) as client:
            done, failures = each_group(
                groups.ids(client, terminal),
                lambda group_id: client.restore_group(
                    group_id, target, force=force, validate_only=not execute, reason=reason
                ),
            )
        changes = [(group_id, each) for group_id, answer in done for each in answer.changes]
        if done:
            rows = (_restored_row(*each) for each in changes)
            terminal.rows(RESTORE_COLUMNS, rows, droppable=("revision",))
        for group_id, answer in () if groups.all_groups else done:
            if not answer.changes:
                which = "" if len(groups.named) == 1 else f" of {named_id(group_id)}"
                terminal.note(f"nothing to change: the offsets{which} are as they were then")
        if changes:
            terminal.note(summary((each.offset_before, each.offset_after) for _, each in changes))
            if not execute:
                told_dry_run(terminal)
        report_failures(failures, done, address, terminal)


def _target(time: str | None, revision: int | None) -> datetime | int:
    if time is not None and revision is None:
        return parse_time(time)
    if revision is not None and time is None:
        return revision
    raise typer.BadParameter("give one of --to-datetime and --to-revision")


def _print_events(watching: OffsetWatch, terminal: Terminal) -> None:
    if terminal.output_format is OutputFormat.TABLE:
        terminal.lines(map(_event_line, _flushed_events(watching, terminal)))
    else:
        terminal.rows(EVENT_COLUMNS, map(_event_row, _flushed_events(watching, terminal)))


def _flushed_events(watching: OffsetWatch, terminal: Terminal) -> Iterator[OffsetEvent]:
    """Yields the events until the watch is cancelled. Flushes the output after each batch."""
    told: tuple[int, ...] = ()
    for batch in watching.batches():
        if watching.unreachable_log_partitions != told:
            told = watching.unreachable_log_partitions
            told_left_out(terminal)(sorted(set(told)))
        yield from batch.events
        terminal.flush()


@contextmanager
def _ended_by_ctrl_c(watching: OffsetWatch) -> Iterator[None]:
    """Lets Ctrl-C end the watch after the present event, and a second Ctrl-C at once."""

    def end(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, before)
        watching.cancel()

    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _event_row(event: OffsetEvent) -> Row:
    return {
        "time": event.time,
        "group": event.group_id,
        "topic": event.topic_partition.topic,
        "partition": event.topic_partition.partition,
        "event": _kind(event),
        "offset": event.offset,
        "leader_epoch": event.leader_epoch,
        "metadata": event.metadata or None,
        "log_partition": event.revision.log_partition,
        "revision": event.revision.log_offset,
    }


def _kind(event: OffsetEvent) -> str:
    if not event.is_readable:
        return "unreadable"
    return "deleted" if event.offset is None else "committed"


def _event_line(event: OffsetEvent) -> str:
    what = _kind(event) if event.offset is None else str(event.offset)
    line = f"{time_text(event.time)}  {event.group_id}  {event.topic_partition}  {what}"
    return printable(line)


def _restored_row(group_id: str, change: RestoredOffset) -> Row:
    return {
        "group": group_id,
        "topic": change.topic_partition.topic,
        "partition": change.topic_partition.partition,
        "offset": change.offset_before,
        "new_offset": change.offset_after,
        "revision": change.revision.log_offset if change.revision else None,
    }
