"""The typer application: commands come from entry points and are imported when they are called.

An entry point in the group `offsetd.commands` has the command's name. It names a function
`register(app: typer.Typer, terminal: Terminal) -> None`, which adds the command (or a typer of
subcommands) under that name. Those in the group `offsetd.admin_commands` become subcommands of
`offsetd admin`. Every command gets `-o/--output` and `--wide` here, so none declares
them. A docstring may end with `Examples:` and indented lines, which are printed verbatim below the
help.
"""

import functools
import gc
import inspect
import textwrap
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points, version
from typing import Annotated, Any

import attrs
import typer
import typer.core
import typer.main

from offsetd_clients.cli.command_exit import OURS, exit_code
from offsetd_clients.cli.printing.plain_text import wrong_use_text
from offsetd_clients.cli.printing.terminal import (
    OutputFormat,
    Terminal,
    printable,
    standard_terminal,
)

EXTRA_OF_PACKAGE = {
    "offsetd_clients": "cli",
    "offsetd_coordinator": "server",
    "offsetd_pipeline": "spark",
}


@attrs.frozen(kw_only=True)
class Program:
    """A command line. `commands` maps each name to the `module:register` that adds the command.

    `entry_point_group`: the entry points through which other packages add commands. `extra`: the
    extra of the package that the commands need at run time.
    """

    name: str
    summary: str
    examples: str
    commands: Mapping[str, str]
    extra: str
    entry_point_group: str = ""


OFFSETD = Program(
    name="offsetd",
    summary="A coordinator for consumer offsets: its server, its clients, its log.",
    examples="""
        offsetd serve                       # on port 7171, data in ./offsetd-data
        offsetd commit billing orders:0=42
        offsetd groups describe billing     # its progress and its lag
        offsetd groups list -o json | jq -r '.[].group'
        """,
    commands={
        "acls": "offsetd_clients.cli.acls:register",
        "admin": "offsetd_clients.cli.admin:register",
        "backup": "offsetd_clients.cli.backup:register",
        "commit": "offsetd_clients.cli.offsets:register_commit",
        "doctor": "offsetd_clients.cli.doctor.doctor_command:register",
        "fetch": "offsetd_clients.cli.offsets:register_fetch",
        "groups": "offsetd_clients.cli.groups.group_commands:register",
        "migrate": "offsetd_clients.cli.migration.migrate_commands:register",
        "version": "offsetd_clients.cli.versions:register",
        "watch": "offsetd_clients.cli.groups.group_history:register_watch",
        "web": "offsetd_clients.web.web_command:register",
    },
    extra="server",
    entry_point_group="offsetd.commands",
)

# Help has no markup: a `[server]` in it is not a style.
PLAIN: dict[str, Any] = {
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}

OutputOption = Annotated[
    OutputFormat,
    typer.Option("-o", "--output", help="How results are printed.", show_choices=True),
]
WideOption = Annotated[
    bool,
    typer.Option("--wide", "--verbose", help="Print all columns, even on a narrow terminal."),
]
# Errors that invalid arguments and options raise; typer has no name for them.
CALLED_WRONG: Any = typer.BadParameter.__mro__[2]
RootAddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        "--bootstrap-server",
        metavar="HOST:PORT",
        help="The server, for commands that call one.",
    ),
]


def run(terminal: Terminal | None = None, program: Program = OFFSETD) -> int:
    """Runs `sys.argv`; returns the exit code. Wrong use is 2, with a message on stderr."""
    terminal = terminal or standard_terminal()

    def command() -> None:
        ended = application(terminal, program)(prog_name=program.name)
        if isinstance(ended, int) and ended:
            raise SystemExit(ended)  # typer.Exit raises this.

    return exit_code(command, terminal, extra=program.extra)


class LazyGroup(typer.core.TyperGroup):
    """A group with commands of `loaders`, besides its own. They are imported when they are called.

    So `fetch` does not wait for the server's libraries.
    """

    @staticmethod
    def loaders() -> Mapping[str, Callable[[], Any]]:
        """Functions that import a command, by its name."""
        return {}

    def list_commands(self, ctx: Any) -> list[str]:
        """The group's own commands in their order, then the others."""
        own = super().list_commands(ctx)
        return [*own, *sorted(self.loaders().keys() - own)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, or None. The loaders are not asked for the group's own commands."""
        own = super().get_command(ctx, cmd_name)
        load = self.loaders().get(cmd_name) if own is None else None
        return own if load is None else load()

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Names the nearest command if there is none of this name."""
        if self.get_command(ctx, args[0]) is None:
            near = get_close_matches(args[0], self.list_commands(ctx))
            if near:
                ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)


def group_with(entry_point_group: str, terminal: Terminal) -> type[LazyGroup]:
    """The class of a group of subcommands to which other packages add some by entry points."""

    class Commands(LazyGroup):
        loaders = staticmethod(functools.cache(lambda: _loaders({}, entry_point_group, terminal)))

    return Commands


def application(terminal: Terminal, program: Program = OFFSETD) -> typer.Typer:
    """The command line, which prints to `terminal`."""

    class Commands(LazyGroup):
        loaders = staticmethod(
            functools.cache(lambda: _loaders(program.commands, program.entry_point_group, terminal))
        )

        def main(self, *args: Any, **kwargs: Any) -> Any:
            """Runs a command. Explains errors in its arguments with our own messages."""
            try:
                return super().main(*args, **{**kwargs, "standalone_mode": False})
            except CALLED_WRONG as error:
                raise SystemExit(_tell_wrong_use(error)) from None
            except typer.Abort:
                terminal.fail("aborted")

    app = typer.Typer(
        cls=Commands,
        name=program.name,
        help=program.summary,
        epilog=_epilog(program.examples),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        **PLAIN,
    )

    def show_version(value: bool) -> None:
        if value:
            terminal.lines([version("offsetd")])
            raise typer.Exit

    @app.callback()
    def root(
        _version: Annotated[
            bool,
            typer.Option(
                "--version",
                help="Print the version and exit.",
                callback=show_version,
                is_eager=True,
            ),
        ] = False,
        address: RootAddressOption = None,
    ) -> None:
        pass

    return app


def _tell_wrong_use(error: Any) -> int:
    """Prints the problem of the arguments; returns the exit code."""
    told = error.format_message()
    if type(error).__name__ != "NoArgsIsHelpError":  # The message of NoArgsIsHelpError is the help.
        told = wrong_use_text(told, printable)
    error.format_message = lambda: told
    error.show()
    return int(error.exit_code)


def _loaders(
    commands: Mapping[str, str], group: str, terminal: Terminal
) -> dict[str, Callable[[], Any]]:
    own = [EntryPoint(name, value, group) for name, value in commands.items()]
    points = {point.name: point for point in [*(entry_points(group=group) if group else ()), *own]}
    return {
        name: functools.cache(functools.partial(_load, point, terminal))
        for name, point in points.items()
    }


def _load(point: EntryPoint, terminal: Terminal) -> Any:
    app = typer.Typer(**PLAIN)
    app.callback()(_nothing)  # Makes the application a group, even if it has only one command.
    try:
        register = point.load()
    except ModuleNotFoundError as error:
        _register_failure(app, terminal, point, error)
    else:
        register(app, terminal)
    _complete_commands(app, terminal)
    group = typer.main.get_command(app)
    command = group.get_command(typer.Context(group), point.name)  # type: ignore[attr-defined]
    _hide_types_of_arguments(command)
    return command


def _hide_types_of_arguments(command: Any) -> None:
    """Shows an argument's name in the help, without its Python type."""
    for below in getattr(command, "commands", {}).values():
        _hide_types_of_arguments(below)
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = _no_type


def _no_type(ctx: typer.Context) -> str:  # noqa: ARG001  # as typer calls it
    return ""


def _nothing() -> None:
    pass


def _register_failure(
    app: typer.Typer, terminal: Terminal, point: EntryPoint, error: ModuleNotFoundError
) -> None:
    package = point.value.partition(".")[0]
    text = f"{error.name} is not installed"
    if package in EXTRA_OF_PACKAGE and (error.name or "").partition(".")[0] not in OURS:
        from offsetd_clients.installation import install_command  # noqa: PLC0415  rarely needed

        text += f": {install_command(EXTRA_OF_PACKAGE[package])}"

    @app.command(
        point.name,
        help=f"Not available: {text}",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def unavailable() -> None:
        terminal.fail(text)


def _complete_commands(app: typer.Typer, terminal: Terminal) -> None:
    """Adds the common options, and the examples, to all commands of `app` and its groups."""
    for command in app.registered_commands:
        if command.callback is not None:
            told = inspect.cleandoc(command.help or command.callback.__doc__ or "")
            command.help, found, examples = told.partition("\n\nExamples:\n")
            command.epilog = _epilog(examples) if found else command.epilog
            command.callback = _with_output_options(command.callback, terminal)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _complete_commands(group.typer_instance, terminal)


def _epilog(examples: str) -> str:
    """The examples below a command's help: these lines are printed verbatim."""
    lines = textwrap.dedent(examples.strip("\n")).rstrip().splitlines()
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def _collect_from_here() -> None:
    """Enables garbage collection, which `main` has disabled, for objects made from now on."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def _with_output_options(callback: Callable[..., Any], terminal: Terminal) -> Callable[..., Any]:
    @functools.wraps(callback)
    def command(
        *args: Any, called: typer.Context, output: OutputFormat, wide: bool, **kwargs: Any
    ) -> Any:
        _collect_from_here()
        if "address" not in kwargs and called.find_root().params.get("address"):
            raise typer.BadParameter(f"`{called.info_name}` calls no server: it takes no --address")
        terminal.called, terminal.output_format, terminal.is_wide = called, output, wide
        return callback(*args, **kwargs)

    signature = inspect.signature(callback)
    kind = inspect.Parameter.KEYWORD_ONLY
    added = (
        inspect.Parameter("called", kind, annotation=typer.Context),
        inspect.Parameter("output", kind, default=OutputFormat.TABLE, annotation=OutputOption),
        inspect.Parameter("wide", kind, default=False, annotation=WideOption),
    )
    # typer reads the signature. A command that declares its own `output` fails here, early.
    command.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), *added]
    )
    command.__annotations__ = {
        **callback.__annotations__,
        "called": typer.Context,
        "output": OutputOption,
        "wide": WideOption,
    }
    return command
