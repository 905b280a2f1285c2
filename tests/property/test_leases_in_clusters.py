"""Leases of groups whose log partitions move: epochs grow, and no fenced writer is accepted."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from chance import seed_of
from fake_server import EitherClient
from memory_cluster import memory_cluster
from memory_nodes import group_in
from offsetd_clients import (
    AsyncOffsetClient,
    EpochFenced,
    LeaseHeld,
    OffsetClient,
    RetryPolicy,
    TopicPartition,
)
from patience import PATIENCE_SECONDS

ROUNDS = 20 if os.environ.get("OFFSETD_NIGHTLY") else 2
PARTITIONS = 4
HOLDERS = 6
TURNS = 30
GROUPS = [group_in(partition, 0, PARTITIONS) for partition in range(PARTITIONS)]
WHERE = TopicPartition("t", 0)
HOUR = timedelta(hours=1)


class Leases:
    """What holders know of all leases. A lease is in force once its holder was told of it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.newest = dict.fromkeys(GROUPS, -1)  # Epochs.
        self.accepted = 0
        self.fenced = 0

    async def hold(self, client: Any, name: str) -> None:
        """Takes leases, by force too, commits with them, and gives some of them back."""
        for turn in range(TURNS):
            group_id = self.random.choice(GROUPS)
            known = self.newest[group_id]
            is_forced = self.random.random() < 0.7
            try:
                lease = await client.acquire_group(
                    group_id, f"{name}-{turn}", ttl=HOUR, force=is_forced
                )
            except LeaseHeld:
                assert not is_forced
                continue
            assert lease.epoch > known, "epochs grow"
            self.newest[group_id] = max(lease.epoch, self.newest[group_id])
            if await self._commit(client, group_id, lease.epoch) and self.random.random() < 0.3:
                with suppress(EpochFenced):
                    await client.release_group(group_id, lease.epoch)

    async def _commit(self, client: Any, group_id: str, epoch: int) -> bool:
        for value in range(3):
            known = self.newest[group_id]
            try:
                await client.commit(group_id, {WHERE: value}, epoch=epoch)
            except EpochFenced:
                self.fenced += 1
                return False
            assert known == epoch, "a fenced writer was accepted"
            self.accepted += 1
        return True


@pytest.mark.slow
@pytest.mark.parametrize("kind", [AsyncOffsetClient, OffsetClient])
@pytest.mark.parametrize("number", range(ROUNDS))
async def test_no_fenced_writer_is_accepted_while_partitions_move(kind: Any, number: int) -> None:
    random = Random(seed_of("leases in clusters", number))
    policy = RetryPolicy(timeout_s=PATIENCE_SECONDS, wait_initial_s=0.002, wait_max_s=0.05)
    leases = Leases(random)
    async with memory_cluster(3, PARTITIONS) as cluster, cluster.moving(random, 0.02):
        clients = [
            EitherClient(kind(address, retry=policy))
            for address in random.choices(cluster.addresses, k=HOLDERS)
        ]
        await asyncio.gather(
            *(leases.hold(client, f"holder-{each}") for each, client in enumerate(clients))
        )
        for client in clients:
            await client.close()
    assert leases.accepted > 10
    assert leases.fenced > 0, "no writer was fenced: the test shows nothing"
