"""Ends a command line: its exit code, and the message of an error."""

from collections.abc import Callable

from offsetd_clients.cli.printing.plain_text import error_words
from offsetd_clients.cli.printing.terminal import EXIT_WRONG_USE, Terminal

_SHOWN_CHARACTERS = 40
OURS = ("offsetd", "offsetd_storage", "offsetd_coordinator", "offsetd_clients", "offsetd_pipeline")


def exit_code(command: Callable[[], object], terminal: Terminal, *, extra: str) -> int:
    """Runs `command`; returns the exit code.

    `extra` is the extra that the command may need at run time. If it is missing, or if the output
    fails, one line on stderr reports it.
    """
    try:
        try:
            _run(command, terminal, extra)
        finally:
            terminal.flush()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        return code or terminal.exit_code
    return terminal.exit_code


def _run(command: Callable[[], object], terminal: Terminal, extra: str) -> None:
    try:
        command()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in OURS:
            raise
        from offsetd_clients.installation import install_command  # noqa: PLC0415  rarely needed

        terminal.fail(f"{error.name} is not installed: {install_command(extra)}")
    except UnicodeEncodeError as error:
        text = error.object[: error.end]
        terminal.fail(f"it is not UTF-8: {text[-_SHOWN_CHARACTERS:]!r}", EXIT_WRONG_USE)
    except OSError as error:
        if error.filename is not None:
            terminal.fail(error_words(error))
        # When click prints the help and stdout fails, its OSError arrives here.
        terminal.output_failed(error)
