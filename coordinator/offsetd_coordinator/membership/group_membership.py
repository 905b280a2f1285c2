"""The groups of one shard that have members: members' requests and expired deadlines.

Pure: no clock, no futures, no writing. A call or a deadline changes a group and returns a `Step`. A
step's record must be written and settled before the next request.

Rules: those of Kafka's GroupMetadataManager for classic groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import attrs
from offsetd_storage.offsets_topic.group_listing import GroupType

from offsetd_coordinator.errors import CoordinatorError, RecordUndecodable
from offsetd_coordinator.membership.classic_group import (
    COMPLETING,
    EMPTY,
    PREPARING,
    STABLE,
    ClassicGroup,
)
from offsetd_coordinator.membership.joining import Joining
from offsetd_coordinator.membership.member_requests import (
    Left,
    LeftMember,
    MemberIdentity,
    Step,
)
from offsetd_coordinator.membership.rebalance import (
    RECORD_RETRY_MS,
    Rebalances,
    Timer,
    rebalances,
    synced,
)
from offsetd_coordinator.membership.refusals import InconsistentGroupProtocol, unknown_member

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from offsetd_storage.offsets_topic.group_records import GroupRecords

    from offsetd_coordinator.membership.classic_group import Member
    from offsetd_coordinator.membership.member_requests import (
        JoinGroup,
        LeaveGroup,
        Moment,
        SyncGroup,
        Token,
    )
    from offsetd_coordinator.membership.rebalance import MembershipConfig


class Membership:
    """The groups that have members, or ids promised to members that have not joined yet.

    An empty group is not kept here: it is made from its records when a member joins. `records`
    returns a group's records as replayed, or None if it has none. `random_id` returns text that
    cannot be guessed. `check_lease` raises LeaseHeld while a writer that is not a member holds a
    group's lease.
    """

    def __init__(
        self,
        config: MembershipConfig,
        *,
        records: Callable[[bytes], GroupRecords | None],
        random_id: Callable[[], str],
        check_lease: Callable[[bytes, Moment], None] = lambda *_: None,
    ) -> None:
        self.groups: dict[bytes, ClassicGroup] = {}
        self._records = records
        self._check_lease = check_lease
        self._rebalances = Rebalances(config)
        self._joining = Joining(self._rebalances, random_id)
        # The assignments that a leader has sent, until their record is settled.
        self._assignments: dict[bytes, Mapping[str, bytes]] = {}
        self._refusal_of_all: Callable[[], CoordinatorError] | None = None

    @property
    def next_deadline_ms(self) -> int | None:
        """The time to call `expire`, by the monotonic clock; it may be somewhat early."""
        return self._rebalances.deadlines.next_ms

    def restore(self, groups: Iterable[GroupRecords], now: Moment) -> list[Step]:
        """Restores groups that have members in their records. Each member's session begins.

        A group larger than the present limit rebalances. Members of a KIP-848 group cannot send
        heartbeats here, so all of them are removed when their sessions end.
        """
        steps = []
        for records in groups:
            if records.group_type is GroupType.CONSUMER:
                self._await_consumer_sessions(records, now)
                continue
            value = records.classic
            if value is None or not value.members:
                continue
            group = ClassicGroup.of_record(records.group_id, value)
            self.groups[group.group_id] = group
            for member in group.members.values():
                self._rebalances.expect_sign(group, member, now)
            if len(group.members) > self._rebalances.config.size_max:
                step = Step(group_id=group.group_id)
                self._rebalances.prepare(group, step, now)
                steps.append(step)
        return steps

    def join(self, request: JoinGroup, token: Token, now: Moment) -> Step:
        """Adds a member. The call is answered with the next generation, or refused at once."""
        step = Step(group_id=request.group_id)
        try:
            self._refuse_all()
            self._check_lease(request.group_id, now)
            group = self._group_to_join(request)
            self._joining.join(group, request, token, step, now)
        except CoordinatorError as refusal:
            step.answer(token, refusal)
        self._forget_if_empty(request.group_id)
        return step

    def sync(self, request: SyncGroup, token: Token, now: Moment) -> Step:
        """Requests a member's assignment. The call gets it once the leader's sync is written."""
        step = Step(group_id=request.group_id)
        try:
            self._sync(request, token, step, now)
        except CoordinatorError as refusal:
            step.answer(token, refusal)
        return step

    def heartbeat(self, group_id: bytes, identity: MemberIdentity, now: Moment) -> None:
        """Restarts a member's session.

        Raises UnknownMemberId, FencedInstanceId, IllegalGeneration, RebalanceInProgress,
        CoordinatorNotAvailable, RecordUndecodable.
        """
        group = self._known_group(group_id, identity)
        member = group.find_in_generation(identity)
        self._rebalances.expect_sign(group, member, now)
        if group.state is PREPARING:
            raise rebalances(group)

    def leave(self, request: LeaveGroup, token: Token, now: Moment) -> Step:
        """Removes members that leave, or that an operator removes. Each gets its own result."""
        step = Step(group_id=request.group_id)
        try:
            group = self._group_or_nobody(request.group_id)
        except CoordinatorError as refusal:
            step.answer(token, refusal)
            return step
        left = [self._leave(group, *each, step) for each in request.members]
        if any(each.refusal is None for each in left):
            if group.state in (STABLE, COMPLETING):
                self._rebalances.prepare(group, step, now)
            else:
                self._rebalances.complete_if_all_joined(group, step, now)
        step.answer(token, Left(tuple(left)))
        self._forget_if_empty(request.group_id)
        return step

    def live(self, group_id: bytes) -> ClassicGroup | None:
        """A group that differs from its records, or may soon; None if its records are complete."""
        group = self.groups.get(group_id)
        return group if group is not None and group.is_ahead_of_record else None

    def has_promised(self, group_id: bytes) -> bool:
        """Whether a group has promised ids to members that have not joined with them yet."""
        group = self.groups.get(group_id)
        return group is not None and bool(group.promised_ids)

    def members(self, group_id: bytes) -> list[Member]:
        """The members of a group. Raises CoordinatorNotAvailable, RecordUndecodable."""
        return list(self._group_or_nobody(group_id).members.values())

    def named(self, group_id: bytes, member_id: str, instance_id: str | None) -> Member:
        """The member that `LeaveGroup` names.

        Raises UnknownMemberId, FencedInstanceId, and the errors of `members`.
        """
        return _named(self._group_or_nobody(group_id), member_id, instance_id)

    def live_groups(self) -> Iterator[ClassicGroup]:
        """All groups for which `live` returns a group."""
        return (group for group in self.groups.values() if group.is_ahead_of_record)

    def note_commit(self, group_id: bytes, identity: MemberIdentity, now: Moment) -> None:
        """Restarts the session of a member that has committed."""
        group = self.groups.get(group_id)
        if group is not None and group.state in (STABLE, PREPARING):
            member = group.members.get(identity.member_id)
            if member is not None:
                self._rebalances.expect_sign(group, member, now)

    def expire(self, now: Moment) -> Iterator[Step]:
        """Yields the steps of expired deadlines; the caller settles each at once."""
        for group_id, timer, member_id in self._rebalances.deadlines.expired(now.monotonic_ms):
            if timer is Timer.CONSUMER_SESSIONS:
                ended = self._consumer_member_ids(group_id)
                if ended:
                    yield Step(group_id=group_id, ended_consumer_ids=ended)
                continue
            group = self.groups.get(group_id)
            if group is None:
                continue
            step = Step(group_id=group_id)
            match timer:
                case Timer.SESSION:
                    self._end_session(group, member_id, step, now)
                case Timer.JOIN:
                    self._rebalances.end_join_wait(group, step, now)
                case Timer.SYNC:
                    self._rebalances.end_sync_wait(group, step, now)
                case Timer.RECORD:
                    if group.state is EMPTY and not group.is_recorded:
                        step.record = group.record()
            self._forget_if_empty(group_id)
            yield step

    def settle(
        self, step: Step, refusal: Callable[[], CoordinatorError] | None, now: Moment
    ) -> Step:
        """Returns the next step after a step's record was written, or refused (with `refusal`)."""
        assert step.record is not None, "there was something to write"
        then = Step(group_id=step.group_id)
        group = self.groups[step.group_id]
        assignments = self._assignments.pop(group.group_id, None)
        if assignments is not None:
            if refusal is None:
                for member in group.members.values():
                    member.assignment = assignments.get(member.member_id, b"")
                wall_ms = step.record.current_state_timestamp_ms
                self._rebalances.settle(group, then, now._replace(wall_ms=wall_ms))
            else:
                self._rebalances.refuse_syncs(group, then, now, refusal)
                self._rebalances.prepare(group, then, now)
        elif group.state is EMPTY:
            if refusal is not None:
                self._rebalances.retry_record_later(group, now)
        else:
            self._joining.settle_replaced(group, then, refusal, now)
        if refusal is None:
            group.is_recorded = True
            self._forget_if_empty(group.group_id)
        assert then.record is None, "one record at a time"
        return then

    def retry_consumer_ends(self, group_id: bytes, now: Moment) -> None:
        """Schedules another try to remove a KIP-848 group's members: the record was refused."""
        self._rebalances.end_consumer_sessions_in(group_id, RECORD_RETRY_MS, now)

    def forget(self, group_id: bytes) -> None:
        """Forgets a deleted, empty group. Promised ids become invalid; generations start again."""
        group = self.groups.get(group_id)
        if group is not None and group.state is EMPTY:
            self._rebalances.forget(group)
            del self.groups[group_id]

    def close(self, refusal: Callable[[], CoordinatorError], now: Moment) -> Iterator[Step]:
        """Refuses all waiting calls and all later calls. The records stay."""
        self._refusal_of_all = refusal
        for group_id, group in list(self.groups.items()):
            step = Step(group_id=group_id)
            self._rebalances.die(group, step, now, refusal)
            yield step

    def _sync(self, request: SyncGroup, token: Token, step: Step, now: Moment) -> None:
        group = self._known_group(request.group_id, request.member)
        member = group.find_in_generation(request.member)
        for given, ours in (
            (request.protocol_type, group.protocol_type),
            (request.protocol, group.protocol),
        ):
            if given is not None and given != ours:
                raise InconsistentGroupProtocol(
                    "group {group!r} has {current_protocol!r}, not {protocol!r}",
                    group=group.group_id,
                    protocol=given,
                    current_protocol=ours,
                )
        if group.state is PREPARING:
            raise rebalances(group)
        self._rebalances.note_synced(group, member)
        if group.state is STABLE:
            self._rebalances.expect_sign(group, member, now)
            step.answer(token, synced(group, member))
            return
        if member.sync_token is not None:
            step.answer(member.sync_token, rebalances(group))  # Its client retries.
        member.sync_token = token
        if member.member_id == group.leader_id:
            self._assignments[group.group_id] = request.assignments
            # The time at which the group becomes stable, if this is written.
            step.record = attrs.evolve(
                group.record(request.assignments), current_state_timestamp_ms=now.wall_ms
            )

    def _leave(
        self, group: ClassicGroup, member_id: str, instance_id: str | None, step: Step
    ) -> LeftMember:
        """Removes one member, without the rebalance that may follow."""
        if member_id in group.promised_ids:
            group.remove(member_id)
            self._rebalances.expect_no_sign(group, member_id)
            return LeftMember(member_id, instance_id, None)
        try:
            member = _named(group, member_id, instance_id)
        except CoordinatorError as refusal:
            return LeftMember(member_id, instance_id, refusal)
        self._rebalances.remove(group, member, step)
        return LeftMember(member_id, instance_id, None)

    def _end_session(self, group: ClassicGroup, member_id: str, step: Step, now: Moment) -> None:
        if member_id in group.promised_ids:
            group.remove(member_id)
            self._rebalances.complete_if_all_joined(group, step, now)
            return
        member = group.members.get(member_id)
        if member is None or member.needs_no_heartbeat:
            return
        self._rebalances.remove(group, member, step)
        self._rebalances.prepare_or_complete(group, step, now)

    def _group_to_join(self, request: JoinGroup) -> ClassicGroup:
        """The group. It is made if there is none and the member is new."""
        group = self.groups.get(request.group_id)
        if group is not None:
            return group
        records = self._readable_records(request.group_id)
        is_consumer = records is not None and records.group_type is GroupType.CONSUMER
        if is_consumer and records is not None and records.has_members:
            raise InconsistentGroupProtocol(
                "group {group!r} has members of the protocol of KIP-848", group=request.group_id
            )
        if request.member_id:
            raise unknown_member(request.group_id, request.member_id)
        # An empty KIP-848 group becomes a classic group with its first classic record.
        value = None if records is None or is_consumer else records.classic
        group = (
            ClassicGroup(request.group_id)
            if value is None
            else ClassicGroup.of_record(request.group_id, value)
        )
        self.groups[request.group_id] = group
        return group

    def _await_consumer_sessions(self, records: GroupRecords, now: Moment) -> None:
        # Unreadable records may belong to members, whose sessions are unknown then.
        if records.has_members and records.is_readable_but_for_settings:
            timeout_ms = self._rebalances.config.consumer_session_timeout_ms
            self._rebalances.end_consumer_sessions_in(records.group_id, timeout_ms, now)

    def _consumer_member_ids(self, group_id: bytes) -> tuple[str, ...]:
        records = self._records(group_id)
        return () if records is None else tuple(records.consumer_member_ids())

    def _known_group(self, group_id: bytes, identity: MemberIdentity) -> ClassicGroup:
        """A group that has members. Raises UnknownMemberId, RecordUndecodable."""
        self._refuse_all()
        group = self.groups.get(group_id)
        if group is None:
            self._readable_records(group_id)
            raise unknown_member(group_id, identity.member_id)
        return group

    def _group_or_nobody(self, group_id: bytes) -> ClassicGroup:
        """A group, or an empty one. Raises RecordUndecodable."""
        self._refuse_all()
        group = self.groups.get(group_id)
        if group is None:
            self._readable_records(group_id)
            group = ClassicGroup(group_id)
        return group

    def _readable_records(self, group_id: bytes) -> GroupRecords | None:
        records = self._records(group_id)
        if records is not None and not records.is_readable:
            raise RecordUndecodable(
                "a record of group {group!r} cannot be read: it may have members", group=group_id
            )
        return records

    def _refuse_all(self) -> None:
        if self._refusal_of_all is not None:
            raise self._refusal_of_all()

    def _forget_if_empty(self, group_id: bytes) -> None:
        group = self.groups.get(group_id)
        if group is not None and group.is_forgettable:
            self._rebalances.forget(group)
            del self.groups[group_id]


def _named(group: ClassicGroup, member_id: str, instance_id: str | None) -> Member:
    if not member_id and instance_id is not None:
        # A request that names a static member by instance id need not know its member id.
        static = group.static_member(instance_id)
        member_id = "" if static is None else static.member_id
    return group.find(MemberIdentity(member_id, instance_id=instance_id))


def fresh_member_name() -> str:
    """The suffix of member ids, as in Kafka."""
    return str(uuid4())
