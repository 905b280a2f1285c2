"""Every command of the command line, as it is called."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer.main
from offsetd_clients.cli.application import application
from offsetd_clients.cli.printing.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """The words of each command behind `offsetd`, and the command."""
    root: Any = typer.main.get_command(application(Terminal(sys.stdout, sys.stderr)))
    yield from _below(root, ())


def _below(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from _below(command, (*path, name))
        else:
            yield (*path, name), command
