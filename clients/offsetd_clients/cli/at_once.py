"""Commands that do not wait for the command line, in their plain use.

To read its arguments takes typer, and what it imports, an eighth of the time in which a server
starts. What a server is started with is mostly names and values; those its package reads itself.
Whatever else there is (help, mistakes, other options) is for the whole command line.
"""

import functools
import pkgutil
from collections.abc import Callable, Mapping, Sequence

from offsetd_clients.cli.endings import exit_code
from offsetd_clients.cli.printing.terminal import standard_terminal

# By name: `module:read`. `read(arguments)` returns what runs the command, given a terminal; or None
# where the whole command line has to read them.
READERS: Mapping[str, str] = {"serve": "offsetd_coordinator.commands.serve:read_plain"}
EXTRA = "server"
INTERRUPTED = 130  # As typer's commands.


def run_at_once(arguments: Sequence[str]) -> int | None:
    """Runs a command, if it can be read here, and returns its exit code; else None."""
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
        return None  # The whole command line says what to install.
    return read(arguments)
