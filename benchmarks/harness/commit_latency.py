"""Latencies of commits at a fixed rate, which count from the time at which each was due."""

from __future__ import annotations

import itertools
from typing import Final

from benchmarks.commit_path import SERVICE, commits
from benchmarks.harness import http2_calls

_CONNECTIONS: Final = 4


def commit_p99_ms(address: str, *, commits_per_second: int, seconds: float) -> float:
    """The p99 of unary commits of one partition, in milliseconds."""
    host, _, port = address.rpartition(":")
    connections = [
        http2_calls.OpenCalls((host, int(port)), SERVICE + "CommitOffsets")
        for _ in range(_CONNECTIONS)
    ]
    messages = list(itertools.islice(commits(1), commits_per_second))
    schedule = http2_calls.Schedule(connections, messages, period_s=1.0)
    http2_calls.run([schedule], seconds=seconds)
    for connection in connections:
        connection.socket.close()
    latencies = sorted(schedule.latencies)
    return 1000 * latencies[int(len(latencies) * 0.99)]
