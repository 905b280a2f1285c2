"""`offsetd groups list|delete|update|remove-members`; the others have modules of their own."""

from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from offsetd_clients import (
    DeletedGroup,
    GroupState,
    GroupType,
    MemberToRemove,
    RemovedMembers,
)
from offsetd_clients.cli import group_changes, group_description, history
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
    explain,
)
from offsetd_clients.cli.durations import parse_retention, retention_text
from offsetd_clients.cli.each_group import each_group, report_failures
from offsetd_clients.cli.options import GroupArgument, GroupsArgument
from offsetd_clients.cli.reset_targets import parse_topics
from offsetd_clients.cli.terminal import EXIT_FAILED, EXIT_PARTLY, Row, Terminal

LIST_COLUMNS = ("group", "type", "state", "protocol_type", "retention")
DELETE_COLUMNS = ("group", "offsets", "revision")
UPDATE_COLUMNS = ("group", "retention", "revision")
REMOVE_COLUMNS = ("group", "member_id", "instance_id", "removed", "problem")


DeletedTopicsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", metavar="TOPIC[:P,…]", help="Only the offsets of this topic; repeatable."
    ),
]


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds `groups` with its subcommands."""
    groups = typer.Typer(help="Groups and their offsets.", no_args_is_help=True)
    _register_list(groups, terminal)
    group_description.register(groups, terminal)
    _register_delete(groups, terminal)
    _register_update(groups, terminal)
    _register_remove_members(groups, terminal)
    group_changes.register(groups, terminal)
    history.register_groups(groups, terminal)
    app.add_typer(groups, name="groups")


def _register_list(groups: typer.Typer, terminal: Terminal) -> None:
    @groups.command("list")
    def list_groups(
        *,
        states: Annotated[
            list[GroupState], typer.Option("--state", metavar="STATE", help=_one_of(GroupState))
        ] = [],  # noqa: B006  # typer's way to say: none unless given
        types: Annotated[
            list[GroupType], typer.Option("--type", metavar="TYPE", help=_one_of(GroupType))
        ] = [],  # noqa: B006
        prefix: Annotated[
            str, typer.Option(metavar="TEXT", help="Only groups whose id begins so.")
        ] = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Print the groups, sorted by id.

        Examples:
            offsetd groups list
            offsetd groups list --prefix billing- --state empty     # nobody is in them
            offsetd groups list -o jsonl | jq -r .group
        """
        with connected(address, timeout, terminal) as client:
            listings = client.list_groups(states=states, types=types, group_id_prefix=prefix)
            by_id = sorted(listings, key=lambda listing: listing.group_id)
            terminal.rows(
                LIST_COLUMNS,
                (
                    {
                        "group": listing.group_id,
                        "type": str(listing.type),
                        "state": str(listing.state),
                        "protocol_type": listing.protocol_type or None,
                        "retention": retention_text(listing.retention),
                    }
                    for listing in by_id
                ),
            )


def _register_delete(groups: typer.Typer, terminal: Terminal) -> None:
    @groups.command("delete")
    def delete(
        group_ids: GroupsArgument,
        *,
        topics: DeletedTopicsOption = None,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Check and show, but delete nothing.")
        ] = False,
        reason: Annotated[
            str, typer.Option(metavar="TEXT", help="Why, for the server's log.")
        ] = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Delete empty groups with their offsets, one after the other; or offsets of topics alone.

        A group that still reads a topic keeps the offsets of that.

        Examples:
            offsetd groups delete billing-trial --dry-run
            offsetd groups delete billing --topic old-orders --topic orders:7,8
            offsetd groups delete billing-trial billing-old --reason "retired"
        """
        whole_topics, partitions = parse_topics(topics or ())
        with connected(address, timeout, terminal) as client:

            def delete_one(group_id: str) -> DeletedGroup:
                if not topics:
                    return client.delete_group(group_id, validate_only=dry_run, reason=reason)
                gone = client.delete_offsets(
                    group_id,
                    partitions,
                    topics=whole_topics,
                    validate_only=dry_run,
                    reason=reason,
                )
                return DeletedGroup(offset_count=len(gone.partitions), revision=gone.revision)

            deleted, failures = each_group(group_ids, delete_one)
        if deleted:
            terminal.rows(DELETE_COLUMNS, map(_deleted_row, deleted))
        if dry_run:
            terminal.note("dry run: nothing was deleted")
        report_failures(failures, deleted, address, terminal)


def _register_update(groups: typer.Typer, terminal: Terminal) -> None:
    @groups.command("update")
    def update(
        group_ids: GroupsArgument,
        *,
        retention: Annotated[
            str,
            typer.Option(
                metavar="TIME",
                help="How long offsets are kept: as in 12h or 90d, or never, or default for as "
                "long as the server says.",
            ),
        ],
        allow_missing: Annotated[
            bool, typer.Option("--allow-missing", help="Make groups that do not exist.")
        ] = False,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Check and show, but change nothing.")
        ] = False,
        reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the audit log.")] = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Set how long the offsets of groups are kept.

        Examples:
            offsetd groups update billing --retention never
            offsetd groups update billing audit --retention 90d
            offsetd groups update billing --retention default
        """
        try:
            parsed = parse_retention(retention)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        with connected(address, timeout, terminal) as client:
            updated, failures = each_group(
                group_ids,
                lambda group_id: client.update_group(
                    group_id,
                    retention=parsed,
                    allow_missing=allow_missing,
                    validate_only=dry_run,
                    reason=reason,
                ),
            )
        if updated:
            terminal.rows(
                UPDATE_COLUMNS,
                (
                    {
                        "group": group_id,
                        "retention": retention_text(parsed),
                        "revision": revision.log_offset if revision else None,
                    }
                    for group_id, revision in updated
                ),
            )
        if dry_run:
            terminal.note("dry run: nothing was changed")
        report_failures(failures, updated, address, terminal)


def _register_remove_members(groups: typer.Typer, terminal: Terminal) -> None:
    @groups.command("remove-members")
    def remove_members(
        group_id: GroupArgument,
        *,
        member_ids: Annotated[
            list[str] | None,
            typer.Option("--member", metavar="ID", help="By its member id; repeatable."),
        ] = None,
        instance_ids: Annotated[
            list[str] | None,
            typer.Option("--instance", metavar="ID", help="A static one; repeatable."),
        ] = None,
        everybody: Annotated[bool, typer.Option("--all", help="All that there are.")] = False,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Check and show, but remove nobody.")
        ] = False,
        reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the audit log.")] = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Remove members from a group, so that others take over what they read.

        A consumer that is still there joins again. Exits with 3 if only some could be removed.

        Examples:
            offsetd groups remove-members billing --instance host-1
            offsetd groups remove-members billing --all --reason "host replaced"
        """
        named = [MemberToRemove(member_id=each) for each in member_ids or ()]
        named += [MemberToRemove(instance_id=each) for each in instance_ids or ()]
        if everybody == bool(named):
            raise typer.BadParameter("name members by --member and --instance, or say --all")
        with connected(address, timeout, terminal) as client:
            answer = client.remove_members(
                group_id, None if everybody else named, validate_only=dry_run, reason=reason
            )
        terminal.rows(REMOVE_COLUMNS, _removed_rows(group_id, answer, dry_run=dry_run))
        if not (answer.removed or answer.refused):
            terminal.note(f"group {group_id} has no members")
        elif dry_run:
            terminal.note("dry run: nobody was removed")
        if answer.refused:
            lines = [explain(error, address) for error in answer.refused.values()]
            terminal.fail("\n".join(lines), EXIT_PARTLY if answer.removed else EXIT_FAILED)


def _one_of(choices: Iterable[GroupState] | Iterable[GroupType]) -> str:
    known = ", ".join(str(choice) for choice in choices if choice.name != "UNKNOWN")
    return f"Only such groups; repeatable: {known}."


def _deleted_row(deleted: tuple[str, DeletedGroup]) -> Row:
    group_id, answer = deleted
    return {
        "group": group_id,
        "offsets": answer.offset_count,
        "revision": answer.revision.log_offset if answer.revision else None,
    }


def _removed_rows(group_id: str, answer: RemovedMembers, *, dry_run: bool) -> Iterator[Row]:
    for each in (*answer.removed, *answer.refused):
        error = answer.refused.get(each)
        yield {
            "group": group_id,
            "member_id": each.member_id or None,
            "instance_id": each.instance_id,
            "removed": error is None and not dry_run,
            "problem": error.reason or str(error) if error else None,
        }
