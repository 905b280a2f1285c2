"""A watch over all nodes of a cluster: each event once and in order, while partitions move."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from chance import seed_of
from memory_cluster import MemoryCluster, memory_cluster
from memory_nodes import group_in
from offsetd_clients import AsyncOffsetClient, OffsetClient, RetryPolicy, Unavailable
from offsetd_clients.messages.watch_tokens import log_partitions_in, merged
from offsetd_coordinator.errors import NotCoordinator
from offsetd_coordinator.history.watchers import decode_token, encode_token
from offsetd_storage.batch.record_batch import decode_batch
from patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    Position = tuple[int, int]

PARTITIONS = 5
GROUPS = [group_in(partition, 0, PARTITIONS) for partition in range(PARTITIONS)]
KINDS = pytest.mark.parametrize("kind", [AsyncOffsetClient, OffsetClient])
Kind = type[AsyncOffsetClient] | type[OffsetClient]


def policy(timeout_s: float = PATIENCE_SECONDS) -> RetryPolicy:
    return RetryPolicy(timeout_s=timeout_s, wait_initial_s=0.005, wait_max_s=0.05)


class Watched:
    """A watch by a client of either kind, and the positions of the events that it yielded."""

    def __init__(self, kind: Kind, address: str, **options: Any) -> None:
        self.events: list[Position] = []
        self.groups: list[str] = []
        self.token = ""
        self.watch: Any = None
        self._kind, self._address, self._options = kind, address, options
        retry = policy(options.pop("timeout_s", PATIENCE_SECONDS))
        self._retry = retry
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        if self._kind is OffsetClient:
            await asyncio.to_thread(self._run_in_thread)
            return
        async with AsyncOffsetClient(self._address, retry=self._retry) as client:
            self.watch = client.watch_offsets(**self._options)
            async for batch in self.watch.batches():
                self._note(batch)

    def _run_in_thread(self) -> None:
        with OffsetClient(self._address, retry=self._retry) as client:
            self.watch = client.watch_offsets(**self._options)
            for batch in self.watch.batches():
                self._note(batch)

    def _note(self, batch: Any) -> None:
        self.token = batch.token
        for event in batch.events:
            self.events.append((event.revision.log_partition, event.revision.log_offset))
            self.groups.append(event.group_id)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                if self.task.done():
                    await self.task
                    assert condition(), "it has ended"
                await asyncio.sleep(0.005)

    async def end(self) -> None:
        """Cancels the watch, and waits for its end."""
        await self.until(lambda: self.watch is not None)
        self.watch.cancel()
        await asyncio.wait_for(self.task, PATIENCE_SECONDS)


@pytest.fixture
async def cluster() -> AsyncIterator[MemoryCluster]:
    """Three nodes."""
    async with memory_cluster(3, PARTITIONS) as started:
        yield started


def logged(cluster: MemoryCluster) -> list[Position]:
    """All records of the topic."""
    return [
        (partition, record.offset)
        for partition, log in enumerate(cluster.topic.logs)
        for batch in log.batches
        for record in decode_batch(batch).records
    ]


async def commit(cluster: MemoryCluster, group_id: str, value: int) -> None:
    """Commits at the owner, if there is one that keeps the partition so long."""
    owner = cluster.owner(cluster.nodes[0].runtime.partition_of(group_id.encode()))
    if owner is not None:
        with suppress(NotCoordinator):
            await owner.commit(group_id, value)


async def commit_to_all(cluster: MemoryCluster, value: int = 1) -> None:
    for group_id in GROUPS:
        await commit(cluster, group_id, value)


@asynccontextmanager
async def busy(cluster: MemoryCluster, number: int) -> AsyncIterator[None]:
    """Groups commit and partitions move, all the time; in the end each one has an owner."""
    random = Random(seed_of("watched partitions", number))

    async def write() -> None:
        for value in range(1_000_000):
            await commit(cluster, random.choice(GROUPS), value)
            await asyncio.sleep(0.001)

    tasks = [
        asyncio.create_task(write()),
        asyncio.create_task(cluster.shuffle(random, 1_000_000, 0.05)),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        for partition in range(PARTITIONS):
            if cluster.owner(partition) is None:
                cluster.nodes[0].take(partition)


def check_order(events: list[Position]) -> None:
    for partition in range(PARTITIONS):
        offsets = [offset for where, offset in events if where == partition]
        assert offsets == sorted(set(offsets)), f"each once, in order, in partition {partition}"


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("number", range(3))
async def test_each_event_comes_once_and_in_order_while_partitions_move(
    cluster: MemoryCluster, kind: Kind, number: int
) -> None:
    watched = Watched(kind, cluster.addresses[number], from_oldest=True)
    async with busy(cluster, number):
        await watched.until(lambda: len(watched.events) >= 300)
    everything = logged(cluster)
    await watched.until(lambda: len(watched.events) >= len(everything))
    await watched.end()
    assert sorted(watched.events) == everything
    check_order(watched.events)


@pytest.mark.slow
@KINDS
async def test_one_token_goes_on_at_any_node(cluster: MemoryCluster, kind: Kind) -> None:
    events: list[Position] = []
    token = ""
    async with busy(cluster, 7):
        for address in (*cluster.addresses, cluster.addresses[0]):
            begin = {"token": token} if token else {"from_oldest": True}
            watched = Watched(kind, address, **begin)
            await watched.until(lambda watched=watched: len(watched.events) >= 50)
            await watched.end()
            token, events = watched.token, [*events, *watched.events]
    last = Watched(kind, cluster.addresses[1], token=token)
    await last.until(lambda: len(events) + len(last.events) >= len(logged(cluster)))
    await last.end()
    events += last.events
    assert sorted(events) == logged(cluster)
    check_order(events)


@KINDS
async def test_a_watch_from_now_on_has_positions_in_all_partitions_at_its_first_batch(
    cluster: MemoryCluster, kind: Kind
) -> None:
    await commit_to_all(cluster)
    cluster.release(1)
    watched = Watched(kind, cluster.addresses[0])
    await asyncio.sleep(0.3)
    assert not watched.token, "a partition without an owner has no position yet"
    cluster.nodes[2].take(1)
    await watched.until(lambda: bool(watched.token))
    assert log_partitions_in(watched.token) == set(range(PARTITIONS))
    await commit_to_all(cluster, 2)
    await watched.until(lambda: len(watched.events) >= PARTITIONS)
    await watched.end()
    assert sorted(watched.groups) == sorted(GROUPS)


@KINDS
async def test_a_watch_up_to_a_token_ends_there(cluster: MemoryCluster, kind: Kind) -> None:
    await commit_to_all(cluster)
    now = Watched(kind, cluster.addresses[1])
    await now.until(lambda: bool(now.token))
    await now.end()
    await commit_to_all(cluster, 2)
    async with busy(cluster, 9):
        watched = Watched(kind, cluster.addresses[2], from_oldest=True, until_token=now.token)
        await asyncio.wait_for(watched.task, PATIENCE_SECONDS)
    assert sorted(watched.groups) == sorted(GROUPS)
    assert watched.token == now.token, "tokens of the same positions are the same text"


@KINDS
async def test_named_groups_of_other_nodes_are_watched_there(
    cluster: MemoryCluster, kind: Kind
) -> None:
    named = [GROUPS[1], GROUPS[2]]
    watched = Watched(kind, cluster.addresses[0], group_ids=named)
    await watched.until(lambda: bool(watched.token))
    cluster.move(1, 0)
    await commit_to_all(cluster)
    await watched.until(lambda: len(watched.events) >= 2)
    await watched.end()
    assert sorted(watched.groups) == sorted(named)


@KINDS
async def test_a_node_that_is_gone_is_left_for_the_next_owner(
    cluster: MemoryCluster, kind: Kind
) -> None:
    await commit_to_all(cluster)
    watched = Watched(kind, ",".join(cluster.addresses), from_oldest=True)
    await watched.until(lambda: len(watched.events) >= PARTITIONS)
    await cluster.stop(0)
    await commit(cluster, GROUPS[1], 2)
    await watched.until(lambda: len(watched.events) >= PARTITIONS + 1)
    for partition in (0, 3):
        cluster.nodes[1].take(partition)
    await commit_to_all(cluster, 3)
    await watched.until(lambda: len(watched.events) >= 2 * PARTITIONS + 1)
    await watched.end()
    assert sorted(watched.events) == logged(cluster)


@KINDS
async def test_a_partition_that_stays_without_an_owner_ends_the_watch_after_the_timeout(
    cluster: MemoryCluster, kind: Kind
) -> None:
    watched = Watched(kind, cluster.addresses[0], timeout_s=1.0)
    await watched.until(lambda: bool(watched.token))
    cluster.release(2)
    with pytest.raises(Unavailable):
        await asyncio.wait_for(watched.task, PATIENCE_SECONDS)


@KINDS
async def test_a_damaged_partition_is_told_and_the_others_are_watched(
    cluster: MemoryCluster, kind: Kind
) -> None:
    cluster.nodes[1].log.damage_partition(1)
    cluster.nodes[1].node.release(1)
    cluster.directory.fixed[1] = cluster.nodes[1]
    watched = Watched(kind, cluster.addresses[0])
    await watched.until(lambda: bool(watched.token))
    assert watched.watch.unreachable_log_partitions == (1,)
    await commit_to_all(cluster)
    await watched.until(lambda: len(watched.events) >= PARTITIONS - 1)
    await watched.end()


def test_tokens_are_merged_as_the_server_makes_them() -> None:
    digest = b"12345678"
    first, second = {0: 7, 3: 1 << 40}, {3: 5, 200: 0}
    one = merged(["", encode_token(first, digest), encode_token(second, digest)])
    assert one == encode_token({0: 7, 3: 1 << 40, 200: 0}, digest)
    assert decode_token(one, digest)[3] == 1 << 40
    assert merged([]) == ""
    with pytest.raises(ValueError, match="different watchers"):
        merged([one, encode_token(first, b"87654321")])
