"""Compares durable commits with a bare `grpc.aio` server that answers empty messages.

Both servers run at once, pinned to one core; the generator has another. Ours writes every commit
to the disk before it answers. Rates are in messages a second (a message is one commit of 1 or 50
partitions), latencies in microseconds. A ratio of rates is ours divided by bare, a ratio of
latencies is bare divided by ours. So 1 is as good as a server that does nothing.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from offsetd.v1 import offset_service_pb2

from benchmarks.harness import http2_load, rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SERVICE = "/offsetd.v1.OffsetService/"
GROUPS = 512
UNARY_CONNECTIONS = 64
STREAMS = 4
STREAM_WINDOW = 64
PARTITIONS_MANY = 50
CALLS_OF_ONE = 2000
SECONDS = 3.0
_COMMAND = "from offsetd_clients.cli.main import main; main()"

Address = tuple[str, int]


def run(*, rounds: int, scale: float) -> dict[str, object]:
    """Ratios and figures, as medians over the rounds with their spread."""
    seconds = max(0.5, SECONDS * scale)
    own_cores = os.sched_getaffinity(0)
    server_core, *others = sorted(own_cores)
    try:
        os.sched_setaffinity(0, others[:1] or [server_core])
        with bare_server(server_core) as bare, our_server(server_core) as ours:
            return _compare(bare, ours, count=rounds, seconds=seconds)
    finally:
        os.sched_setaffinity(0, own_cores)


def _compare(bare: Address, ours: Address, *, count: int, seconds: float) -> dict[str, object]:
    measures = _measures(seconds)
    contestants: dict[str, Callable[[], float]] = {}
    for name, measure in measures.items():
        contestants[f"bare: {name}"] = functools.partial(measure, bare, False)
        contestants[f"ours: {name}"] = functools.partial(measure, ours, True)
    figures = rounds.interleave(contestants, rounds=count)
    found: dict[str, object] = {}
    for name in measures:
        of_bare, of_ours = figures[f"bare: {name}"], figures[f"ours: {name}"]
        better = (of_bare, of_ours) if "µs" in name else (of_ours, of_bare)
        found[f"{name}, ratio"] = rounds.ratios(*better)
        found[f"{name}, ours"] = rounds.Spread.of(of_ours)
        found[f"{name}, bare"] = rounds.Spread.of(of_bare)
    return found


def _measures(seconds: float) -> dict[str, Callable[[Address, bool], float]]:
    """Functions that each measure one figure, given a server's address and whether it is ours."""

    def unary(address: Address, _ours: bool) -> float:
        return http2_load.unary_rate(
            address,
            SERVICE + "CommitOffsets",
            commits(1),
            connections=UNARY_CONNECTIONS,
            seconds=seconds,
        )

    def stream(partitions: int) -> Callable[[Address, bool], float]:
        return lambda address, ours: http2_load.stream_rate(
            address,
            SERVICE + "StreamCommits",
            stream_messages(partitions),
            streams=STREAMS,
            window=STREAM_WINDOW,
            seconds=seconds,
            counted=ours,
        )

    def one_caller(address: Address, _ours: bool) -> float:
        latencies = http2_load.unary_latencies(
            address, SERVICE + "CommitOffsets", commits(1), calls=CALLS_OF_ONE
        )
        return statistics.median(latencies) * 1e6

    return {
        f"unary, {UNARY_CONNECTIONS} connections, a second": unary,
        "stream, 1 partition, a second": stream(1),
        f"stream, {PARTITIONS_MANY} partitions, a second": stream(PARTITIONS_MANY),
        "one caller, p50, µs": one_caller,
    }


def commits(partitions: int) -> Iterator[bytes]:
    """Endless CommitOffsets requests of many groups."""
    return itertools.cycle([_commit(n, partitions).SerializeToString() for n in range(GROUPS)])


def stream_messages(partitions: int) -> Iterator[bytes]:
    """Endless StreamCommits requests with one commit each."""
    messages = [
        offset_service_pb2.StreamCommitsRequest(
            commits=[offset_service_pb2.SequencedCommit(sequence=n, commit=_commit(n, partitions))]
        )
        for n in range(GROUPS)
    ]
    return itertools.cycle([message.SerializeToString() for message in messages])


def _commit(number: int, partitions: int) -> offset_service_pb2.CommitOffsetsRequest:
    return offset_service_pb2.CommitOffsetsRequest(
        group_id=f"group-{number}",
        offsets=[
            offset_service_pb2.OffsetCommit(
                topic="orders", partition=partition, offset=1_000_000 + number, leader_epoch=7
            )
            for partition in range(partitions)
        ],
    )


@contextlib.contextmanager
def bare_server(core: int) -> Iterator[Address]:
    """Runs the bare server for comparison, on a free port."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.harness.bare_server", str(port), "uvloop"]
    with _process(command, core, ready="SERVING"):
        yield "127.0.0.1", port


@contextlib.contextmanager
def our_server(core: int) -> Iterator[Address]:
    """Runs `offsetd serve` on an empty folder next to this file, which is on a disk."""
    with our_process(core) as (address, _):
        yield address


@contextlib.contextmanager
def our_process(core: int, settings: Iterable[str] = ()) -> Iterator[tuple[Address, int]]:
    """Does what `our_server` does, and also yields the id of the server's process.

    `settings` are more of them, NAME=VALUE.
    """
    port = free_port()
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent, prefix=".commit-path-") as folder:
        command = [sys.executable, "-c", _COMMAND, "serve", "--data-dir", folder]
        command += ["--listen", f"127.0.0.1:{port}", "--set", "logging.format=json"]
        for setting in ("metrics.address=127.0.0.1:0", *settings):
            command += ["--set", setting]
        with _process(command, core, ready='"serving"') as process:
            yield ("127.0.0.1", port), process.pid


@contextlib.contextmanager
def _process(command: list[str], core: int, *, ready: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    # Set it before the process starts threads, which inherit it.
    os.sched_setaffinity(process.pid, {core})
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if ready in line:
                break
        else:
            raise RuntimeError(f"{' '.join(command[:4])} ended before it served")
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield process
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    """A port on which no process listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
