"""The commit log on a Kafka cluster: frames are transactions, and the local store is a copy.

An append waits in the open frame until a transaction has committed it. Only then does it enter the
local store, so that history, watchers and the cleaner see committed records only.

*Read lease*: an answer may leave only if the node has proved recently that it owns its partitions.
The proof is a transaction with the node's generation. If the last one is too old, `durable` waits
for one that begins after the call.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from offsetd_storage.batch.batch_runs import split_run
from offsetd_storage.batch.record_batch import batch_header
from offsetd_storage.duration_histogram import Durations
from offsetd_storage.errors import StorageError

from offsetd_coordinator.cluster.copy_appends import append_to_copy
from offsetd_coordinator.errors import CoordinatorNotAvailable, NotCoordinator, StorageUnavailable
from offsetd_coordinator.runtime.commit_log import LoggedRuns, PartitionState
from offsetd_coordinator.runtime.storage_refusals import append_refusal, quarantined_own_log
from offsetd_coordinator.runtime.stored_log import StoredLog

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Iterable

    from offsetd_storage.errors import StorageFailed
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.topic_partition import TopicPartition

    from offsetd_coordinator.cluster.frames import OpenFrame
    from offsetd_coordinator.cluster.transactions import CommittedFrame
    from offsetd_coordinator.errors import CoordinatorError
    from offsetd_coordinator.kernels.columns import Bytes, Int64s

# The most lost tickets that are remembered. Answers that rest on them are refused.
_LOST_TICKETS_MAX: Final = 1_000_000


class _Wait(NamedTuple):
    """A call that waits for a ticket. If it waits for a proof, it waits for a frame, too."""

    ticket: int
    future: asyncio.Future[None]
    partition: int
    """The partition of the ticket; -1 if a later append has superseded the ticket."""
    frame: int = 0
    may_be_write: bool = False
    """Whether the call may be a write that is committed already, and waits only for a proof."""


class KafkaCommitLog(StoredLog):
    """A `CommitLog` of one node of a cluster. Its partitions are taken and given up one by one.

    If the node is fenced, or its disk fails, `on_failed` is called once: the process must exit.
    """

    def __init__(
        self,
        store: LogStore,
        frames: OpenFrame,
        *,
        loop: asyncio.AbstractEventLoop,
        read_lease_seconds: float,
        on_failed: Callable[[StorageFailed], None],
        on_copied: Callable[[dict[int, int]], None] = lambda _: None,
    ) -> None:
        """`on_copied` gets the Kafka offsets up to which the copies are complete, by partition."""
        super().__init__(store, loop=loop, on_failed=on_failed)
        self.is_from_elsewhere = False
        self.flush_durations = Durations()
        self.serves_all = False
        self._frames = frames
        self._lease_s = read_lease_seconds
        self._on_copied = on_copied
        self._states = dict.fromkeys(range(store.partitions), PartitionState.RELEASED)
        self._durable = 0
        self._proved_until_s = 0.0
        self._waiting: deque[_Wait] = deque()
        self._proofs: deque[_Wait] = deque()
        self._frame_waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._lost: dict[int, CoordinatorError] = {}
        self._partition_of: dict[int, int] = {}  # Of the newest ticket of each partition.
        self._lost_until: dict[int, int] = {}  # The newest ticket of all at each partition's loss.
        self.losses = 0
        self._kicked = False

    def start(self) -> None:
        """Does nothing: the node starts the transactions when it joins its group."""

    def close(self) -> None:
        """Closes the copy; blocks. The transactions have ended before. For any thread."""
        self._store.close()

    # Ownership -------------------------------------------------------------------------------

    def begin_load(self, partitions: Iterable[int]) -> None:
        """Notes that the node becomes the owner of these partitions."""
        for partition in partitions:
            self._states[partition] = PartitionState.LOADING

    def serve(self, partition: int) -> None:
        """Starts to serve a partition whose copy is complete, after its claim was committed."""
        # A new ticket: it belongs to this partition alone, so `lose` can find the answers.
        self._note_ticket(partition, self._frames.next_ticket())
        self._states[partition] = PartitionState.SERVING
        self._note_serving()
        self._frames.want()
        self._kick_soon()

    def leave(self, partition: int) -> None:
        """Stops serving a partition. What is appended may still be committed."""
        self._states[partition] = PartitionState.RELEASED
        self._note_serving()

    def lose(self, partitions: Collection[int]) -> None:
        """Refuses all answers that rest on these partitions and did not leave yet."""
        # If this node soon owns them again, the next term has not read what waits now.
        self._frames.drop(partitions)
        unanswered = {each.ticket for each in self._proofs if each.may_be_write}
        for partition in partitions:
            self.leave(partition)
            if ticket := self.tickets[partition]:  # Without one it was never served.
                # Only this node knows that it lost the partition. The brokers may still commit it.
                is_sent = self._durable < ticket <= self._frames.taken_ticket
                is_committed = ticket in unanswered
                self._note_lost(ticket, partition, may_be_committed=is_sent or is_committed)
                self._note_ticket(partition, 0)
            self._lost_until[partition] = self._frames.ticket
        self._waiting = self._refused(self._waiting)
        self._proofs = self._refused(self._proofs)
        self._refuse_unprovable()
        if self.on_durable is not None:
            self.on_durable()

    def _refused(self, waits: deque[_Wait]) -> deque[_Wait]:
        """Refuses the waits for lost tickets, and returns the others."""
        left = deque[_Wait]()
        for wait in waits:
            if wait.ticket in self._lost:
                self._end(wait)
            else:
                left.append(wait)
        return left

    def _refuse_unprovable(self) -> None:
        """Refuses the calls that wait for a proof of a partition that was lost since.

        Later frames prove only that the node owns other partitions. A ticket that was superseded
        before its call began to wait may be of a lost partition, so its call is refused, too.
        """
        left = deque[_Wait]()
        for wait in self._proofs:
            if self._is_from_before_loss(wait.ticket, wait.partition):
                if not wait.future.done():
                    wait.future.set_exception(_unprovable(may_be_committed=wait.may_be_write))
            else:
                left.append(wait)
        self._proofs = left

    def _is_from_before_loss(self, ticket: int, partition: int) -> bool:
        if partition < 0:  # Ticket 0 rests on no partition: a refusal that reads nothing.
            return 0 < ticket <= max(self._lost_until.values(), default=0)
        return ticket <= self._lost_until.get(partition, 0)

    def _note_ticket(self, partition: int, ticket: int) -> None:
        self._partition_of.pop(self.tickets[partition], None)
        self.tickets[partition] = ticket
        if ticket:
            self._partition_of[ticket] = partition

    def _note_serving(self) -> None:
        states = self._states.values()
        self.serves_all = all(each is PartitionState.SERVING for each in states)

    def _note_lost(self, ticket: int, partition: int, *, may_be_committed: bool) -> None:
        self._lost[ticket] = _refusal(partition, may_be_committed=may_be_committed)
        self.losses += 1
        while len(self._lost) > _LOST_TICKETS_MAX:
            del self._lost[next(iter(self._lost))]

    # Appending -------------------------------------------------------------------------------

    def append(
        self,
        partition: int,
        batch: bytes,
        *,
        last_offset: int,
        max_timestamp_ms: int,
        is_beside: bool = False,  # noqa: ARG002  Flushes do not wait for more commits.
    ) -> int:
        """See `CommitLog.append`."""
        self._refuse_unless_writable(partition, len(batch))
        ticket = self._frames.add(
            self._topic_partitions[partition],
            batch,
            last_offset=last_offset,
            max_timestamp_ms=max_timestamp_ms,
        )
        self._note_ticket(partition, ticket)
        self._kick_soon()
        return ticket

    def append_runs(self, partitions: list[int], content: Bytes, spans: Int64s) -> LoggedRuns:
        """See `CommitLog.append_runs`."""
        counts, tickets = [], []
        for partition, (start, end) in zip(partitions, spans.tolist(), strict=True):
            count = 0
            for batch in split_run(content[start:end].tobytes()):
                header = batch_header(batch)
                try:
                    self.append(
                        partition,
                        batch,
                        last_offset=header.last_offset,
                        max_timestamp_ms=header.max_timestamp_ms,
                    )
                # The caller appends the others one by one, and gets the refusal there.
                except (CoordinatorNotAvailable, NotCoordinator, StorageUnavailable):
                    break
                count += 1
            counts.append(count)
            tickets.append(self.tickets[partition])
        return LoggedRuns(counts, tickets)

    def append_internal(
        self, topic_partition: TopicPartition, batch: bytes, *, replay: Callable[[bytes], None]
    ) -> int:
        """See `CommitLog.append_internal`."""
        if self.failed is not None:
            raise self.unavailable()
        if (damage := self.damage(topic_partition)) is not None:
            raise quarantined_own_log(topic_partition, damage)
        header = batch_header(batch)
        ticket = self._frames.add(
            topic_partition,
            batch,
            last_offset=header.last_offset,
            max_timestamp_ms=header.max_timestamp_ms,
            is_own=True,
        )
        self._kick_soon()
        try:
            replay(batch)
        except BaseException as error:
            self.fail(error)
            raise StorageUnavailable("an appended batch could not be replayed") from error
        return ticket

    def _refuse_unless_writable(self, partition: int, batch_bytes: int) -> None:
        if self.failed is not None:
            raise self.unavailable()
        if self._states[partition] is not PartitionState.SERVING:
            raise NotCoordinator(
                "this server does not serve log partition {log_partition}", log_partition=partition
            )
        try:
            log = self._store.log(self._topic_partitions[partition])
            self._store.journal_size.refuse_large(log, batch_bytes)
        except StorageError as error:
            refusal = append_refusal(error, partition)
            raise (error if refusal is None else refusal) from error

    def _kick_soon(self) -> None:
        if not self._kicked:
            # After all callbacks that are ready now: one transaction for all their appends.
            self._kicked = True
            self._loop.call_soon(self._kick)

    def _kick(self) -> None:
        self._kicked = False
        self._frames.kick()

    # Durability ------------------------------------------------------------------------------

    def durable(self, ticket: int) -> asyncio.Future[None] | None:
        """See `CommitLog.durable`. Waits for a proof too, if the read lease has ended."""
        is_proved = time.monotonic() < self._proved_until_s
        is_failed_or_lost = self.failed is not None or ticket in self._lost
        if is_proved and ticket <= self._durable and not is_failed_or_lost:
            return None
        future: asyncio.Future[None] = self._loop.create_future()
        partition = self._partition_of.get(ticket, -1)
        if self.failed is not None:
            future.set_exception(self.unavailable())
        elif (lost := self.lost((ticket,))) is not None:
            future.set_exception(lost)
        elif ticket > self._durable:
            self._waiting.append(_Wait(ticket, future, partition))
        elif self._is_from_before_loss(ticket, partition):
            future.set_exception(_unprovable(may_be_committed=False))
        else:
            self._proofs.append(_Wait(ticket, future, partition, self._frames.want()))
            self._kick_soon()
        return future

    def unproved_seconds(self) -> float:
        """The time since the read lease ended; 0 if it has not, or no partition is served."""
        if PartitionState.SERVING not in self._states.values():
            return 0.0
        return max(0.0, time.monotonic() - self._proved_until_s)

    def is_durable(self, ticket: int) -> bool:
        """See `CommitLog.is_durable`. True for a lost ticket, too: `lost` has its refusal."""
        if ticket > self._durable:
            return False
        return ticket in self._lost or time.monotonic() < self._proved_until_s

    def lost(self, tickets: Iterable[int], /) -> CoordinatorError | None:
        """See `CommitLog.lost`."""
        if not self._lost:
            return None
        for ticket in tickets:
            if (refusal := self._lost.get(ticket)) is not None:
                return refusal
        return None

    def frame_committed(self, number: int) -> asyncio.Future[None]:
        """Ends when the frame with this number is committed. Raises StorageUnavailable."""
        future: asyncio.Future[None] = self._loop.create_future()
        if self.failed is not None:
            future.set_exception(self.unavailable())
        else:
            self._frame_waiters.append((number, future))
        return future

    def note_committed(self, done: CommittedFrame) -> None:
        """Puts a committed frame into the copy, and lets the answers that rest on it leave."""
        if self.failed is not None:
            return
        try:
            self._copy(done)
        except BaseException as error:  # noqa: BLE001  The copy cannot be trusted any more.
            self.fail(error)
            return
        for entry in done.lost:
            partition = entry.topic_partition.partition
            self._note_lost(entry.ticket, partition, may_be_committed=done.may_be_committed)
        self._durable = max(self._durable, done.frame.ticket)
        if not done.begun_s:
            # The node owned nothing. Its partitions were lost; the loop learns that in a moment.
            serving = PartitionState.SERVING
            self.lose([each for each, state in self._states.items() if state is serving])
        if done.begun_s:
            self._proved_until_s = done.begun_s + self._lease_s
            self.flush_durations.note(time.monotonic() - done.begun_s)
        self._answer(done.frame.number, proves=bool(done.begun_s))

    def _copy(self, done: CommittedFrame) -> None:
        """Appends a frame to the copies of the partitions that are served.

        The copy of a partition that was given up meanwhile is read from the topic.
        """
        lost = {each.ticket for each in done.lost}
        for entry in done.frame.entries:
            is_served = self._states[entry.topic_partition.partition] is PartitionState.SERVING
            if is_served and entry.ticket not in lost:
                append_to_copy(self._store, entry)
        for entry in done.frame.internal_entries:
            append_to_copy(self._store, entry)
        self._on_copied(
            {
                partition: end
                for partition, end in done.kafka_ends.items()
                if self._states[partition] is PartitionState.SERVING
            }
        )

    def _answer(self, frame: int, *, proves: bool) -> None:
        """Ends the waits for durable tickets, for proofs up to a frame, and for lost partitions.

        A frame may have begun before a read came, and another node may have written since. So if
        its read lease is over, what waits for it waits for a frame that begins now. A frame that
        proves nothing has found that the node owns nothing: no read of a partition is left.
        """
        is_proved = not proves or time.monotonic() < self._proved_until_s
        while self._waiting and self._waiting[0].ticket <= self._durable:
            wait = self._waiting.popleft()
            if is_proved or wait.ticket in self._lost:
                self._end(wait)
            else:
                frame_next = self._frames.want()
                self._proofs.append(wait._replace(frame=frame_next, may_be_write=True))
                self._kick_soon()
        if not is_proved:
            self._refuse_unprovable()
        while self._proofs and self._proofs[0].frame <= frame:
            self._end(self._proofs.popleft())
        while self._frame_waiters and self._frame_waiters[0][0] <= frame:
            future = self._frame_waiters.popleft()[1]
            if not future.done():
                future.set_result(None)
        if self.on_durable is not None:
            self.on_durable()

    def _end(self, wait: _Wait) -> None:
        if wait.future.done():  # Its call was cancelled.
            return
        lost = self.lost((wait.ticket,))
        if lost is None:
            wait.future.set_result(None)
        else:
            wait.future.set_exception(lost)

    @property
    def batches_not_durable(self) -> int:
        """The number of tickets that wait for their transaction. For any thread."""
        return self._frames.ticket - self._durable

    # Reading, and failure --------------------------------------------------------------------

    def state(self, partition: int) -> PartitionState:
        """See `CommitLog.state`."""
        return self._states[partition]

    def durable_end(self, partition: int) -> int:
        """The end of the copy, which has committed records only. For any thread."""
        return self._store.log(self._topic_partitions[partition]).offset_next

    def _take_waits(self) -> list[asyncio.Future[None]]:
        futures = [each.future for each in (*self._waiting, *self._proofs)]
        futures += [future for _, future in self._frame_waiters]
        self._waiting.clear()
        self._proofs.clear()
        self._frame_waiters.clear()
        return futures


def _unprovable(*, may_be_committed: bool) -> CoordinatorError:
    text = "this server lost a log partition before it could prove that an answer still held"
    return StorageUnavailable(text) if may_be_committed else NotCoordinator(text)


def _refusal(partition: int, *, may_be_committed: bool) -> CoordinatorError:
    if may_be_committed:
        return StorageUnavailable(
            "this server lost log partition {log_partition} before it knew whether the brokers have"
            " committed the write",
            log_partition=partition,
        )
    return NotCoordinator(
        "this server lost log partition {log_partition} before it could answer",
        log_partition=partition,
    )
