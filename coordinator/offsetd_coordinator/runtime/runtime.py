"""The one writer: decides, appends and replays on the event loop's thread, answers once durable.

Every answer of `submit` or of a read has a ticket: the count of appends that must be durable before
the answer may leave. A refusal or a read depends on what its shard has replayed, which may not be
flushed yet. So it has the ticket of its shard's newest append.
"""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from typing import TYPE_CHECKING, TypeVar

from offsetd_storage.batch.record_batch import batch_header
from offsetd_storage.errors import StorageError, StorageFailed, StorageFull
from offsetd_storage.log_store import OFFSETS_TOPIC
from offsetd_storage.offsets_topic.placement import partition_of
from offsetd_storage.topic_partition import TopicPartition

from offsetd_coordinator.configuration.dynamic_settings import ExpiryConfig
from offsetd_coordinator.errors import (
    CoordinatorError,
    DiskFull,
    LogPartitionQuarantined,
    StorageUnavailable,
)
from offsetd_coordinator.large_groups.large_changes import LargeChanges
from offsetd_coordinator.membership.member_requests import Moment
from offsetd_coordinator.requests import CommitOffsets
from offsetd_coordinator.runtime.append_refusals import append_refusal, quarantined_own_log
from offsetd_coordinator.runtime.commit_guards import CommitGuards
from offsetd_coordinator.runtime.commit_runs import CommitRuns
from offsetd_coordinator.runtime.disk_room import UnwatchedDisk, refuse_unless_it_deletes
from offsetd_coordinator.runtime.flusher import Flusher, as_storage_failed
from offsetd_coordinator.runtime.member_calls import MemberCalls
from offsetd_coordinator.runtime.server_endings import unavailable

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Iterator, Mapping

    from offsetd_storage.clock import Clock
    from offsetd_storage.durations import Durations
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.maintenance.upkeep import Upkeep
    from offsetd_storage.offsets_topic.group_listing import Group, GroupListing
    from offsetd_storage.recovery.quarantine import Damage

    from offsetd_coordinator.committed_offsets import CommittedColumns, CommittedOffset
    from offsetd_coordinator.configuration.dynamic_settings import CommitGuardConfig
    from offsetd_coordinator.kernels.columns import Bytes, Int64s
    from offsetd_coordinator.membership.group_membership import Membership
    from offsetd_coordinator.requests import (
        Decision,
        ExpireOffsets,
        LeaseReply,
        RenewGroup,
        Reply,
        Request,
    )
    from offsetd_coordinator.runtime.disk_room import DiskRoom
    from offsetd_coordinator.shard.shard import Shard
    from offsetd_coordinator.wire.fetch_encoder import FetchAnswer
    from offsetd_coordinator.wire.group_selections import GroupSelection

Answer = TypeVar("Answer")

# Groups whose partition is remembered: Java's hash takes a microsecond for ten characters. Long
# ids are not: what callers make up must not fill the memory.
_PLACEMENTS_MAX = 65_536
_PLACED_GROUP_BYTES_MAX = 256


class Runtime:
    """Drives the shards of one node over one store. Every method is for the event loop's thread.

    After the disk failed, every call raises or gets StorageUnavailable, `failed` says why, and
    `on_failed` has been called once: the process has to exit.
    """

    def __init__(
        self,
        store: LogStore,
        shards: Mapping[int, Shard],
        *,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        on_failed: Callable[[StorageFailed], None],
        disk: DiskRoom | None = None,
    ) -> None:
        """`disk` says when commits are to be refused; None: when an append finds no room, or as
        the upkeep's says, once it is there.
        """
        self.store = store
        self.upkeep: Upkeep | None = None
        self.partitions = store.partitions
        self.failed: StorageFailed | None = None
        # Called when more has become durable, or nothing will any more; None: nobody watches.
        self.on_durable: Callable[[], None] | None = None
        self._shards = shards
        self._clock = clock
        self._loop = loop
        self._on_failed = on_failed
        self._topic_partitions = {
            partition: TopicPartition(OFFSETS_TOPIC, partition) for partition in shards
        }
        self._tickets = dict.fromkeys(shards, 0)
        self._durable = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._kicked = False
        self._flusher = Flusher(
            store,
            on_durable=lambda ticket: loop.call_soon_threadsafe(self._note_durable, ticket),
            on_failed=self.fail_soon,
            on_journal_filling=self._move_points_soon,
        )
        store.on_write_failed = self.fail_soon
        self._append = store.append
        self.disk: DiskRoom = disk or UnwatchedDisk()
        self.commit_guards = CommitGuards()
        self.expiry_config = ExpiryConfig()
        self.commit_runs = CommitRuns(self)
        self.large_changes = LargeChanges(self)
        self.members = MemberCalls(self, loop=loop)
        self._remembered_place = functools.lru_cache(_PLACEMENTS_MAX)(self._place)

    def configure(self, guards: CommitGuardConfig, expiry: ExpiryConfig) -> None:
        """From now on these settings count. For any thread."""
        self.expiry_config = expiry
        self.commit_guards.configure(guards)
        for shard in self._shards.values():
            shard.unchanged_ms = expiry.unchanged_commit_ms

    def start(self, upkeep: Upkeep | None = None) -> None:
        """Starts the thread that flushes, and what runs beside the appends."""
        self._flusher.start()
        if upkeep is not None:
            self.upkeep = upkeep
            self.disk = upkeep.disk
            upkeep.start()

    def close(self) -> None:
        """Makes all that is pending durable and closes the store cleanly; blocks. For any thread.

        Raises StorageFailed if it could not.
        """
        if self.upkeep is not None:
            self.upkeep.stop()
        self._flusher.stop()
        self.store.close()

    def submit(
        self, request: Request, *, before_write: Callable[[Decision], None] | None = None
    ) -> tuple[int, Reply | CoordinatorError]:
        """Decides on a request and appends what it writes.

        `before_write` is called right before the first append, if there is one; what it raises is
        raised, and nothing is written.

        Returns the ticket, and the reply or the refusal, which may leave once the ticket is
        durable. Raises LogPartitionQuarantined, CommitRateExceeded, DiskFull, InvalidCommitSize
        (nothing changed) and StorageUnavailable.
        """
        partition, shard = self.shard_of(request.group_id)
        monotonic_ms = self._clock.monotonic_ms()
        if isinstance(request, CommitOffsets):
            self.commit_guards.admit(request.group_id, monotonic_ms)
        decision = shard.decide(request, self._clock.now_ms(), monotonic_ms)
        if decision.batch is not None or decision.batches:
            if self.disk.is_low:
                refuse_unless_it_deletes(request)
            if before_write is not None:
                before_write(decision)
            if decision.batches:
                return self._write_steps(partition, shard, decision)
            self.write(partition, shard, decision)
            self._note_life(shard, request)
        elif decision.is_unchanged:
            self.commit_guards.unchanged_commits += 1
            shard.apply(decision)
            self._note_life(shard, request)
        return self._tickets[partition], _outcome(decision)

    @property
    def takes_runs(self) -> bool:
        """Whether commits may go together; else each is judged by itself."""
        return (
            self.failed is None
            and bool(self._shards)
            and not self.disk.is_low
            and not self.commit_guards.quota.is_on
        )

    @property
    def serving_partitions(self) -> Collection[int]:
        """The log partitions of which the shards serve."""
        quarantined = self.store.quarantined
        if not quarantined:
            return self._shards.keys()
        return {each for each in self._shards if self._topic_partitions[each] not in quarantined}

    def append_runs(self, partitions: list[int], content: Bytes, spans: Int64s) -> list[int]:
        """How many batches of each run are in the log now; each of the others is to go alone.

        As `LogStore.append_runs`, with a log partition for each run.
        """
        where = [self._topic_partitions[partition] for partition in partitions]
        try:
            appended = self.store.append_runs(where, content, spans)
        except StorageError:
            return [0] * len(where)  # Each is refused by itself.
        for refusal in appended.refusals.values():
            if isinstance(refusal, StorageFull):
                self.disk.note_full(refusal)
        return appended.batch_counts

    def count_runs(self, partitions: list[int], commits: int) -> int:
        """Counts the commits of runs that were just appended; returns their ticket."""
        ticket = self._count_append(commits=commits)
        self._tickets.update(dict.fromkeys(partitions, ticket))
        return ticket

    def _note_life(self, shard: Shard, request: Request) -> None:
        if isinstance(request, CommitOffsets) and request.member is not None:
            self.members.note_commit(shard.membership, request.group_id, request.member)

    def expire(self, partition: int, request: ExpireOffsets) -> int:
        """Writes the tombstones of what a sweep over a shard has just found; returns the ticket.

        Also on a low disk. Raises as `submit` does; what was written by then stays.
        """
        shard = self._shard_of(partition)
        for step in shard.decide_expiry(request, self._clock.now_ms()).steps():
            self.write(partition, shard, step, is_beside=True)
        return self._tickets[partition]

    def fetch_into(
        self, answer: FetchAnswer, selection: GroupSelection
    ) -> tuple[int, CoordinatorError | None]:
        """Adds offsets to an answer; the ticket, and the refusal, if any. Raises as `submit`."""
        return self._ask(selection.group_id, lambda shard: shard.fetch_into(answer, selection))

    def fetch(self, group_id: bytes) -> tuple[int, list[CommittedOffset] | CoordinatorError]:
        """All offsets of a group, with the ticket they rest on. Raises as `submit` does."""
        return self._ask(group_id, lambda shard: shard.fetch(group_id))

    def fetch_columns(self, group_id: bytes) -> tuple[int, CommittedColumns | CoordinatorError]:
        """The same with all of a group, by column."""
        return self._ask(group_id, lambda shard: shard.fetch_columns(group_id))

    def get_group(self, group_id: bytes) -> tuple[int, Group | CoordinatorError]:
        """A group, with the ticket it rests on. Raises as `submit` does."""
        return self._ask(group_id, lambda shard: shard.get_group(group_id, *self.moment()))

    def renew_lease(self, request: RenewGroup) -> tuple[int, LeaseReply | CoordinatorError]:
        """Extends a lease, in memory, with the ticket it rests on. Raises as `submit` does."""
        return self._ask(request.group_id, lambda shard: shard.leases.renew(request, self.moment()))

    def _ask(
        self, group_id: bytes, question: Callable[[Shard], Answer]
    ) -> tuple[int, Answer | CoordinatorError]:
        """What a group's shard answers or refuses, with the ticket that rests on."""
        partition, shard = self.shard_of(group_id)
        try:
            return self._tickets[partition], question(shard)
        except CoordinatorError as refusal:
            return self._tickets[partition], refusal

    def moment(self) -> Moment:
        """Now."""
        return Moment(self._clock.now_ms(), self._clock.monotonic_ms())

    def membership_of(self, group_id: bytes) -> Membership:
        """The members of a group's shard. Raises as `submit` does."""
        return self.shard_of(group_id)[1].membership

    def ticket_of(self, group_id: bytes) -> int:
        """The ticket of all that is known of a group."""
        return self._tickets[self.partition_of(group_id)]

    def list_groups(
        self, partition: int, *, prefix: bytes, after: bytes | None
    ) -> Iterator[GroupListing]:
        """Groups of one log partition, as `Shard.list_groups`. Raises as `submit` does."""
        return self._shard_of(partition).list_groups(prefix=prefix, after=after)

    def ticket_in(self, partition: int) -> int:
        """The ticket of all that is known of a log partition."""
        return self._tickets[partition]

    @property
    def shards(self) -> Mapping[int, Shard]:
        """The shards that serve, by log partition; those of quarantined partitions are missing."""
        return self._shards

    def damage(self, partition: int) -> Damage | None:
        """What is wrong with a log partition, if anything is."""
        return self.store.quarantined.get(TopicPartition(OFFSETS_TOPIC, partition))

    def unavailable(self) -> StorageUnavailable:
        """What every call gets once it has `failed`."""
        assert self.failed is not None, "asked before there was a failure"
        return unavailable(self.failed)

    def durable(self, ticket: int) -> asyncio.Future[None] | None:
        """None if the ticket is durable, else a future that ends when it is.

        The future raises StorageUnavailable if it cannot be.
        """
        if ticket <= self._durable:
            return None
        future: asyncio.Future[None] = self._loop.create_future()
        if self.failed is not None:
            future.set_exception(self.unavailable())
        else:
            # Older tickets behind newer ones wait for those: at most one flush longer.
            self._waiting.append((ticket, future))
        return future

    def is_durable(self, ticket: int) -> bool:
        """Whether an answer with this ticket may leave."""
        return ticket <= self._durable

    @property
    def batches_not_durable(self) -> int:
        """Batches that were appended and wait for their flush. For any thread."""
        return self._flusher.appended - self._durable

    @property
    def flush_durations(self) -> Durations:
        """How long flushes took: the journal's write and sync."""
        return self._flusher.flush_durations

    def partition_of(self, group_id: bytes) -> int:
        """The log partition that a group lives in."""
        if len(group_id) > _PLACED_GROUP_BYTES_MAX:
            return self._place(group_id)
        return self._remembered_place(group_id)

    def _place(self, group_id: bytes) -> int:
        return partition_of(group_id.decode(), self.partitions)

    def shard_of(self, group_id: bytes) -> tuple[int, Shard]:
        """A group's log partition and its shard. Raises as `submit` does."""
        partition = self.partition_of(group_id)
        return partition, self._shard_of(partition)

    def _shard_of(self, partition: int) -> Shard:
        if self.failed is not None:
            raise self.unavailable()
        shard = self._shards.get(partition)
        if shard is None or self._topic_partitions[partition] in self.store.quarantined:
            raise LogPartitionQuarantined(
                "log partition {log_partition} is damaged: it needs an operator",
                log_partition=partition,
            )
        return shard

    def _write_steps(
        self, partition: int, shard: Shard, decision: Decision
    ) -> tuple[int, Reply | CoordinatorError]:
        """Writes several batches; returns as `submit` does.

        If a later one is refused, those before it stay: the outcome says so, and waits for them.
        """
        outcome = _outcome(decision)
        ticket = self._tickets[partition]
        for step in decision.steps():
            try:
                self.write(partition, shard, step)
            except DiskFull:
                if self._tickets[partition] == ticket:
                    raise  # Nothing has changed.
                outcome = DiskFull("the disk is full: only the first part of it is done")
                break
        return self._tickets[partition], outcome

    def write(
        self, partition: int, shard: Shard, decision: Decision, *, is_beside: bool = False
    ) -> None:
        """Appends a decision's batch, replays it, and counts it in the partition's ticket."""
        assert decision.batch is not None
        self._append_or_refuse(
            self._topic_partitions[partition],
            decision.batch,
            last_offset=decision.last_offset,
            max_timestamp_ms=decision.max_timestamp_ms,
        )
        self.stop_unless_done(lambda: shard.apply(decision))
        self._tickets[partition] = self._count_append(is_beside=is_beside)

    def stop_unless_done(self, work: Callable[[], Answer]) -> Answer:
        """What appends and replays. Raises StorageUnavailable for whatever goes wrong there."""
        try:
            return work()
        except BaseException as error:
            # Appended, perhaps, but not replayed: memory no longer equals the log.
            self._note_failed(error)
            raise StorageUnavailable("what was appended may not be replayed") from error

    def append(
        self, topic_partition: TopicPartition, batch: bytes, *, replay: Callable[[bytes], None]
    ) -> int:
        """Appends a batch to a log beside the offsets', has it replayed, and returns the ticket.

        Raises as `submit` does.
        """
        if self.failed is not None:
            raise self.unavailable()
        if (damage := self.store.quarantined.get(topic_partition)) is not None:
            raise quarantined_own_log(topic_partition, damage)
        header = batch_header(batch)  # The time index must have what the batch has.
        self._append_or_refuse(
            topic_partition,
            batch,
            last_offset=header.last_offset,
            max_timestamp_ms=header.max_timestamp_ms,
        )
        self.stop_unless_done(lambda: replay(batch))
        return self._count_append(is_beside=True)

    def _append_or_refuse(
        self,
        topic_partition: TopicPartition,
        batch: bytes,
        *,
        last_offset: int,
        max_timestamp_ms: int,
    ) -> None:
        try:
            self._append(
                topic_partition,
                batch,
                last_offset=last_offset,
                max_timestamp_ms=max_timestamp_ms,
            )
        except StorageFailed as error:
            self._note_failed(error)
            raise unavailable(error) from error
        except StorageError as error:
            if isinstance(error, StorageFull):
                self.disk.note_full(error)
            refusal = append_refusal(error, topic_partition.partition)
            if refusal is None:
                raise
            raise refusal from error

    def _count_append(self, *, commits: int = 1, is_beside: bool = False) -> int:
        """The ticket of what was just appended; sees to its flush."""
        if not self._kicked:
            # Once the loop has taken all that is ready: one round for all of it.
            self._kicked = True
            self._loop.call_soon(self._kick)
        return self._flusher.count_append(commits, is_beside=is_beside)

    def _kick(self) -> None:
        self._kicked = False
        if durable := self._flusher.kick():
            self._note_durable(durable)

    def fail_soon(self, error: BaseException) -> None:
        """The store failed, or our own code did, beside the appends. For any thread."""
        with contextlib.suppress(RuntimeError):  # The loop is closed: nobody waits any more.
            self._loop.call_soon_threadsafe(self._note_failed, error)

    def _move_points_soon(self) -> None:
        if self.upkeep is not None:
            self.upkeep.move_points_soon()

    def _note_durable(self, ticket: int) -> None:
        # The flush thread may report behind the loop, which has flushed more since.
        if self.failed is not None or ticket <= self._durable:
            return
        self._durable = ticket
        while self._waiting and self._waiting[0][0] <= ticket:
            future = self._waiting.popleft()[1]
            if not future.done():  # Done: its call was cancelled.
                future.set_result(None)
        if self.on_durable is not None:
            self.on_durable()

    def _note_failed(self, error: BaseException) -> None:
        if self.failed is not None:
            return
        self.failed = as_storage_failed(error)
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(self.unavailable())
        self._waiting.clear()
        if self.on_durable is not None:
            self.on_durable()
        self._on_failed(self.failed)


def _outcome(decision: Decision) -> Reply | CoordinatorError:
    outcome = decision.refusal if decision.reply is None else decision.reply
    assert outcome is not None, "a decision answers or refuses"
    return outcome
