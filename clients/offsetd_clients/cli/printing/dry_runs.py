"""The messages of commands that only showed their effect."""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer

from offsetd_clients.cli.arguments.user_files import STANDARD_INPUT
from offsetd_clients.cli.printing.terminal import Terminal
from offsetd_clients.installation import program_words

EXECUTE = "--execute"
DRY_RUN = "--dry-run"
FILE = "FILE"
"""The marker of an option whose value is a file of the user, for the printed command."""

OnlyShowOption = Annotated[
    bool, typer.Option(DRY_RUN, help="Only show the changes (the default without --execute).")
]
ExecuteOption = Annotated[
    bool, typer.Option(EXECUTE, help="Apply the changes. Without it they are only shown.")
]


def check_dry_or_not(*, dry_run: bool, execute: bool) -> None:
    """Raises typer.BadParameter if both flags are set."""
    if dry_run and execute:
        raise typer.BadParameter(f"{DRY_RUN} and {EXECUTE} exclude each other")


def told_dry_run(terminal: Terminal, chosen: Mapping[str, object] = MappingProxyType({})) -> None:
    """Reports that nothing was changed, and prints this command with --execute.

    `chosen` has values, by parameter, that the command chose itself: later it may choose others.
    """
    assert terminal.called is not None, "within a command"
    line = executing_line(terminal.called, chosen)
    given = terminal.called.params.values()
    where = f" ({FILE}: what came from standard input)" if any(map(_is_stdin, given)) else ""
    terminal.note(f"dry run: nothing was changed. This does it{where}:\n  {line}", is_whole=True)


def executing_line(ctx: typer.Context, chosen: Mapping[str, object] = MappingProxyType({})) -> str:
    """The command line that was called, quoted for a shell, with `--execute`. It has no pipes.

    It does not contain values from environment variables: they are still set when the line is run.
    """
    arguments: list[str] = []
    options: list[str] = []
    for parameter in ctx.command.params:
        name = parameter.name or ""
        source = ctx.get_parameter_source(name)
        if name not in chosen and (source is None or source.name != "COMMANDLINE"):
            continue
        value = chosen.get(name, ctx.params[name])
        if parameter.param_type_name == "argument":
            arguments += _texts(value)
        elif DRY_RUN not in parameter.opts and EXECUTE not in parameter.opts:
            options += _option(parameter, value)
    if any(argument.startswith("-") for argument in arguments):
        words = [*options, EXECUTE, "--", *arguments]
    else:
        words = [*arguments, *options, EXECUTE]
    root = ctx.find_root()
    commands = ctx.command_path.removeprefix(root.info_name or "").split()
    address = root.params.get("address")
    of_all = ["--address", address] if address else []
    return shlex.join([*program_words(), *of_all, *commands, *words])


def _option(parameter: Any, value: object) -> Iterator[str]:
    name = next((each for each in parameter.opts if each.startswith("--")), parameter.opts[0])
    if parameter.is_flag:
        yield name
        return
    for text in _texts(value):
        yield from (name, text)


def _texts(value: object) -> list[str]:
    values = value if isinstance(value, list | tuple) else [value]
    return [FILE if _is_stdin(each) else str(each) for each in values]


def _is_stdin(value: object) -> bool:
    """Whether a value names a file that cannot be read again."""
    return isinstance(value, Path) and str(value) == STANDARD_INPUT
