"""Measures each call on a large group, and the commits of another client during it.

One server has groups of 200,000 and of a million offsets. A separate process commits to another
group, one call after the other: first alone, then during each call. The ratio is the 99th
percentile of the commits during the call, divided by the one without it: 1 means no effect. The
call has held the event loop at most for the time of the longest commit.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import attrs
import grpc
from large_calls import CHANGES, CHANNEL_OPTIONS, LARGE_CALLS, READS, LargeCall, LargeGroups
from server_process import ServerProcess

from benchmarks.commit_path import SERVICE, commits
from benchmarks.harness import http2_load
from benchmarks.harness.rounds import Spread, interleave

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

SIZES: Final = (200_000, 1_000_000)
CALLS_BEFORE: Final = 500
CALLS_AT_A_TIME: Final = 20
_SETTINGS: Final = {
    "offsets.topic.num.partitions": 2,
    "group.initial.rebalance.delay.ms": 0,
    "history.ms": None,
    "disk.reserve.bytes": 0,
}
# Calls that compact are left out: they remove the history that others read in the next round.
_CALLS: Final = {
    name: LARGE_CALLS[name]
    for name in (*READS, *CHANGES, "import of one group")
    if LARGE_CALLS[name].code is grpc.StatusCode.OK  # Refusals depend on the size.
}


@attrs.frozen(kw_only=True)
class Measured:
    """The figures of one call."""

    p99_without_us: float
    p99_beside_us: float
    longest_without_us: float
    longest_beside_us: float
    seconds: float

    def __str__(self) -> str:
        return (
            f"p99 {self.p99_without_us:.0f} µs without, {self.p99_beside_us:.0f} µs beside; longest"
            f" {self.longest_without_us:.0f} and {self.longest_beside_us:.0f} µs;"
            f" {self.seconds:.2f} s"
        )


def run(*, rounds: int, scale: float) -> dict[str, object]:
    """Ratios and figures for each call and size, over the rounds."""
    found: dict[str, object] = {}
    for size in SIZES:
        offsets = int(size * scale)
        with (
            tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".benchmark-") as folder,
            ServerProcess(Path(folder), settings=_SETTINGS) as server,
            server.wait_until_serving().channel(**CHANNEL_OPTIONS) as channel,
        ):
            large = LargeGroups(channel, offsets)
            large.fill()
            contestants = {
                name: partial(_measure, server, large, call) for name, call in _CALLS.items()
            }
            for name, measured in interleave(contestants, rounds=rounds).items():
                found.update(_figures(f"{offsets:,}, {name}", measured))
    return found


def _figures(title: str, measured: list[Measured]) -> dict[str, object]:
    figures: dict[str, Callable[[Measured], float]] = {
        "p99 of a commit, ratio": lambda m: m.p99_beside_us / m.p99_without_us,
        "p99 of a commit beside, µs": lambda m: m.p99_beside_us,
        "longest commit beside, µs": lambda m: m.longest_beside_us,
        "longest commit without, µs": lambda m: m.longest_without_us,
        "seconds": lambda m: m.seconds,
    }
    return {
        f"{title}: {name}": Spread.of(list(map(figure, measured)))
        for name, figure in figures.items()
    }


def _measure(server: ServerProcess, large: LargeGroups, call: LargeCall) -> Measured:
    host, _, port = server.address.rpartition(":")
    address = (host, int(port))
    call.prepare(large)
    without = _latencies(address, CALLS_BEFORE)
    with _CommitsBeside(address) as beside:
        started = time.monotonic()
        call.run(large)
        seconds = time.monotonic() - started
    return Measured(
        p99_without_us=_p99(without) * 1e6,
        p99_beside_us=_p99(beside.latencies) * 1e6,
        longest_without_us=max(without) * 1e6,
        longest_beside_us=max(beside.latencies) * 1e6,
        seconds=seconds,
    )


class _CommitsBeside:
    """Makes one commit after the other in a process of its own.

    So the time that the caller spends on parsing does not count.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        self.latencies: list[float] = []
        context = multiprocessing.get_context("spawn")
        self._ends, end = context.Pipe()
        self._process = context.Process(target=_commit_until_told, args=(address, end))

    def __enter__(self) -> Self:
        self._process.start()
        self._ends.recv()  # Waits until the first commits are made.
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.send(None)
        self.latencies = self._ends.recv()
        self._process.join()


def _commit_until_told(address: tuple[str, int], end: Connection) -> None:
    _latencies(address, CALLS_AT_A_TIME)
    end.send(None)
    latencies: list[float] = []
    while not latencies or not end.poll():
        latencies += _latencies(address, CALLS_AT_A_TIME)
    end.send(latencies)


def _latencies(address: tuple[str, int], calls: int) -> list[float]:
    return http2_load.unary_latencies(address, SERVICE + "CommitOffsets", commits(1), calls=calls)


def _p99(latencies: list[float]) -> float:
    return statistics.quantiles(latencies, n=100)[98]
