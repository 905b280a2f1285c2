"""How a command line ends: its exit code, and what is told of what went wrong."""

from collections.abc import Callable

from offsetd_clients.cli.terminal import Terminal

OURS = ("offsetd", "offsetd_storage", "offsetd_coordinator", "offsetd_clients", "offsetd_pipeline")


def exit_code(command: Callable[[], object], terminal: Terminal, *, extra: str) -> int:
    """Runs `command`; returns the exit code.

    `extra`: of the package, with what the command may import only when it runs. Where that is
    missing, or the output fails, one line on stderr says so.
    """
    try:
        try:
            _run(command, terminal, extra)
        finally:
            terminal.flush()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def _run(command: Callable[[], object], terminal: Terminal, extra: str) -> None:
    try:
        command()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in OURS:
            raise
        terminal.fail(f"{error.name} is not installed: pip install 'offsetd[{extra}]'")
    except OSError as error:
        if error.filename is not None:
            raise
        terminal.output_failed(error)  # Of click, which prints the help.
