"""Runs the generator's closed loops in Python, with each system's Python client.

`python -m benchmarks.peers.python_load SYSTEM HOST:PORT CALLERS PARTITIONS FETCH WARM_S SECONDS`
prints its results as JSON, with the field names of the generator in Go. Neither generator counts
commits that end after the measured time, unless there are no others.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import attrs
import uvloop

from benchmarks.peers.python_client import BlockingClient, PythonClient, group_name
from benchmarks.peers.systems import etcd, kafka, ours, postgresql, redis, zookeeper

if TYPE_CHECKING:
    from collections.abc import Callable

CLIENTS: dict[str, Callable[[int], type[PythonClient | BlockingClient]]] = {
    "offsetd": lambda _: ours.OffsetdClient,
    "kafka": kafka.python_client,
    "redis": lambda _: redis.RedisClient,
    "etcd": lambda _: etcd.EtcdClient,
    "zookeeper": lambda _: zookeeper.ZooKeeperClient,
    "postgresql": lambda _: postgresql.PostgreSQLClient,
}
"""The client of each system, by the number of callers."""


@attrs.frozen(kw_only=True)
class Loop:
    """The work of each caller, and its time, by the performance counter."""

    partitions: int
    fetch: bool
    first: int
    from_s: float
    until_s: float


@attrs.define(kw_only=True)
class Noted:
    """What callers have measured: latencies in seconds, of calls that ended within the time."""

    seconds: float
    early: list[float] = attrs.Factory(list)  # First commits and warm-up.
    commits: list[float] = attrs.Factory(list)
    fetches: list[float] = attrs.Factory(list)
    # The latencies of commits that were answered after the end, and of the fetches after them.
    late: list[float] = attrs.Factory(list)
    late_fetches: list[float] = attrs.Factory(list)

    def add(self, loop: Loop, started_s: float, answered_s: float, fetched_s: float) -> None:
        """Notes a commit that was answered, and the fetch after it, if there was one."""
        if answered_s <= loop.from_s:
            self.early.append(answered_s - started_s)
        elif answered_s > loop.until_s:
            self.late.append(answered_s - started_s)
            self.late_fetches.append(fetched_s - answered_s)
        else:
            self.commits.append(answered_s - started_s)
            self.fetches.append(fetched_s - answered_s)

    @property
    def all_commits(self) -> int:
        """The number of commits that were answered at any time."""
        return len(self.early) + len(self.commits) + len(self.late)

    def end(self, loop: Loop) -> None:
        """Ends the measurement. If all answers came late, it counts the late ones."""
        if not self.commits:
            self.commits, self.late = self.late, []
            self.fetches, self.late_fetches = self.late_fetches, []
            self.seconds = time.perf_counter() - loop.from_s


def begun(loop: Loop) -> Loop:
    """Makes the loop's times absolute: until now they were relative to its start."""
    now_s = time.perf_counter()
    return attrs.evolve(loop, from_s=now_s + loop.from_s, until_s=now_s + loop.until_s)


def once(loop: Loop) -> Loop:
    """A loop of a single commit by each caller, which opens its connection."""
    return attrs.evolve(loop, fetch=False, from_s=math.inf, until_s=0.0)


def check(stored: list[int], offset: int, loop: Loop) -> None:
    """Raises RuntimeError unless the fetched offsets are those that were committed."""
    if stored != [offset] * loop.partitions:
        raise RuntimeError(f"fetched {stored[:3]}…, {len(stored)} in all, not {offset}")


async def call(client: PythonClient, caller: int, loop: Loop, noted: Noted) -> None:
    """Runs one caller, which commits for its own group. Raises if it fetches other offsets."""
    group, offset = group_name(caller, loop.partitions), loop.first
    answered_s = -math.inf
    while answered_s < loop.until_s:
        offset += 1
        started_s = time.perf_counter()
        await client.commit(caller, group, loop.partitions, offset)
        answered_s = fetched_s = time.perf_counter()
        if loop.fetch:
            check(await client.fetch(caller, group, loop.partitions), offset, loop)
            fetched_s = time.perf_counter()
        noted.add(loop, started_s, answered_s, fetched_s)


def call_in_thread(client: BlockingClient, caller: int, loop: Loop, noted: Noted) -> None:
    """Runs one caller of a client that blocks."""
    group, offset = group_name(caller, loop.partitions), loop.first
    answered_s = -math.inf
    while answered_s < loop.until_s:
        offset += 1
        started_s = time.perf_counter()
        client.commit(caller, group, loop.partitions, offset)
        answered_s = fetched_s = time.perf_counter()
        if loop.fetch:
            check(client.fetch(caller, group, loop.partitions), offset, loop)
            fetched_s = time.perf_counter()
        noted.add(loop, started_s, answered_s, fetched_s)


async def load(
    client_type: type[PythonClient], address: str, callers: int, loop: Loop, noted: Noted
) -> None:
    """Runs all callers on one client. The first error of a caller ends the load."""
    client = await client_type.connect(address, callers)
    try:
        first = once(loop)
        await asyncio.gather(*(call(client, each, first, noted) for each in range(callers)))
        loop = begun(loop)
        async with asyncio.TaskGroup() as group:
            for caller in range(callers):
                group.create_task(call(client, caller, loop, noted))
        noted.end(loop)
    finally:
        await client.close()


def load_in_threads(
    client_type: type[BlockingClient], address: str, callers: int, loop: Loop, noted: Noted
) -> None:
    """Runs all callers on one client that blocks, each in its own thread."""
    client = client_type.connect(address, callers, loop.partitions)
    with ThreadPoolExecutor(callers) as threads:

        def all_callers(loop: Loop) -> None:
            of_callers = [
                threads.submit(call_in_thread, client, caller, loop, noted)
                for caller in range(callers)
            ]
            for each in of_callers:
                each.result()

        try:
            all_callers(once(loop))
            loop = begun(loop)
            all_callers(loop)
            noted.end(loop)
        finally:
            client.close()


def percentile_us(latencies_s: list[float], share: float) -> float:
    """A percentile of the latencies, in microseconds; 0 if there are none."""
    ordered = sorted(latencies_s)
    return ordered[int(share * (len(ordered) - 1))] * 1e6 if ordered else 0.0


def main(arguments: list[str]) -> None:
    """Reads the command line."""
    system, address = arguments[:2]
    callers, partitions, fetch = map(int, arguments[2:5])
    warm_s, seconds = map(float, arguments[5:])
    loop = Loop(
        partitions=partitions,
        fetch=bool(fetch),
        first=time.time_ns() // 1000,
        from_s=warm_s,
        until_s=warm_s + seconds,
    )
    noted = Noted(seconds=seconds)
    client_type = CLIENTS[system](callers)
    if issubclass(client_type, BlockingClient):
        load_in_threads(client_type, address, callers, loop, noted)
    else:
        uvloop.run(load(client_type, address, callers, loop, noted))
    found = {
        "commits": len(noted.commits),
        "all_commits": noted.all_commits,
        "seconds": noted.seconds,
        "p50_us": percentile_us(noted.commits, 0.5),
        "p99_us": percentile_us(noted.commits, 0.99),
        "fetch_p50_us": percentile_us(noted.fetches, 0.5) if fetch else 0.0,
        "generator_cpu_s": time.process_time(),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
