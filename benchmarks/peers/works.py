"""The works of callers, and their measurements."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

CALLERS = (1, 64, 1024)
PARTITIONS = (1, 50)
CONNECTIONS = (1, 64, 256, 1000)


@attrs.frozen(kw_only=True)
class Work:
    """Closed loops: each caller repeatedly commits for its own group."""

    callers: int
    partitions: int
    fetch: bool = False

    def __str__(self) -> str:
        callers = "1 caller" if self.callers == 1 else f"{self.callers:,} callers"
        partitions = "1 partition" if self.partitions == 1 else f"{self.partitions} partitions"
        return f"{callers}, {partitions}{', 1 fetch' if self.fetch else ''}"


WORKS = tuple(
    Work(callers=callers, partitions=partitions, fetch=fetch)
    for fetch, partitions, callers in itertools.product((False, True), PARTITIONS, CALLERS)
)
ONE = Work(callers=1, partitions=1)
MANY_CALLERS = Work(callers=1024, partitions=1)
MANY_PARTITIONS = Work(callers=64, partitions=50)
MANY_CONNECTIONS = Work(callers=64, partitions=1)
STREAMED_ONES = Work(callers=256, partitions=1)
STREAMED_MANY = Work(callers=256, partitions=50)
# In a fleet, each caller has a client and a connection of its own.
FLEET = tuple(
    Work(callers=connections, partitions=partitions)
    for partitions, connections in itertools.product(PARTITIONS, CONNECTIONS)
    if (partitions, connections) != (50, 1)
)
SIDE_BY_SIDE: Mapping[str, Mapping[str, tuple[Work, ...]]] = {
    "all": {"native": WORKS, "python": WORKS, "fleet": FLEET},
    "targets": {
        "native": (ONE, MANY_CONNECTIONS, MANY_PARTITIONS, MANY_CALLERS),
        "python": (MANY_PARTITIONS, MANY_CALLERS),
        "fleet": FLEET,
    },
}
"""The works of all systems, by the part of the run: every work, or only those of the targets."""


@attrs.frozen(kw_only=True)
class Measured:
    """One round of one work on one system. CPU times are in µs a commit, including the warm-up."""

    commits_a_second: float
    p50_us: float
    p99_us: float
    fetch_p50_us: float
    server_us: float
    generator_us: float

    @classmethod
    def of(cls, told: str, server_cpu_s: float) -> Measured:
        """Combines the output of a generator with the CPU time of the server.

        Raises RuntimeError if no commit was answered in time.
        """
        found: Mapping[str, float] = json.loads(told)
        if not found["commits"]:
            raise RuntimeError("no commit was answered within the time that is measured")
        return cls(
            commits_a_second=found["commits"] / found["seconds"],
            p50_us=found["p50_us"],
            p99_us=found["p99_us"],
            fetch_p50_us=found["fetch_p50_us"],
            server_us=server_cpu_s / found["all_commits"] * 1e6,
            generator_us=found["generator_cpu_s"] / found["all_commits"] * 1e6,
        )

    def __str__(self) -> str:
        return f"{self.commits_a_second:,.0f}/s, p50 {self.p50_us:,.0f} µs"
