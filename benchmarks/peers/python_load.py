"""The load in Python: the same closed loops as the generator in Go, on each system's Python client.

`python -m benchmarks.peers.python_load SYSTEM HOST:PORT CALLERS PARTITIONS FETCH WARM_S SECONDS`
prints what it found as JSON, with the names of the generator's. Commits that end after the time
count neither here nor there, unless there are no others.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import attrs
import uvloop

from benchmarks.peers.python_client import PythonClient, group_name
from benchmarks.peers.systems import etcd, kafka, ours, postgresql, redis, zookeeper

CLIENTS: dict[str, type[PythonClient]] = {
    "offsetd": ours.OffsetdClient,
    "kafka": kafka.KafkaClient,
    "redis": redis.RedisClient,
    "etcd": etcd.EtcdClient,
    "zookeeper": zookeeper.ZooKeeperClient,
    "postgresql": postgresql.PostgreSQLClient,
}


@attrs.frozen(kw_only=True)
class Loop:
    """What each caller does, and until when, by the performance counter."""

    partitions: int
    fetch: bool
    first: int
    from_s: float
    until_s: float


@attrs.define(kw_only=True)
class Noted:
    """What callers have seen: latencies in seconds, of what ended within the time."""

    all_commits: int = 0
    seconds: float
    commits: list[float] = attrs.Factory(list)
    fetches: list[float] = attrs.Factory(list)
    late: list[float] = attrs.Factory(list)  # Of commits that were answered behind its end.


async def call(client: PythonClient, caller: int, loop: Loop, noted: Noted) -> None:
    """One caller, which commits for a group of its own. Raises if it fetches something else."""
    group, offset = group_name(caller, loop.partitions), loop.first
    answered_s = 0.0
    while answered_s < loop.until_s:
        offset += 1
        started_s = time.perf_counter()
        await client.commit(caller, group, loop.partitions, offset)
        answered_s = time.perf_counter()
        noted.all_commits += 1
        fetched_s = answered_s
        if loop.fetch:
            stored = await client.fetch(caller, group, loop.partitions)
            if stored != [offset] * loop.partitions:
                raise RuntimeError(f"fetched {stored[:3]}…, {len(stored)} in all, not {offset}")
            fetched_s = time.perf_counter()
        if loop.from_s < answered_s <= loop.until_s:
            noted.commits.append(answered_s - started_s)
            noted.fetches.append(fetched_s - answered_s)
        elif answered_s > loop.until_s:
            noted.late.append(answered_s - started_s)


async def load(
    client_type: type[PythonClient], address: str, callers: int, loop: Loop, noted: Noted
) -> None:
    """All callers, on one client. The first error of any ends it."""
    client = await client_type.connect(address, callers)
    try:
        await asyncio.gather(  # Connections are made with the first call.
            *(
                client.commit(caller, group_name(caller, loop.partitions), loop.partitions, 0)
                for caller in range(callers)
            )
        )
        noted.all_commits = callers
        now_s = time.perf_counter()
        loop = attrs.evolve(loop, from_s=now_s + loop.from_s, until_s=now_s + loop.until_s)
        async with asyncio.TaskGroup() as group:
            for caller in range(callers):
                group.create_task(call(client, caller, loop, noted))
        if not noted.commits:  # The system is so slow: then what came late is all there is.
            noted.commits = noted.late
            noted.seconds = time.perf_counter() - loop.from_s
    finally:
        await client.close()


def percentile_us(latencies_s: list[float], share: float) -> float:
    """0 of none."""
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
    uvloop.run(load(CLIENTS[system], address, callers, loop, noted))
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
