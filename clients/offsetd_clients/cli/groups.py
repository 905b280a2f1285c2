"""`offsetd groups list|describe|delete|update|remove-members`; `group_changes` has the others."""

from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from offsetd_clients.cli import group_changes, history
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
from offsetd_clients.cli.offsets import FETCH_COLUMNS, fetch_rows
from offsetd_clients.cli.options import GroupsArgument
from offsetd_clients.cli.terminal import EXIT_FAILED, EXIT_PARTLY, Row, Terminal
from offsetd_clients.membership_values import MemberToRemove, RemovedMembers
from offsetd_clients.values import DeletedGroup, Group, GroupState, GroupType

LIST_COLUMNS = ("group", "type", "state", "protocol_type", "retention")
GROUP_COLUMNS = (
    "group",
    "type",
    "state",
    "protocol_type",
    "protocol",
    "generation",
    "leader_id",
    "members",
    "offsets",
    "log_partition",
    "state_time",
    "retention",
    "lease_holder",
    "lease_epoch",
    "lease_expire_time",
)
MEMBER_COLUMNS = (
    "group",
    "member_id",
    "instance_id",
    "client_id",
    "client_host",
    "topics",
    "assignment",
)
DELETE_COLUMNS = ("group", "offsets", "revision")
UPDATE_COLUMNS = ("group", "retention", "revision")
REMOVE_COLUMNS = ("group", "member_id", "instance_id", "removed", "problem")


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds `groups` with its subcommands."""
    groups = typer.Typer(help="Groups and their offsets.", no_args_is_help=True)
    _register_list(groups, terminal)
    _register_describe(groups, terminal)
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
        """Print the groups, sorted by id."""
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


def _register_describe(groups: typer.Typer, terminal: Terminal) -> None:
    @groups.command("describe")
    def describe(
        group_ids: GroupsArgument,
        *,
        members: Annotated[
            bool, typer.Option("--members", help="A line for each member instead.")
        ] = False,
        offsets: Annotated[
            bool, typer.Option("--offsets", help="A line for each offset instead.")
        ] = False,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Print what is known of groups, of their members, or of their offsets.

        An offset's expire time is when it goes, as things are, unless it is committed again.
        """
        if members and offsets:
            raise typer.BadParameter("--members and --offsets exclude each other")
        with connected(address, timeout, terminal) as client:
            found, failures = each_group(group_ids, client.get_group)
            described = [group for _, group in found]
            fetched = client.fetch_many(group.group_id for group in described if offsets)
        if described and members:
            terminal.rows(MEMBER_COLUMNS, _member_rows(described))
        elif described and offsets:
            terminal.rows(FETCH_COLUMNS, fetch_rows(fetched))
        elif described:
            terminal.rows(GROUP_COLUMNS, map(_group_row, described))
        report_failures(failures, found, address, terminal)


def _register_delete(groups: typer.Typer, terminal: Terminal) -> None:
    @groups.command("delete")
    def delete(
        group_ids: GroupsArgument,
        *,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Check and show, but delete nothing.")
        ] = False,
        reason: Annotated[
            str, typer.Option(metavar="TEXT", help="Why, for the server's log.")
        ] = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Delete empty groups with their offsets, one after the other."""
        with connected(address, timeout, terminal) as client:
            deleted, failures = each_group(
                group_ids,
                lambda group_id: client.delete_group(
                    group_id, validate_only=dry_run, reason=reason
                ),
            )
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
        """Set how long the offsets of groups are kept."""
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
        group_id: Annotated[str, typer.Argument(metavar="GROUP", help="The group's id.")],
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


def _group_row(group: Group) -> Row:
    return {
        "group": group.group_id,
        "type": str(group.type),
        "state": str(group.state),
        "protocol_type": group.protocol_type or None,
        "protocol": group.protocol or None,
        "generation": group.generation,
        "leader_id": group.leader_id or None,
        "members": len(group.members),
        "offsets": group.offset_count,
        "log_partition": group.log_partition,
        "state_time": group.state_time,
        "retention": retention_text(group.retention),
        "lease_holder": group.lease.holder if group.lease else None,
        "lease_epoch": group.lease.epoch if group.lease else None,
        "lease_expire_time": group.lease.expire_time if group.lease else None,
    }


def _member_rows(groups: Iterable[Group]) -> Iterator[Row]:
    for group in groups:
        for member in group.members:
            yield {
                "group": group.group_id,
                "member_id": member.member_id,
                "instance_id": member.instance_id or None,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "topics": member.topics,
                "assignment": [str(assigned) for assigned in member.assignment],
            }
