"""`offsetd groups list|delete|update|remove-members`. The others have their own modules."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, TypeAlias

import typer

from offsetd_clients import (
    DeletedGroup,
    GroupListing,
    GroupNotFound,
    GroupState,
    GroupType,
    LagVerdict,
    MemberToRemove,
    OffsetClient,
    OffsetdError,
    RemovedMembers,
    Revision,
    UnknownMember,
)
from offsetd_clients.cli.arguments.group_choice import (
    ExecuteForAllOption,
    GroupChoice,
    offsets_of_groups,
    told_left_out,
    with_groups,
)
from offsetd_clients.cli.arguments.options import DryRunOption, ReasonOption
from offsetd_clients.cli.arguments.reset_targets import parse_topics
from offsetd_clients.cli.arguments.time_spans import parse_retention, retention_text
from offsetd_clients.cli.arguments.topic_choice import ShownTopicsOption, TopicChoice
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.each_group import each_group, report_failures
from offsetd_clients.cli.groups import group_changes, group_description, group_history
from offsetd_clients.cli.groups.offset_deletion import delete_offsets_of
from offsetd_clients.cli.printing.row_order import RowOrder, SortOption
from offsetd_clients.cli.printing.terminal import Row, Terminal, named_id
from offsetd_clients.values import Retention

LIST_COLUMNS = ("group", "type", "state", "protocol_type", "retention", "verdict", "lag")
LIST_DROPPABLE = ("protocol_type", "retention", "type")
DELETE_COLUMNS = ("group", "offsets", "revision")
UPDATE_COLUMNS = ("group", "retention", "revision")
REMOVE_COLUMNS = ("group", "member_id", "instance_id", "removed", "problem")
REMOVE_DROPPABLE = ("instance_id",)
Removals: TypeAlias = Sequence[tuple[str, RemovedMembers]]

_NOT_MADE = (
    "there is no such group, and none is made: with the server's retention there would be nothing"
    " of it to keep"
)
_NO_SEPARATORS = str.maketrans("", "", "-_")
GROUP_VERDICTS = ("OK", "WARN", "ERR")  # The others are on partitions.
TEXT_CHARACTERS_MAX = 100  # Only this many characters of a mistyped text are repeated.

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
    group_history.register_groups(groups, terminal)
    app.add_typer(groups, name="groups")


def _state(text: str) -> GroupState:
    """Reads a state in any case: tools write `PreparingRebalance` or `preparing_rebalance`."""
    plain = text.lower().translate(_NO_SEPARATORS)
    for state in GroupState:
        if state is not GroupState.UNKNOWN and state.value.translate(_NO_SEPARATORS) == plain:
            return state
    known = ", ".join(state.value for state in GroupState if state is not GroupState.UNKNOWN)
    raise typer.BadParameter(
        f"{text[:TEXT_CHARACTERS_MAX]!r} is not a state; the states are: {known}"
    )


def _verdict(text: str) -> LagVerdict:
    """Reads a verdict on a group, in any case."""
    if text.upper() in GROUP_VERDICTS:
        return LagVerdict(text.upper())
    raise typer.BadParameter(
        f"{text[:TEXT_CHARACTERS_MAX]!r} is not a verdict on a group; these are:"
        f" {', '.join(GROUP_VERDICTS)}"
    )


VerdictsOption = Annotated[
    list[LagVerdict],
    typer.Option(
        "--verdict",
        parser=_verdict,
        metavar="VERDICT",
        help="On the group's lag: OK, WARN or ERR; in any case.",
    ),
]
OwnerOption = Annotated[
    str, typer.Option(metavar="HOLDER", help="Only groups whose lease this holder has.")
]


def _register_list(groups: typer.Typer, terminal: Terminal) -> None:
    @groups.command("list")
    def list_groups(
        *,
        states: Annotated[
            list[GroupState],
            typer.Option(
                "--state",
                parser=_state,
                metavar="STATE",
                help=f"{_one_of(GroupState)[:-1]}; in any case.",
            ),
        ] = [],  # noqa: B006  # typer's way to say: none unless given
        types: Annotated[
            list[GroupType], typer.Option("--type", metavar="TYPE", help=_one_of(GroupType))
        ] = [],  # noqa: B006
        verdicts: VerdictsOption = [],  # noqa: B006
        prefix: Annotated[
            str, typer.Option(metavar="TEXT", help="Only groups whose id has this prefix.")
        ] = "",
        topics: ShownTopicsOption = None,
        owner: OwnerOption = "",
        sort: SortOption = None,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Print the groups, sorted by id.

        With --topic: only groups with an offset of that topic.

        Examples:
            offsetd groups list
            offsetd groups list --prefix billing- --state empty   # without members
            offsetd groups list --topic orders --sort state       # groups of orders
            offsetd groups list --verdict WARN --verdict ERR  # they fall behind
            offsetd groups list --owner mail-sender-2  # it holds their leases
            offsetd groups list -o jsonl | jq -r .group
        """
        chosen, order = TopicChoice.of(topics), RowOrder.of(sort, LIST_COLUMNS)
        with connected(address, timeout, terminal) as client:
            listings = client.list_groups(
                states=states,
                types=types,
                lag_verdicts=verdicts,
                include_lag_verdicts=True,
                group_id_prefix=prefix,
                topics=chosen.asked_topics(),
                lease_holder=owner,
                include_details=bool(owner),
                on_unreachable=told_left_out(terminal),
            )
            by_id = sorted(listings, key=lambda listing: listing.group_id)
            if owner:  # An older server lists all.
                by_id = [each for each in by_id if _is_held_by(each, owner)]
            if chosen:
                stored = offsets_of_groups(client, (listing.group_id for listing in by_id))
                by_id = [each for each in by_id if chosen.of_offsets(stored[each.group_id])]
        rows = order.ordered(map(_listing_row, by_id))
        terminal.rows(LIST_COLUMNS, rows, droppable=LIST_DROPPABLE)


def _is_held_by(listing: GroupListing, holder: str) -> bool:
    return listing.details is not None and listing.details.lease_holder == holder


def _register_delete(app: typer.Typer, terminal: Terminal) -> None:
    @app.command("delete")
    @with_groups
    def delete(
        groups: GroupChoice,
        *,
        topics: DeletedTopicsOption = None,
        dry_run: DryRunOption = False,
        execute: ExecuteForAllOption = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Delete empty groups with their offsets, one after the other.

        With --topic, only the offsets of these topics are deleted. A group that still reads a
        topic keeps its offsets of that topic. Named groups are deleted at once; all groups only
        with --execute.

        Examples:
            offsetd groups delete billing-trial --dry-run
            offsetd groups delete billing --topic old-orders --topic orders:7,8
            offsetd groups delete billing-trial billing-old --reason "retired"
            offsetd groups delete --all-groups                   # what it would delete
        """
        is_shown = groups.is_only_shown(dry_run=dry_run, execute=execute)
        whole_topics, partitions = parse_topics(topics or ())
        with connected(address, timeout, terminal) as client:

            def delete_one(group_id: str) -> DeletedGroup:
                if not topics:
                    return client.delete_group(group_id, validate_only=is_shown, reason=reason)
                gone = delete_offsets_of(
                    client, group_id, whole_topics, partitions, is_shown=is_shown, reason=reason
                )
                return DeletedGroup(offset_count=len(gone.partitions), revision=gone.revision)

            deleted, failures = each_group(groups.ids(client, terminal), delete_one)
        if groups.all_groups and topics:
            deleted = [each for each in deleted if each[1].offset_count]
        if deleted:
            terminal.rows(DELETE_COLUMNS, map(_deleted_row, deleted))
        if is_shown:
            groups.tell_of_dry_run(terminal, "nothing was deleted")
        report_failures(failures, deleted, address, terminal)


def _register_update(app: typer.Typer, terminal: Terminal) -> None:
    @app.command("update")
    @with_groups
    def update(
        groups: GroupChoice,
        *,
        retention: Annotated[
            str,
            typer.Option(
                metavar="TIME",
                help="How long offsets are kept: a time such as 12h or 90d, never, or default (the "
                "server's setting).",
            ),
        ],
        allow_missing: Annotated[
            bool, typer.Option("--allow-missing", help="Create groups that do not exist.")
        ] = False,
        dry_run: DryRunOption = False,
        execute: ExecuteForAllOption = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Set how long the offsets of groups are kept. All groups change only with --execute.

        Examples:
            offsetd groups update billing --retention never
            offsetd groups update billing audit --retention 90d
            offsetd groups update billing --retention default
            offsetd groups update --all-groups --retention 90d --execute
        """
        is_shown = groups.is_only_shown(dry_run=dry_run, execute=execute)
        try:
            parsed = parse_retention(retention)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        with connected(address, timeout, terminal) as client:
            updated, failures = each_group(
                groups.ids(client, terminal),
                lambda group_id: client.update_group(
                    group_id,
                    retention=parsed,
                    allow_missing=allow_missing,
                    validate_only=is_shown,
                    reason=reason,
                ),
            )
            unmade = _unmade(client, updated) if allow_missing and parsed is None else []
        if updated:
            rows = (_updated_row(*each, parsed) for each in updated)
            terminal.rows(UPDATE_COLUMNS, rows)
        for group_id in unmade:
            terminal.note(f"{named_id(group_id)}: {_NOT_MADE}")
        if is_shown:
            groups.tell_of_dry_run(terminal, "nothing was changed")
        report_failures(failures, updated, address, terminal)


def _unmade(client: OffsetClient, updated: Sequence[tuple[str, Revision | None]]) -> list[str]:
    """The groups that an update did not write, because they do not exist."""
    unwritten = (group_id for group_id, revision in updated if revision is None)
    _, failures = each_group(unwritten, client.get_group)
    return [group_id for group_id, error in failures if isinstance(error, GroupNotFound)]


def _register_remove_members(app: typer.Typer, terminal: Terminal) -> None:
    @app.command("remove-members")
    @with_groups
    def remove_members(
        groups: GroupChoice,
        *,
        member_ids: Annotated[
            list[str] | None,
            typer.Option("--member", metavar="ID", help="A member's id; repeatable."),
        ] = None,
        instance_ids: Annotated[
            list[str] | None,
            typer.Option("--instance", metavar="ID", help="A static member's; repeatable."),
        ] = None,
        everybody: Annotated[bool, typer.Option("--all", help="All members.")] = False,
        dry_run: DryRunOption = False,
        execute: ExecuteForAllOption = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Remove members from groups, so that other members take over their partitions.

        A removed consumer that still runs joins again. Members of all groups are removed only with
        --execute. Exits with 3 if only some could be removed.

        Examples:
            offsetd groups remove-members billing --instance host-1
            offsetd groups remove-members billing --all --reason "host replaced"
            offsetd groups remove-members --all-groups --instance host-1 --execute
        """
        named = [MemberToRemove(member_id=each) for each in member_ids or ()]
        named += [MemberToRemove(instance_id=each) for each in instance_ids or ()]
        if everybody == bool(named):
            raise typer.BadParameter("name members by --member and --instance, or say --all")
        is_shown = groups.is_only_shown(dry_run=dry_run, execute=execute)
        with connected(address, timeout, terminal) as client:
            answers, failures = each_group(
                groups.ids(client, terminal),
                lambda group_id: client.remove_members(
                    group_id, None if everybody else named, validate_only=is_shown, reason=reason
                ),
            )
        if groups.all_groups and named:
            answers = _without_absent(answers)
            if not (answers or failures):
                terminal.fail("no group has such a member")
        if answers:
            rows = [
                row
                for group_id, answer in answers
                for row in _removed_rows(group_id, answer, dry_run=is_shown)
            ]
            terminal.rows(REMOVE_COLUMNS, rows, droppable=REMOVE_DROPPABLE)
        for group_id, answer in () if groups.all_groups else answers:
            if not (answer.removed or answer.refused):
                terminal.note(f"{named_id(group_id)} has no members")
        if is_shown and any(answer.removed or answer.refused for _, answer in answers):
            groups.tell_of_dry_run(terminal, "no member was removed")
        _report_refused(answers, failures, address, terminal)


def _one_of(choices: Iterable[GroupState] | Iterable[GroupType]) -> str:
    known = ", ".join(str(choice) for choice in choices if choice.name != "UNKNOWN")
    return f"Only such groups; repeatable: {known}."


def _listing_row(listing: GroupListing) -> Row:
    return {
        "group": listing.group_id,
        "type": str(listing.type),
        "state": str(listing.state),
        "protocol_type": listing.protocol_type or None,
        "retention": retention_text(listing.retention),
        "verdict": listing.lag_verdict and str(listing.lag_verdict),
        "lag": listing.lag,
    }


def _deleted_row(deleted: tuple[str, DeletedGroup]) -> Row:
    group_id, answer = deleted
    return {
        "group": group_id,
        "offsets": answer.offset_count,
        "revision": answer.revision.log_offset if answer.revision else None,
    }


def _without_absent(answers: Removals) -> list[tuple[str, RemovedMembers]]:
    """The answers, without groups that have none of the named members."""
    return [
        (group_id, answer)
        for group_id, answer in answers
        if answer.removed
        or not all(isinstance(error, UnknownMember) for error in answer.refused.values())
    ]


def _report_refused(
    answers: Removals,
    failures: Sequence[tuple[str, OffsetdError]],
    address: str,
    terminal: Terminal,
) -> None:
    """Ends the command if a member could not be removed, or a call for a group failed."""
    refused = [
        (group_id, error) for group_id, answer in answers for error in answer.refused.values()
    ]
    removed = [answer for _, answer in answers if answer.removed]
    report_failures([*refused, *failures], removed, address, terminal)


def _updated_row(group_id: str, revision: Revision | None, retention: Retention) -> Row:
    return {
        "group": group_id,
        "retention": retention_text(retention),
        "revision": revision.log_offset if revision else None,
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
