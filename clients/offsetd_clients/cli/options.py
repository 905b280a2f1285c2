"""Options that several commands have alike."""

from typing import Annotated

import typer

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Check and show, but change nothing.")
]
ReasonOption = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why, for the audit log.")
]
GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="A group's id.")]
GroupsArgument = Annotated[list[str], typer.Argument(metavar="GROUP", help="A group's id.")]
TopicsOption = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="Only this topic; repeatable."),
]
