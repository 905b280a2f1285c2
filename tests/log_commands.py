"""Runs `offsetd log` within the test, and takes what it prints."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

import attrs
import typer
from offsetd_clients.cli.printing.terminal import OutputFormat, Terminal
from offsetd_coordinator.commands import log_commands
from typer.testing import CliRunner

if TYPE_CHECKING:
    from pathlib import Path


@attrs.frozen(kw_only=True)
class Outcome:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path there."""
    found = (each for each in folder.rglob("*") if each.is_file())
    return {str(each.relative_to(folder)): each.read_bytes() for each in found}


def offsetd_log(*arguments: str, output: OutputFormat = OutputFormat.TABLE) -> Outcome:
    out, err = StringIO(), StringIO()
    terminal = Terminal(out, err)
    terminal.output_format = output
    app = typer.Typer()
    log_commands.register(app, terminal)
    result = CliRunner().invoke(app, ["log", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Outcome(code=result.exit_code, out=out.getvalue(), err=err.getvalue() + result.stderr)
