"""offsetd_clients.cli.fast_start: what a server's start does not wait for."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from offsetd_clients.cli import fast_start

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

# The exit code, and which of these were imported on the way to it.
ENDED = """
import sys
from offsetd_clients.cli import main
try:
    main.main()
finally:
    print(*(name for name in ("typer", "pydantic") if name in sys.modules))
"""


def offsetd(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", ENDED, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **environment},
    )


def test_a_plain_start_imports_no_command_line() -> None:
    plain = offsetd("serve", "--set", "segment.ms=never")
    assert (plain.returncode, plain.stdout) == (2, "\n")
    assert "segment.ms" in plain.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("--set", "segment.ms=never"),
        ("--set=no.such.setting=1",),
        ("--config", "/no/such/file"),
        ("--data-dir", ".", "--listen", "nowhere"),
    ],
)
def test_what_is_wrong_with_settings_is_told_alike_by_both_ways(arguments: tuple[str, ...]) -> None:
    plain = offsetd("serve", *arguments)
    whole = offsetd("serve", *arguments, "-o", "table")
    assert "typer" in whole.stdout.split()
    assert (plain.returncode, plain.stderr) == (whole.returncode, whole.stderr)


@pytest.mark.parametrize("missing", ["uvloop", "structlog", "numba"])
def test_what_is_not_installed_is_told_in_one_line(tmp_path: Path, missing: str) -> None:
    (tmp_path / f"{missing}.py").write_text(
        f"raise ModuleNotFoundError('No such module', name={missing!r})\n"
    )
    ended = offsetd("serve", PYTHONPATH=str(tmp_path))
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"error: {missing} is not installed: ")
    assert ended.stderr.endswith("[server]'\n")


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["--version"], ["serve", "--help"], ["fetch", "billing"]]
)
def test_everything_else_is_left_to_the_whole_command_line(arguments: list[str]) -> None:
    assert fast_start.run_at_once(arguments) is None


def failing(error: BaseException) -> Callable[[Sequence[str]], Callable[[object], None]]:
    def command(_terminal: object) -> None:
        raise error

    return lambda _arguments: command


@pytest.mark.parametrize(
    ("error", "code"), [(SystemExit(3), 3), (SystemExit(), 0), (KeyboardInterrupt(), 130)]
)
def test_the_exit_code_is_the_commands(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    monkeypatch.setattr(fast_start.pkgutil, "resolve_name", lambda _name: failing(error))
    assert fast_start.run_at_once(["serve"]) == code
