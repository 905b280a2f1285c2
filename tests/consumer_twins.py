"""Consumers of both kinds, asked in one way, so that a case is written once for both."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from offsetd_clients import (
    AsyncConsumer,
    AsyncOffsetClient,
    Bounds,
    Consumer,
    ConsumerFenced,
    ConsumerSettings,
    Item,
    OffsetClient,
    RetryPolicy,
    Source,
    TopicPartition,
)

WAIT_S: Final = 60
QUICK: Final = ConsumerSettings(
    auto_commit_interval_s=0.1,
    session_timeout_s=30.0,
    heartbeat_interval_s=0.1,
    source_interval_s=0.1,
    idle_wait_s=0.01,
)


class Lines(Source[str]):
    """Partitions in memory: each a list, of which the offset is the index."""

    def __init__(self, **topics: list[int]) -> None:
        self.ends = {
            TopicPartition(topic, partition): count
            for topic, counts in topics.items()
            for partition, count in enumerate(counts)
        }
        self.earliest = 0
        self.latest_is_known = True
        self.problem: Exception | None = None
        self.assigned: list[set[TopicPartition]] = []
        self.starts: dict[TopicPartition, int] = {}

    def partition_counts(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for each in self.ends:
            counts[each.topic] = counts.get(each.topic, 0) + 1
        return counts

    def read(self, topic_partition: TopicPartition, offset: int, items_max: int) -> list[Item[str]]:
        if self.problem is not None:
            problem, self.problem = self.problem, None
            raise problem
        end = min(self.ends.get(topic_partition, 0), offset + items_max)
        return [
            Item(topic_partition, each, each + 1, f"{topic_partition}@{each}", leader_epoch=7)
            for each in range(max(offset, self.earliest), end)
        ]

    def bounds(self, topic_partition: TopicPartition) -> Bounds:
        end = self.ends.get(topic_partition) if self.latest_is_known else None
        return Bounds(self.earliest, end)

    def assign(self, committed: Any) -> dict[TopicPartition, int]:
        self.assigned.append(set(committed))
        return {each: start for each, start in self.starts.items() if each in committed}


class Waiting:
    """A consumer of either kind, as of asyncio: that of threads is asked in a thread."""

    def __init__(self, consumer: Any) -> None:
        self.it = consumer

    async def next(self) -> Item[str] | None:
        """None: the iteration has ended."""
        if isinstance(self.it, Consumer):
            return await asyncio.to_thread(next, self.it, None)
        return await anext(self.it, None)

    async def poll(self, items_max: int = 500, timeout_s: float = 0.01) -> list[Item[str]]:
        return await self._do("poll", items_max, timeout_s=timeout_s)

    async def commit(self, *what: Any) -> None:
        await self._do("commit", *what)

    async def close(self) -> None:
        await self._do("close")

    async def take(self, count: int) -> list[str]:
        """So many items, sorted."""
        found = [await self.next() for _ in range(count)]
        return sorted(each.value for each in found if each is not None)

    async def go_on(self) -> None:
        """Asks until that raises."""
        async with asyncio.timeout(WAIT_S):
            while True:
                await self.poll(1)

    async def until_assigned(self, *topic_partitions: TopicPartition) -> list[Item[str]]:
        """Asks until it has these; what it was given meanwhile."""
        found: list[Item[str]] = []
        async with asyncio.timeout(WAIT_S):
            while self.it.assignment != set(topic_partitions):
                found += await self.poll()
        return found

    async def _do(self, name: str, *arguments: Any, **options: Any) -> Any:
        method = getattr(self.it, name)
        if isinstance(self.it, Consumer):
            return await asyncio.to_thread(method, *arguments, **options)
        return await method(*arguments, **options)


class Twin:
    """Makes consumers of one kind, each with what it was told, and ends them all."""

    def __init__(self, kind: str, address: str, group: str) -> None:
        self.kind = kind
        self.address = address
        self.group = group
        self.told: list[tuple[str, ...]] = []
        self._clients: list[Any] = []
        self._consumers: list[Waiting] = []

    def client(self, address: str | None = None, timeout_s: float = 30.0) -> Any:
        kinds = {"aio": AsyncOffsetClient, "sync": OffsetClient}
        client = kinds[self.kind](address or self.address, retry=RetryPolicy(timeout_s=timeout_s))
        self._clients.append(client)
        return client

    def consumer(
        self,
        source: Source[str],
        settings: ConsumerSettings = QUICK,
        *,
        name: str = "",
        client: Any = None,
        **options: Any,
    ) -> Waiting:
        kinds: dict[str, Any] = {"aio": AsyncConsumer, "sync": Consumer}

        def note(what: str) -> Any:
            return lambda partitions: self.told.append((name, what, *map(str, sorted(partitions))))

        consumer = kinds[self.kind](
            client or self.client(),
            self.group,
            source,
            settings,
            **{f"on_{what}": note(what) for what in ("assigned", "revoked", "lost")} | options,
        )
        self._consumers.append(Waiting(consumer))
        return self._consumers[-1]

    async def end(self) -> None:
        for consumer in self._consumers:
            try:
                await consumer.close()
            except ConsumerFenced:
                continue
        for client in self._clients:
            if isinstance(client, AsyncOffsetClient):
                await client.close()
            else:
                client.close()
