"""A full disk under the whole server but its port: commits stop, and begin again by themselves.

Others fill the disk. Where the log holds what was overwritten, cleaning makes room; else the others
have to go.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import attrs
import pytest
from offsetd_coordinator.errors import DiskFull
from offsetd_coordinator.requests import CommitOffsets, DeleteGroup, OffsetEntry
from offsetd_coordinator.runtime.runtime import Runtime
from offsetd_coordinator.runtime.shard_loader import load
from offsetd_coordinator.runtime.store_commit_log import StoreCommitLog
from offsetd_coordinator.shard.shard import Shard, ShardConfig
from offsetd_storage.clock import ManualClock
from offsetd_storage.configuration.log_config import COMPACT, LogConfig
from offsetd_storage.configuration.server_config import BackgroundConfig, CleanerConfig, DiskConfig
from offsetd_storage.disk.disk_space import RESERVE_NAME, opened_with_reserve
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.log_store import LogStore, LogStoreConfig
from offsetd_storage.maintenance.upkeep import Upkeep, UpkeepConfig
from patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_storage.cleaner.cleaner_status import FinishedRound
    from offsetd_storage.errors import StorageFailed

KIB = 1 << 10
DATA = Path("/data")
OTHERS = Path("/others")
CAPACITY = 4096 * KIB
PARTITIONS = 3
LOOK_MS = 1000
STORE = LogStoreConfig(
    partitions=PARTITIONS,
    log=LogConfig(
        cleanup_policy=COMPACT,
        segment_bytes_max=64 * KIB,
        preallocate_step_bytes=8 * KIB,
        dirty_ratio_min=1.0,  # Only want of room is a reason to clean.
    ),
    journal_file_bytes=256 * KIB,
    recovery_threads=1,
)
UPKEEP = UpkeepConfig(
    cleaner=CleanerConfig(dedupe_buffer_bytes=2 << 20),
    background=BackgroundConfig(threads=3),
    disk=DiskConfig(check_interval_ms=LOOK_MS),
)
METADATA = b"m" * 1000


class Node:
    """A server without a port, on a disk of 4 MiB, and what it has acknowledged."""

    def __init__(
        self, files: SimulatedFiles, clock: ManualClock, config: LogStoreConfig = STORE
    ) -> None:
        self.files, self.clock = files, clock
        self.failures: list[StorageFailed] = []
        self.acknowledged: dict[bytes, int] = {}
        self.value = 0
        self.rounds: list[FinishedRound] = []
        self.store = opened_with_reserve(
            files,
            DATA,
            lambda: LogStore.open(files, DATA, config, clock=clock, random=Random(1)),
        )
        shard = ShardConfig(partitions=PARTITIONS)
        self.shards = {partition: Shard(partition, shard) for partition in range(PARTITIONS)}
        load(self.store, self.shards, 1, None)
        self.upkeep = Upkeep(
            self.store,
            DATA,
            UPKEEP,
            files=files,
            clock=clock,
            random=Random(2),
            sleep=lambda _: None,
            on_failed=self.failures.append,
            on_round=self.rounds.append,
        )
        log = StoreCommitLog(
            self.store, loop=asyncio.get_running_loop(), on_failed=self.failures.append
        )
        log.on_journal_filling = self.upkeep.move_points_soon
        self.runtime = Runtime(log, self.shards, clock=clock, store=self.store)
        self.runtime.start(self.upkeep)

    async def settle(self, ticket: int) -> None:
        waiting = self.runtime.durable(ticket)
        if waiting is not None:
            await asyncio.wait_for(waiting, PATIENCE_SECONDS)

    async def commit(self, group: bytes) -> None:
        """Raises DiskFull."""
        self.value += 1
        entry = OffsetEntry(topic=b"t", partition=0, offset=self.value, metadata=METADATA)
        ticket, _ = self.runtime.submit(CommitOffsets.of(group, [entry]))
        await self.settle(ticket)
        self.acknowledged[group] = self.value

    async def overwrite(self, commits: int) -> None:
        """The same ten groups again and again; as a client does, which tries again where it must.

        A round that goes on may take for a while what a commit finds to be missing.
        """
        for number in range(commits):
            while True:
                with contextlib.suppress(DiskFull):
                    await self.commit(b"over-%d" % (number % 10))
                    break
                await self.let_time_pass(lambda: not self.is_low())

    async def commit_until_refused(self, prefix: bytes) -> None:
        """One group after the other."""
        for number in range(CAPACITY // len(METADATA)):
            try:
                await self.commit(b"%s-%d" % (prefix, number))
            except DiskFull:
                return
        pytest.fail("the disk did not get full")

    async def delete(self, group: bytes) -> None:
        ticket, _ = self.runtime.submit(DeleteGroup(group_id=group))
        await self.settle(ticket)
        del self.acknowledged[group]

    def fetched(self) -> dict[bytes, int]:
        """What every group that was ever acknowledged is told now."""
        found = {}
        for group in self.acknowledged:
            _, offsets = self.runtime.fetch(group)
            assert isinstance(offsets, list)
            if offsets:
                found[group] = offsets[0].offset
        return found

    async def let_time_pass(self, until: Callable[[], bool]) -> None:
        """Looks at the disk once a second of the clock's, until it is so."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not until():
                self.clock.advance(LOOK_MS)
                self.upkeep.wake()
                await asyncio.sleep(0.01)

    @property
    def log_bytes(self) -> int:
        return sum(log.size_bytes for log in self.store.logs.values())

    def is_low(self) -> bool:
        return self.upkeep.disk.is_low

    async def stop(self) -> None:
        assert self.failures == []
        await asyncio.to_thread(self.runtime.close)

    async def restarted(self, files: SimulatedFiles) -> Node:
        """Another node on a disk as this one's was, which knows what was promised."""
        again = Node(files, self.clock)
        again.acknowledged, again.value = dict(self.acknowledged), self.value
        return again


def new_disk(clock: ManualClock) -> SimulatedFiles:
    files = SimulatedFiles(clock=clock)
    files.make_folder(DATA)
    files.sync_folder(Path("/"))
    files.capacity_bytes = CAPACITY
    return files


def fill(files: SimulatedFiles, *, leaving_bytes: int) -> None:
    """Others take what is free but for so much."""
    file = files.open(OTHERS, create=True)
    is_filled = False
    while not is_filled:
        with contextlib.suppress(OSError):  # The node's threads have taken some of it meanwhile.
            is_filled = file.allocate(0, files.free_bytes(DATA) - leaving_bytes)
    file.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.mark.parametrize("leaving_bytes", [0, 20 * KIB, 600 * KIB])
@pytest.mark.parametrize("segment_bytes", [64 * KIB, 1024 * KIB], ids=["in many", "in active"])
async def test_a_disk_that_holds_what_was_overwritten_is_left_without_an_operator(
    clock: ManualClock, leaving_bytes: int, segment_bytes: int
) -> None:
    files = new_disk(clock)
    config = attrs.evolve(STORE, log=attrs.evolve(STORE.log, segment_bytes_max=segment_bytes))
    node = Node(files, clock, config)
    await node.let_time_pass(lambda: files.exists(DATA / RESERVE_NAME))
    await node.overwrite(1500)
    log_bytes = node.log_bytes
    fill(files, leaving_bytes=leaving_bytes)
    await node.commit_until_refused(b"once")
    assert node.is_low()
    assert node.fetched() == node.acknowledged
    await node.let_time_pass(lambda: not node.is_low())
    assert node.upkeep.relief.rounds >= 1
    await node.let_time_pass(lambda: node.log_bytes < log_bytes / 2)
    # The last logs to be cleaned may have made the disk low again, until the files that went for
    # it are deleted.
    await node.let_time_pass(lambda: files.exists(DATA / RESERVE_NAME) and not node.is_low())
    await node.overwrite(100)
    assert node.fetched() == node.acknowledged
    await node.stop()
    again = await node.restarted(files)
    assert again.fetched() == node.acknowledged
    await again.stop()


async def test_a_disk_full_of_what_is_needed_serves_reads_and_deletions_until_there_is_room(
    clock: ManualClock,
) -> None:
    files = new_disk(clock)
    node = Node(files, clock)
    await node.let_time_pass(lambda: files.exists(DATA / RESERVE_NAME))
    fill(files, leaving_bytes=300 * KIB)
    await node.commit_until_refused(b"once")
    await node.let_time_pass(lambda: not files.exists(DATA / RESERVE_NAME))
    for number in range(20):
        await node.delete(b"once-%d" % number)
    await node.let_time_pass(lambda: node.upkeep.relief.rounds >= 3)
    read = len(node.rounds)
    await node.let_time_pass(lambda: node.upkeep.relief.rounds >= 6)
    assert len(node.rounds) == read, "what is clean is not read again"
    assert node.is_low()
    assert node.fetched() == node.acknowledged
    with pytest.raises(DiskFull):
        await node.commit(b"refused")
    files.unlink(OTHERS)
    await node.let_time_pass(lambda: not node.is_low())
    await node.overwrite(100)
    assert node.fetched() == node.acknowledged
    await node.stop()


async def test_what_is_too_young_to_be_cleaned_is_waited_for(clock: ManualClock) -> None:
    lag_ms = 30_000
    config = attrs.evolve(STORE, log=attrs.evolve(STORE.log, compaction_lag_ms_min=lag_ms))
    files = new_disk(clock)
    node = Node(files, clock, config)
    await node.let_time_pass(lambda: files.exists(DATA / RESERVE_NAME))
    written_ms = clock.now_ms()
    await node.overwrite(1500)
    fill(files, leaving_bytes=0)
    await node.commit_until_refused(b"once")
    await node.let_time_pass(lambda: not node.is_low())
    assert clock.now_ms() > written_ms + lag_ms
    assert node.upkeep.relief.rounds > 1
    await node.overwrite(100)
    assert node.fetched() == node.acknowledged
    await node.stop()


@pytest.mark.parametrize("leaving_bytes", [0, 20 * KIB])
@pytest.mark.parametrize(
    ("power_cut", "reserve"),
    # A power cut takes blocks that were reserved and not synced: without the reserve, what others
    # take of them then is missed, and the start waits for them to go.
    [(False, "held"), (False, "taken by others"), (True, "held")],
)
async def test_a_server_that_dies_on_a_full_disk_starts_on_it_and_leaves_it(
    clock: ManualClock, power_cut: bool, leaving_bytes: int, reserve: str
) -> None:
    files = new_disk(clock)
    node = Node(files, clock)
    await node.let_time_pass(lambda: files.exists(DATA / RESERVE_NAME))
    await node.overwrite(1000)
    await asyncio.to_thread(node.upkeep.stop)  # It dies before it gives the reserve back.
    fill(files, leaving_bytes=leaving_bytes)
    await node.commit_until_refused(b"once")
    left = files.power_cut() if power_cut else files.kill()
    promised = dict(node.acknowledged)
    await node.stop()
    if reserve != "held":
        left.unlink(DATA / RESERVE_NAME)
    fill(left, leaving_bytes=0)
    again = await node.restarted(left)
    assert again.fetched() == promised
    await again.commit_until_refused(b"again")  # A start, too, gives back what was reserved ahead.
    await again.let_time_pass(lambda: not again.is_low())
    await again.overwrite(50)
    assert again.fetched() == again.acknowledged
    await again.stop()
