"""Compares servers by the same commits, at once on one core; the generator has another.

A ratio is that to the server that is named first: of commits a second, and of the server's CPU time
a commit, in which the generator has no part.
"""

from __future__ import annotations

import functools
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
from offsetd.v1 import offset_service_pb2

from benchmarks import commit_path
from benchmarks.harness import http2_load
from benchmarks.harness.our_server import process_cpu_s
from benchmarks.harness.rounds import Spread, interleave, ratios

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

CALLERS: Final = 1024
STREAMS: Final = 16
UNARY_CONNECTIONS: Final = 64


@attrs.frozen(kw_only=True)
class Load:
    """One measurement: commits a second, and microseconds of the server's CPU for each."""

    commits_a_second: float
    server_us: float

    def __str__(self) -> str:
        return f"{self.commits_a_second:,.0f} a second, {self.server_us:.3g} µs of the server"


@contextmanager
def two_cores() -> Iterator[int]:
    """Pins this process to a core. Yields another one, for the servers, if there are two."""
    own_cores = os.sched_getaffinity(0)
    core, *others = sorted(own_cores)
    os.sched_setaffinity(0, others[:1] or [core])
    try:
        yield core
    finally:
        os.sched_setaffinity(0, own_cores)


def pin(pid: int, core: int) -> None:
    """Pins all threads of a process to a core."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})


def compare(
    servers: Mapping[str, tuple[http2_load.Address, int]], *, rounds: int, seconds: float
) -> dict[str, object]:
    """Ratios and figures of servers, given by address and process, as medians with their spread."""
    contestants: dict[str, Callable[[], Load]] = {
        f"{work}, {name}": functools.partial(_measured, measure, *server, seconds)
        for work, measure in _WORKS.items()
        for name, server in servers.items()
    }
    figures = interleave(contestants, rounds=rounds)
    base, *others = servers
    found: dict[str, object] = {}
    for work in _WORKS:
        for what, of in (
            ("a second", lambda load: load.commits_a_second),
            ("µs of the server a commit", lambda load: load.server_us),
        ):
            shown = {name: [*map(of, figures[f"{work}, {name}"])] for name in servers}
            for name in others:
                found[f"{work}, {what}, {name} / {base}"] = ratios(shown[name], shown[base])
            for name, each in shown.items():
                found[f"{work}, {what}, {name}"] = Spread.of(each)
    return found


def _measured(
    measure: Callable[[http2_load.Address, float], float],
    address: http2_load.Address,
    server_pid: int,
    seconds: float,
) -> Load:
    before_s = process_cpu_s(server_pid)
    rate = measure(address, seconds)
    commits = rate * seconds * 1.25  # With those of the warm-up.
    return Load(
        commits_a_second=rate, server_us=(process_cpu_s(server_pid) - before_s) / commits * 1e6
    )


def _coalesced(streams: int) -> Callable[[http2_load.Address, float], float]:
    def rate(address: http2_load.Address, seconds: float) -> float:
        commits = [_stream_message(number) for number in range(CALLERS)]
        return http2_load.coalesced_rate(
            address,
            commit_path.SERVICE + "StreamCommits",
            commits.__getitem__,
            callers=CALLERS,
            streams=streams,
            seconds=seconds,
        )

    return rate


def _unary(address: http2_load.Address, seconds: float) -> float:
    return http2_load.unary_rate(
        address,
        commit_path.SERVICE + "CommitOffsets",
        commit_path.commits(1),
        connections=UNARY_CONNECTIONS,
        seconds=seconds,
    )


def _stream_message(number: int) -> bytes:
    """A message with one commit of a caller, to a group of its own."""
    offset = offset_service_pb2.OffsetCommit(topic="orders", offset=1_000_000 + number)
    commit = offset_service_pb2.CommitOffsetsRequest(group_id=f"group-{number}", offsets=[offset])
    sequenced = offset_service_pb2.SequencedCommit(sequence=number, commit=commit)
    return offset_service_pb2.StreamCommitsRequest(commits=[sequenced]).SerializeToString()


_WORKS: Final = {
    f"{CALLERS:,} callers, 2 streams": _coalesced(2),
    f"{CALLERS:,} callers, {STREAMS} streams": _coalesced(STREAMS),
    f"unary, {UNARY_CONNECTIONS} connections": _unary,
}
