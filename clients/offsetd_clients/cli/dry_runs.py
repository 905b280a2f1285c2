"""What a command says that only showed what it would do."""

import shlex
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from offsetd_clients.cli.terminal import Terminal

EXECUTE = "--execute"
DRY_RUN = "--dry-run"

OnlyShowOption = Annotated[bool, typer.Option(DRY_RUN, help="Only show it, as without --execute.")]
ExecuteOption = Annotated[
    bool, typer.Option(EXECUTE, help="Do it; else only show what it would do.")
]


def check_dry_or_not(*, dry_run: bool, execute: bool) -> None:
    """Raises typer.BadParameter for who wants both."""
    if dry_run and execute:
        raise typer.BadParameter(f"{DRY_RUN} and {EXECUTE} exclude each other")


def told_dry_run(terminal: Terminal) -> None:
    """Says that nothing was changed, and the command that does it: the same one, executed."""
    assert terminal.called is not None, "within a command"
    line = executing_line(terminal.called)
    terminal.note(f"dry run: nothing was changed. This does it:\n  {line}")


def executing_line(ctx: typer.Context) -> str:
    """The line that was called, quoted for a shell, with `--execute`; not what it was piped to.

    What came from the environment is not in it: it is still there when the line is run.
    """
    arguments: list[str] = []
    options: list[str] = []
    for parameter in ctx.command.params:
        name = parameter.name or ""
        source = ctx.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE":
            continue
        value = ctx.params[name]
        if parameter.param_type_name == "argument":
            arguments += _texts(value)
        elif DRY_RUN not in parameter.opts and EXECUTE not in parameter.opts:
            options += _option(parameter, value)
    if any(argument.startswith("-") for argument in arguments):
        words = [*options, EXECUTE, "--", *arguments]
    else:
        words = [*arguments, *options, EXECUTE]
    return shlex.join([*ctx.command_path.split(" "), *words])


def _option(parameter: Any, value: object) -> Iterator[str]:
    name = max(parameter.opts, key=len)
    if parameter.is_flag:
        yield name
        return
    for text in _texts(value):
        yield from (name, text)


def _texts(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list | tuple) else [str(value)]
