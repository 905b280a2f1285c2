"""`offsetd watch` and `offsetd groups history|restore`: what happened, what happens, undone."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated

import typer

from offsetd_clients.cli.completion import complete_group_id
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.dry_runs import OnlyShowOption, check_dry_or_not, told_dry_run
from offsetd_clients.cli.offsets import INT64_MAX
from offsetd_clients.cli.options import GroupArgument, ReasonOption, TopicsOption
from offsetd_clients.cli.reset_targets import parse_time
from offsetd_clients.cli.terminal import OutputFormat, Row, Terminal, printable, time_text
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
RESTORE_COLUMNS = ("group", "topic", "partition", "offset", "new_offset", "revision")

RevisionOption = Annotated[
    int | None,
    typer.Option(min=0, max=INT64_MAX, metavar="REVISION", help="As a revision left them."),
]


def register_watch(app: typer.Typer, terminal: Terminal) -> None:
    """Adds `watch`."""

    @app.command("watch")
    def watch(
        group_ids: Annotated[
            list[str] | None,
            typer.Argument(
                metavar="GROUP", help="Only this group.", autocompletion=complete_group_id
            ),
        ] = None,
        *,
        prefix: Annotated[
            str, typer.Option(metavar="TEXT", help="And groups whose id begins so.")
        ] = "",
        topics: TopicsOption = None,
        since: Annotated[
            str,
            typer.Option("--from", metavar="TOKEN", help="Go on there; `oldest`: as far back."),
        ] = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Print commits and deletions as they come, until Ctrl-C, which prints where to go on.

        Examples:
            offsetd watch
            offsetd watch billing --topic orders -o jsonl
            offsetd watch billing --from oldest | head
        """
        with connected(address, timeout, terminal) as client:
            from_oldest = since == "oldest"
            watching = client.watch_offsets(
                group_ids or (),
                group_id_prefix=prefix,
                topics=topics or (),
                token="" if from_oldest else since,
                from_oldest=from_oldest,
            )
            with terminal.when_reader_leaves(watching.cancel), _ended_by_ctrl_c(watching):
                try:
                    _print_events(watching, terminal)
                except KeyboardInterrupt:  # The second one.
                    watching.cancel()
                finally:
                    # Who went away has not read all that was printed: that token skips something.
                    if watching.token not in ("", since) and not terminal.reader_is_gone:
                        terminal.note(f"go on with: --from {watching.token}")


def register_groups(groups: typer.Typer, terminal: Terminal) -> None:
    """Adds `history` and `restore` to `groups`."""
    _register_history(groups, terminal)
    _register_restore(groups, terminal)


def _register_history(groups: typer.Typer, terminal: Terminal) -> None:
    @groups.command("history")
    def history(
        group_id: GroupArgument,
        *,
        since: Annotated[
            str | None, typer.Option("--from", metavar="TIME", help="From then on; ISO 8601.")
        ] = None,
        until: Annotated[
            str | None, typer.Option("--to", metavar="TIME", help="Until then; ISO 8601.")
        ] = None,
        oldest_first: Annotated[
            bool, typer.Option("--oldest-first", help="Else the newest come first.")
        ] = False,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Print commits and deletions of a group, as far back as the log has all of them.

        Examples:
            offsetd groups history billing
            offsetd groups history billing --from 2026-11-20T21:00 --to 2026-11-20T22:00
            offsetd groups history billing --oldest-first -o csv
        """
        first = None if since is None else parse_time(since)
        last = None if until is None else parse_time(until)
        with connected(address, timeout, terminal) as client:
            events = client.list_offset_history(
                group_id, since=first, until=last, oldest_first=oldest_first
            )
            terminal.rows(EVENT_COLUMNS, map(_event_row, events))


def _register_restore(groups: typer.Typer, terminal: Terminal) -> None:
    @groups.command("restore")
    def restore(
        group_id: GroupArgument,
        *,
        to_datetime: Annotated[
            str | None, typer.Option(metavar="TIME", help="As they were then: ISO 8601, else UTC.")
        ] = None,
        to_revision: RevisionOption = None,
        force: Annotated[
            bool, typer.Option("--force", help="Also while the group has members or a lease.")
        ] = False,
        dry_run: OnlyShowOption = False,
        execute: Annotated[
            bool, typer.Option("--execute", help="Do it; else it is only shown.")
        ] = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Make a group's offsets what they were: those of now are lost, and found in the history.

        A reset is undone by the revision before its own.

        Examples:
            offsetd groups restore billing --to-datetime 2026-11-20T21:06:15.341
            offsetd groups restore billing --to-revision 17 --execute --reason "undo the reset"
        """
        target = _target(to_datetime, to_revision)
        check_dry_or_not(dry_run=dry_run, execute=execute)
        with connected(address, timeout, terminal) as client:
            done = client.restore_group(
                group_id, target, force=force, validate_only=not execute, reason=reason
            )
            terminal.rows(RESTORE_COLUMNS, (_restored_row(group_id, each) for each in done.changes))
            if not done.changes:
                terminal.note("nothing to change: the offsets are as they were then")
            elif not execute:
                told_dry_run(terminal)


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
    """Events until it is cancelled; all that came at once is flushed at once."""
    for batch in watching.batches():
        yield from batch.events
        terminal.flush()


@contextmanager
def _ended_by_ctrl_c(watching: OffsetWatch) -> Iterator[None]:
    """Ctrl-C ends it behind what is being printed, and not within; a second one at once."""

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
