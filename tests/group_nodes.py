"""A node with groups that live: members, leases, expiry, on a disk that is cleaned and crashes.

What it was told beside the log's own account: offsets, leases and generations as the answers made
them, after each write. A crash takes them back to where the log ends then.
"""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING, Any

import attrs
from compacted_nodes import NODE_CONFIG, REQUEST_WINDOW_MS, CompactedNode
from offsetd_coordinator.errors import CoordinatorError
from offsetd_coordinator.expiry.expiry_rules import ExpiryTerms
from offsetd_coordinator.kernels import columns
from offsetd_coordinator.membership.member_requests import Moment
from offsetd_coordinator.membership.rebalance import MembershipConfig
from offsetd_coordinator.requests import (
    AcquireGroup,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    ExpireOffsets,
    LeaseReply,
    ReleaseGroup,
    RenewGroup,
    UpdateGroup,
    WriteGroup,
)
from offsetd_coordinator.runtime.shard_loader import load_shard
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.offsets_topic.schemas.keys import GroupKey, OffsetKey, decode_key
from partition_logs import NOW_MS
from shards import new_shard, offsets_of

if TYPE_CHECKING:
    from random import Random

    from offsetd_coordinator.membership.group_membership import Membership
    from offsetd_coordinator.membership.member_requests import Step
    from offsetd_coordinator.requests import Decision, Reply, Request
    from offsetd_coordinator.shard.shard import Shard

DELAY_MS = 300
SESSION_MS = 10_000
RETENTION_MS = 40_000
_SEGMENT_BYTES = 3000
_CONFIG = attrs.evolve(
    NODE_CONFIG,
    partitions=1,
    log=attrs.evolve(NODE_CONFIG.log, segment_bytes_max=_SEGMENT_BYTES),
)
_MEMBERSHIP = MembershipConfig(initial_rebalance_delay_ms=DELAY_MS, size_max=3)


@attrs.define
class Told:
    """What clients were told of one group. Epochs are never forgotten, whatever is deleted."""

    offsets: dict[int, int] = attrs.Factory(dict)
    committed_ms: dict[int, int] = attrs.Factory(dict)
    expire_ms: dict[int, int] = attrs.Factory(dict)
    epoch: int | None = None
    ttl_ms: int = 0
    lease_end_ms: int = 0  # Monotonic.
    epoch_newest: int = -1
    generation: int | None = None  # None: no record says one.
    retention_ms: int | None = None
    never_expires: bool = False
    life: int = 0

    def lease_is_held(self, monotonic_ms: int) -> bool:
        """Whether the lease keeps others away."""
        return self.epoch is not None and monotonic_ms < self.lease_end_ms


class GroupNode(CompactedNode):
    """One log partition, its groups, and what was told of them."""

    def __init__(self, random: Random) -> None:
        self.names = itertools.count(1)
        self.tokens = itertools.count()
        self.outcomes: dict[int, Any] = {}
        self.told: dict[str, Told] = {}
        self._told_at: list[tuple[int, dict[str, Told]]] = [(0, {})]
        clock = ManualClock(NOW_MS)
        super().__init__(SimulatedFiles(clock=clock), random, clock, _CONFIG)
        self.begin()

    @property
    def shard(self) -> Shard:
        return self.shards[0]

    @property
    def membership(self) -> Membership:
        return self.shard.membership

    @property
    def moment(self) -> Moment:
        return Moment(self.clock.now_ms(), self.clock.monotonic_ms())

    def loaded(self, partition: int) -> Shard:
        shard = new_shard(
            partition,
            partitions=1,
            request_id_window_ms=REQUEST_WINDOW_MS,
            message_bytes_max=_SEGMENT_BYTES,
            membership=_MEMBERSHIP,
            new_member_name=lambda: f"n{next(self.names)}",
        )
        load_shard(shard, self.log(partition))
        return shard

    # Starting.

    def begin(self) -> None:
        """Has the groups live, as a start does. Calls that waited are broken off."""
        self.outcomes = {}
        for told in self.told.values():
            told.lease_end_ms = self.clock.monotonic_ms() + told.ttl_ms
        for step in self.shard.restore_members(self.moment):
            self.follow(step)

    def restart(self) -> None:
        super().restart()
        self.begin()

    def crash(self, disk: SimulatedFiles) -> None:
        super().crash(disk)
        end = self.log(0).offset_next
        while self._told_at[-1][0] > end:
            self._told_at.pop()
        at, told = self._told_at[-1]
        assert at == end, "the log ends where a write did"
        self.told = copy.deepcopy(told)
        self.begin()

    # What clients ask.

    def of(self, group: str) -> Told:
        """What was told of a group."""
        return self.told.setdefault(group, Told())

    def do(self, request: Request) -> Reply | CoordinatorError:
        """Decides, appends, replays; what is told of the group follows the answer."""
        decision = self.shard.decide(request, *self.moment)
        self._write(decision)
        if decision.refusal is not None:
            assert decision.batch is None
            return decision.refusal
        assert decision.reply is not None
        self._note(request, decision.reply)
        self._remember()
        return decision.reply

    def call(self, ask: Any) -> int:
        """A member's call that may wait: its token."""
        token = next(self.tokens)
        self.follow(ask(self.membership, token, self.moment))
        return token

    def follow(self, step: Step) -> None:
        """As the runtime: a record is written before anything else is asked of the group."""
        while True:
            then = None
            if step.record is not None:
                refused = self.do(WriteGroup(group_id=step.group_id, value=step.record))
                is_refused = isinstance(refused, CoordinatorError)
                then = self.membership.settle(
                    step, (lambda error=refused: error) if is_refused else None, self.moment
                )
            for token, outcome in step.answers:
                assert token not in self.outcomes, "a call is answered once"
                self.outcomes[token] = outcome  # type: ignore[index]
            if then is None:
                return
            step = then

    def renew(self, group: str, epoch: int) -> LeaseReply | CoordinatorError:
        """Extends a lease, in memory."""
        try:
            reply = self.shard.leases.renew(
                RenewGroup(group_id=group.encode(), epoch=epoch), self.moment
            )
        except CoordinatorError as refusal:
            return refusal
        self.of(group).lease_end_ms = reply.deadline_ms
        return reply

    # What time does.

    def wait(self, milliseconds: int) -> None:
        """Lets time pass, with all of the members' deadlines."""
        end = self.clock.monotonic_ms() + milliseconds
        while (due := self.membership.next_deadline_ms) is not None and due <= end:
            self.clock.advance(max(0, due - self.clock.monotonic_ms()))
            for step in self.membership.expire(self.moment):
                self.follow(step)
        self.clock.advance(max(0, end - self.clock.monotonic_ms()))

    def expire_all(self) -> list[tuple[str, int]]:
        """One check for what has expired; the (group, partition) that went."""
        terms = ExpiryTerms(retention_ms=RETENTION_MS)
        sweep = self.shard.expiry_rules(terms, self.moment).sweep()
        went = []
        while not sweep.is_done:
            found = sweep.next_slice(self.clock.now_ms())
            if not found.ends.size:
                continue
            gone = tuple(each.group_id for each in found.expired if each.is_gone)
            request = ExpireOffsets(keys=found.keys, ends=found.ends, gone=gone)
            self._write(self.shard.decide_expiry(request, self.clock.now_ms()))
            ends = found.ends.tolist()
            for start, end in zip([0, *ends], ends, strict=False):
                key = decode_key(found.keys[start:end].tobytes())
                if isinstance(key, OffsetKey):
                    went.append((key.group, key.partition))
                elif isinstance(key, GroupKey):
                    assert key.group.encode() in gone
            for group, partition in went:
                self.of(group).offsets.pop(partition, None)
            for group_id in gone:
                self._end_life(group_id.decode())
            self._remember()
        return went

    # What has to hold.

    def check_told(self) -> None:
        """The node has what was told, to the last write."""
        for group, told in self.told.items():
            stored = {key[1]: value for key, value in offsets_of(self.shard, group).items()}
            assert stored == told.offsets, group
            status = self.shard.leases.status(group.encode(), self.moment)
            assert (None if status is None else status.lease.epoch) == told.epoch
            if status is not None:
                assert status.is_held == told.lease_is_held(self.clock.monotonic_ms())
            records = self.shard._state.known_group_records(group.encode())
            classic = None if records is None else records.classic
            assert (None if classic is None else classic.generation) == told.generation

    def _write(self, decision: Decision) -> None:
        batches = [batch for batch, _ in decision.batches]
        for batch in batches or [decision.batch]:
            if batch is not None:
                self.append_batch(0, batch)
        self.shard.apply(decision)

    def _remember(self) -> None:
        end = self.shard.offset_next
        if self._told_at[-1][0] == end:
            self._told_at.pop()
        self._told_at.append((end, copy.deepcopy(self.told)))

    def _note(self, request: Request, reply: Reply) -> None:
        told = self.of(request.group_id.decode())
        match request:
            case CommitOffsets():
                self._note_commit(told, request)
            case DeleteOffsets():
                for _, partition in request.partitions:
                    told.offsets.pop(partition, None)
            case DeleteGroup():
                self._end_life(request.group_id.decode())
            case WriteGroup():
                generation = request.value.generation
                assert told.generation is None or generation >= told.generation
                told.generation = generation
            case AcquireGroup():
                assert isinstance(reply, LeaseReply)
                assert reply.lease.epoch > told.epoch_newest, "epochs only grow"
                told.epoch = told.epoch_newest = reply.lease.epoch
                told.ttl_ms, told.lease_end_ms = request.ttl_ms, reply.deadline_ms
            case ReleaseGroup():
                told.epoch = None
            case UpdateGroup():
                told.retention_ms = request.retention_ms
                told.never_expires = request.never_expires

    def _note_commit(self, told: Told, commit: CommitOffsets) -> None:
        now_ms = self.clock.now_ms()
        for row in commit.columns:
            partition, offset = int(row[columns.PARTITION]), int(row[columns.COMMIT_OFFSET])
            told.offsets[partition] = offset
            told.committed_ms[partition] = now_ms
            told.expire_ms.pop(partition, None)
            if commit.retention_ms >= 0:
                told.expire_ms[partition] = now_ms + commit.retention_ms

    def _end_life(self, group: str) -> None:
        told = self.of(group)
        self.told[group] = Told(epoch_newest=told.epoch_newest, life=told.life + 1)
