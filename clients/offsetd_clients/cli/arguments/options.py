"""Options and arguments that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

from offsetd_clients.cli.completion import complete_group_id


def given_folder(text: str | Path) -> Path:
    """A folder of the command line. Raises typer.BadParameter for an empty one: it would be `.`."""
    if not str(text):
        raise typer.BadParameter("it is empty: give the path of a folder")
    return Path(text)


def given_text(text: str) -> str:
    """An option's text. Raises typer.BadParameter if it is empty, as an unset variable is."""
    if not text:
        raise typer.BadParameter("it is empty: leave the option out, or give it a value")
    return text


DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Check and show, but change nothing.")
]
ReasonOption = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="The reason, for the audit log.")
]
GroupArgument = Annotated[
    str,
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
        help="A group's id, as for Kafka's tool; repeatable.",
        autocompletion=complete_group_id,
    ),
]
ReplaceFileOption = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]
TopicsOption = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="Only this topic; repeatable."),
]
