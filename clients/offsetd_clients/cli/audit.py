"""`offsetd admin audit`: the changes that administrators made."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import chain, islice
from typing import Annotated

import typer

from offsetd_clients.change_values import AuditEvent
from offsetd_clients.cli.arguments.reset_targets import parse_time
from offsetd_clients.cli.arguments.whole_numbers import INT64_MAX
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.printing.terminal import Row, Terminal

COLUMNS = (
    "time",
    "method",
    "group",
    "topic",
    "reason",
    "peer",
    "request_id",
    "revision",
    "what",
    "principal",
)
PAGE_SIZE_MAX = 1000
AUDITED_METHODS = (
    "AbortTransactions",
    "AcquireGroup",
    "AddAcls",
    "CloneGroup",
    "CompactLog",
    "DeleteGroup",
    "DeleteOffsets",
    "DeleteRecords",
    "ExpireOffsets",
    "ImportOffsets",
    "RemoveAcls",
    "RemoveMembers",
    "RepairPartition",
    "ResetOffsets",
    "RestoreBackup",
    "RestoreGroup",
    "RetryPartition",
    "SuspendExpiry",
    "UpdateConfig",
    "UpdateGroup",
)


def register(admin: typer.Typer, terminal: Terminal) -> None:
    """Adds the subcommand to `admin`."""

    @admin.command("audit")
    def audit(
        *,
        methods: Annotated[
            list[str] | None,
            typer.Option(
                "--method",
                metavar="METHOD",
                help="Only this method, as in ResetOffsets; repeatable.",
            ),
        ] = None,
        group: Annotated[
            str, typer.Option("--group", metavar="GROUP", help="Only changes of this group.")
        ] = "",
        principal: Annotated[
            str,
            typer.Option("--principal", metavar="PRINCIPAL", help="Only changes by User:NAME."),
        ] = "",
        since: Annotated[
            str | None,
            typer.Option(metavar="TIME", help="Only changes from this time on: ISO 8601, UTC."),
        ] = None,
        until: Annotated[
            str | None, typer.Option(metavar="TIME", help="Only changes before this time.")
        ] = None,
        limit: Annotated[
            int,
            typer.Option(min=1, max=INT64_MAX, metavar="N", help="Only this many, the newest."),
        ] = 100,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Print the administrative changes, with caller and reason, newest first.

        Examples:
            offsetd admin audit
            offsetd admin audit --group billing --method ResetOffsets --limit 5
            offsetd admin audit --principal User:alice
            offsetd admin audit --since 2026-11-20 -o jsonl
        """
        with connected(address, timeout, terminal) as client:
            events = client.list_audit_events(
                methods=methods or (),
                group_id=group,
                principal=principal,
                start_time=None if since is None else parse_time(since),
                end_time=None if until is None else parse_time(until),
                page_size=min(limit, PAGE_SIZE_MAX),
            )
            found = islice(events, limit)
            first = list(islice(found, 1))
            # Only the nodes of a cluster have revisions of their own.
            columns = (*COLUMNS, "node") if first and first[0].node_id else COLUMNS
            terminal.rows(columns, _rows(chain(first, found)))
        _note_unknown(methods or (), terminal)


def _note_unknown(methods: Iterable[str], terminal: Terminal) -> None:
    for method in methods:
        if method not in AUDITED_METHODS:
            near = get_close_matches(method, AUDITED_METHODS, n=1)
            hint = f": did you mean {near[0]}?" if near else ""
            terminal.note(f"{method} is not a method that this program knows{hint}")


def _rows(events: Iterable[AuditEvent]) -> Iterable[Row]:
    for event in events:
        yield {
            "time": event.time,
            "method": event.method,
            "group": event.what.get("group"),
            "topic": event.topic or None,
            "reason": event.reason or None,
            "peer": event.peer or None,
            "request_id": event.request_id or None,
            "revision": event.revision.log_offset,
            "node": event.node_id or None,
            "what": {name: value for name, value in event.what.items() if name != "group"},
            "principal": event.principal or None,
        }
