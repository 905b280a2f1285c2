"""Runs simple uses of some commands without the typer application.

typer and its imports take an eighth of the time of a server's start, only to read arguments. The
arguments of a server are mostly names and values, which its package can read itself. The full
command line handles everything else (help, mistakes, other options).
"""

import functools
import pkgutil
from collections.abc import Callable, Mapping, Sequence

from offsetd_clients.cli.command_exit import exit_code
from offsetd_clients.cli.printing.terminal import standard_terminal

# `module:read` by name. `read(arguments)` returns a function that runs the command on a terminal,
# or None if the full command line must read the arguments.
READERS: Mapping[str, str] = {"serve": "offsetd_coordinator.commands.serve:read_plain"}
EXTRA = "server"
INTERRUPTED = 130  # The exit code is that of typer's commands.


def run_at_once(arguments: Sequence[str]) -> int | None:
    """Runs a command if this module can read it, and returns its exit code; else None."""
    name, *rest = arguments or ("",)
    command = _read(READERS[name], rest) if name in READERS else None
    if command is None:
        return None
    terminal = standard_terminal()
    try:
        return exit_code(functools.partial(command, terminal), terminal, extra=EXTRA)
    except KeyboardInterrupt:
        return INTERRUPTED


def _read(reader: str, arguments: Sequence[str]) -> Callable[..., None] | None:
    try:
        read: Callable[[Sequence[str]], Callable[..., None] | None] = pkgutil.resolve_name(reader)
    except ModuleNotFoundError:
        return None  # The full command line reports what to install.
    return read(arguments)
