"""Measures groups with members: heartbeats, commits during them, and a large rebalance.

Each member of 600 groups of 5 members sends a heartbeat every 3 s, which makes 1,000 a second. The
schedule does not wait for answers, and latencies count from the time at which a heartbeat was due.
Then the commits of one caller are measured, without heartbeats and during them. The server's CPU is
a share of one core.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from offsetd_storage.kernels.registry import warm

from benchmarks.commit_path import SERVICE, commits
from benchmarks.harness import http2_calls
from benchmarks.harness.group_members import Member, members, rebalance, settle
from benchmarks.harness.our_server import Serving, process_cpu_s, serving
from benchmarks.harness.rounds import Spread

if TYPE_CHECKING:
    from collections.abc import Callable

GROUPS = 600
MEMBERS = 5
HEARTBEAT_PERIOD_S = 3.0
LARGE_GROUP = 500
GROUPS_STARTED_A_SECOND = 40
SECONDS = 30.0
_HEARTBEAT = "/offsetd.v1.GroupService/Heartbeat"
_CONNECTIONS = 10
_SETTINGS = ("connection.calls.max=4096", "disk.reserve.bytes=0")


@attrs.frozen(kw_only=True)
class Measured:
    """The figures of one round; latencies in seconds."""

    heartbeats: list[float]
    # How late they were sent. The latencies contain it, though the server does not cause it.
    lateness: list[float]
    heartbeats_beside_commits: list[float]
    commits: list[float]
    commits_beside_heartbeats: list[float]
    # Shares of the time with heartbeats alone: `cpu_share` is the CPU time of the process. In
    # `wait_share`, its main thread was ready to run and waited for a core.
    cpu_share: float
    wait_share: float
    rebalance_s: float


def run(*, rounds: int, scale: float) -> dict[str, object]:
    """Figures over the rounds. `scale` changes the time, not the numbers of groups and members."""
    warm()
    measured = [asyncio.run(_round(max(1.0, SECONDS * scale))) for _ in range(rounds)]
    figures: dict[str, Callable[[Measured], float]] = {
        "heartbeat, p50, ms": lambda m: statistics.median(m.heartbeats) * 1e3,
        "heartbeat, p99, ms": lambda m: _p99(m.heartbeats) * 1e3,
        "heartbeat sent late, p99, ms": lambda m: _p99(m.lateness) * 1e3,
        "heartbeat beside commits, p99, ms": lambda m: _p99(m.heartbeats_beside_commits) * 1e3,
        "server's CPU with heartbeats alone, of a core": lambda m: m.cpu_share,
        "server's wait for a core meanwhile, share of the time": lambda m: m.wait_share,
        "commit, p99, ms": lambda m: _p99(m.commits) * 1e3,
        "commit beside heartbeats, p99, ms": lambda m: _p99(m.commits_beside_heartbeats) * 1e3,
        f"rebalance of {LARGE_GROUP} members, seconds": lambda m: m.rebalance_s,
    }
    return {name: Spread.of(list(map(figure, measured))) for name, figure in figures.items()}


async def _round(seconds: float) -> Measured:
    names = [f"group-{number}" for number in range(GROUPS)]
    with (
        tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".benchmark-") as folder,
        serving(Path(folder), *_SETTINGS) as server,
    ):
        threading.Thread(target=_read_log, args=(server,), daemon=True).start()
        async with members(server.address, groups=names, size=MEMBERS) as groups:
            await _settle_all(groups)
            heartbeats = [member.heartbeat for group in groups for member in group]
        figures = _with_heartbeats(server, heartbeats, seconds)
        async with members(server.address, groups=["large"], size=LARGE_GROUP) as (group,):
            await settle(group)
            return attrs.evolve(figures, rebalance_s=await rebalance(group))


def _with_heartbeats(server: Serving, heartbeats: list[bytes], seconds: float) -> Measured:
    host, _, port = server.address.rpartition(":")
    address = (host, int(port))
    paths = [http2_calls.OpenCalls(address, _HEARTBEAT) for _ in range(_CONNECTIONS)]
    commit_path = http2_calls.OpenCalls(address, SERVICE + "CommitOffsets")

    def alive() -> http2_calls.Schedule:
        return http2_calls.Schedule(paths, heartbeats, period_s=HEARTBEAT_PERIOD_S)

    def committing() -> http2_calls.Caller:
        return http2_calls.OneByOne(commit_path, commits(1))

    # Each call is made once before, so that late compilation and caching are not measured.
    http2_calls.run([alive(), committing()], seconds=HEARTBEAT_PERIOD_S)
    cpu_s, wait_s, started = process_cpu_s(server.process.pid), _wait_s(server), time.monotonic()
    http2_calls.run([alone := alive()], seconds=seconds)
    elapsed_s = time.monotonic() - started
    cpu_share = (process_cpu_s(server.process.pid) - cpu_s) / elapsed_s
    wait_share = (_wait_s(server) - wait_s) / elapsed_s
    http2_calls.run([commits_alone := committing()], seconds=seconds / 2)
    http2_calls.run([beside := alive(), commits_beside := committing()], seconds=seconds)
    for connection in (*paths, commit_path):
        connection.socket.close()
    return Measured(
        heartbeats=list(alone.latencies),
        lateness=list(alone.lateness),
        heartbeats_beside_commits=list(beside.latencies),
        commits=list(commits_alone.latencies),
        commits_beside_heartbeats=list(commits_beside.latencies),
        cpu_share=cpu_share,
        wait_share=wait_share,
        rebalance_s=0.0,
    )


def _read_log(server: Serving) -> None:
    """Reads the server's log and drops it: a server would block on a full pipe."""
    assert server.process.stderr is not None
    with suppress(ValueError):  # The pipe is closed when the server has ended.
        for _ in server.process.stderr:
            pass


async def _settle_all(groups: list[list[Member]]) -> None:
    """Starts one group after the other: gRPC refuses calls if a thousand wait."""
    settling = []
    for group in groups:
        settling.append(asyncio.create_task(settle(group)))
        await asyncio.sleep(1 / GROUPS_STARTED_A_SECOND)
    await asyncio.gather(*settling)


def _wait_s(server: Serving) -> float:
    """The time that its main thread has waited for a core until now."""
    return int(Path(f"/proc/{server.process.pid}/schedstat").read_text().split()[1]) / 1e9


def _p99(latencies: list[float]) -> float:
    return statistics.quantiles(latencies, n=100)[98]
