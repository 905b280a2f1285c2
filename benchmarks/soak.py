"""Overwrites keys at full speed while the log is cleaned, and measures the disk and p99.

1,000 groups repeatedly commit one offset each, over streams; segments have 64 KiB. During the load,
the size of the data folder on the disk (blocks, not lengths) is measured four times a second. It
must stay below the sum of 3 times the live records, 50 active segments, the journal and 64 MiB.
Before and after, the same load runs on a server whose cleaner is off. A commit's latency is the
time from its sending to its result, with the streams' windows full. "While cleaning" covers the
commits that ended while a round was running, by the server's own log.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from array import array
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
from offsetd.v1 import offset_service_pb2

from benchmarks.commit_path import free_port
from benchmarks.harness import http2_load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

METHOD: Final = "/offsetd.v1.OffsetService/StreamCommits"
KEYS: Final = 1000
STREAMS: Final = 4
WINDOW: Final = 64
SECONDS: Final = 180.0
SECONDS_WITHOUT: Final = 45.0
MIB: Final = 1 << 20
PARTITIONS: Final = 50
SEGMENT_BYTES: Final = 65_536
JOURNAL_BYTES: Final = 2 * 32 * MIB
SLACK_BYTES: Final = 64 * MIB
LIVE_RECORD_BYTES: Final = 150  # A batch of one commit of these groups, rounded up.
ROUNDS_MIN: Final = 20
DISK_BLOCK_BYTES: Final = 512  # The unit of st_blocks.
_SAMPLE_SECONDS: Final = 0.25
_COMMAND: Final = "from offsetd_clients.cli.main import main; main()"
SETTINGS: Final = {
    "logging.format": "json",
    "internal.offsets.topic.segment.bytes": str(SEGMENT_BYTES),
    "request.id.window.ms": "1000",
    "history.ms": "0",
    "log.cleaner.backoff.ms": "1000",
    "log.flush.offset.checkpoint.interval.ms": "5000",
    "log.initial.task.delay.ms": "1000",
    "disk.reserve.bytes": str(16 * MIB),  # This reserve is part of the bound.
    "metrics.address": "",
}
BOUND_BYTES: Final = (
    3 * KEYS * LIVE_RECORD_BYTES + PARTITIONS * SEGMENT_BYTES + JOURNAL_BYTES + SLACK_BYTES
)


@attrs.frozen(kw_only=True)
class Soaked:
    """The measurements of one server under the load."""

    commits: http2_load.Latencies
    disk_bytes: Sequence[int]
    rounds: Sequence[tuple[float, float]]  # Start and end by the wall clock, in order.
    rounds_by_partition: Counter[str]

    @property
    def p99_ms(self) -> float:
        """The 99th percentile of all commits."""
        return percentile(self.commits.seconds, 0.99) * 1e3

    @property
    def p99_ms_while_cleaning(self) -> float:
        """The 99th percentile of the commits that ended while a round was running."""
        starts = [start for start, _ in self.rounds]
        during = array("d")
        for ended, seconds in zip(self.commits.ended, self.commits.seconds, strict=True):
            place = bisect.bisect_right(starts, ended) - 1
            if place >= 0 and ended <= self.rounds[place][1]:
                during.append(seconds)
        return percentile(during, 0.99) * 1e3


def run(*, rounds: int, scale: float) -> dict[str, object]:
    """Runs a soak between two runs without the cleaner, `rounds` times; returns the figures."""
    found: dict[str, object] = {}
    for number in range(1, rounds + 1):
        before = _soaked(SECONDS_WITHOUT * scale, {"log.cleaner.enable": "false"})
        soaked = _soaked(SECONDS * scale, {})
        after = _soaked(SECONDS_WITHOUT * scale, {"log.cleaner.enable": "false"})
        without_ms = (before.p99_ms + after.p99_ms) / 2
        least = min(soaked.rounds_by_partition.values(), default=0)
        found |= {
            f"{number}: commits": len(soaked.commits.seconds),
            f"{number}: the disk at its fullest, MiB": max(soaked.disk_bytes) / MIB,
            f"{number}: its bound, MiB": BOUND_BYTES / MIB,
            f"{number}: the disk without the cleaner, MiB": max(after.disk_bytes) / MIB,
            f"{number}: rounds of cleaning": len(soaked.rounds),
            f"{number}: partitions cleaned": len(soaked.rounds_by_partition),
            f"{number}: rounds of the partition with the fewest": least,
            f"{number}: p99 without the cleaner, ms": (before.p99_ms, after.p99_ms),
            f"{number}: p99 with the cleaner, ms": soaked.p99_ms,
            f"{number}: p99 while cleaning, ms": soaked.p99_ms_while_cleaning,
            f"{number}: p99 while cleaning over without": soaked.p99_ms_while_cleaning / without_ms,
        }
        if max(soaked.disk_bytes) > BOUND_BYTES:
            raise RuntimeError(f"the disk held {max(soaked.disk_bytes)} bytes, over {BOUND_BYTES}")
        if scale >= 1 and least < ROUNDS_MIN:
            raise RuntimeError(f"a partition was cleaned {least} times only")
    return found


def percentile(values: Sequence[float], share: float) -> float:
    """The value that is not exceeded by `share` of all values; NaN if there are none."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else float("nan")


def _soaked(seconds: float, settings: dict[str, str]) -> Soaked:
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent, prefix=".soak-") as folder:
        samples: list[int] = []
        with (
            _server(Path(folder), SETTINGS | settings) as (address, lines),
            _sampling(Path(folder), samples),
        ):
            commits = http2_load.stream_latencies(
                address, METHOD, _messages(), streams=STREAMS, window=WINDOW, seconds=seconds
            )
        events = [json.loads(line) for line in lines if line.startswith("{")]
    rounds = [each for each in events if each["event"] == "log cleaned"]
    return Soaked(
        commits=commits,
        disk_bytes=samples,
        rounds=sorted(_interval(each) for each in rounds),
        rounds_by_partition=Counter(str(each["partition"]) for each in rounds),
    )


def _interval(event: dict[str, str | int]) -> tuple[float, float]:
    """The start and the end of a round. Its event is written at its end."""
    end = datetime.fromisoformat(str(event["timestamp"])).timestamp()
    return end - int(event["elapsed_ms"]) / 1000, end


def _messages() -> Iterator[tuple[int, bytes]]:
    """Endless sequences, each with a commit, of one group after the other."""
    messages = [
        offset_service_pb2.StreamCommitsRequest(
            commits=[
                offset_service_pb2.SequencedCommit(
                    sequence=number,
                    commit=offset_service_pb2.CommitOffsetsRequest(
                        group_id=f"group-{number}",
                        offsets=[
                            offset_service_pb2.OffsetCommit(
                                topic="orders", partition=0, offset=1_000_000 + number
                            )
                        ],
                    ),
                )
            ]
        ).SerializeToString()
        for number in range(KEYS)
    ]
    return itertools.cycle(enumerate(messages))


@contextlib.contextmanager
def _server(folder: Path, settings: dict[str, str]) -> Iterator[tuple[tuple[str, int], list[str]]]:
    """Runs a real server. Yields its address, and the lines of its log."""
    port = free_port()
    command = [sys.executable, "-c", _COMMAND, "serve", "--data-dir", str(folder)]
    command += ["--listen", f"127.0.0.1:{port}", "--set", "metrics.address="]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    lines: list[str] = []
    try:
        for line in process.stderr:
            lines.append(line)
            if '"serving"' in line:
                break
        else:
            raise RuntimeError(f"the server ended before it served:\n{''.join(lines)}")
        reader = threading.Thread(target=lines.extend, args=(process.stderr,), daemon=True)
        reader.start()
        yield ("127.0.0.1", port), lines
    finally:
        process.terminate()
        process.wait()
    reader.join()


@contextlib.contextmanager
def _sampling(folder: Path, samples: list[int]) -> Iterator[None]:
    """Repeatedly notes the folder's size on the disk."""
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(_SAMPLE_SECONDS):
            samples.append(disk_bytes(folder))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield
    finally:
        samples.append(disk_bytes(folder))
        ended.set()
        thread.join()


def disk_bytes(folder: Path) -> int:
    """The bytes in the blocks of all files, without files that are removed during the call."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.stat(os.path.join(path, name)).st_blocks * DISK_BLOCK_BYTES
    return total
