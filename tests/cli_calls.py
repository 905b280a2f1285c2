"""The command line run in this process, against whatever server a test has."""

from __future__ import annotations

import sys
from io import StringIO
from typing import TYPE_CHECKING

import attrs
from offsetd_clients.cli.application import OFFSETD, Program, run
from offsetd_clients.cli.printing.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


@attrs.frozen
class Ended:
    """What a command left behind."""

    code: int
    stdout: str
    stderr: str


def offsetd_of(address: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """Calls `offsetd` with some arguments; neither of its streams is a terminal."""
    monkeypatch.setenv("OFFSETD_ADDRESS", address)
    return calls_of(OFFSETD, monkeypatch)


def calls_of(program: Program, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """Calls a program with some arguments; neither of its streams is a terminal."""

    def call(*arguments: object) -> Ended:
        words = program.name.split()  # `offsetd`, or `python -m module`.
        script = words[0] if len(words) == 1 else f"{words[-1]}/__main__.py"
        monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
        monkeypatch.setattr(sys, "orig_argv", [words[0], *sys.argv])
        stdout, stderr = StringIO(), StringIO()
        code = run(Terminal(stdout, stderr), program)
        return Ended(code, stdout.getvalue(), stderr.getvalue())

    return call
