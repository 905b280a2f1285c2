"""`offsetd backup`: backups of a running server, and what is made of them.

The server's package does the work (`offsetd.backups`, an entry point): this one does not import it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol

import typer

from offsetd_clients.change_values import ImportedGroup, OffsetFormat
from offsetd_clients.cli.arguments.options import ReasonOption, given_folder, given_text
from offsetd_clients.cli.arguments.reset_targets import parse_time
from offsetd_clients.cli.arguments.time_spans import retention_text
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
    explain,
)
from offsetd_clients.cli.groups.group_reset import CHANGE_COLUMNS, CHANGE_DROPPABLE, change_row
from offsetd_clients.cli.printing.dry_runs import (
    ExecuteOption,
    OnlyShowOption,
    check_dry_or_not,
    told_dry_run,
)
from offsetd_clients.cli.printing.terminal import (
    EXIT_FAILED,
    EXIT_PARTLY,
    Row,
    Terminal,
    named_id,
)
from offsetd_clients.errors import GroupNotFound
from offsetd_clients.installation import install_command
from offsetd_clients.migration.kafka.folder_source import FolderGroup
from offsetd_clients.sync.client import OffsetClient
from offsetd_clients.values import Retention, TopicPartition

WORK: Final = "offsetd.backups"
RESTORED_COLUMNS: Final = ("group", "offsets", "revision")
_RATE_MIN: Final = 65_536
REASON_UNITS_MAX: Final = 1024
"""In UTF-16 units, as in the contract."""

TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="TARGET", help="Where the backups are: a folder, or a URL (s3://BUCKET/PREFIX)."
    ),
]
BackupOption = Annotated[
    str | None,
    typer.Option(
        "--backup", metavar="ID", parser=given_text, help="The backup; default: the newest."
    ),
]

FolderOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        parser=given_folder,
        help="Restore everything to this new or empty folder.",
    ),
]
GroupsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--group", metavar="GROUP", help="Restore this group on a running server; repeat."
    ),
]
TimeOption = Annotated[
    str | None,
    typer.Option(
        "--to-datetime",
        metavar="TIME",
        help="As it was at this time (UTC, unless it has a zone, as 2026-11-28T10:30+01:00);"
        " from the first backup after it.",
    ),
]


class BackedUpGroup(FolderGroup, Protocol):
    """A group as a backup has it. `retention`: milliseconds, "never", None for the server's."""

    @property
    def retention(self) -> int | Literal["never"] | None: ...


class BackupWork(Protocol):
    """What the server's package does for these commands."""

    def create(
        self, target: str, open_streams: Callable[[list[bytes]], list[tuple[Any, Any]]]
    ) -> None: ...
    def list_backups(self, source: str) -> None: ...
    def verify(self, source: str, backup_id: str | None) -> None: ...
    def prune(self, source: str, keep: int, *, execute: bool) -> bool: ...
    def restore(
        self, source: str, folder: Path, backup_id: str | None, to_ms: int | None
    ) -> None: ...
    def groups(
        self, source: str, backup_id: str | None, to_ms: int | None, group_ids: Sequence[str]
    ) -> tuple[str, Sequence[BackedUpGroup], dict[str, str]]: ...


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds `backup` with its subcommands."""
    group = typer.Typer(help="Back up a running server, and restore.", no_args_is_help=True)
    _register_create(group, terminal)
    _register_looks(group, terminal)
    _register_prune(group, terminal)
    _register_restore(group, terminal)
    app.add_typer(group, name="backup")


def _work(terminal: Terminal) -> BackupWork:
    points = entry_points(group=WORK)
    if not points:
        terminal.fail(f"backups need the server's package: {install_command('server')}")
    work: BackupWork = next(iter(points)).load()(terminal)
    return work


def _register_create(group: typer.Typer, terminal: Terminal) -> None:
    @group.command("create")
    def create(
        target: TargetArgument,
        *,
        max_bytes_per_second: Annotated[
            int | None,
            typer.Option(
                "--max-bytes-per-second",
                min=_RATE_MIN,
                metavar="BYTES",
                help="How fast the server reads its logs; default: backup.max.bytes.per.second.",
            ),
        ] = None,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Back up all logs of a running server, as they are at one moment. Commits go on.

        Only what the target does not have yet is sent. In a cluster, any node may be named: each
        node sends the log partitions that it serves. --timeout is for the first answer; the backup
        takes as long as it needs.

        Examples:
            offsetd backup create /mnt/backups
            offsetd backup create s3://my-bucket/offsetd
        """
        with connected(address, timeout, terminal) as client:

            def open_streams(held: list[bytes]) -> list[tuple[Any, Any]]:
                return client.stream_backups(held, bytes_per_second_max=max_bytes_per_second or 0)

            _work(terminal).create(target, open_streams)


def _register_looks(group: typer.Typer, terminal: Terminal) -> None:
    @group.command("list")
    def list_(target: TargetArgument) -> None:
        """Print the backups, the oldest first. Exits with 1 if one of them cannot be used.

        Examples:
            offsetd backup list /mnt/backups
        """
        _work(terminal).list_backups(target)

    @group.command("verify")
    def verify(
        target: TargetArgument,
        backup_id: Annotated[
            str | None, typer.Argument(metavar="ID", help="Only this backup; default: all.")
        ] = None,
    ) -> None:
        """Read every byte of the backups, and compare it with its checksum.

        Prints what is missing or damaged; then it exits with 1.

        Examples:
            offsetd backup verify /mnt/backups
        """
        _work(terminal).verify(target, backup_id)


def _register_prune(group: typer.Typer, terminal: Terminal) -> None:
    @group.command("prune")
    def prune(
        target: TargetArgument,
        *,
        keep: Annotated[
            int, typer.Option("--keep", min=1, metavar="N", help="How many backups stay.")
        ],
        dry_run: OnlyShowOption = False,
        execute: ExecuteOption = False,
    ) -> None:
        """Remove all but the newest backups, and what broken-off backups left.

        Chunks that a kept backup needs stay. Refused while a backup goes on.

        Examples:
            offsetd backup prune /mnt/backups --keep 48    # what it would do
            offsetd backup prune /mnt/backups --keep 48 --execute
        """
        check_dry_or_not(dry_run=dry_run, execute=execute)
        if _work(terminal).prune(target, keep, execute=execute) and not execute:
            told_dry_run(terminal)


def _register_restore(group: typer.Typer, terminal: Terminal) -> None:
    @group.command("restore")
    def restore(
        target: TargetArgument,
        *,
        data_dir: FolderOption = None,
        groups: GroupsOption = None,
        backup_id: BackupOption = None,
        to_datetime: TimeOption = None,
        dry_run: OnlyShowOption = False,
        execute: ExecuteOption = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Make a data folder of a backup, or bring offsets of groups back to a running server.

        With --data-dir: a server can be started on the folder when the command has ended. Leases
        and members of groups are ended, and all revisions and epochs continue above those that were
        given out since the backup. With --group: the offsets of the backup are written, unless they
        change meanwhile. Offsets that the backup does not have stay. Nothing is written without
        --execute.

        Examples:
            offsetd backup restore /mnt/backups --data-dir restored
            offsetd backup restore backups --data-dir d --to-datetime 2026-11-28T09:30
            offsetd backup restore /mnt/backups --group billing    # a dry run
            offsetd backup restore /mnt/backups --group billing --execute
        """
        if (data_dir is None) == (not groups):
            raise typer.BadParameter("give either --data-dir or --group")
        check_dry_or_not(dry_run=dry_run, execute=execute)
        if data_dir is not None and (dry_run or execute or reason):
            raise typer.BadParameter("--dry-run, --execute and --reason go with --group")
        to_ms = None if to_datetime is None else _milliseconds(parse_time(to_datetime))
        work = _work(terminal)
        if data_dir is not None:
            work.restore(target, data_dir, backup_id, to_ms)
            return
        chosen, found, refused = work.groups(
            target, backup_id, to_ms, list(dict.fromkeys(groups or ()))
        )
        audited_reason = _audited_reason(chosen, reason)
        problems = {each: f"{named_id(each)}: {why}" for each, why in refused.items()}
        imported: Sequence[ImportedGroup] = ()
        if found:
            with connected(address, timeout, terminal) as client:
                imported = _brought_back(client, found, audited_reason, terminal, execute=execute)
        _print_restored(imported, problems, terminal, address, None if execute else chosen)


def _audited_reason(backup_id: str, reason: str) -> str:
    """The reason in the audit log. Raises typer.BadParameter if there is no room for all of it."""
    before = f"backup {backup_id}" + (": " if reason else "")
    room = REASON_UNITS_MAX - len(before)
    units = len(reason.encode("utf-16-le", "surrogatepass")) // 2
    if units > room:
        raise typer.BadParameter(
            f"--reason has {units} UTF-16 units; at most {room} fit behind {before!r}"
        )
    return before + reason


def _milliseconds(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def _lines(groups: Iterable[FolderGroup], client: OffsetClient) -> Iterator[str]:
    """The lines of an import. Each has the present revision as its precondition."""
    for group in groups:
        stored = client.fetch(group.group_id)
        for each in group.offsets:
            present = stored.get(TopicPartition(each.topic, each.partition))
            line: dict[str, object] = {
                "group": group.group_id,
                "topic": each.topic,
                "partition": each.partition,
                "offset": each.offset,
                "leader_epoch": each.leader_epoch if each.leader_epoch >= 0 else None,
                "metadata": each.metadata,
            }
            if present is None:
                line["must_not_exist"] = True
            else:
                line["expected_revision"] = present.revision
            yield json.dumps(line) + "\n"


def _brought_back(
    client: OffsetClient,
    groups: Sequence[BackedUpGroup],
    reason: str,
    terminal: Terminal,
    *,
    execute: bool,
) -> Sequence[ImportedGroup]:
    """Imports the offsets, or only checks that; groups that were deleted get their retentions.

    These come first: if the command is broken off, the next one brings the offsets.
    """
    content = "".join(_lines(groups, client)).encode()
    lost = _retentions_lost(groups, client)
    imported: Sequence[ImportedGroup] = ()
    if lost or not execute:
        imported = client.import_offsets(
            content, OffsetFormat.JSONL, validate_only=True, reason=reason
        )
    for group_id in [each.group_id for each in imported if each.error is None]:
        if group_id in lost:
            text, gets = retention_text(lost[group_id]), "gets" if execute else "would get"
            if execute:
                client.update_group(
                    group_id, retention=lost[group_id], allow_missing=True, reason=reason
                )
            terminal.note(f"{named_id(group_id)}: {gets} its retention back: {text}")
    if execute:
        imported = client.import_offsets(content, OffsetFormat.JSONL, reason=reason)
    return imported


def _retentions_lost(groups: Iterable[BackedUpGroup], client: OffsetClient) -> dict[str, Retention]:
    """The retentions of the groups that the server does not have: with them it lost theirs."""
    lost: dict[str, Retention] = {}
    for group in groups:
        if group.retention is None:
            continue
        try:
            client.get_group(group.group_id)
        except GroupNotFound:
            lost[group.group_id] = (
                "never" if group.retention == "never" else timedelta(milliseconds=group.retention)
            )
    return lost


def _print_restored(
    imported: Sequence[ImportedGroup],
    problems: Mapping[str, str],
    terminal: Terminal,
    address: str,
    tried_id: str | None,
) -> None:
    """Prints what was done, or what a dry run with the backup `tried_id` found."""
    is_dry = tried_id is not None
    done = [each for each in imported if each.error is None]
    if is_dry:
        rows = (change_row((each.group_id, change)) for each in done for change in each.changes)
        terminal.rows(CHANGE_COLUMNS, rows, droppable=CHANGE_DROPPABLE)
    else:
        terminal.rows(RESTORED_COLUMNS, map(_restored_row, done))
    failed = [
        *problems.values(),
        *(
            f"{named_id(each.group_id)}: {explain(each.error, address)}"
            for each in imported
            if each.error is not None
        ),
    ]
    if failed:
        code = EXIT_PARTLY if done else EXIT_FAILED
        terminal.fail("\n".join(failed), code)
    if is_dry:
        told_dry_run(terminal, {"backup_id": tried_id})


def _restored_row(imported: ImportedGroup) -> Row:
    return {
        "group": imported.group_id,
        "offsets": imported.offset_count,
        "revision": imported.revision.log_offset if imported.revision else None,
    }
