"""How the commits of a group leave the queue of one server for that of another one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from memory_cluster import memory_cluster
from memory_nodes import group_in
from offsetd_clients import OffsetClient, RetryPolicy, TopicPartition
from offsetd_clients.calling.commit_queue import CommitQueue
from patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

WHERE = TopicPartition("orders", 0)
POLICY = RetryPolicy(timeout_s=PATIENCE_SECONDS, wait_initial_s=0.005, wait_max_s=0.05)


async def test_a_group_keeps_its_queue_until_its_commits_have_left(
    connect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a commit that comes now would be before those that are leaving."""
    group_id, seen = group_in(1, 0, 2), []
    async with memory_cluster(2, 2) as cluster:
        home, owner = cluster.addresses
        async with connect(home, retry=POLICY) as client:
            servers = client.client._servers
            sender_to = servers._sender_to

            def looked_up(address: str) -> Any:
                seen.append((address, servers._seats.address_of(group_id)))
                return sender_to(address)

            monkeypatch.setattr(servers, "_sender_to", looked_up)
            await client.commit(group_id, {WHERE: 1})
            assert seen == [(owner, home)]
            assert servers._seats.address_of(group_id) == owner


async def test_a_refusal_is_read_and_its_commits_are_held_under_one_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise later commits of the group could leave in between."""
    held, locked = CommitQueue.hold, []
    async with memory_cluster(2, 2) as cluster:
        client = OffsetClient(cluster.addresses[0], retry=POLICY)

        def holding(*arguments: Any, **options: Any) -> bool:
            locked.append(client._servers._queues_guard.locked())
            return held(*arguments, **options)

        monkeypatch.setattr(CommitQueue, "hold", holding)
        await asyncio.to_thread(client.commit, group_in(1, 0, 2), {WHERE: 1})
        await asyncio.to_thread(client.close)
    assert locked == [True]
