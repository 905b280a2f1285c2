"""The commit log on a local disk: a `LogStore`, and the thread that flushes it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NoReturn

from offsetd_storage.batch.record_batch import batch_header
from offsetd_storage.errors import StorageError, StorageFailed, StorageFull

from offsetd_coordinator.errors import StorageUnavailable
from offsetd_coordinator.runtime.commit_log import LoggedRuns, PartitionState
from offsetd_coordinator.runtime.flusher import Flusher
from offsetd_coordinator.runtime.storage_refusals import (
    append_refusal,
    quarantined_own_log,
    unavailable,
)
from offsetd_coordinator.runtime.stored_log import StoredLog

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from offsetd_storage.duration_histogram import Durations
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.topic_partition import TopicPartition

    from offsetd_coordinator.errors import CoordinatorError
    from offsetd_coordinator.kernels.columns import Bytes, Int64s


class StoreCommitLog(StoredLog):
    """A `CommitLog` of one node: all partitions fail together, since they share one journal.

    If the disk fails, `on_failed` is called once: the process must exit.
    """

    def __init__(
        self,
        store: LogStore,
        *,
        loop: asyncio.AbstractEventLoop,
        on_failed: Callable[[StorageFailed], None],
    ) -> None:
        super().__init__(store, loop=loop, on_failed=on_failed)
        self._durable = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._kicked = False
        self._flusher = Flusher(
            store,
            on_durable=lambda ticket: loop.call_soon_threadsafe(self._note_durable, ticket),
            on_failed=self.fail_soon,
            on_journal_filling=self._note_journal_filling,
        )
        self._append = store.append

    @property
    def is_from_elsewhere(self) -> bool:
        """Whether the folder had logs of another server when offsetd took it over."""
        return self._store.is_from_elsewhere

    def _note_journal_filling(self) -> None:
        self.on_journal_filling()

    def start(self) -> None:
        """Starts the thread that flushes."""
        self._flusher.start()

    def close(self) -> None:
        """Makes all pending appends durable and closes the store cleanly; blocks. For any thread.

        Raises StorageFailed if that fails.
        """
        self._flusher.stop()
        self._store.close()

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
        """See `CommitLog.append`."""
        topic_partition = self._topic_partitions[partition]
        try:
            self._append(
                topic_partition,
                batch,
                last_offset=last_offset,
                max_timestamp_ms=max_timestamp_ms,
            )
        except StorageError as error:
            self._refuse(error, topic_partition)
        ticket = self.tickets[partition] = self._count_append(is_beside=is_beside)
        return ticket

    def append_runs(self, partitions: list[int], content: Bytes, spans: Int64s) -> LoggedRuns:
        """See `CommitLog.append_runs`."""
        where = [self._topic_partitions[partition] for partition in partitions]
        try:
            appended = self._store.append_runs(where, content, spans)
        except StorageError:
            return LoggedRuns([0] * len(where), [0] * len(where))  # Each is refused alone.
        for refusal in appended.refusals.values():
            if isinstance(refusal, StorageFull):
                self.on_full(refusal)
        tickets = self._count_runs(partitions, appended.batch_counts)
        return LoggedRuns(appended.batch_counts, tickets)

    def _count_runs(self, partitions: list[int], batch_counts: list[int]) -> list[int]:
        """The tickets of runs. A run's ticket is the number of its newest commit."""
        commits = sum(batch_counts)
        if not commits:
            return [0] * len(partitions)
        ticket = self._count_append(commits=commits) - commits
        tickets = []
        for partition, count in zip(partitions, batch_counts, strict=True):
            ticket += count
            tickets.append(ticket)
            if count:
                self.tickets[partition] = ticket
        return tickets

    def append_internal(
        self, topic_partition: TopicPartition, batch: bytes, *, replay: Callable[[bytes], None]
    ) -> int:
        """See `CommitLog.append_internal`."""
        if self.failed is not None:
            raise self.unavailable()
        if (damage := self.damage(topic_partition)) is not None:
            raise quarantined_own_log(topic_partition, damage)
        header = batch_header(batch)  # The time index needs the batch's times.
        try:
            self._append(
                topic_partition,
                batch,
                last_offset=header.last_offset,
                max_timestamp_ms=header.max_timestamp_ms,
            )
        except StorageError as error:
            self._refuse(error, topic_partition)
        try:
            replay(batch)
        except BaseException as error:
            self.fail(error)
            raise StorageUnavailable("an appended batch could not be replayed") from error
        return self._count_append(is_beside=True)

    def _refuse(self, error: StorageError, topic_partition: TopicPartition) -> NoReturn:
        """Raises the answer to an append that the store has refused."""
        if isinstance(error, StorageFailed):
            self.fail(error)
            raise unavailable(error) from error
        if isinstance(error, StorageFull):
            self.on_full(error)
        refusal = append_refusal(error, topic_partition.partition)
        if refusal is None:
            raise error
        raise refusal from error

    def _count_append(self, *, commits: int = 1, is_beside: bool = False) -> int:
        """Returns the ticket of commits that were just appended, and schedules their flush."""
        if not self._kicked:
            # The kick runs after all callbacks that are ready now: one flush for all their appends.
            self._kicked = True
            self._loop.call_soon(self._kick)
        return self._flusher.count_append(commits, is_beside=is_beside)

    def _kick(self) -> None:
        self._kicked = False
        if durable := self._flusher.kick():
            self._note_durable(durable)

    # Durability ------------------------------------------------------------------------------

    def durable(self, ticket: int) -> asyncio.Future[None] | None:
        """See `CommitLog.durable`."""
        if ticket <= self._durable:
            return None
        future: asyncio.Future[None] = self._loop.create_future()
        if self.failed is not None:
            future.set_exception(self.unavailable())
        else:
            # An older ticket after a newer one waits for the newer one: at most one flush longer.
            self._waiting.append((ticket, future))
        return future

    def is_durable(self, ticket: int) -> bool:
        """Whether an answer with this ticket may leave."""
        return ticket <= self._durable

    def lost(self, _: Iterable[int], /) -> CoordinatorError | None:
        """Always None: with one journal, all partitions fail together."""
        return None

    @property
    def losses(self) -> int:
        """See `CommitLog.losses`."""
        return 0

    def _note_durable(self, ticket: int) -> None:
        # The report of the flush thread may come late: the loop may have flushed more since.
        if self.failed is not None or ticket <= self._durable:
            return
        self._durable = ticket
        while self._waiting and self._waiting[0][0] <= ticket:
            future = self._waiting.popleft()[1]
            if not future.done():  # If done, its call was cancelled.
                future.set_result(None)
        if self.on_durable is not None:
            self.on_durable()

    @property
    def batches_not_durable(self) -> int:
        """The number of appended batches that wait for their flush. For any thread."""
        return self._flusher.appended - self._durable

    @property
    def flush_durations(self) -> Durations:
        """The durations of flushes: the journal's write and sync."""
        return self._flusher.flush_durations

    # Failure ---------------------------------------------------------------------------------

    def state(self, partition: int) -> PartitionState:
        """FAILED for a quarantined partition, else SERVING."""
        quarantined = self._store.quarantined
        if quarantined and self._topic_partitions[partition] in quarantined:
            return PartitionState.FAILED
        return PartitionState.SERVING

    @property
    def serves_all(self) -> bool:
        """Whether no partition is quarantined."""
        return not self._store.quarantined

    def durable_end(self, partition: int) -> int:
        """The end of the durable part of a partition (exclusive). For any thread."""
        return self._store.durable_end(self._topic_partitions[partition])

    def _take_waits(self) -> list[asyncio.Future[None]]:
        futures = [future for _, future in self._waiting]
        self._waiting.clear()
        return futures
