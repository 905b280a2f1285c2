"""Clones and imports of groups that several nodes own, also while partitions move."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from chance import seed_of
from memory_cluster import MemoryCluster, memory_cluster
from memory_nodes import group_in
from offsetd_clients import (
    GroupExists,
    GroupNotFound,
    InvalidImport,
    OffsetFormat,
    OffsetToCommit,
    RetryPolicy,
    TopicPartition,
)
from offsetd_storage.batch.record_batch import decode_batch
from offsetd_storage.offsets_topic.schemas.keys import OffsetKey, decode_key
from patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    Connect = Callable[..., Any]

PARTITIONS = 6
WHERE = TopicPartition("orders", 0)
OTHER = TopicPartition("payments", 3)
GROUPS = [
    group_in(partition, number, PARTITIONS)
    for number in range(4)
    for partition in range(PARTITIONS)
]
# The owners are the first node, the second one, and the first one.
SOURCE, TARGET, NEIGHBOUR = GROUPS[0], GROUPS[1], GROUPS[3]
POLICY = RetryPolicy(timeout_s=PATIENCE_SECONDS, wait_initial_s=0.005, wait_max_s=0.05)


@pytest.fixture
async def cluster() -> AsyncIterator[MemoryCluster]:
    async with memory_cluster(3, PARTITIONS) as started:
        yield started


def lines(offsets: dict[str, int]) -> bytes:
    """A file with one offset for each group."""
    rows = [
        {"group": group_id, "topic": "orders", "partition": 0, "offset": offset}
        for group_id, offset in offsets.items()
    ]
    return "\n".join(map(json.dumps, rows)).encode()


def written(cluster: MemoryCluster) -> Counter[str]:
    """The number of offsets that are in the log, by group."""
    keys = [
        decode_key(record.key or b"")
        for log in cluster.topic.logs
        for batch in log.batches
        for record in decode_batch(batch).records
    ]
    return Counter(each.group for each in keys if isinstance(each, OffsetKey))


async def test_a_file_is_imported_by_the_owners_of_its_groups(
    cluster: MemoryCluster, connect: Connect
) -> None:
    offsets = {group_id: place for place, group_id in enumerate(GROUPS)}
    async with connect(cluster.addresses[1], retry=POLICY) as client:
        shown = await client.import_offsets(lines(offsets), OffsetFormat.JSONL, validate_only=True)
        assert [each.group_id for each in shown] == GROUPS
        assert all(each.changes and each.error is None for each in shown)
        assert not written(cluster)
        done = await client.import_offsets(lines(offsets), OffsetFormat.JSONL)
        assert [(each.group_id, each.offset_count) for each in done] == [(g, 1) for g in GROUPS]
        found = await client.fetch_many(GROUPS)
    assert {group_id: each[WHERE].offset for group_id, each in found.items()} == offsets
    assert written(cluster) == Counter(GROUPS)


async def test_an_invalid_file_changes_nothing_on_any_node(
    cluster: MemoryCluster, connect: Connect
) -> None:
    content = lines(dict.fromkeys(GROUPS, 1)) + b'\n{"group": "g", "topic": "orders"}'
    async with connect(cluster.addresses[0], retry=POLICY) as client:
        with pytest.raises(InvalidImport):
            await client.import_offsets(content, OffsetFormat.JSONL)
    assert not written(cluster)


@pytest.mark.slow
async def test_an_import_writes_each_group_once_while_partitions_move(
    cluster: MemoryCluster, connect: Connect
) -> None:
    random = Random(seed_of("imports in clusters"))
    async with (
        cluster.moving(random, 0.02),
        connect(",".join(cluster.addresses), retry=POLICY) as client,
    ):
        for value in range(10):
            done = await client.import_offsets(
                lines(dict.fromkeys(GROUPS, value)), OffsetFormat.JSONL
            )
            assert [each.error for each in done] == [None] * len(GROUPS)
            assert set(written(cluster).values()) == {value + 1}


@pytest.mark.parametrize("target", [TARGET, NEIGHBOUR], ids=["another node", "the same node"])
async def test_a_clone_has_the_offsets_of_its_source(
    cluster: MemoryCluster, connect: Connect, target: str
) -> None:
    committed = {
        WHERE: OffsetToCommit(5, metadata="m", leader_epoch=3),
        OTHER: OffsetToCommit(7),
    }
    async with connect(cluster.addresses[2], retry=POLICY) as client:
        await client.commit(SOURCE, committed)
        shown = await client.clone_group(SOURCE, target, validate_only=True)
        assert shown.offset_count == 2
        assert not await client.fetch(target)
        await client.clone_group(SOURCE, target)
        assert {
            where: OffsetToCommit(
                each.offset, metadata=each.metadata, leader_epoch=each.leader_epoch
            )
            for where, each in (await client.fetch(target)).items()
        } == committed
        with pytest.raises(GroupExists):
            await client.clone_group(SOURCE, target)
        await client.commit(SOURCE, {WHERE: 8, OTHER: 8})
        again = await client.clone_group(SOURCE, target, topics=["payments"], overwrite=True)
        assert (again.offset_count, again.kept_offset_count) == (1, 1)
        found = await client.fetch(target)
    assert {where: each.offset for where, each in found.items()} == {WHERE: 5, OTHER: 8}


@pytest.mark.parametrize("target", [TARGET, NEIGHBOUR], ids=["another node", "the same node"])
async def test_there_is_no_clone_of_a_group_without_offsets(
    cluster: MemoryCluster, connect: Connect, target: str
) -> None:
    async with connect(cluster.addresses[0], retry=POLICY) as client:
        with pytest.raises(GroupNotFound, match=SOURCE):
            await client.clone_group(SOURCE, target)
