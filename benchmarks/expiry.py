"""Measures the commits while a million offsets expire at once.

The server gets a folder of old offsets, and a setting that stops expiry. One caller commits, one
call after the other. Then expiry is allowed, and the caller continues until the server reports the
end of expiry. The ratio is the commits' 99th percentile during expiry, divided by the one before: 1
means no effect.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from offsetd_clients import OffsetClient
from offsetd_storage.kernels.registry import warm

from benchmarks.commit_path import SERVICE, commits
from benchmarks.harness import http2_load
from benchmarks.harness.generate_log import Shape, generate
from benchmarks.harness.our_server import Serving, serving
from benchmarks.harness.rounds import Spread, interleave

if TYPE_CHECKING:
    from collections.abc import Callable

OFFSETS = 1_000_000
# Two shapes, by the offsets of a group: few large groups, and many small ones.
PARTITIONS_PER_GROUP = (50, 1)
CALLS_BEFORE = 5000
CALLS_AT_A_TIME = 50
_SETTINGS = (
    "offsets.retention.check.interval.ms=500",
    "offsets.expiry.enable=false",
    "expiry.grace.ms=0",
    "disk.reserve.bytes=0",
)
_DONE_S_MAX = 1800


@attrs.frozen(kw_only=True)
class Measured:
    """The figures of one round."""

    p99_before_us: float
    p99_during_us: float
    largest_during_us: float
    expired: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"p99 {self.p99_before_us:.0f} µs before, {self.p99_during_us:.0f} µs during, "
            f"slowest {self.largest_during_us:.0f} µs; {self.expired} in {self.seconds:.0f} s"
        )


def run(*, rounds: int, scale: float) -> dict[str, object]:
    """Ratios and figures for each shape, over the rounds."""
    warm()
    found: dict[str, object] = {}
    for partitions in PARTITIONS_PER_GROUP:
        title = f"groups of {partitions}"
        contestants = {title: partial(_round, int(OFFSETS * scale), partitions)}
        measured = interleave(contestants, rounds=rounds)[title]
        figures: dict[str, Callable[[Measured], float]] = {
            "p99 of a commit, during over before": lambda m: m.p99_during_us / m.p99_before_us,
            "p99 of a commit before, µs": lambda m: m.p99_before_us,
            "p99 of a commit during, µs": lambda m: m.p99_during_us,
            "slowest commit during, µs": lambda m: m.largest_during_us,
            "offsets expired": lambda m: m.expired,
            "offsets expired a second": lambda m: m.expired / m.seconds,
        }
        for name, figure in figures.items():
            found[f"{title}, {name}"] = Spread.of(list(map(figure, measured)))
    return found


def _round(offsets: int, partitions: int) -> Measured:
    shape = Shape(
        records=2 * offsets, batch=partitions, keys=offsets, partitions_per_group=partitions
    )
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".benchmark-") as folder:
        generate(Path(folder), shape)
        with serving(Path(folder), *_SETTINGS) as server:
            return _measure(server)


def _measure(server: Serving) -> Measured:
    host, _, port = server.address.rpartition(":")
    address = (host, int(port))
    done: list[int] = []
    listener = threading.Thread(target=_await_expired, args=(server, done), daemon=True)
    listener.start()
    before = _latencies(address, CALLS_BEFORE)
    with OffsetClient(server.address) as client:
        client.update_config({"offsets.expiry.enable": "true"})
    started = time.monotonic()
    during: list[float] = []
    while not done:
        during += _latencies(address, CALLS_AT_A_TIME)
        if time.monotonic() - started > _DONE_S_MAX:
            raise TimeoutError("the offsets do not expire")
    return Measured(
        p99_before_us=_p99(before) * 1e6,
        p99_during_us=_p99(during) * 1e6,
        largest_during_us=max(during) * 1e6,
        expired=done[0],
        seconds=time.monotonic() - started,
    )


def _latencies(address: tuple[str, int], calls: int) -> list[float]:
    return http2_load.unary_latencies(address, SERVICE + "CommitOffsets", commits(1), calls=calls)


def _await_expired(server: Serving, done: list[int]) -> None:
    """Reads the server's log until it reports the number of expired offsets."""
    assert server.process.stderr is not None
    for line in server.process.stderr:
        if line.startswith("{") and (said := json.loads(line))["event"] == "offsets have expired":
            done.append(int(said["offsets"]))
            return


def _p99(latencies: list[float]) -> float:
    return statistics.quantiles(latencies, n=100)[98]
