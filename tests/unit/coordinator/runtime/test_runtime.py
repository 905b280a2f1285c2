"""The one writer: tickets, what waits for a flush, and what a failing disk does to it all."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_coordinator.configuration.dynamic_settings import CommitGuardConfig, ExpiryConfig
from offsetd_coordinator.errors import (
    CommitRateExceeded,
    CoordinatorError,
    CoordinatorNotAvailable,
    DiskFull,
    GroupIdNotFound,
    InvalidCommitSize,
    LogPartitionQuarantined,
    NotCoordinator,
    StorageUnavailable,
)
from offsetd_coordinator.requests import (
    CommitOffsets,
    CommitReply,
    Decision,
    DeleteGroup,
    DeleteGroupReply,
    DeleteOffsets,
    DeleteOffsetsReply,
    OffsetEntry,
)
from offsetd_coordinator.runtime.flusher import FlushPace
from offsetd_coordinator.runtime.runtime import Runtime
from offsetd_coordinator.runtime.store_commit_log import StoreCommitLog
from offsetd_coordinator.state.group_search import GroupSearch
from offsetd_storage.clock import ManualClock
from offsetd_storage.errors import (
    InvalidTimestamp,
    JournalTooSmall,
    PartitionQuarantined,
    RecordTooLarge,
    StorageError,
    StorageFailed,
    StorageFull,
)
from offsetd_storage.log_store import OFFSETS_TOPIC
from offsetd_storage.offsets_topic.placement import partition_of
from offsetd_storage.topic_partition import TopicPartition
from patience import PATIENCE_SECONDS
from server_process import poll
from shards import batch_of, new_shard, offset_key, offset_value, replay, replayed, state_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from offsetd_coordinator.shard.shard import Shard

PARTITIONS = 4


class FakeStore:
    """Appends are listed, flushes wait for the gate."""

    def __init__(self) -> None:
        self.partitions = PARTITIONS
        self.quarantined: dict[TopicPartition, str] = {}
        self.appended: list[tuple[TopicPartition, bytes]] = []
        self.append_error: StorageError | None = None
        self.appends_left = 0  # Before `append_error` is raised.
        self.flush_error: StorageError | None = None
        self.gate = threading.Event()
        self.failed: StorageFailed | None = None
        self.journal_used_ratio = 0.0
        self.closed = False

    def append(
        self,
        topic_partition: TopicPartition,
        batch: bytes,
        *,
        last_offset: int,
        max_timestamp_ms: int,
    ) -> None:
        if self.append_error is not None and self.appends_left == 0:
            raise self.append_error
        self.appends_left = max(0, self.appends_left - 1)
        self.appended.append((topic_partition, batch))

    def flush(self) -> None:
        assert self.gate.wait(PATIENCE_SECONDS)
        if self.flush_error is not None:
            raise self.flush_error

    def bound_unwritten(self) -> None:
        pass

    def advance_recovery_points(self) -> None:
        raise AssertionError("not in these tests")

    def close(self) -> None:
        self.closed = True


class FakeShard:
    """Answers every commit, except those of the group `refused`."""

    def __init__(self) -> None:
        self.applied: list[Decision] = []
        self.apply_error: Exception | None = None

    def keep_lag_of(self, window_ms: int) -> None:
        """Keeps none."""

    def decide(self, request: Any, now_ms: int, monotonic_ms: int = 0) -> Decision:
        if request.group_id == b"refused":
            return Decision(request, None, GroupIdNotFound("no such group"))
        offset = len(self.applied)
        return Decision(request, CommitReply(offset), None, b"batch", offset, now_ms)

    def apply(self, decision: Decision) -> None:
        if self.apply_error is not None:
            raise self.apply_error
        self.applied.append(decision)

    def fetch(
        self, group_id: bytes, partitions: object = None, *, require_stable: bool = False
    ) -> list[int]:
        if group_id == b"refused":
            raise GroupIdNotFound("no such group")
        return [len(self.applied)]


class FakeDisk:
    """Low when told so."""

    def __init__(self) -> None:
        self.is_low = False
        self.refusals: list[StorageFull] = []

    def note_full(self, refusal: StorageFull) -> None:
        self.refusals.append(refusal)


class Run:
    """A runtime over fakes."""

    def __init__(self) -> None:
        self.store = FakeStore()
        self.shards = {partition: FakeShard() for partition in range(PARTITIONS)}
        self.failures: list[StorageFailed] = []
        self.disk = FakeDisk()
        self.log = StoreCommitLog(
            self.store,  # type: ignore[arg-type]
            loop=asyncio.get_running_loop(),
            on_failed=self.failures.append,
        )
        self.runtime = Runtime(
            self.log,
            self.shards,  # type: ignore[arg-type]
            clock=ManualClock(),
            disk=self.disk,
        )
        self.runtime.start()

    def commit(self, group: bytes) -> tuple[int, object]:
        request = CommitOffsets.of(group, [OffsetEntry(topic=b"t", partition=0, offset=1)])
        return self.runtime.submit(request)

    async def wait(self, ticket: int) -> None:
        waiting = self.runtime.durable(ticket)
        if waiting is not None:
            await asyncio.wait_for(waiting, PATIENCE_SECONDS)

    async def close(self) -> None:
        self.store.gate.set()
        await asyncio.to_thread(self.runtime.close)


@pytest.fixture
async def run() -> AsyncIterator[Run]:
    """Closed at the end: a flush that goes on waiting would report to a loop that is gone."""
    run = Run()
    yield run
    await run.close()


def group_in(partition: int, number: int = 0) -> bytes:
    """Some group of a partition."""
    names = (f"g{n}" for n in range(10_000))
    return [n for n in names if partition_of(n, PARTITIONS) == partition][number].encode()


async def test_a_commit_is_appended_and_replayed_at_once_and_waits_for_the_flush(run: Run) -> None:
    ticket, outcome = run.commit(group_in(1))
    assert outcome == CommitReply(0)
    assert run.store.appended == [(TopicPartition(OFFSETS_TOPIC, 1), b"batch")]
    assert len(run.shards[1].applied) == 1
    waiting = run.runtime.durable(ticket)
    assert waiting is not None
    await asyncio.sleep(0.05)
    assert not waiting.done()
    run.store.gate.set()
    await asyncio.wait_for(waiting, PATIENCE_SECONDS)
    assert run.runtime.durable(ticket) is None


async def test_a_commit_that_is_flushed_at_once_is_answered(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller is alone: the loop's own thread flushes, and tells whoever waits."""
    monkeypatch.setattr(FlushPace, "is_alone", True)
    flushing: list[threading.Thread] = []
    flush = run.store.flush

    def noted() -> None:
        flushing.append(threading.current_thread())
        flush()

    monkeypatch.setattr(run.store, "flush", noted)
    run.store.gate.set()
    flusher = run.log._flusher
    for _ in range(3):
        await asyncio.to_thread(poll, lambda: flusher._is_waiting, PATIENCE_SECONDS)
        ticket, _ = run.commit(group_in(1))
        await run.wait(ticket)
    assert flushing == [threading.main_thread()] * 3


async def test_a_report_of_the_flush_thread_that_comes_late_takes_nothing_back(run: Run) -> None:
    run.store.gate.set()
    first, _ = run.commit(group_in(1))
    second, _ = run.commit(group_in(1))
    await run.wait(second)
    run.log._note_durable(first)
    assert run.runtime.is_durable(second)


async def test_a_refusal_and_a_read_wait_for_what_their_shard_has_not_flushed(run: Run) -> None:
    busy = partition_of("refused", PARTITIONS)
    group = group_in(busy)
    idle_group = group_in((busy + 1) % PARTITIONS)
    run.commit(group)
    refused_ticket, refusal = run.commit(b"refused")
    assert isinstance(refusal, GroupIdNotFound)
    read_ticket, _ = run.runtime.fetch(group)
    failed_read_ticket, failure = run.runtime.fetch(b"refused")
    assert isinstance(failure, GroupIdNotFound)
    for ticket in (refused_ticket, read_ticket, failed_read_ticket):
        assert run.runtime.durable(ticket) is not None
    idle_ticket, _ = run.runtime.fetch(idle_group)
    assert run.runtime.durable(idle_ticket) is None, "rests on another shard only"
    run.store.gate.set()
    await run.wait(refused_ticket)
    assert run.runtime.is_durable(read_ticket)
    assert run.runtime.is_durable(failed_read_ticket)


async def test_a_caller_that_goes_away_leaves_the_others_waiting_well(run: Run) -> None:
    first = run.runtime.durable(run.commit(group_in(0))[0])
    second = run.runtime.durable(run.commit(group_in(0))[0])
    assert first is not None
    assert second is not None
    first.cancel()
    run.store.gate.set()
    await asyncio.wait_for(second, PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (StorageFull("no room"), DiskFull),
        (InvalidTimestamp("too old", timestamp_ms=1, record=0), CoordinatorNotAvailable),
        (RecordTooLarge("too large"), InvalidCommitSize),
        (JournalTooSmall("not yet"), CoordinatorNotAvailable),
        (PartitionQuarantined("damaged"), LogPartitionQuarantined),
    ],
)
async def test_what_the_store_refuses_changes_nothing(
    error: StorageError, expected: type[CoordinatorError], run: Run
) -> None:
    run.store.append_error = error
    with pytest.raises(expected):
        run.commit(group_in(0))
    assert run.shards[0].applied == []
    assert run.failures == []
    run.store.append_error = None
    assert run.commit(group_in(0))[1] == CommitReply(0)


async def test_on_a_low_disk_commits_are_refused_and_the_rest_goes_on(run: Run) -> None:
    group = group_in(1)
    shard = replay(new_shard(1), large_group(group))
    run.shards[1] = shard  # type: ignore[assignment]
    entry = OffsetEntry(topic=b"t", partition=0, offset=7)
    done = CommitOffsets.of(group, [entry], b"once")
    before = run.runtime.submit(done)[1]
    state = state_of(shard)
    run.disk.is_low = True
    with pytest.raises(DiskFull, match="nothing was written"):
        run.runtime.submit(CommitOffsets.of(group, [entry], b"again"))
    assert state_of(shard) == state
    assert run.runtime.submit(done)[1] == before, "it was done, and is only asked for again"
    assert len(run.store.appended) == 1
    fetched = run.runtime.fetch(group)[1]
    assert isinstance(fetched, list)
    assert len(fetched) == 50
    deleted = run.runtime.submit(DeleteOffsets(group_id=group, topics=(b"t",)))[1]
    assert isinstance(deleted, DeleteOffsetsReply)
    assert len(deleted.deleted) == 50
    assert isinstance(run.runtime.submit(DeleteGroup(group_id=group))[1], GroupIdNotFound)
    run.disk.is_low = False
    assert isinstance(run.runtime.submit(CommitOffsets.of(group, [entry]))[1], CommitReply)
    assert run.disk.refusals == []


async def test_an_append_without_room_is_told_to_whoever_sees_to_the_disk(run: Run) -> None:
    error = StorageFull("no room")
    run.store.append_error = error
    with pytest.raises(DiskFull):
        run.commit(group_in(0))
    assert run.disk.refusals == [error]


def use_real_shard(run: Run, *, unchanged_ms: int = 0, rate_max: int = 0) -> Shard:
    """Puts a real shard in place of the fake one of partition 1, and guards it."""
    shard = new_shard(1)
    run.shards[1] = shard  # type: ignore[assignment]
    run.runtime.configure(
        CommitGuardConfig(rate_max=rate_max), ExpiryConfig(unchanged_commit_ms=unchanged_ms)
    )
    return shard


async def test_an_answer_without_a_record_waits_for_the_one_that_is_stored(run: Run) -> None:
    group = group_in(1)
    use_real_shard(run, unchanged_ms=1000)
    first_ticket, first = run.commit(group)
    ticket, again = run.commit(group)
    assert again == first == CommitReply(0)
    assert len(run.store.appended) == 1
    assert ticket == first_ticket
    assert run.runtime.durable(ticket) is not None
    assert run.runtime.commit_guards.unchanged_commits == 1
    run.disk.is_low = True
    assert run.commit(group)[1] == first, "it takes no room"
    run.store.gate.set()
    await run.wait(ticket)


async def test_a_commit_beyond_the_rate_changes_nothing(run: Run) -> None:
    group = group_in(1)
    shard = use_real_shard(run, rate_max=1)
    run.commit(group)
    before = state_of(shard)
    with pytest.raises(CommitRateExceeded):
        run.commit(group)
    assert (len(run.store.appended), state_of(shard)) == (1, before)
    assert run.commit(group_in(1, 1))[1] == CommitReply(1)
    assert run.runtime.submit(DeleteGroup(group_id=group))[1] == DeleteGroupReply(3, 1)


def large_group(group: bytes) -> bytes:
    """A batch with 50 offsets of a group: their tombstones will be several batches."""
    records = [(offset_key(group.decode(), "t", number), offset_value(1)) for number in range(50)]
    return batch_of(0, *records)


def use_large_group(run: Run, group: bytes) -> Shard:
    """Puts a real shard with a large group in place of the fake one."""
    shard = replay(new_shard(1, message_bytes_max=500), large_group(group))
    run.shards[1] = shard  # type: ignore[assignment]
    return shard


async def test_several_batches_are_appended_at_once_and_wait_for_the_flush_of_the_last(
    run: Run,
) -> None:
    group = group_in(1)
    shard = use_large_group(run, group)
    ticket, outcome = run.runtime.submit(DeleteGroup(group_id=group))
    assert outcome == DeleteGroupReply(100, 50)
    batches = [batch for _, batch in run.store.appended]
    assert len(batches) > 2
    assert state_of(replayed(large_group(group), *batches)) == state_of(shard)
    assert shard.offset_next == 101
    assert run.runtime.durable(ticket) is not None
    run.store.gate.set()
    await run.wait(ticket)


@pytest.mark.parametrize("appended", [0, 1, 2])
async def test_what_was_appended_before_the_disk_was_full_is_known_and_can_be_done_again(
    appended: int,
    run: Run,
) -> None:
    group = group_in(1)
    shard = use_large_group(run, group)
    request = DeleteGroup(group_id=group, request_id=b"one")
    run.store.append_error, run.store.appends_left = StorageFull("no room"), appended
    if appended == 0:
        with pytest.raises(DiskFull, match="nothing"):
            run.runtime.submit(request)
    else:
        ticket, outcome = run.runtime.submit(request)
        assert isinstance(outcome, DiskFull)
        assert "first part" in str(outcome)
        assert run.runtime.durable(ticket) is not None, "it tells of what is not flushed"
    assert len(run.store.appended) == appended
    assert run.failures == []
    log = [large_group(group), *(batch for _, batch in run.store.appended)]
    assert state_of(replayed(*log)) == state_of(shard)
    left = len(shard.fetch(group))
    assert (left == 50) == (appended == 0)
    run.store.append_error = None
    assert run.runtime.submit(request)[1] == DeleteGroupReply(100, left)
    assert not any(state_of(shard).values())


async def test_a_disk_that_fails_between_two_batches_stops_everything(run: Run) -> None:
    group = group_in(1)
    use_large_group(run, group)
    run.store.append_error, run.store.appends_left = StorageFailed("gone"), 1
    with pytest.raises(StorageUnavailable):
        run.runtime.submit(DeleteGroup(group_id=group))
    assert len(run.failures) == 1


@pytest.mark.parametrize("where", ["append", "apply", "flush"])
async def test_after_a_failure_nothing_is_acknowledged(where: str, run: Run) -> None:
    group = group_in(0)
    waiting = run.runtime.durable(run.commit(group)[0])
    assert waiting is not None
    if where == "append":
        run.store.append_error = StorageFailed("gone")
    elif where == "apply":
        run.shards[0].apply_error = ValueError("defect")
    else:
        run.store.flush_error = StorageFailed("gone")
    if where != "flush":
        with pytest.raises(StorageUnavailable):
            run.commit(group)
    run.store.gate.set()
    with pytest.raises(StorageUnavailable):
        await asyncio.wait_for(waiting, PATIENCE_SECONDS)
    await asyncio.sleep(0.05)  # A flush that was under way may still report; it must not count.
    assert len(run.failures) == 1
    assert run.runtime.failed is run.failures[0]
    with pytest.raises(StorageUnavailable):
        run.commit(group)
    with pytest.raises(StorageUnavailable):
        run.runtime.fetch(group)
    with pytest.raises(StorageUnavailable):
        run.runtime.list_groups(0, GroupSearch())
    late = run.runtime.durable(10)
    assert late is not None
    with pytest.raises(StorageUnavailable):
        await late


async def test_a_damaged_and_an_absent_partition_refuse_and_the_others_serve(run: Run) -> None:
    run.store.quarantined[TopicPartition(OFFSETS_TOPIC, 2)] = "rot"
    del run.shards[3]
    for partition, refusal in ((2, LogPartitionQuarantined), (3, NotCoordinator)):
        with pytest.raises(refusal):
            run.commit(group_in(partition))
        with pytest.raises(refusal):
            run.runtime.fetch(group_in(partition))
    assert run.commit(group_in(1))[1] == CommitReply(0)
    assert run.log.damage(TopicPartition(OFFSETS_TOPIC, 2)) is not None


async def test_close_makes_everything_durable_and_closes_the_store(run: Run) -> None:
    waiting = run.runtime.durable(run.commit(group_in(0))[0])
    assert waiting is not None
    await run.close()
    await asyncio.wait_for(waiting, PATIENCE_SECONDS)
    assert run.store.closed
