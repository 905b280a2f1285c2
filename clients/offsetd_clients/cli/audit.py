"""`offsetd admin audit`: what administrators did."""

import json
from collections.abc import Iterable
from itertools import islice
from typing import Annotated

import typer

from offsetd_clients.change_values import AuditEvent
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.reset_targets import parse_time
from offsetd_clients.cli.terminal import OutputFormat, Row, Terminal

COLUMNS = ("time", "method", "group", "topic", "reason", "peer", "request_id", "revision", "what")
PAGE_SIZE_MAX = 1000


def register(admin: typer.Typer, terminal: Terminal) -> None:
    """Adds the subcommand to `admin`."""

    @admin.command("audit")
    def audit(
        *,
        methods: Annotated[
            list[str] | None,
            typer.Option(
                "--method", metavar="METHOD", help="Only such, as ResetOffsets; repeatable."
            ),
        ] = None,
        group: Annotated[
            str, typer.Option("--group", metavar="GROUP", help="Only changes of this group.")
        ] = "",
        since: Annotated[
            str | None, typer.Option(metavar="TIME", help="Not what was before: ISO 8601, UTC.")
        ] = None,
        until: Annotated[
            str | None, typer.Option(metavar="TIME", help="Only what was before.")
        ] = None,
        limit: Annotated[
            int, typer.Option(min=1, metavar="N", help="At most so many, the newest.")
        ] = 100,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Print what was changed, by whom and why, the newest first.

        Examples:
            offsetd admin audit
            offsetd admin audit --group billing --method ResetOffsets --limit 5
            offsetd admin audit --since 2026-11-20 -o jsonl
        """
        with connected(address, timeout, terminal) as client:
            events = client.list_audit_events(
                methods=methods or (),
                group_id=group,
                start_time=None if since is None else parse_time(since),
                end_time=None if until is None else parse_time(until),
                page_size=min(limit, PAGE_SIZE_MAX),
            )
            rows = _rows(islice(events, limit), terminal.output_format)
            terminal.rows(COLUMNS, rows, has_blocks=True)


def _rows(events: Iterable[AuditEvent], output_format: OutputFormat) -> Iterable[Row]:
    for event in events:
        what = {name: value for name, value in event.what.items() if name != "group"}
        yield {
            "time": event.time,
            "method": event.method,
            "group": event.what.get("group"),
            "topic": event.topic or None,
            "reason": event.reason or None,
            "peer": event.peer or None,
            "request_id": event.request_id or None,
            "revision": event.revision.log_offset,
            "what": (
                what
                if output_format in (OutputFormat.JSON, OutputFormat.JSONL)
                else json.dumps(what, ensure_ascii=False, separators=(",", ":"))
            ),
        }
