"""The arguments and options with which several commands choose groups."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any

import attrs
import typer

from offsetd_clients import CommittedOffset, OffsetClient, TopicPartition
from offsetd_clients.cli.arguments.option_groups import with_options
from offsetd_clients.cli.arguments.options import AnyGroupsArgument, NamedGroupsOption
from offsetd_clients.cli.printing.dry_runs import check_dry_or_not, told_dry_run
from offsetd_clients.cli.printing.terminal import Terminal

# One fetch asks for the offsets of this many groups.
FETCHED_GROUPS_MAX = 1000

AllGroupsOption = Annotated[bool, typer.Option("--all-groups", help="All groups of the server.")]
ExecuteForAllOption = Annotated[
    bool,
    typer.Option(
        "--execute", help="With --all-groups: apply the changes. Without it they are only shown."
    ),
]


@attrs.frozen
class GroupChoice:
    """The groups that the user chose: the groups in `named`, or all groups of the server.

    `named` has each group once. If `all_groups` is True, `named` is empty.
    """

    named: Sequence[str]
    all_groups: bool

    def ids(self, client: OffsetClient, terminal: Terminal) -> list[str]:
        """The ids of the groups: named ones in their order, all groups sorted.

        Registers exit code 3 if groups in a damaged log partition are left out.
        """
        if self.all_groups:
            listings = client.list_groups(on_unreachable=told_left_out(terminal))
            return sorted(listing.group_id for listing in listings)
        return list(self.named)

    def is_only_shown(self, *, dry_run: bool, execute: bool) -> bool:
        """Whether the command must not change anything.

        A command that changes named groups at once changes all groups only with `--execute`. Raises
        typer.BadParameter if both flags are set.
        """
        check_dry_or_not(dry_run=dry_run, execute=execute)
        return dry_run or (self.all_groups and not execute)

    def tell_of_dry_run(self, terminal: Terminal, what: str) -> None:
        """Reports that nothing was changed. For all groups, also prints the command to do it."""
        if self.all_groups:
            told_dry_run(terminal)
        else:
            terminal.note(f"dry run: {what}")


def told_left_out(terminal: Terminal) -> Callable[[Sequence[int]], None]:
    """Returns a function that names the damaged log partitions, whose groups are left out."""

    def tell(partitions: Sequence[int]) -> None:
        numbers = ", ".join(map(str, partitions))
        terminal.leave_out(f"the groups of damaged log partitions are left out: {numbers}")

    return tell


def offsets_of_groups(
    client: OffsetClient, group_ids: Iterable[str], *, require_stable: bool = False
) -> Mapping[str, Mapping[TopicPartition, CommittedOffset]]:
    """The stored offsets of any number of groups. A group without offsets has an empty mapping."""
    stored: dict[str, Mapping[TopicPartition, CommittedOffset]] = {}
    for some in _parts(group_ids):
        stored |= client.fetch_many(some, require_stable=require_stable)
    return stored


def _parts(group_ids: Iterable[str]) -> Iterator[list[str]]:
    coming = iter(group_ids)
    while part := list(islice(coming, FETCHED_GROUPS_MAX)):
        yield part


def _some_groups(
    *, group_ids: Sequence[str] | None, named: Sequence[str] | None, all_groups: bool
) -> GroupChoice:
    choice = _any_groups(group_ids=group_ids, named=named, all_groups=all_groups)
    if not (choice.named or all_groups):
        raise typer.BadParameter("name groups, or say --all-groups")
    return choice


def _any_groups(
    *, group_ids: Sequence[str] | None, named: Sequence[str] | None, all_groups: bool
) -> GroupChoice:
    ids = tuple(dict.fromkeys([*(group_ids or ()), *(named or ())]))
    if ids and all_groups:
        raise typer.BadParameter("name groups, or say --all-groups: not both")
    return GroupChoice(ids, all_groups)


_OPTIONS: dict[str, tuple[Any, Any]] = {
    "group_ids": (AnyGroupsArgument, None),
    "named": (NamedGroupsOption, None),
    "all_groups": (AllGroupsOption, False),
}

with_groups = with_options("groups", _some_groups, _OPTIONS)
"""Gives a command the argument and the options that make up its parameter `groups`."""

with_any_groups = with_options("groups", _any_groups, _OPTIONS)
"""Does what `with_groups` does. Without a name and `--all-groups`, the command has all groups."""
