"""Measures stored offsets: how long they take to load, and how much memory and disk they use."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import attrs

from benchmarks.peers import targets
from benchmarks.peers.contestants import BARE, SYSTEMS, native_clients, new_server
from benchmarks.peers.generators import Native

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.peers.results import Results
    from benchmarks.peers.server import Server

PARTITIONS = 50
LOADED_OFFSETS = 1_000_000
OVERWRITTEN_KEYS = 100_000
OVERWRITES = 10_000_000
WAIT_S = 120.0
_SETTLING_PAUSE_S = 1.0
_SETTLING_LOOKS_MAX = 10
_SETTLING_RATIO = 1.005
_DISK_SETTINGS = {
    # Cleaning needs closed segments; by default, ours also keeps an hour of history, which no peer
    # has.
    "offsetd": {"offsets.topic.segment.bytes": str(1 << 20), "history.ms": "0"},
    "kafka": {"offsets.topic.segment.bytes": str(1 << 20)},
}


@attrs.frozen(kw_only=True)
class Sizes:
    """The amounts to store. The results' names have the full size, even if a run is scaled down."""

    loaded_groups: int
    overwritten_groups: int
    overwriting_commits: int
    wait_s: float

    @classmethod
    def of(cls, scale: float) -> Sizes:
        """The full sizes times `scale`, at least one group."""
        return cls(
            loaded_groups=max(1, int(LOADED_OFFSETS * scale) // PARTITIONS),
            overwritten_groups=max(1, int(OVERWRITTEN_KEYS * scale) // PARTITIONS),
            overwriting_commits=max(1, int(OVERWRITES * scale) // PARTITIONS),
            wait_s=WAIT_S * min(1.0, scale),
        )


def run_loads(
    systems: list[str], sizes: Sizes, *, rounds: int, folder: Path, results: Results
) -> None:
    """Measures restarts of each system, empty and full, and the memory of the offsets."""
    servers = {name: new_server(name, folder / f"load-{name}") for name in systems if name != BARE}
    for name, server in servers.items():
        _noted(results, name, functools.partial(_begin, name, server))
    for _ in range(rounds):
        for name, server in servers.items():
            _restart(results, targets.LOAD_EMPTY, name, server, 1)
    for name, server in servers.items():
        fill = functools.partial(_fill, name, server, sizes.loaded_groups, results)
        _noted(results, name, fill)
    for _ in range(rounds):
        for name, server in servers.items():
            _restart(results, targets.LOAD, name, server, sizes.loaded_groups)


def run_disk(systems: list[str], sizes: Sizes, *, folder: Path, results: Results) -> None:
    """Overwrites offsets in one system after the other, and measures the disk space of each later.

    Each system has some time to clean after its last overwrite. During that time, the systems after
    it are being overwritten: ours is the first, so it has the busiest neighbours.
    """
    servers = {
        name: new_server(name, folder / f"disk-{name}", _DISK_SETTINGS.get(name))
        for name in systems
        if name != BARE
    }
    looks: dict[str, Future[int]] = {}
    with contextlib.ExitStack() as running, ThreadPoolExecutor(len(SYSTEMS)) as waiting:

        def overwrite(name: str, server: Server) -> None:
            running.enter_context(server.running())
            _commit_in_turn(name, server, sizes.overwritten_groups, sizes.overwriting_commits)
            print(f"  overwritten: {name}", file=sys.stderr)
            looks[name] = waiting.submit(_disk_bytes, server, sizes.wait_s)

        for name, server in servers.items():
            _noted(results, name, functools.partial(overwrite, name, server))
        for name, look in looks.items():
            _note(results, targets.DISK, name, look.result())


def _begin(name: str, server: Server) -> None:
    with server.running():
        _commit_in_turn(name, server, 1, 1)


def _fill(name: str, server: Server, groups: int, results: Results) -> None:
    with server.running():
        _waiting_client(name).await_offsets(server, groups=1, partitions=PARTITIONS)
        empty_bytes = settled(server.memory_bytes)
        _commit_in_turn(name, server, groups, groups)
        _note(results, targets.MEMORY, name, settled(server.memory_bytes) - empty_bytes)


def settled(look: Callable[[], int], *, pause_s: float = _SETTLING_PAUSE_S) -> int:
    """Calls `look` until its value hardly grows, for a limited time; returns the last value.

    A server may continue to load after its first answer.
    """
    held = look()
    for _ in range(_SETTLING_LOOKS_MAX):
        time.sleep(pause_s)
        before, held = held, look()
        if held < before * _SETTLING_RATIO:
            break
    return held


def _restart(results: Results, state: str, name: str, server: Server, groups: int) -> None:
    def restart() -> None:
        with server.running() as started_s:
            _waiting_client(name).await_offsets(server, groups=groups, partitions=PARTITIONS)
            _note(results, state, name, time.monotonic() - started_s)

    if not _noted(results, name, restart):
        results.states.setdefault(state, {}).setdefault(name, []).append(None)


def _disk_bytes(server: Server, wait_s: float) -> int:
    time.sleep(wait_s)
    return server.disk_bytes()


def _commit_in_turn(name: str, server: Server, groups: int, commits: int) -> None:
    _waiting_client(name).prepare(server, groups=groups, partitions=PARTITIONS)
    Native(client=native_clients(name)[0]).commit(
        server, groups=groups, partitions=PARTITIONS, commits=commits, first=1
    )


def _waiting_client(name: str) -> Native:
    # While the server may be loading, our client makes unary calls: a stream ends at its first
    # refusal.
    return Native(client="offsetd-unary" if name == "offsetd" else name)


def _note(results: Results, state: str, name: str, figure: float) -> None:
    results.states.setdefault(state, {}).setdefault(name, []).append(figure)
    print(f"  {state}: {name}: {figure:,.4g}", file=sys.stderr)


def _noted(results: Results, name: str, step: Callable[[], None]) -> bool:
    """Runs a step. Returns False if it failed, and reports the error."""
    try:
        step()
    except RuntimeError as failure:
        results.failed.append(f"{name}: {failure}")
        print(f"  {results.failed[-1]}", file=sys.stderr)
        return False
    return True
