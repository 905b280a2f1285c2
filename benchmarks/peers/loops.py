"""Runs the closed loops: each work on each system, in interleaved rounds, from Go and Python."""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import time
from typing import TYPE_CHECKING

import attrs

from benchmarks.peers import targets, works
from benchmarks.peers.bare_server import SyncedFile
from benchmarks.peers.contestants import (
    BARE,
    SYNCED_BARE,
    TUNED_BARE,
    leave_out,
    native_clients,
    serving,
)
from benchmarks.peers.generators import Fleet, Native, Pace, Python
from benchmarks.peers.python_load import CLIENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from benchmarks.peers.results import Results
    from benchmarks.peers.server import Server
    from benchmarks.peers.works import Work

_SYNCS = 300
_SYNC_FILE_BYTES = 1 << 20


@attrs.frozen(kw_only=True)
class Contestant:
    """A server, and the generator of its load."""

    server: Server
    generator: Native | Python | Fleet


@attrs.frozen(kw_only=True)
class Plan:
    """The number of rounds, their length, and the folder of the servers."""

    rounds: int
    pace: Pace
    folder: Path
    # The works of the parts `native`, `python` and `fleet`.
    works: Mapping[str, tuple[Work, ...]] = works.SIDE_BY_SIDE["all"]


def run_side_by_side(
    systems: list[str], parts: Iterable[str], plan: Plan, results: Results
) -> None:
    """Runs the parts `native` and `python`, on servers that all run at the same time."""
    with serving(systems, plan.folder, results) as servers:
        for name in prepared(servers, results):
            servers.pop(name)
        loads = {"native": native_contestants(servers), "python": python_contestants(servers)}
        for number, part in enumerate(parts):
            if number == 0:  # In later parts, the servers are warm.
                for work in (works.MANY_CONNECTIONS, works.MANY_PARTITIONS):
                    warm(loads[part], work, plan, results)
            for work in plan.works[part]:
                interleave(part, work, _fit(loads[part], work), plan, results)


def run_transport(plan: Plan, results: Results) -> None:
    """Runs the part `transport`: ours and bare servers on one core, the generator on another.

    One bare server is untuned, one has the gRPC setting of ours. With one caller, a sync serves no
    other call: for this work, a third bare server syncs once a call.
    """
    cores = sorted(os.sched_getaffinity(0))
    folder = plan.folder / "pinned"
    folder.mkdir()
    clients = {BARE: BARE, TUNED_BARE: BARE, SYNCED_BARE: BARE, "offsetd": "offsetd"}
    with serving(clients, folder, results, core=cores[0]) as servers:
        prepared({"offsetd": servers["offsetd"]}, results)
        for work, way in (
            (works.ONE, "unary"),
            (works.MANY_CONNECTIONS, "unary"),
            (works.STREAMED_ONES, "stream"),
            (works.STREAMED_MANY, "stream"),
        ):
            contestants = {
                f"{name}-{way}": Contestant(
                    server=servers[name],
                    generator=Native(client=f"{client}-{way}", core=cores[-1]),
                )
                for name, client in clients.items()
                if name != SYNCED_BARE or work == works.ONE
            }
            warm(contestants, work, plan, results)
            interleave("transport", work, contestants, plan, results)
    syncs = [_sync_us(plan.folder) for _ in range(plan.rounds)]
    results.states[targets.SYNC] = {"disk": list(syncs)}


def prepared(servers: Mapping[str, Server], results: Results) -> list[str]:
    """Prepares each server for the groups of all works. Returns the names of those that fail."""
    failed = []
    for name, server in servers.items():
        if name == BARE:
            continue
        try:
            for partitions in works.PARTITIONS:
                Native(client=native_clients(name)[0]).prepare(
                    server, groups=max(works.CALLERS), partitions=partitions
                )
        except RuntimeError as failure:
            leave_out(results, name, failure)
            failed.append(name)
    return failed


def native_contestants(servers: Mapping[str, Server]) -> dict[str, Contestant]:
    """The contestants of the generator in Go. Some servers have two clients."""
    return {
        client: Contestant(server=server, generator=Native(client=client))
        for name, server in servers.items()
        for client in native_clients(name)
    }


def python_contestants(servers: Mapping[str, Server]) -> dict[str, Contestant]:
    """The contestants that have a Python client."""
    return {
        name: Contestant(server=server, generator=Python(client=name))
        for name, server in servers.items()
        if name in CLIENTS
    }


def _fit(contestants: Mapping[str, Contestant], work: Work) -> Mapping[str, Contestant]:
    """The contestants for a work. The bare server stores nothing, so it has no fetches."""
    if not work.fetch:
        return contestants
    return {name: each for name, each in contestants.items() if each.server.name != BARE}


def warm(contestants: Mapping[str, Contestant], work: Work, plan: Plan, results: Results) -> None:
    """Runs a work unmeasured, so that Java compiles hot code, and databases grow their files."""
    for name, each in contestants.items():
        try:
            each.generator.measure(each.server, work, plan.pace, first=_first())
        except RuntimeError as failure:
            results.failed.append(f"warm-up, {work}, {name}: {failure}")


def interleave(
    part: str, work: Work, contestants: Mapping[str, Contestant], plan: Plan, results: Results
) -> None:
    """Runs each contestant once a round. A failed round is reported, and has no figure."""
    figures = results.loops.setdefault(part, {}).setdefault(str(work), {})
    for number in range(plan.rounds):
        for name, each in contestants.items():
            measured = None
            try:
                measured = each.generator.measure(each.server, work, plan.pace, first=_first())
            except RuntimeError as failure:
                results.failed.append(f"{part}, {work}, round {number + 1}, {name}: {failure}")
            figures.setdefault(name, []).append(measured)
            said = measured or results.failed[-1]
            print(f"  {part}, {work}, round {number + 1}: {name}: {said}", file=sys.stderr)


def _first() -> int:
    """An offset above all offsets committed before."""
    return time.time_ns() // 1000


def _sync_us(folder: Path) -> float:
    """The median time of a write with fdatasync into a file that already has its full size."""
    path = folder / "sync"
    taken = []
    try:
        with contextlib.closing(SyncedFile(path, _SYNC_FILE_BYTES)) as file:
            for _ in range(_SYNCS):
                started_s = time.perf_counter()
                file.write()
                taken.append(time.perf_counter() - started_s)
    finally:
        path.unlink()
    return statistics.median(taken) * 1e6
