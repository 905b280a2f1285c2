"""Files that a user names on the command line."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from offsetd_clients.cli.printing.terminal import Terminal

STANDARD_INPUT = "-"


def read_file(path: Path) -> bytes:
    """The content of a file, or of the standard input. Raises OSError."""
    return sys.stdin.buffer.read() if str(path) == STANDARD_INPUT else path.read_bytes()


def check_absent(path: Path | None, terminal: Terminal, *, force: bool) -> None:
    """Ends the command if it would replace a file without `--force`."""
    if path is not None and not force and path.exists():
        terminal.fail(f"{path} exists: --force replaces it")


def write_file(path: Path, pieces: Iterable[bytes]) -> None:
    """Writes the whole file or nothing: a truncated file must not be taken for a whole one.

    Raises OSError, and the errors of the pieces.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as out:
            for piece in pieces:
                out.write(piece)
            out.flush()
            os.fsync(out.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
