"""A `CommitLog` in memory, whose partitions fail, are released and are taken one by one.

Several logs may share a `MemoryTopic`, as nodes share the topic of a cluster. Only one of them may
own a partition at a time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from offsetd_coordinator.errors import (
    CoordinatorError,
    LogPartitionQuarantined,
    NotCoordinator,
    StorageUnavailable,
)
from offsetd_coordinator.runtime.commit_log import LoggedRuns, PartitionState
from offsetd_coordinator.runtime.flusher import as_storage_failed
from offsetd_coordinator.runtime.storage_refusals import unavailable
from offsetd_storage.batch.record_batch import BatchHeader, batch_header
from offsetd_storage.duration_histogram import Durations
from offsetd_storage.kernels import padded_copy

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from offsetd_coordinator.kernels.columns import Bytes, Int64s
    from offsetd_storage.errors import StorageFailed, StorageFull
    from offsetd_storage.recovery.quarantine import Damage
    from offsetd_storage.topic_partition import TopicPartition

REFUSALS: dict[PartitionState, type[CoordinatorError]] = {
    PartitionState.RELEASED: NotCoordinator,
    PartitionState.FAILED: LogPartitionQuarantined,
}


class MemoryPartition:
    """The batches of one log, never compacted; those from `durable_count` on may be lost."""

    segments = ()
    gapless_from = 0
    superseders_end = 0
    leader_epoch = 0
    log_start_offset = 0

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.durable_count = 0

    def append(self, batch: bytes) -> None:
        header = batch_header(batch)
        assert header.size_bytes == len(batch), "one whole batch"
        assert header.base_offset == self.offset_next, "it begins where the log ends"
        self.batches.append(batch)

    def drop_pending(self) -> None:
        """What is not durable is gone."""
        del self.batches[self.durable_count :]

    def _headers(self, count: int | None = None) -> list[BatchHeader]:
        return [batch_header(batch) for batch in self.batches[:count]]

    @property
    def offset_next(self) -> int:
        return batch_header(self.batches[-1]).last_offset + 1 if self.batches else 0

    @property
    def durable_end(self) -> int:
        headers = self._headers(self.durable_count)
        return headers[-1].last_offset + 1 if headers else 0

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.batches))

    def read_chunks(
        self, chunk_bytes: int, *, offset: int = 0, offset_limit: int | None = None
    ) -> Iterator[tuple[Bytes, int]]:
        """A batch at a time."""
        for batch, header in zip(tuple(self.batches), self._headers(), strict=True):
            if header.last_offset < offset:
                continue
            if offset_limit is not None and header.last_offset >= offset_limit:
                return
            yield padded_copy(batch), len(batch)

    def offset_for_timestamp(self, timestamp_ms: int) -> int | None:
        found = (each for each in self._headers() if each.max_timestamp_ms >= timestamp_ms)
        return next((each.base_offset for each in found), None)


class MemoryTopic:
    """The partitions of an offsets topic, and their owners."""

    def __init__(self, partitions: int) -> None:
        self.logs = [MemoryPartition() for _ in range(partitions)]
        self.owners: dict[int, MemoryCommitLog] = {}


class MemoryCommitLog:
    """One node's view of a topic. It flushes in the loop's next turn, unless it `holds`."""

    is_from_elsewhere = False

    def __init__(self, topic: MemoryTopic, owned: Collection[int] = ()) -> None:
        self.partitions = len(topic.logs)
        self.tickets = dict.fromkeys(range(self.partitions), 0)
        self.failed: StorageFailed | None = None
        self.on_durable: Callable[[], None] | None = None
        self.on_full: Callable[[StorageFull], object] = lambda _: None
        self.holds = False
        self.flush_durations = Durations()
        self._topic = topic
        self._loop = asyncio.get_running_loop()
        self._states = dict.fromkeys(range(self.partitions), PartitionState.RELEASED)
        self._internal: dict[TopicPartition, MemoryPartition] = {}
        self._appended = 0
        self._pending: dict[int, int | None] = {}  # Partitions by ticket; None: an internal log.
        self._lost: dict[int, tuple[int, type[CoordinatorError]]] = {}  # By ticket.
        self.losses = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        for partition in owned:
            self.begin_load(partition)
            self.serve(partition)

    def start(self) -> None:
        pass

    def close(self) -> None:
        """Off the loop's thread: nobody waits any more."""
        self._settle()

    # What tests do to it ---------------------------------------------------------------------

    def begin_load(self, partition: int) -> None:
        """Becomes the owner of a partition, which has none or is this one's."""
        assert self._topic.owners.setdefault(partition, self) is self, "it has another owner"
        self._states[partition] = PartitionState.LOADING

    def serve(self, partition: int) -> None:
        assert self._states[partition] is PartitionState.LOADING
        self._states[partition] = PartitionState.SERVING

    def release(self, partition: int) -> None:
        """Gives up a partition once what waits is durable."""
        self.flush()
        self._leave(partition, PartitionState.RELEASED)

    def lose(self, partition: int) -> None:
        """Another node took the partition: what is not durable never will be."""
        self._leave(partition, PartitionState.RELEASED)

    def damage_partition(self, partition: int) -> None:
        """The partition's log can be neither written nor read."""
        self._leave(partition, PartitionState.FAILED)

    def flush(self) -> None:
        """All that was appended is durable."""
        self._settle()
        self._answer()

    def _leave(self, partition: int, state: PartitionState) -> None:
        self._states[partition] = state
        if self._topic.owners.get(partition) is self:
            del self._topic.owners[partition]
            self._topic.logs[partition].drop_pending()
        for ticket in [each for each, owner in self._pending.items() if owner == partition]:
            del self._pending[ticket]
            self._lost[ticket] = partition, REFUSALS[state]
            self.losses += 1
        self.tickets[partition] = 0
        self._answer()

    def internal_log(self, topic_partition: TopicPartition) -> MemoryPartition:
        """A log of this node's own."""
        return self._internal.setdefault(topic_partition, MemoryPartition())

    # Appending -------------------------------------------------------------------------------

    def append(
        self,
        partition: int,
        batch: bytes,
        *,
        last_offset: int,
        max_timestamp_ms: int,
        is_beside: bool = False,
    ) -> int:
        header = batch_header(batch)
        assert (header.last_offset, header.max_timestamp_ms) == (last_offset, max_timestamp_ms)
        self._check_owned(partition)
        self._topic.logs[partition].append(batch)
        ticket = self.tickets[partition] = self._count(partition)
        return ticket

    def append_runs(self, partitions: list[int], content: Bytes, spans: Int64s) -> LoggedRuns:
        counts, tickets = [], []
        for partition, (start, end) in zip(partitions, spans.tolist(), strict=True):
            self._check_owned(partition)
            batches = list(_batches(content[start:end].tobytes()))
            for batch in batches:
                self._topic.logs[partition].append(batch)
                self.tickets[partition] = self._count(partition)
            counts.append(len(batches))
            tickets.append(self.tickets[partition])
        return LoggedRuns(counts, tickets)

    def append_internal(
        self, topic_partition: TopicPartition, batch: bytes, *, replay: Callable[[bytes], None]
    ) -> int:
        self.internal_log(topic_partition).append(batch)
        replay(batch)
        return self._count(None)

    def _check_owned(self, partition: int) -> None:
        assert self._states[partition] is PartitionState.SERVING, "only those are written to"
        assert self._topic.owners[partition] is self, "another node owns it"

    def _count(self, partition: int | None) -> int:
        self._appended += 1
        self._pending[self._appended] = partition
        self._loop.call_soon(self._flush_unless_held)
        return self._appended

    def _flush_unless_held(self) -> None:
        if not self.holds and self.failed is None:
            self.flush()

    # Durability ------------------------------------------------------------------------------

    def durable(self, ticket: int) -> asyncio.Future[None] | None:
        lost = self.lost([ticket])
        if lost is None and self.failed is None and self.is_durable(ticket):
            return None
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((ticket, future))
        self._answer()
        return future

    def is_durable(self, ticket: int) -> bool:
        """Also what was lost: `lost` says so."""
        return self.failed is None and all(each > ticket for each in self._pending)

    def lost(self, tickets: Iterable[int], /) -> CoordinatorError | None:
        for ticket in tickets:
            if ticket in self._lost:
                partition, refusal = self._lost[ticket]
                return refusal("log partition {log_partition} is lost", log_partition=partition)
        return None

    def _settle(self) -> None:
        for partition in set(self._pending.values()) - {None}:
            assert partition is not None
            log = self._topic.logs[partition]
            log.durable_count = len(log.batches)
        self._pending.clear()

    def _answer(self) -> None:
        waiting, self._waiting = self._waiting, []
        for ticket, future in waiting:
            if future.done():
                continue
            lost = self.lost([ticket])
            if lost is not None:
                future.set_exception(lost)
            elif self.failed is not None:
                future.set_exception(self.unavailable())
            elif self.is_durable(ticket):
                future.set_result(None)
            else:
                self._waiting.append((ticket, future))
        if self.on_durable is not None:
            self.on_durable()

    @property
    def batches_not_durable(self) -> int:
        return len(self._pending)

    # Reading, and failure --------------------------------------------------------------------

    def state(self, partition: int) -> PartitionState:
        return self._states[partition]

    @property
    def serves_all(self) -> bool:
        return all(each is PartitionState.SERVING for each in self._states.values())

    def reader(self, partition: int) -> MemoryPartition:
        return self._topic.logs[partition]

    def durable_end(self, partition: int) -> int:
        return self._topic.logs[partition].durable_end

    def damage(self, topic_partition: TopicPartition) -> Damage | None:
        return None

    def unavailable(self) -> StorageUnavailable:
        assert self.failed is not None
        return unavailable(self.failed)

    def fail_soon(self, error: BaseException) -> None:
        self._loop.call_soon_threadsafe(self.fail, error)

    def fail(self, error: BaseException) -> None:
        self.failed = self.failed or as_storage_failed(error)
        self._answer()


def _batches(run: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(run):
        size = batch_header(run, position).size_bytes
        yield run[position : position + size]
        position += size
