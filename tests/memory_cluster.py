"""A cluster of nodes whose log is in memory, each served over gRPC; partitions move as asked."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from memory_commit_log import MemoryTopic
from memory_nodes import PARTITIONS, MemoryNode
from offsetd_coordinator.runtime.node_directory import ClusterNode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from random import Random

CLUSTER_ID = "cluster-in-memory"


class MemoryDirectory:
    """What every node knows of all nodes: the truth, but for `fixed` owners."""

    def __init__(self) -> None:
        self.members: list[MemoryNode] = []
        self.fixed: dict[int, MemoryNode] = {}

    def nodes(self) -> Sequence[ClusterNode]:
        return [_described(each) for each in self.members]

    def owner(self, partition: int) -> ClusterNode | None:
        if partition in self.fixed:
            return _described(self.fixed[partition])
        found = (each for each in self.nodes() if partition in each.partitions)
        return next(found, None)


def _described(member: MemoryNode) -> ClusterNode:
    owned = sorted(partition for partition, log in member.topic.owners.items() if log is member.log)
    return ClusterNode(member.node.node_id, member.node.address, tuple(owned))


class MemoryCluster:
    """Nodes `n1`, `n2`, … on one topic. At first they share the partitions in turn."""

    def __init__(self, count: int, partitions: int = PARTITIONS) -> None:
        self.topic = MemoryTopic(partitions)
        self.directory = MemoryDirectory()
        self.nodes = [
            MemoryNode(
                self.topic,
                range(number, partitions, count),
                name=f"n{number + 1}",
                directory=self.directory,
            )
            for number in range(count)
        ]
        for node in self.nodes:
            node.node.folder_id = CLUSTER_ID
        self.directory.members = list(self.nodes)

    @property
    def addresses(self) -> list[str]:
        return [each.node.address for each in self.nodes]

    def owner(self, partition: int) -> MemoryNode | None:
        log = self.topic.owners.get(partition)
        return next((each for each in self.nodes if each.log is log), None)

    def release(self, partition: int) -> None:
        """Nobody has the partition any more."""
        owner = self.owner(partition)
        if owner is not None:
            owner.release(partition)

    def move(self, partition: int, number: int) -> None:
        """The node with this index has the partition."""
        self.release(partition)
        self.nodes[number].take(partition)

    async def stop(self, number: int) -> None:
        """The node with this index is gone: its partitions have no owner."""
        node = self.nodes[number]
        for partition in range(len(self.topic.logs)):
            if self.owner(partition) is node:
                node.lose(partition)
        self.directory.members.remove(node)
        await node.stop()

    @asynccontextmanager
    async def moving(self, random: Random, pause_seconds: float = 0.01) -> AsyncIterator[None]:
        """Partitions move all the time; see `shuffle`. At the end each has an owner again."""
        task = asyncio.create_task(self.shuffle(random, 1_000_000, pause_seconds))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            for partition in range(len(self.topic.logs)):
                if self.owner(partition) is None:
                    self.nodes[0].take(partition)

    async def shuffle(self, random: Random, moves: int, pause_seconds: float = 0.01) -> None:
        """Moves partitions to and fro; between two owners there may be a time without one.

        Some are lost: what waits for its flush then is not in the log. Half of the pauses are one
        turn of the loop.
        """

        async def pause() -> None:
            await asyncio.sleep(random.choice((0.0, random.random() * pause_seconds)))

        for _ in range(moves):
            partition = random.randrange(len(self.topic.logs))
            owner = self.owner(partition)
            if owner is not None and random.random() < 0.3:
                owner.lose(partition)
            self.release(partition)
            await pause()
            self.nodes[random.randrange(len(self.nodes))].take(partition)
            await pause()


@asynccontextmanager
async def memory_cluster(count: int, partitions: int = PARTITIONS) -> AsyncIterator[MemoryCluster]:
    """A running cluster."""
    cluster = MemoryCluster(count, partitions)
    try:
        for node in cluster.nodes:
            await node.listen()
        yield cluster
    finally:
        for node in cluster.nodes:
            await node.stop()
