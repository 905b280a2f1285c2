"""One partition of the offsets topic as a pure state that decides and replays.

`decide` changes nothing and yields a record batch. Replaying that batch is the only change, and
uses the same code at run time as at load, so the live state equals a replay of the log. The only
exception is the end offsets that clients report, which are kept in memory alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np
from offsetd_storage.kernels import padded_buffer

from offsetd_coordinator.errors import (
    CoordinatorError,
    GroupIdNotFound,
    RecordUndecodable,
    UnstableOffsetCommit,
    undecodable_offset,
)
from offsetd_coordinator.expiry.expiry_sweep import ShardRules
from offsetd_coordinator.kernels.columns import SAMPLE_DISTANCE_MS, SAMPLES_MAX
from offsetd_coordinator.membership.group_membership import Membership, fresh_member_name
from offsetd_coordinator.membership.member_requests import Moment
from offsetd_coordinator.membership.rebalance import MembershipConfig
from offsetd_coordinator.offset_changes import PutOffsets, ResetOffsets, RestoreOffsets
from offsetd_coordinator.requests import (
    AcquireGroup,
    CommitOffsets,
    Decision,
    DeleteGroup,
    DeleteOffsets,
    DeleteOffsetsReply,
    EndConsumerMembers,
    ExpireOffsets,
    LeaseReply,
    WriteGroup,
)
from offsetd_coordinator.shard.commit_decisions import CommitDecisions, CommitTerms
from offsetd_coordinator.shard.group_holds import GroupHolds
from offsetd_coordinator.shard.group_lists import GroupLists
from offsetd_coordinator.shard.member_records import decide_members_change
from offsetd_coordinator.shard.offset_change_decisions import OffsetChangeDecisions
from offsetd_coordinator.shard.settings_decisions import Situation, decide_group_change
from offsetd_coordinator.state.deletion_dedup import NODE_BYTES_MAX
from offsetd_coordinator.state.leases import Leases
from offsetd_coordinator.state.offset_batches import BatchForm
from offsetd_coordinator.state.offset_table import fresh_hash_seeds
from offsetd_coordinator.state.replayed_state import ReplayedState
from offsetd_coordinator.state.tombstone_batches import encode_tombstones
from offsetd_coordinator.state.write_authorisation import WriteAuthorisation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from collections.abc import Set as AbstractSet

    from offsetd_storage.offsets_topic.group_listing import Group, GroupListing, GroupState

    from offsetd_coordinator.committed_offsets import CommittedColumns, CommittedOffset
    from offsetd_coordinator.expiry.expiry_rules import ExpiryTerms, GroupRule
    from offsetd_coordinator.kernels.columns import Bytes, Int64s
    from offsetd_coordinator.membership.member_requests import Step
    from offsetd_coordinator.requests import GroupChange, MembersChange, Request
    from offsetd_coordinator.state.group_search import GroupSearch
    from offsetd_coordinator.state.offset_table import OffsetTable
    from offsetd_coordinator.wire.fetch_encoder import FetchAnswer
    from offsetd_coordinator.wire.group_selections import GroupSelection


@attrs.frozen(kw_only=True)
class ShardConfig:
    """The settings of a shard."""

    partitions: int = 50
    """The number of partitions of the offsets topic, which decides the partition of a group."""
    offset_commit_value_version: int = 4
    message_bytes_max: int = 1_048_588
    request_id_window_ms: int = 60_000
    request_ids_per_partition_max: int = 262_144
    """The most request ids that are remembered. The oldest are forgotten first."""
    membership: MembershipConfig = attrs.field(factory=MembershipConfig)
    new_member_name: Callable[[], str] = attrs.field(default=fresh_member_name, repr=False)
    """Returns the random end of a new member id, which cannot be guessed."""
    hash_seeds: tuple[int, int, int, int] = attrs.field(factory=fresh_hash_seeds, repr=False)


@attrs.frozen(kw_only=True)
class ShardCounters:
    """Counts of a shard's contents, and of records in its log that it could not use."""

    offset_count: int
    group_count: int
    pending_offset_count: int
    unknown_records: int
    undecodable_records: int
    table_bytes: int


class Shard:
    """The groups and offsets of one partition. Used by one thread at a time.

    A commit that repeats offsets stored less than `unchanged_ms` ago is answered, but not written.
    """

    def __init__(self, partition: int, config: ShardConfig) -> None:
        self.partition = partition
        self.config = config
        self.unchanged_ms = 0
        self._state = ReplayedState(
            request_window_ms=config.request_id_window_ms,
            request_ids_max=config.request_ids_per_partition_max,
            deletion_bytes_max=NODE_BYTES_MAX // config.partitions,
            hash_seeds=config.hash_seeds,
        )
        self.leases = Leases(self._state.known_group_records)
        self.membership = Membership(
            config.membership,
            records=self._state.known_group_records,
            random_id=config.new_member_name,
            check_lease=self.leases.check_not_held,
        )
        self.holds = GroupHolds()
        self._misplaced: frozenset[bytes] = frozenset()
        self._batch = padded_buffer(config.message_bytes_max)
        self._writers = WriteAuthorisation(self._state, self.membership, self.leases)
        form = BatchForm(config.offset_commit_value_version, config.message_bytes_max, self._batch)
        self.changes = OffsetChangeDecisions(self._state, self._writers, form)
        self._commits = CommitDecisions(self._state, self._writers, form)

    @property
    def offset_next(self) -> int:
        """The log offset of the next record."""
        return self._state.offset_next

    @property
    def offsets(self) -> OffsetTable:
        """The stored offsets, for reading."""
        return self._state.offsets

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of new batches."""
        return self._state.leader_epoch

    def decide(self, request: Request, now_ms: int, monotonic_ms: int = 0) -> Decision:
        """The batch to write and the answer. Changes nothing; a refusal is part of the decision."""
        now = Moment(now_ms, monotonic_ms)
        try:
            if self.holds.by_group and not isinstance(request, WriteGroup | EndConsumerMembers):
                self.holds.check_writer(request.group_id)
            if isinstance(request, CommitOffsets):
                return self._commits.decide(request, self._commit_terms(now))
            if isinstance(request, WriteGroup | EndConsumerMembers):
                return self._decide_members_change(request, now)
            if isinstance(request, ResetOffsets | PutOffsets | RestoreOffsets):
                return self.changes.decide(request, now)
            if isinstance(request, DeleteOffsets | DeleteGroup):
                return self.changes.decide_deletion(request, now)
            return self._decide_change(request, now)
        except CoordinatorError as refusal:
            return Decision(request, None, refusal)

    def apply(self, decision: Decision) -> None:
        """Replays a decision's batch, once it is appended, and keeps reported end offsets."""
        if decision.batch is None:
            if decision.is_unchanged and isinstance(decision.request, CommitOffsets):
                self.note_end_offsets(decision.request)
            for step in decision.steps():
                self.apply(step)
            return
        size = len(decision.batch)
        self._batch[:size] = np.frombuffer(decision.batch, np.uint8)
        self.replay(self._batch, 0, size)
        request = decision.request
        if isinstance(request, CommitOffsets):
            self.note_end_offsets(request)
        elif isinstance(request, DeleteGroup):
            self.membership.forget(request.group_id)
        elif isinstance(request, AcquireGroup) and isinstance(decision.reply, LeaseReply):
            self.leases.note(request.group_id, decision.reply)
        elif isinstance(request, ExpireOffsets):
            for group_id in request.gone:
                self.membership.forget(group_id)

    def _commit_terms(self, now: Moment) -> CommitTerms:
        return CommitTerms(now, self.offset_next, self.leader_epoch, self.unchanged_ms)

    @property
    def directory_row(self) -> Int64s:
        """The shard's row in a `kernels.table.table_directory`. It is always the same array."""
        return self._state.offsets.directory_row

    @property
    def has_guarded_groups(self) -> bool:
        """Returns whether there may be groups for which `is_guarded` is true."""
        return (
            self._state.has_group_records
            or bool(self.membership.groups)
            or bool(self.holds.by_group)
        )

    def is_guarded(self, group_id: bytes) -> bool:
        """Returns whether a group has members or records of its own, or is held.

        Commits to such a group are decided one by one, because they may be refused.
        """
        return (
            group_id in self.holds.by_group
            or self._state.known_group_records(group_id) is not None
            or self.membership.live(group_id) is not None
        )

    def replay_on(self, buffer: Bytes, end: int, cursor: Int64s) -> None:
        """Replays as `replay` does, from the place to which a kernel has moved the cursor."""
        self._state.replay_on(buffer, end, cursor)

    def keep_lag_of(self, window_ms: int) -> None:
        """Keeps samples of lag that span this time, of commits from now on. 0: none."""
        self._state.offsets.counters[SAMPLE_DISTANCE_MS] = -(-window_ms // SAMPLES_MAX)

    def note_end_offsets(self, commit: CommitOffsets) -> None:
        """Keeps the end offsets that a replayed commit reports."""
        if commit.reports_end_offsets:
            self._state.offsets.note_end_offsets(commit)

    def restore_members(self, now: Moment) -> list[Step]:
        """Restores groups that have members in their records. Called once, after the load.

        The leases start now.
        """
        self.leases.loaded_ms = now.monotonic_ms
        return self.membership.restore(
            (
                records
                for records in self._state.all_group_records()
                if records.group_id not in self._misplaced
            ),
            now,
        )

    def begin_load(self, offsets: int) -> None:
        """Makes room for a number of offsets at once, instead of growing step by step."""
        self._state.offsets.expect(offsets)

    def replay(self, buffer: Bytes, start: int, end: int) -> None:
        """Replays the whole, checked batches of `buffer[start:end]`; the buffer is padded.

        Records that cannot be understood are counted and kept; they never raise an error. Raises
        CorruptBatch if the bytes are not whole batches.
        """
        self._state.replay(buffer, start, end)

    def end_load(self, *, offset_next: int, leader_epoch: int) -> None:
        """Notes that the whole log is replayed, so that the shard may write.

        `offset_next` is the log's end: compaction may have removed the last batches.
        """
        self._state.end_load(offset_next=offset_next, leader_epoch=leader_epoch)
        # A new group is added to this shard only if its hash belongs here, so the set never grows.
        self._misplaced = frozenset(self.misplaced_groups())

    def fetch_into(self, answer: FetchAnswer, selection: GroupSelection, rule: GroupRule) -> None:
        """Adds the selected offsets to the answer. Offsets that are not stored are left out.

        Raises:
            UnstableOffsetCommit: a stable read, and a transaction has pending offsets.
            RecordUndecodable: a selected record cannot be read.
            ResponseTooLarge: the answer becomes too large.
        """
        group_id, state = selection.group_id, self._state
        self.holds.check_reader(group_id)
        if selection.require_stable and selection.has_any_of(state.pending.partitions(group_id)):
            raise UnstableOffsetCommit(
                "a transaction has offsets pending for group {group!r}", group=group_id
            )
        answer.add(state.offsets, selection, rule, log_partition=self.partition)

    def offsets_at_most(self, selection: GroupSelection) -> int:
        """The largest number of offsets that a fetch may have to read."""
        if selection.partitions is not None:
            return len(selection.partitions)
        names = selection.names[selection.group_start :]
        return self._state.offsets.count(selection.group_id, names)

    def pending_partitions(self, group_id: bytes) -> AbstractSet[tuple[bytes, int]]:
        """The partitions of a group for which a transaction has pending offsets."""
        return self._state.pending.partitions(group_id)

    def fetch(self, group_id: bytes) -> list[CommittedOffset]:
        """All committed offsets of a group, sorted. Raises RecordUndecodable."""
        self.holds.check_reader(group_id)
        offsets = self._state.offsets.read_group(group_id)
        for offset in offsets:
            if not offset.is_decodable:
                raise undecodable_offset(group_id, offset.topic, offset.partition)
        offsets.sort()
        return offsets

    def fetch_columns(self, group_id: bytes) -> CommittedColumns:
        """All committed offsets of a group, by column. Raises RecordUndecodable."""
        self.holds.check_reader(group_id)
        stored = self._state.offsets.read_columns(group_id)
        if not all(stored.are_decodable):
            place = stored.are_decodable.index(False)
            raise undecodable_offset(group_id, stored.topics[place], stored.partitions[place])
        return stored

    def list_groups(self, search: GroupSearch, now: Moment) -> Iterator[list[GroupListing]]:
        """The groups that are looked for, unsorted, in lists: see `GroupLists.parts`.

        Groups that `end_load` found misplaced are left out: no other call finds them either.
        """
        lists = GroupLists(self._state, self.membership, self.leases, self._misplaced)
        return lists.parts(search, now)

    def get_group(self, group_id: bytes, now_ms: int = 0, monotonic_ms: int = 0) -> Group:
        """One group. Raises GroupIdNotFound, RecordUndecodable, CoordinatorLoadInProgress."""
        self.holds.check_reader(group_id)
        live = self.membership.live(group_id)
        if live is None and not self._state.has_group(group_id):
            raise GroupIdNotFound("there is no group {group!r}", group=group_id)
        records = self._state.group_records(group_id)
        if live is None and not records.is_readable:
            raise RecordUndecodable("a record of group {group!r} cannot be read", group=group_id)
        return attrs.evolve(
            (live or records).describe(self._state.offsets.count(group_id)),
            settings=records.settings,
            lease=self.leases.status(group_id, Moment(now_ms, monotonic_ms)),
        )

    def member_count(self, group_id: bytes) -> int:
        """The number of members of a group; 0 if it does not exist."""
        live = self.membership.live(group_id)
        records = self._state.known_group_records(group_id)
        if live is not None:
            return len(live.members)
        return 0 if records is None else records.member_count

    def live_group_state(self, group_id: bytes) -> GroupState | None:
        """The state of a group that differs from its records; None if they say everything."""
        live = self.membership.live(group_id)
        return None if live is None else live.state

    def expiry_rules(self, terms: ExpiryTerms, now: Moment) -> ShardRules:
        """The rules by which groups expire. A lease that is held now counts as held for good."""
        return ShardRules(
            self._state,
            terms,
            live_state=self.live_group_state,
            has_lease=lambda group_id: self.leases.is_held(group_id, now),
        )

    def decide_expiry(self, request: ExpireOffsets, now_ms: int) -> Decision:
        """Tombstones for the keys that a sweep has just found. Changes nothing."""
        batches = encode_tombstones(
            request.keys,
            request.ends,
            request_id=b"",
            now_ms=now_ms,
            base_offset=self.offset_next,
            leader_epoch=self.leader_epoch,
            out=self._batch,
        )
        _, last_offset = batches[-1]
        reply = DeleteOffsetsReply(last_offset, ())
        return Decision(request, reply, None, None, last_offset, now_ms, batches)

    def counters(self) -> ShardCounters:
        """Counts for logs and metrics."""
        state = self._state
        return ShardCounters(
            offset_count=state.offsets.size,
            group_count=state.group_count,
            pending_offset_count=len(state.pending),
            unknown_records=state.unknown_records,
            undecodable_records=state.undecodable_records,
            table_bytes=state.offsets.reserved_bytes,
        )

    @property
    def offset_count(self) -> int:
        """The number of offsets. Any thread may read this and the next two, at any time."""
        return self._state.offsets.size

    @property
    def groups_with_offsets(self) -> int:
        """The number of groups with offsets. Unlike `counters`, it needs no walk over the state."""
        return self._state.offsets.group_count

    @property
    def useless_records(self) -> int:
        """Records in its log whose type is unknown, or whose bytes cannot be decoded."""
        return self._state.unknown_records + self._state.undecodable_records

    def misplaced_groups(self) -> list[bytes]:
        """Groups that are here although their hash belongs to another partition."""
        return self._state.misplaced_groups(self.partition, self.config.partitions)

    def _decide_change(self, request: GroupChange, now: Moment) -> Decision:
        return decide_group_change(self._state, request, self._situation(request.group_id, now))

    def _decide_members_change(self, request: MembersChange, now: Moment) -> Decision:
        records = self._state.group_records(request.group_id)
        return decide_members_change(records, request, self._situation(request.group_id, now))

    def _situation(self, group_id: bytes, now: Moment) -> Situation:
        return Situation(
            now=now,
            loaded_ms=self.leases.loaded_ms,
            has_members=self._writers.has_members(group_id),
            offset_next=self.offset_next,
            leader_epoch=self.leader_epoch,
            bytes_max=self.config.message_bytes_max,
        )
