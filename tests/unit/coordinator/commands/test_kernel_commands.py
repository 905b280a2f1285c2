from __future__ import annotations

import asyncio
import gc
import threading
from contextlib import contextmanager

import pytest
import typer
from offsetd_coordinator.commands import kernel_commands
from offsetd_storage.kernels import registry
from typer.testing import CliRunner


class Terminal:
    """Remembers what a command says and reports."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.reports: list[tuple[int, int, str]] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    @contextmanager
    def progress(self, title: str):
        yield lambda *report: self.reports.append(report)


@pytest.fixture
def few_kernels(monkeypatch, tmp_path):
    """A registry with one kernel, and an empty cache."""
    monkeypatch.setattr(registry, "_kernels", {})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    imported: list[str] = []
    monkeypatch.setattr(registry, "import_kernels", lambda *packages: imported.extend(packages))
    return imported


def doubled(number):
    return number + number


def declare() -> None:
    registry._kernels.clear()
    registry.kernel("int64(int64)")(doubled)


def run() -> Terminal:
    terminal, app = Terminal(), typer.Typer()
    app.callback()(lambda: None)
    kernel_commands.register(app, terminal)
    result = CliRunner().invoke(app, ["kernels", "warm"])
    assert (result.exit_code, result.stdout) == (0, "")
    return terminal


def test_warm_compiles_with_progress_and_says_so_on_stderr(few_kernels):
    declare()
    terminal = run()
    assert terminal.reports == [(0, 1, "doubled"), (1, 1, "")]
    assert len(terminal.notes) == 2
    assert "compiling" in terminal.notes[0]
    assert terminal.notes[1] == "1 kernels are ready; 1 of them had to be compiled"


def test_warm_only_loads_what_the_cache_has_and_shows_no_progress(few_kernels):
    declare()
    run()
    declare()
    terminal = run()
    assert terminal.notes == ["1 kernels are ready; 0 of them had to be compiled"]
    assert terminal.reports == []


def test_warm_imports_the_kernels_of_storage_and_coordinator(few_kernels):
    declare()
    run()
    assert set(few_kernels) == {"offsetd_storage.kernels", "offsetd_coordinator.kernels"}


def test_what_compiling_leaves_is_collected_though_a_start_collects_nothing(few_kernels):
    declare()
    gc.disable()
    try:
        assert kernel_commands.warm_kernels(Terminal()) == 1
        assert gc.isenabled()
        declare()
        gc.disable()
        assert kernel_commands.warm_kernels(Terminal()) == 0
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_a_start_leaves_for_later_are_modules_of_kernels():
    registry.import_kernels(*kernel_commands.KERNEL_PACKAGES)
    modules = {each.name.rpartition(".")[0] for each in registry.registered_kernels()}
    assert modules >= kernel_commands.CLEANER_KERNELS | kernel_commands.LATER_KERNELS
    assert not kernel_commands.CLEANER_KERNELS & kernel_commands.LATER_KERNELS


def test_later_kernels_are_loaded_when_the_server_serves_and_not_by_the_loops_thread(
    few_kernels, monkeypatch
):
    declare()
    kernel_commands.warm_kernels(Terminal())
    declare()
    kernel_commands.warm_kernels(Terminal(), later={__name__})
    [kernel] = registry.registered_kernels()
    threads = []

    def load_overload(*arguments):
        threads.append(threading.current_thread())
        return load(*arguments)

    load = kernel.cache.load_overload
    monkeypatch.setattr(kernel.cache, "load_overload", load_overload)

    async def serve() -> None:
        serving = asyncio.Event()
        loading = asyncio.create_task(kernel_commands.load_later_kernels(serving))
        await asyncio.sleep(0)
        assert not kernel.dispatcher.overloads
        serving.set()
        await loading

    asyncio.run(serve())
    assert kernel.dispatcher.overloads
    assert kernel.cache.compiled == 0
    assert threading.main_thread() not in threads
    assert len(threads) == 1


def test_the_cleaners_kernels_are_left_to_the_cleaner(few_kernels, monkeypatch):
    declare()
    kernel_commands.warm_kernels(Terminal())
    declare()
    monkeypatch.setattr(kernel_commands, "CLEANER_KERNELS", frozenset({__name__}))
    kernel_commands.warm_kernels(Terminal(), later=kernel_commands.CLEANER_KERNELS)
    [kernel] = registry.registered_kernels()

    async def serve() -> None:
        serving = asyncio.Event()
        serving.set()
        await kernel_commands.load_later_kernels(serving)

    asyncio.run(serve())
    assert not kernel.dispatcher.overloads
