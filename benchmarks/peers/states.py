"""What is kept: how long it takes to load, how much memory and disk it takes."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import attrs

from benchmarks.peers import targets
from benchmarks.peers.contestants import BARE, new_server
from benchmarks.peers.generators import Native

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.peers.results import Results
    from benchmarks.peers.server import Server

PARTITIONS = 50
LOADED_OFFSETS = 1_000_000
OVERWRITTEN_KEYS = 100_000
OVERWRITES = 10_000_000
WAIT_S = 120.0
_DISK_SETTINGS = {
    # Cleaning needs closed segments; ours else keeps an hour of history, which no peer has.
    "offsetd": {"offsets.topic.segment.bytes": str(1 << 20), "history.ms": "0"},
    "kafka": {"offsets.topic.segment.bytes": str(1 << 20)},
}


@attrs.frozen(kw_only=True)
class Sizes:
    """How much is kept; names of states stay those of the full size."""

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
    """Restarts of each system, empty and full, and the memory that the offsets take."""
    servers = {name: new_server(name, folder / f"load-{name}") for name in systems if name != BARE}
    for name, server in servers.items():
        _noted(results, name, lambda name=name, server=server: _begin(name, server))
    for _ in range(rounds):
        for name, server in servers.items():
            _restart(results, targets.LOAD_EMPTY, name, server, 1)
    for name, server in servers.items():
        _noted(
            results,
            name,
            lambda name=name, server=server: _fill(name, server, sizes.loaded_groups, results),
        )
    for _ in range(rounds):
        for name, server in servers.items():
            _restart(results, targets.LOAD, name, server, sizes.loaded_groups)


def run_disk(systems: list[str], sizes: Sizes, *, folder: Path, results: Results) -> None:
    """Overwrites of each system in turn, and the disk that is taken some time after the last."""
    for name in systems:
        if name == BARE:
            continue
        server = new_server(name, folder / f"disk-{name}", _DISK_SETTINGS.get(name))
        _noted(results, name, lambda name=name, server=server: _disk(name, server, sizes, results))


def _begin(name: str, server: Server) -> None:
    with server.running():
        client = _client(name)
        client.prepare(server, groups=1, partitions=PARTITIONS)
        client.commit(server, groups=1, partitions=PARTITIONS, commits=1, first=1)


def _fill(name: str, server: Server, groups: int, results: Results) -> None:
    with server.running():
        client = _client(name)
        client.await_offsets(server, groups=1, partitions=PARTITIONS)
        empty_bytes = server.memory_bytes()
        client.prepare(server, groups=groups, partitions=PARTITIONS)
        client.commit(server, groups=groups, partitions=PARTITIONS, commits=groups, first=1)
        _note(results, targets.MEMORY, name, server.memory_bytes() - empty_bytes)


def _restart(results: Results, state: str, name: str, server: Server, groups: int) -> None:
    def restart() -> None:
        with server.running() as started_s:
            _client(name).await_offsets(server, groups=groups, partitions=PARTITIONS)
            _note(results, state, name, time.monotonic() - started_s)

    if not _noted(results, name, restart):
        results.states.setdefault(state, {}).setdefault(name, []).append(None)


def _disk(name: str, server: Server, sizes: Sizes, results: Results) -> None:
    groups = sizes.overwritten_groups
    with server.running():
        client = _client(name)
        client.prepare(server, groups=groups, partitions=PARTITIONS)
        commits = sizes.overwriting_commits
        client.commit(server, groups=groups, partitions=PARTITIONS, commits=commits, first=1)
        time.sleep(sizes.wait_s)
        _note(results, targets.DISK, name, server.disk_bytes())


def _client(name: str) -> Native:
    # What waits for a server that loads makes calls; streams end with the first refusal.
    return Native(client="offsetd-unary" if name == "offsetd" else name)


def _note(results: Results, state: str, name: str, figure: float) -> None:
    results.states.setdefault(state, {}).setdefault(name, []).append(figure)
    print(f"  {state}: {name}: {figure:,.4g}", file=sys.stderr)


def _noted(results: Results, name: str, step: object) -> bool:
    """Whether a step came to its end; what it failed with is told."""
    assert callable(step)
    try:
        step()
    except RuntimeError as failure:
        results.failed.append(f"{name}: {failure}")
        print(f"  {results.failed[-1]}", file=sys.stderr)
        return False
    return True
