"""A runtime and what runs beside its appends: they start, fail and end together."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from kept_stores import UPKEEP
from log_stores import commit
from offsetd_coordinator.errors import StorageUnavailable
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import CleaningAborted
from offsetd_storage.log_store import OFFSETS_TOPIC
from offsetd_storage.maintenance.upkeep import Upkeep
from offsetd_storage.topic_partition import TopicPartition
from serving_nodes import WAIT_SECONDS, ServingNode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

P0 = TopicPartition(OFFSETS_TOPIC, 0)


class KeptNode(ServingNode):
    """A node with its upkeep."""

    def __init__(self) -> None:
        clock = ManualClock()
        super().__init__(SimulatedFiles(clock=clock), clock, partitions=2)
        self.upkeep = Upkeep(
            self.store,
            Path("/data"),
            UPKEEP,
            files=self.files,
            clock=clock,
            random=Random(1),
            on_failed=self.log.fail_soon,
        )
        self.runtime.start(self.upkeep)

    async def until_failed(self) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while not self.failures:  # noqa: ASYNC110
                await asyncio.sleep(0.001)


@pytest.fixture
async def kept() -> AsyncIterator[KeptNode]:
    node = KeptNode()
    yield node
    if node.runtime.failed is None:
        await asyncio.to_thread(node.runtime.close)
    else:
        await asyncio.to_thread(node.upkeep.stop)


async def test_a_failure_beside_the_appends_ends_the_node(kept: KeptNode) -> None:
    await kept.commit("g", 1)
    kept.files.faults.append(Fault(errno=errno.EIO, kind=OperationKind.SYNC, nth=1))
    kept.upkeep.move_points_soon()
    await kept.until_failed()
    assert "EIO" in str(kept.failures[0]) or kept.failures[0] is kept.store.failed
    with pytest.raises(StorageUnavailable):
        kept.runtime.fetch(b"g")
    assert len(kept.failures) == 1


async def test_recovery_points_move_when_commits_fill_the_journal(kept: KeptNode) -> None:
    batch_bytes = len(commit(kept.store, P0, size_bytes=60_000))
    for _ in range(2 * (1 << 20) // batch_bytes):
        commit(kept.store, P0, size_bytes=60_000)
        if kept.store.journal_used_ratio > 0.6:
            break
    before = kept.store.journal_used_ratio
    await kept.commit("g", 1)  # The flusher's first look.
    async with asyncio.timeout(WAIT_SECONDS):
        while kept.store.journal_used_ratio >= before:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_the_upkeep_ends_before_the_store_is_closed(kept: KeptNode) -> None:
    await kept.commit("g", 1)
    await asyncio.to_thread(kept.runtime.close)
    assert all(not each.is_running for each in kept.upkeep.tasks)
    answer = kept.upkeep.cleaner.compact([P0])[P0]
    with pytest.raises(CleaningAborted):
        answer.result(0)
    kept.runtime.close = lambda: None  # type: ignore[method-assign]
