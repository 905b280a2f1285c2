"""What `offsetd serve` does before it serves. Its life is tested on real processes."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main
from hypothesis import given
from hypothesis import strategies as st
from offsetd_coordinator.commands import serve
from offsetd_coordinator.commands.serve import _nothing_collected
from typer.testing import CliRunner

FAILING_START = """
import gc
from offsetd_coordinator.commands import serve
from offsetd_coordinator.commands import kernel_commands
from offsetd_coordinator.configuration.settings_sources import load_settings

def warm_kernels(terminal, **later):
    print(gc.isenabled())
    raise OSError("no kernels")

kernel_commands.warm_kernels = warm_kernels
try:
    serve._run(load_settings(), None, accepts_defaults=False, pages=None)
except OSError as error:
    print(error, gc.isenabled(), gc.get_freeze_count())
"""


@pytest.mark.slow
def test_garbage_is_looked_for_again_when_a_start_has_failed() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FAILING_START], capture_output=True, text=True, check=True
    )
    assert ended.stdout == "False\nno kernels True 0\n"


TOLD_START = """
import os, sys
from offsetd_coordinator.commands import serve
from offsetd_coordinator.commands import kernel_commands

def warm_kernels(terminal, **later):
    threads = len(os.listdir("/proc/self/task"))
    raise SystemExit(f"{os.environ[sys.argv[1]]} {threads} {'numpy' in sys.modules}")

kernel_commands.warm_kernels = warm_kernels
serve._serve(None, None, [], {})
"""
LOADED_BY_A_START = """
import sys
from offsetd_coordinator.commands import serve
from offsetd_coordinator.commands import kernel_commands

def warm_kernels(terminal, **later):
    looked_for = ("prometheus_client", "rich", "structlog", "typer")
    loaded = [name for name in looked_for if name in sys.modules]
    import rich.console
    raise SystemExit(" ".join(loaded))

kernel_commands.warm_kernels = warm_kernels
serve._serve(None, None, [], {})
"""
USED_GRPC = """
import asyncio
import grpc.aio

async def use():
    await grpc.aio.server().stop(None)

asyncio.run(use())
"""


def told_at_the_start(name: str) -> list[str]:
    """What a variable is once libraries are loaded; the process' threads; whether NumPy is."""
    ended = subprocess.run(
        [sys.executable, "-c", TOLD_START, name], capture_output=True, text=True, check=False
    )
    return ended.stderr.rstrip("\n").split(" ")


@pytest.mark.slow
def test_a_start_loads_nothing_that_only_draws_or_is_scraped() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LOADED_BY_A_START], capture_output=True, text=True, check=False
    )
    assert ended.stderr == "structlog\n"


@pytest.mark.slow
@pytest.mark.parametrize("operators", [None, "", "tcp_rcv_lowat"])
def test_grpc_is_told_to_read_itself_before_it_is_used_unless_an_operator_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, operators: str | None
) -> None:
    name, ours = serve.GRPC_READS_ITSELF
    monkeypatch.delenv(name, raising=False)
    if operators is not None:
        monkeypatch.setenv(name, operators)
    assert told_at_the_start(name)[0] == (ours if operators is None else operators)


@pytest.mark.slow
def test_a_start_has_no_threads_that_turn_idly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless an operator wants them; with one core there are none either way."""
    name, ours = serve.ALGEBRA_IS_ALONE
    monkeypatch.delenv(name, raising=False)
    assert told_at_the_start(name) == [ours, "1", "True"]
    monkeypatch.setenv(name, "2")
    cores = len(os.sched_getaffinity(0))
    assert told_at_the_start(name) == ["2", str(min(cores, 2)), "True"]


def test_grpc_knows_what_it_is_told() -> None:
    """A version that does not would say so in every start, and take no notice."""
    name, ours = serve.GRPC_READS_ITSELF
    known, unknown = (
        subprocess.run(
            [sys.executable, "-c", USED_GRPC],
            env={**os.environ, name: value},
            capture_output=True,
            text=True,
            check=True,
        ).stderr
        for value in (ours, f"{ours}_s")
    )
    assert "Unknown experiment" in unknown, "or the one below says nothing"
    assert "Unknown experiment" not in known


def test_what_was_made_while_nothing_was_collected_is_passed_over_later() -> None:
    try:
        with _nothing_collected():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_an_error_leaves_nothing_frozen_and_collections_as_they_were() -> None:
    with pytest.raises(OSError, match="no disk"), _nothing_collected():
        raise OSError("no disk")
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


class Calls:
    """Stands where the server is run, and remembers with what."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[Any] = []
        monkeypatch.setattr(serve, "_serve", self._note)
        app = typer.Typer()
        app.callback()(lambda: None)
        serve.register(app, None)  # type: ignore[arg-type]
        self._command = app

    def _note(
        self,
        _terminal: Any,
        config: Any,
        assignments: Any,
        given: Any,
        *,
        accepts_defaults: bool = False,
        pages: str | None = None,
    ) -> None:
        self.accepts_defaults = accepts_defaults
        self.pages = pages
        given = {option: value for option, value in given.items() if value is not None}
        self.calls.append((config, list(assignments), given))

    def by_typer(self, arguments: list[str]) -> Any:
        """What typer runs the server with; None if it does not."""
        CliRunner().invoke(self._command, ["serve", *arguments])
        return self.calls.pop() if self.calls else None

    def plain(self, arguments: list[str]) -> Any:
        """What the plain reading runs it with; None if it leaves that to typer."""
        command = serve.read_plain(arguments)
        if command is None:
            return None
        command(None)  # type: ignore[arg-type]
        return self.calls.pop()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], (None, [], {})),
        (["--data-dir", "a b"], (None, [], {"--data-dir": "a b"})),
        (["--listen=:1", "--listen", ":2"], (None, [], {"--listen": ":2"})),
        (["--set", "a=1", "--set=b=2", "--set", "a=3"], (None, ["a=1", "b=2", "a=3"], {})),
        (["--config", "x.toml", "--config=y.toml"], (Path("y.toml"), [], {})),
    ],
)
def test_settings_are_read_plainly_as_typer_reads_them(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], expected: Any
) -> None:
    calls = Calls(monkeypatch)
    assert calls.plain(arguments) == expected
    assert calls.by_typer(arguments) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["-h"],
        ["--list-settings"],
        ["-o", "json"],
        ["--data-dir"],
        ["--data-dir="],
        ["--data-dir", ""],
        ["--data-dir", "--listen", ":1"],
        ["--data-dir", "-x"],
        ["--data", "a"],
        ["--data-dir", "a", "b"],
        ["--", "--data-dir", "a"],
        ["--set", "node.id=\udcff"],
        ["serve"],
        [""],
    ],
)
def test_what_is_more_than_settings_is_left_to_typer(arguments: list[str]) -> None:
    assert serve.read_plain(arguments) is None


WORDS = ("--data-dir", "--listen", "--config", "--set", "--list-settings", "--help", "--", "-o")
VALUES = ("", "a=1", "b", "-", "-1", "--", "=", "\udcff", " ", "--set", "json")


@given(
    st.lists(
        st.one_of(
            st.sampled_from(WORDS),
            st.sampled_from(VALUES),
            st.tuples(st.sampled_from(WORDS), st.sampled_from(VALUES)).map("=".join),
        ),
        max_size=6,
    )
)
def test_whatever_is_read_plainly_typer_reads_alike(arguments: list[str]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        calls = Calls(monkeypatch)
        plain = calls.plain(arguments)
        if plain is not None:
            assert calls.by_typer(arguments) == plain


def test_who_accepts_default_settings_is_read_by_typer(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(monkeypatch)
    arguments = ["--accept-default-settings", "--set", "a=1"]
    assert calls.plain(arguments) is None
    assert calls.by_typer(arguments) == (None, ["a=1"], {})
    assert calls.accepts_defaults
    calls.by_typer(["--set", "a=1"])
    assert not calls.accepts_defaults


@pytest.mark.parametrize(
    ("given", "words", "told"),
    [
        ("", "--listen b:2", "--listen b:2"),
        ("--listen a:1 --data-dir d", "--listen b:2", "--data-dir d --listen b:2"),
        ("--set listen.address=a:1", "--listen b:2", "--listen b:2"),
        ("--listen=a:1 -q", "--listen b:2", "-q --listen b:2"),
        (
            "--set metrics.address=a:1 --set segment.ms=5 --listen a:1",
            "--set metrics.address=b:2",
            "--set segment.ms=5 --listen a:1 --set metrics.address=b:2",
        ),
        ("--set=metrics.address=a:1", "--set metrics.address=b:2", "--set metrics.address=b:2"),
    ],
)
def test_a_command_that_is_told_keeps_the_other_options(given: str, words: str, told: str) -> None:
    assert serve.with_option(given.split(), words.split()) == told.split()
