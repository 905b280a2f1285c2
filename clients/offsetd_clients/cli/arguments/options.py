"""Options and arguments that several commands have."""

from typing import Annotated

import typer

from offsetd_clients.cli.completion import complete_group_id

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
