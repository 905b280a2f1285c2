"""Clients of a cluster: what is over all groups comes from all nodes, while partitions move."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from chance import seed_of
from memory_cluster import CLUSTER_ID, MemoryCluster, memory_cluster
from memory_nodes import group_in
from offsetd_clients import (
    OffsetClient,
    OffsetFormat,
    RetryPolicy,
    TopicPartition,
    Unavailable,
)
from offsetd_coordinator.runtime.node_directory import ClusterReport, Replication
from offsetd_coordinator.services import offset_exports
from patience import PATIENCE_SECONDS
from ports import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from fake_server import EitherClient

    Connect = Callable[..., Any]

PARTITIONS = 6
WHERE = TopicPartition("orders", 0)
GROUPS = [
    group_in(partition, number, PARTITIONS)
    for partition in range(PARTITIONS)
    for number in range(3)
]


def policy() -> RetryPolicy:
    return RetryPolicy(timeout_s=PATIENCE_SECONDS, wait_initial_s=0.005, wait_max_s=0.05)


@pytest.fixture
async def cluster() -> AsyncIterator[MemoryCluster]:
    """Three nodes."""
    async with memory_cluster(3, PARTITIONS) as started:
        yield started


async def fill(cluster: MemoryCluster) -> None:
    """Each group has an offset of its own: its place in `GROUPS`."""
    for value, group_id in enumerate(GROUPS):
        partition = cluster.nodes[0].runtime.partition_of(group_id.encode())
        owner = cluster.owner(partition)
        assert owner is not None
        await owner.commit(group_id, value)


def moving(cluster: MemoryCluster, number: int) -> AbstractAsyncContextManager[None]:
    """Partitions move all the time."""
    return cluster.moving(Random(seed_of("moving partitions", number)))


async def all_of(client: EitherClient, name: str, *arguments: Any, **options: Any) -> list[Any]:
    """What a call yields, of either client."""
    call = getattr(client.client, name)
    if isinstance(client.client, OffsetClient):
        return await asyncio.to_thread(lambda: list(call(*arguments, **options)))
    return [each async for each in call(*arguments, **options)]


async def listed(client: EitherClient, **options: Any) -> list[str]:
    return [each.group_id for each in await all_of(client, "list_groups", **options)]


async def exported(client: EitherClient, *arguments: Any) -> list[tuple[str, int]]:
    pieces = await all_of(client, "export_offsets", OffsetFormat.JSONL, *arguments)
    lines = map(json.loads, b"".join(pieces).splitlines())
    return [(each["group"], each["offset"]) for each in lines]


@pytest.mark.parametrize("page_size", [0, 1, 2])
async def test_all_groups_are_listed_whatever_node_is_asked(
    cluster: MemoryCluster, connect: Connect, page_size: int
) -> None:
    await fill(cluster)
    for address in cluster.addresses:
        async with connect(address, retry=policy()) as client:
            found = await listed(client, page_size=page_size)
            assert Counter(found) == Counter(GROUPS)
            assert await listed(client, group_id_prefix=GROUPS[4])


@pytest.mark.slow
async def test_the_list_has_each_group_once_while_partitions_move(
    cluster: MemoryCluster, connect: Connect
) -> None:
    await fill(cluster)
    async with moving(cluster, 1), connect(cluster.addresses[0], retry=policy()) as client:
        for page_size in (1, 2, 3, 1, 0):
            assert Counter(await listed(client, page_size=page_size)) == Counter(GROUPS)


@pytest.mark.slow
async def test_the_export_has_each_offset_once_while_partitions_move(
    cluster: MemoryCluster, connect: Connect
) -> None:
    await fill(cluster)
    expected = [(group_id, value) for value, group_id in enumerate(GROUPS)]
    async with moving(cluster, 2), connect(cluster.addresses[1], retry=policy()) as client:
        for _ in range(5):
            assert sorted(await exported(client)) == sorted(expected)
    async with connect(cluster.addresses[1], retry=policy()) as client:
        named = [GROUPS[7], GROUPS[0], GROUPS[4]]
        assert await exported(client, named) == [(each, GROUPS.index(each)) for each in named]


async def test_a_partition_that_leaves_during_its_export_is_exported_by_its_next_owner(
    cluster: MemoryCluster, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(cluster)
    last = max(each for each in GROUPS if cluster.nodes[0].runtime.partition_of(each.encode()) == 3)
    read_group = offset_exports.read_group

    async def read(runtime: Any, group_id: bytes) -> Any:
        if group_id == last.encode() and cluster.owner(3) is cluster.nodes[0]:
            cluster.move(3, 1)
        return await read_group(runtime, group_id)

    monkeypatch.setattr(offset_exports, "read_group", read)
    async with connect(cluster.addresses[0], retry=policy()) as client:
        found = await exported(client)
    assert cluster.owner(3) is cluster.nodes[1], "it left"
    assert sorted(found) == sorted((group_id, value) for value, group_id in enumerate(GROUPS))


@pytest.mark.slow
async def test_many_groups_are_fetched_from_their_owners_while_partitions_move(
    cluster: MemoryCluster, connect: Connect
) -> None:
    await fill(cluster)
    async with connect(cluster.addresses[0], retry=policy()) as client:
        async with moving(cluster, 3):
            for _ in range(5):
                found = await client.fetch_many(GROUPS)
                assert list(found) == GROUPS
                assert [each[WHERE].offset for each in found.values()] == [*range(len(GROUPS))]
        await client.fetch_many(GROUPS)


async def test_a_cluster_is_described_by_all_its_nodes(
    cluster: MemoryCluster, connect: Connect
) -> None:
    await fill(cluster)
    for number, node in enumerate(cluster.nodes):
        report = ClusterReport(
            Replication("__offsetd_offsets", 3, 2),
            # The first one is this node's own partition, of which it has no copy to follow.
            {number: 99, number + 1: number, number + 3: 99},
            problems=("hm",),
        )
        node.node.cluster_report = lambda report=report: report
    async with connect(cluster.addresses[1], retry=policy()) as client:
        described = await client.describe_cluster()
        assert described.cluster_id == CLUSTER_ID
        assert [each.address for each in described.nodes] == cluster.addresses
        assert {each.state for each in described.partitions} == {"serving"}
        assert [each.copy_lag for each in described.partitions] == [None, 0, 1, 2, None, None]
        assert [each.copy_lag for each in described.nodes] == [0, 1, 2]
        assert None not in [each.epoch for each in described.partitions]
        assert sum(each.server.group_count for each in described.nodes) == len(GROUPS)
        assert described.problems == ("hm",)
        others = (await client.get_server_info()).other_addresses
        assert others == (cluster.addresses[0], cluster.addresses[2])


async def test_a_node_that_does_not_answer_is_in_the_description(
    cluster: MemoryCluster, connect: Connect
) -> None:
    await cluster.nodes[2].stop()
    async with connect(cluster.addresses[0], retry=policy()) as client:
        described = await client.describe_cluster()
    assert [each.server is None for each in described.nodes] == [False, False, True]
    assert [each.state for each in described.partitions] == ["serving", "serving", "unknown"] * 2


async def test_the_audit_logs_of_all_nodes_are_one_list_newest_first(
    cluster: MemoryCluster, connect: Connect
) -> None:
    await fill(cluster)
    async with connect(cluster.addresses[0], retry=policy()) as client:
        deleted = GROUPS[:9]
        for group_id in deleted:
            for node in cluster.nodes:
                node.clock.advance(milliseconds=1000)
            await client.delete_group(group_id)
        events = await all_of(client, "list_audit_events", page_size=2)
    assert [each.what["group"] for each in events] == deleted[::-1]
    assert {each.node_id for each in events} == {"n1", "n2", "n3"}


async def test_the_next_address_is_tried_if_one_cannot_be_reached(
    cluster: MemoryCluster, connect: Connect
) -> None:
    await fill(cluster)
    gone = [f"127.0.0.1:{port}" for port in free_ports(2)]
    addresses = ", ".join([*gone, cluster.addresses[1]])
    async with connect(addresses, retry=policy()) as client:
        assert Counter(await listed(client)) == Counter(GROUPS)
    async with connect(addresses, retry=policy()) as client:
        await client.commit(GROUPS[0], {WHERE: 77})
        assert (await client.fetch(GROUPS[0]))[WHERE].offset == 77
    async with connect(",".join(gone), retry=RetryPolicy(timeout_s=0.2)) as client:
        with pytest.raises(Unavailable):
            await listed(client)


async def test_what_a_lost_node_had_comes_from_the_others(
    cluster: MemoryCluster, connect: Connect
) -> None:
    await fill(cluster)
    async with connect(",".join(cluster.addresses), retry=policy()) as client:
        assert Counter(await listed(client)) == Counter(GROUPS)
        await cluster.stop(0)
        for partition in (0, 3):
            cluster.nodes[1].take(partition)
        assert Counter(await listed(client)) == Counter(GROUPS)
        assert len(await exported(client)) == len(GROUPS)
        assert len(await client.fetch_many(GROUPS)) == len(GROUPS)
        await client.commit(GROUPS[0], {WHERE: 5})
