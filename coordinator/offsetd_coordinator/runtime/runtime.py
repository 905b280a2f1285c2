"""The one writer: decides, appends and replays on the event loop's thread, answers once durable.

Every answer of `submit` or of a read has a ticket: the count of appends that must be durable before
the answer may leave. A refusal or a read depends on what its shard has replayed, which may not be
flushed yet. So its ticket is that of its shard's newest append.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from offsetd_storage.offsets_topic.placement import partition_of

from offsetd_coordinator.configuration.dynamic_settings import ExpiryConfig
from offsetd_coordinator.configuration.lag_config import LagConfig
from offsetd_coordinator.cooperative_scheduling import SLICE_ROWS
from offsetd_coordinator.errors import (
    CoordinatorError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    DiskFull,
    InvalidRequest,
    LogPartitionQuarantined,
    NotCoordinator,
    StorageUnavailable,
)
from offsetd_coordinator.expiry.expiry_rules import NO_RULE
from offsetd_coordinator.membership.member_requests import Moment
from offsetd_coordinator.requests import CommitOffsets
from offsetd_coordinator.runtime.commit_guards import CommitGuards
from offsetd_coordinator.runtime.commit_log import PartitionState
from offsetd_coordinator.runtime.disk_guard import UnwatchedDisk, refuse_unless_it_deletes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from offsetd_storage.clock import Clock
    from offsetd_storage.errors import StorageFailed, StorageFull
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.maintenance.upkeep import Upkeep
    from offsetd_storage.offsets_topic.group_listing import Group, GroupListing

    from offsetd_coordinator.committed_offsets import CommittedColumns, CommittedOffset
    from offsetd_coordinator.configuration.dynamic_settings import CommitGuardConfig
    from offsetd_coordinator.expiry.expiry_rules import GroupRule
    from offsetd_coordinator.membership.group_membership import Membership
    from offsetd_coordinator.requests import (
        Decision,
        ExpireOffsets,
        LeaseReply,
        RenewGroup,
        Reply,
        Request,
    )
    from offsetd_coordinator.runtime.commit_log import CommitLog
    from offsetd_coordinator.runtime.disk_guard import DiskGuard
    from offsetd_coordinator.runtime.node_directory import NodeDirectory
    from offsetd_coordinator.shard.shard import Shard
    from offsetd_coordinator.state.group_search import GroupSearch
    from offsetd_coordinator.wire.fetch_encoder import FetchAnswer
    from offsetd_coordinator.wire.group_selections import GroupSelection

Answer = TypeVar("Answer")

# The number of groups whose partition is remembered. Java's hash takes a microsecond for ten
# characters. Longer ids are not remembered: ids that callers make up must not fill the memory.
_PLACEMENTS_MAX = 65_536
_PLACED_GROUP_BYTES_MAX = 256
# Callers retry after this time while a log partition moves from one node to another.
_MOVE_MS = 100


class LargeFetch(NamedTuple):
    """A fetch that must be read slice by slice."""

    rule: GroupRule
    """The rule by which the group's offsets expire."""
    offsets_max: int
    """The largest number of offsets that may have to be read."""


class Runtime:
    """Drives the shards of one node over one log. Every method is for the event loop's thread.

    After the log has failed, every call raises or gets StorageUnavailable.
    """

    def __init__(
        self,
        log: CommitLog,
        shards: dict[int, Shard],
        *,
        clock: Clock,
        store: LogStore | None = None,
        disk: DiskGuard | None = None,
        directory: NodeDirectory | None = None,
    ) -> None:
        """`store` is the local store of the log, or None. `disk` decides when commits are refused.
        Without it, an append fails if there is no room, until `start` takes the upkeep's `disk`.
        `directory` has the other nodes of a cluster; None if this node is the only one.
        """
        self.log = log
        self.directory = directory
        self.store = store
        self.upkeep: Upkeep | None = None
        self.partitions = log.partitions
        self._shards = shards
        self.shards_version = 0
        """A number that differs after a shard was added or removed."""
        self._clock = clock
        # Each commit uses these: an attribute here saves one look-up.
        self._append = log.append
        self._tickets = log.tickets
        self.durable = log.durable
        self.is_durable = log.is_durable
        self.disk: DiskGuard = disk or UnwatchedDisk()
        log.on_full = self._note_full
        self.commit_guards = CommitGuards()
        self.expiry_config = ExpiryConfig()
        self.lag_config = LagConfig()
        self._doubts_settings = False
        self._remembered_place = functools.lru_cache(_PLACEMENTS_MAX)(self._place)

    @property
    def failed(self) -> StorageFailed | None:
        """The error after which nothing is acknowledged, or None."""
        return self.log.failed

    def _note_full(self, refusal: StorageFull) -> None:
        self.disk.note_full(refusal)

    def local_store(self) -> LogStore:
        """The store on the local disk. Raises InvalidRequest if the log is not local."""
        if self.store is None:
            raise InvalidRequest("topic", "the log of this server is not on its own disk")
        return self.store

    def configure(
        self,
        guards: CommitGuardConfig,
        expiry: ExpiryConfig,
        lag: LagConfig | None = None,
        *,
        are_doubtful: bool = False,
    ) -> None:
        """Puts settings in force. For any thread.

        If `are_doubtful`, they may not be the settings that operators set, so nothing expires.
        """
        self.expiry_config = expiry
        self._doubts_settings = are_doubtful
        self.lag_config = lag or LagConfig()
        self.commit_guards.configure(guards)
        for shard in self._shards.values():
            self._configure_shard(shard)

    def _configure_shard(self, shard: Shard) -> None:
        shard.unchanged_ms = self.expiry_config.unchanged_commit_ms
        shard.keep_lag_of(self.lag_config.window_ms)

    def start(self, upkeep: Upkeep | None = None) -> None:
        """Starts the flush thread and the upkeep."""
        self.log.start()
        if upkeep is not None:
            self.upkeep = upkeep
            self.disk = upkeep.disk
            upkeep.start()

    def close(self) -> None:
        """Makes all pending appends durable and closes the log cleanly; blocks. For any thread.

        Raises StorageFailed if it could not.
        """
        if self.upkeep is not None:
            self.upkeep.stop()
        self.log.close()

    def submit(
        self, request: Request, *, before_write: Callable[[Decision], None] | None = None
    ) -> tuple[int, Reply | CoordinatorError]:
        """Decides on a request and appends what it writes.

        `before_write` is called right before the first append, if there is one. If it raises an
        error, `submit` raises this error and writes nothing.

        Returns the ticket, and the reply or the refusal, which may leave once the ticket is
        durable. Raises LogPartitionQuarantined, NotCoordinator, CoordinatorLoadInProgress,
        CommitRateExceeded, DiskFull, InvalidCommitSize (nothing changed) and StorageUnavailable.
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
        """Whether commits may be appended in runs. If not, each is decided by itself."""
        return (
            self.log.failed is None
            and bool(self._shards)
            and not self.disk.is_low
            and not self.commit_guards.quota.is_on
        )

    @property
    def serving_partitions(self) -> Collection[int]:
        """The log partitions whose shards serve."""
        if self.log.serves_all:
            return self._shards.keys()
        state = self.log.state
        return {each for each in self._shards if state(each) is PartitionState.SERVING}

    def _note_life(self, shard: Shard, request: Request) -> None:
        if isinstance(request, CommitOffsets) and request.member is not None:
            shard.membership.note_commit(request.group_id, request.member, self.moment())

    def expire(self, partition: int, request: ExpireOffsets) -> int:
        """Writes tombstones for what a sweep over a shard has just found; returns the ticket.

        Works on a low disk too. Raises the errors of `submit`; batches written before stay.
        """
        shard = self._shard_of(partition)
        for step in shard.decide_expiry(request, self._clock.now_ms()).steps():
            self.write(partition, shard, step, is_beside=True)
        return self._tickets[partition]

    def fetch_into(
        self, answer: FetchAnswer, selection: GroupSelection, *, offsets_max: int = SLICE_ROWS
    ) -> tuple[int, CoordinatorError | None] | LargeFetch:
        """Adds offsets to an answer. Raises the errors of `submit`.

        Returns the ticket, and the refusal, if any; or a LargeFetch, if more than `offsets_max`
        offsets may have to be read. Then the answer is unchanged.
        """
        partition, shard = self.shard_of(selection.group_id)
        rule = self._expiry_rule(shard, selection.group_id)
        offsets = shard.offsets_at_most(selection)
        if offsets > offsets_max:
            return LargeFetch(rule, offsets)
        ticket = self._tickets[partition]
        try:
            shard.fetch_into(answer, selection, rule)
        except CoordinatorError as refusal:
            return ticket, refusal
        return ticket, None

    def expiry_rule(self, group_id: bytes) -> GroupRule:
        """The rule by which a group's offsets expire, from the settings in force.

        NO_RULE while expiry is suspended. Raises the errors of `submit`.
        """
        return self._expiry_rule(self.shard_of(group_id)[1], group_id)

    def _expiry_rule(self, shard: Shard, group_id: bytes) -> GroupRule:
        config = self.expiry_config
        if self._doubts_settings or config.hold(self.log.is_from_elsewhere) is not None:
            return NO_RULE
        if not shard.has_guarded_groups:
            return config.plain_rule
        return shard.expiry_rules(config.terms, self.moment()).rule(group_id)

    def fetch(self, group_id: bytes) -> tuple[int, list[CommittedOffset] | CoordinatorError]:
        """All offsets of a group, with the ticket they rest on. Raises the errors of `submit`."""
        return self._ask(group_id, lambda shard: shard.fetch(group_id))

    def fetch_columns(self, group_id: bytes) -> tuple[int, CommittedColumns | CoordinatorError]:
        """All offsets of a group, by column, with their ticket. Raises the errors of `submit`."""
        return self._ask(group_id, lambda shard: shard.fetch_columns(group_id))

    def get_group(self, group_id: bytes) -> tuple[int, Group | CoordinatorError]:
        """A group, with the ticket it rests on. Raises the errors of `submit`."""
        return self._ask(group_id, lambda shard: shard.get_group(group_id, *self.moment()))

    def renew_lease(self, request: RenewGroup) -> tuple[int, LeaseReply | CoordinatorError]:
        """Extends a lease in memory; returns its ticket too. Raises the errors of `submit`."""
        return self._ask(request.group_id, lambda shard: shard.leases.renew(request, self.moment()))

    def _ask(
        self, group_id: bytes, question: Callable[[Shard], Answer]
    ) -> tuple[int, Answer | CoordinatorError]:
        """The answer or the refusal of a group's shard, with the ticket it rests on."""
        partition, shard = self.shard_of(group_id)
        try:
            return self._tickets[partition], question(shard)
        except CoordinatorError as refusal:
            return self._tickets[partition], refusal

    def moment(self) -> Moment:
        """Now."""
        return Moment(self._clock.now_ms(), self._clock.monotonic_ms())

    def membership_of(self, group_id: bytes) -> Membership:
        """The members of a group's shard. Raises the errors of `submit`."""
        return self.shard_of(group_id)[1].membership

    def ticket_of(self, group_id: bytes) -> int:
        """The ticket of all that is known of a group."""
        return self._tickets[self.partition_of(group_id)]

    def list_groups(self, partition: int, search: GroupSearch) -> Iterator[list[GroupListing]]:
        """Groups of one log partition: see `Shard.list_groups`. Raises the errors of `submit`."""
        return self._shard_of(partition).list_groups(search, self.moment())

    def ticket_in(self, partition: int) -> int:
        """The ticket of all that is known of a log partition."""
        return self._tickets[partition]

    @property
    def shards(self) -> Mapping[int, Shard]:
        """The shards that this node has loaded, by log partition."""
        return self._shards

    def holds_lease(self, group_id: bytes, epoch: int) -> bool:
        """Whether the lease of this epoch is served here, and has not ended."""
        shard = self.shards.get(self.partition_of(group_id))
        status = None if shard is None else shard.leases.status(group_id, self.moment())
        return status is not None and status.is_held and status.lease.epoch == epoch

    def partition_of(self, group_id: bytes) -> int:
        """The log partition that a group lives in."""
        if len(group_id) > _PLACED_GROUP_BYTES_MAX:
            return self._place(group_id)
        return self._remembered_place(group_id)

    def _place(self, group_id: bytes) -> int:
        return partition_of(group_id.decode(), self.partitions)

    def shard_of(self, group_id: bytes) -> tuple[int, Shard]:
        """A group's log partition and its shard. Raises the errors of `submit`."""
        partition = self.partition_of(group_id)
        return partition, self._shard_of(partition)

    def _shard_of(self, partition: int) -> Shard:
        if self.log.failed is not None:
            raise self.log.unavailable()
        shard = self._shards.get(partition)
        if shard is None or self.log.state(partition) is not PartitionState.SERVING:
            raise self.refusal(partition)
        return shard

    def check_shard(self, partition: int, shard: Shard) -> None:
        """Raises the errors of `submit` if this shard no longer serves its log partition.

        Call it after a wait: another node may have written to the partition during the wait.
        """
        if self._shard_of(partition) is not shard:
            raise self._refusal_of_others(partition)

    def serves(self, partition: int) -> bool:
        """Whether a log partition has a shard here that may answer."""
        return partition in self._shards and self.log.state(partition) is PartitionState.SERVING

    def refusal(self, partition: int) -> CoordinatorError:
        """The answer to calls for a log partition that this node does not serve."""
        match self.log.state(partition):
            case PartitionState.FAILED:
                return LogPartitionQuarantined(
                    "log partition {log_partition} is damaged: it needs an operator",
                    log_partition=partition,
                )
            case PartitionState.LOADING:
                refusal = CoordinatorLoadInProgress(
                    "the server is loading log partition {log_partition}", log_partition=partition
                )
                return refusal if self.directory is None else refusal.retried_after(_MOVE_MS)
            case _:
                return self._refusal_of_others(partition)

    def _refusal_of_others(self, partition: int) -> CoordinatorError:
        """The answer to calls for a log partition that this node has not, or no longer."""
        if self.directory is None:
            return _not_coordinator(partition)
        owner = self.directory.owner(partition)
        if owner is None:
            return CoordinatorNotAvailable(
                "no node serves log partition {log_partition} now", log_partition=partition
            ).retried_after(_MOVE_MS)
        return _not_coordinator(partition, owner.address)

    def take(self, partition: int, shard: Shard) -> None:
        """Starts to serve a log partition with a shard that has replayed its log."""
        assert partition not in self._shards, "one shard serves a partition at a time"
        self._configure_shard(shard)
        self._shards[partition] = shard
        self.shards_version += 1

    def release(self, partition: int) -> None:
        """Forgets the shard of a log partition, if it has one: another node may write to it."""
        self._shards.pop(partition, None)
        self.shards_version += 1

    def _write_steps(
        self, partition: int, shard: Shard, decision: Decision
    ) -> tuple[int, Reply | CoordinatorError]:
        """Writes several batches. Returns the ticket, and the reply or the refusal.

        If a later batch is refused, the earlier ones stay. Then the outcome reports that, and its
        ticket covers them.
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
        self._append(
            partition,
            decision.batch,
            last_offset=decision.last_offset,
            max_timestamp_ms=decision.max_timestamp_ms,
            is_beside=is_beside,
        )
        try:
            shard.apply(decision)
        except BaseException as error:
            raise self._stopped(error) from error

    def stop_unless_done(self, work: Callable[[], Answer]) -> Answer:
        """Runs work that appends and replays. Raises StorageUnavailable for any error of it."""
        try:
            return work()
        except BaseException as error:
            raise self._stopped(error) from error

    def _stopped(self, error: BaseException) -> StorageUnavailable:
        """Fails the log: memory may lack appended records, so it may differ from the log."""
        self.log.fail(error)
        return StorageUnavailable("an appended batch could not be replayed")


def _not_coordinator(partition: int, address: str = "") -> NotCoordinator:
    if not address:
        return NotCoordinator(
            "this server does not serve log partition {log_partition}", log_partition=partition
        )
    return NotCoordinator(
        "this server does not serve log partition {log_partition}, {address} does",
        log_partition=partition,
        address=address,
    )


def _outcome(decision: Decision) -> Reply | CoordinatorError:
    outcome = decision.refusal if decision.reply is None else decision.reply
    assert outcome is not None, "a decision answers or refuses"
    return outcome
