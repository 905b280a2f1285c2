"""Commits to several nodes over streams: each group's order stays while partitions move."""

from __future__ import annotations

import asyncio
import os
import sys
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from chance import seed_of
from fake_server import EitherClient, outcome
from memory_cluster import MemoryCluster, memory_cluster
from memory_nodes import group_in
from offsetd_clients import AsyncOffsetClient, OffsetClient, RetryPolicy, TopicPartition
from offsetd_storage.batch.record_batch import decode_batch
from offsetd_storage.offsets_topic.schemas.keys import OffsetKey, decode_key
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 20 if os.environ.get("OFFSETD_NIGHTLY") else 3
PARTITIONS = 4
COMMITS = 400
GROUPS = [
    group_in(partition, number, PARTITIONS)
    for partition in range(PARTITIONS)
    for number in range(2)
]
WHERE = TopicPartition("t", 0)


def logged(cluster: MemoryCluster) -> dict[str, list[int]]:
    """The committed values of each group, in the order of the log."""
    found: dict[str, list[int]] = {each: [] for each in GROUPS}
    for log in cluster.topic.logs:
        for batch in log.batches:
            for record in decode_batch(batch).records:
                key = decode_key(record.key or b"")
                assert isinstance(key, OffsetKey)
                found[key.group].append(OffsetCommitValue.decode(record.value or b"").offset)
    return found


@pytest.fixture(autouse=True)
def often_switched_threads() -> Iterator[None]:
    """Threads take turns 500 times as often, so that they meet between any two steps."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [AsyncOffsetClient, OffsetClient])
@pytest.mark.parametrize("number", range(ROUNDS))
async def test_each_group_is_committed_in_order_while_partitions_move(
    kind: Any, number: int
) -> None:
    random = Random(seed_of("order of commits in clusters", number))
    policy = RetryPolicy(timeout_s=PATIENCE_SECONDS, wait_initial_s=0.002, wait_max_s=0.05)
    async with memory_cluster(3, PARTITIONS) as cluster:
        addresses = ",".join(random.sample(cluster.addresses, 3))
        client = EitherClient(kind(addresses, retry=policy))
        async with cluster.moving(random, 0.02), client:
            futures: list[Any] = []
            for value in range(COMMITS):
                futures += [
                    await client.commit_soon(group_id, {WHERE: value})
                    for group_id in random.sample(GROUPS, 4)
                ]
                if random.random() < 0.2:
                    await asyncio.sleep(random.random() * 0.01)
            for future in futures:
                await asyncio.wait_for(outcome(future), PATIENCE_SECONDS)
        for group_id, values in logged(cluster).items():
            assert values == sorted(values), f"{group_id}: a later commit is before an earlier one"
            assert len(values) == len(set(values)), f"{group_id}: a commit was applied twice"
        assert sum(map(len, logged(cluster).values())) == len(futures)
