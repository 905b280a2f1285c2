"""Options and arguments that several commands have alike."""

from collections.abc import Collection
from typing import Annotated

import typer

from offsetd_clients import OffsetClient
from offsetd_clients.cli.completion import complete_group_id

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Check and show, but change nothing.")
]
ReasonOption = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why, for the audit log.")
]
GroupArgument = Annotated[
    str,
    typer.Argument(metavar="GROUP", help="A group's id.", autocompletion=complete_group_id),
]
GroupsArgument = Annotated[
    list[str],
    typer.Argument(metavar="GROUP", help="A group's id.", autocompletion=complete_group_id),
]
AnyGroupsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="GROUP", help="A group's id.", autocompletion=complete_group_id),
]
NamedGroupsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        metavar="GROUP",
        help="A group's id, as Kafka's tool takes it; repeatable.",
        autocompletion=complete_group_id,
    ),
]
AllGroupsOption = Annotated[bool, typer.Option("--all-groups", help="All groups that there are.")]
TopicsOption = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="Only this topic; repeatable."),
]


def check_groups_chosen(named: Collection[str], *, all_groups: bool) -> None:
    """Raises typer.BadParameter unless there are groups, or all are meant."""
    if all_groups == bool(named):
        raise typer.BadParameter("name groups, or say --all-groups")


def chosen_groups(client: OffsetClient, named: Collection[str], *, all_groups: bool) -> list[str]:
    """The groups that are named, each once, or all that the server has, by id."""
    if all_groups:
        return sorted(listing.group_id for listing in client.list_groups())
    return list(dict.fromkeys(named))
