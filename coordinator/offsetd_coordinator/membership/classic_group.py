"""One classic group: its members, generation, protocol and state.

Rules: those of Kafka's ClassicGroup. The transitions between states are in `rebalance`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import attrs
from offsetd_storage.offsets_topic.group_listing import (
    Group,
    GroupListing,
    GroupMember,
    GroupState,
    GroupType,
)
from offsetd_storage.offsets_topic.group_records import TopicsRead, read_protocol
from offsetd_storage.offsets_topic.schemas.group_metadata import GroupMember as MemberRecord
from offsetd_storage.offsets_topic.schemas.group_metadata import GroupMetadataValue
from offsetd_storage.offsets_topic.schemas.protocol_metadata import CONSUMER_PROTOCOL_TYPE

from offsetd_coordinator.errors import UnknownMemberId
from offsetd_coordinator.membership.member_requests import GENERATION_NONE, Joined, JoinedMember
from offsetd_coordinator.membership.refusals import (
    IllegalGeneration,
    RebalanceInProgress,
    commits_from_outside,
    fenced_instance,
    unknown_member,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from offsetd_coordinator.membership.member_requests import JoinGroup, MemberIdentity, Token

EMPTY: Final = GroupState.EMPTY
PREPARING: Final = GroupState.PREPARING_REBALANCE
COMPLETING: Final = GroupState.COMPLETING_REBALANCE
STABLE: Final = GroupState.STABLE
DEAD: Final = GroupState.DEAD

LEGAL_BEFORE: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    EMPTY: frozenset({PREPARING}),
    PREPARING: frozenset({STABLE, COMPLETING, EMPTY}),
    COMPLETING: frozenset({PREPARING}),
    STABLE: frozenset({COMPLETING}),
    DEAD: frozenset({EMPTY, PREPARING, COMPLETING, STABLE, DEAD}),
}
"""The states that may precede each state."""


@attrs.define(kw_only=True, eq=False)
class Member:
    """A member. The tokens identify its waiting calls; None without such a call."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""
    is_new: bool = False
    """Whether the member has not been in a generation yet."""
    join_token: Token | None = None
    sync_token: Token | None = None

    @classmethod
    def of_join(cls, member_id: str, join: JoinGroup, token: Token) -> Member:
        """A member that joins for the first time."""
        return cls(
            member_id=member_id,
            instance_id=join.instance_id,
            client_id=join.client_id,
            client_host=join.client_host,
            session_timeout_ms=join.session_timeout_ms,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            protocols=join.protocols,
            is_new=True,
            join_token=token,
        )

    @classmethod
    def of_record(cls, record: MemberRecord, protocol: str) -> Member:
        """A member of a group's record, with its metadata under the chosen protocol."""
        rebalance_timeout_ms = record.rebalance_timeout_ms
        return cls(
            member_id=record.member_id,
            instance_id=record.group_instance_id,
            client_id=record.client_id,
            client_host=record.client_host,
            session_timeout_ms=record.session_timeout_ms,
            rebalance_timeout_ms=(
                record.session_timeout_ms if rebalance_timeout_ms < 0 else rebalance_timeout_ms
            ),
            protocols=((protocol, record.subscription),),
            assignment=record.assignment,
        )

    def subscription(self, protocol: str) -> bytes:
        """Its metadata under a protocol; empty if it does not support the protocol."""
        return next((said for name, said in self.protocols if name == protocol), b"")

    def record(self, protocol: str, assignment: bytes) -> MemberRecord:
        """The member's entry in the group's record."""
        return MemberRecord(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.subscription(protocol),
            assignment=assignment,
        )

    @property
    def needs_no_heartbeat(self) -> bool:
        """Whether a waiting call proves that it is alive. A new member's call does not."""
        return not self.is_new and not (self.join_token is None and self.sync_token is None)


class ClassicGroup:
    """A group that has members, or is about to."""

    def __init__(self, group_id: bytes) -> None:
        self.group_id = group_id
        self.state = EMPTY
        self.state_before: GroupState | None = None
        self.state_timestamp_ms = -1
        self.generation = 0
        self.protocol_type = ""
        self.protocol = ""
        self.leader_id = ""
        self.members: dict[str, Member] = {}
        # Ids that were given to members that have not joined with them yet.
        self.promised_ids: set[str] = set()
        # Members of this generation that have not asked for their assignment yet.
        self.unsynced_ids: set[str] = set()
        # Whether a member joined since the initial delay began or was extended.
        self.has_newcomers = False
        # The time by which the initial delay may still be extended; None without a delay.
        self.initial_left_ms: int | None = None
        # Whether the log has everything that a restart needs.
        self.is_recorded = True
        self._instances: dict[str, str] = {}
        self._speakers: Counter[str] = Counter()
        self._topics_read: TopicsRead | None = None  # None if not computed since the last change.
        self._waiting_joins = 0

    @classmethod
    def of_record(cls, group_id: bytes, value: GroupMetadataValue) -> ClassicGroup:
        """A group from its newest record: Stable, or Empty without members."""
        group = cls(group_id)
        group.state_timestamp_ms = value.current_state_timestamp_ms
        group.generation = value.generation
        group.protocol_type = value.protocol_type
        group.protocol = value.protocol or ""
        for record in {each.member_id: each for each in value.members}.values():
            group.add(Member.of_record(record, group.protocol))
        if group.members:
            group.state = STABLE
            if value.leader in group.members:
                group.leader_id = value.leader or ""
        return group

    def record(self, assignments: Mapping[str, bytes] | None = None) -> GroupMetadataValue:
        """The value of the group's record, with its present assignments or with `assignments`."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol or None,
            leader=self.leader_id or None,
            current_state_timestamp_ms=self.state_timestamp_ms,
            members=tuple(
                member.record(
                    self.protocol,
                    member.assignment
                    if assignments is None
                    else assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ),
        )

    def enter(self, state: GroupState, wall_ms: int) -> None:
        """Changes the state."""
        assert self.state in LEGAL_BEFORE[state], f"{self.state!r} is never followed by {state!r}"
        self.state_before, self.state = self.state, state
        self.state_timestamp_ms = wall_ms

    # Members.

    def add(self, member: Member) -> None:
        """Adds a member; the first one leads until another leader is elected."""
        if not self.leader_id:
            self.leader_id = member.member_id
        self._put(member)
        self.promised_ids.discard(member.member_id)

    def remove(self, member_id: str) -> Member | None:
        """Removes a member or a promised id. The caller answers the member's calls."""
        member = self.members.get(member_id)
        if member is not None:
            self._take(member)
            if self.leader_id == member_id:
                self.leader_id = next(iter(self.members), "")
        self.promised_ids.discard(member_id)
        self.unsynced_ids.discard(member_id)
        return member

    def replace(self, old: Member, new: Member) -> None:
        """Replaces a static member by a new one with its instance id, and as leader if it leads.

        The new member keeps the position of the old one, because the order of members decides the
        next leader and is stored in the record.
        """
        is_leader = self.leader_id == old.member_id
        order = list(self.members)
        self._take(old)
        self._put(new)
        for member_id in order[order.index(old.member_id) + 1 :]:
            self.members[member_id] = self.members.pop(member_id)
        if is_leader:
            self.leader_id = new.member_id
        if old.member_id in self.unsynced_ids:
            self.unsynced_ids.discard(old.member_id)
            self.unsynced_ids.add(new.member_id)

    def update(self, member: Member, join: JoinGroup, token: Token) -> Token | None:
        """A member joins again. Returns the token of an earlier join that still waited."""
        earlier = member.join_token
        self._count_protocols(member, -1)
        member.protocols = join.protocols
        member.session_timeout_ms = join.session_timeout_ms
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        self._count_protocols(member, 1)
        self._waiting_joins += earlier is None
        member.join_token = token
        return earlier

    def take_join(self, member: Member) -> Token | None:
        """Returns and clears the token of the member's waiting join."""
        token, member.join_token = member.join_token, None
        self._waiting_joins -= token is not None
        return token

    def static_member(self, instance_id: str) -> Member | None:
        """The member with an instance id."""
        member_id = self._instances.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def find(self, identity: MemberIdentity) -> Member:
        """The member that makes the request. Raises UnknownMemberId, FencedInstanceId."""
        member_id, _, instance_id = identity
        if instance_id is not None:
            static = self.static_member(instance_id)
            if static is None:
                raise UnknownMemberId(
                    "group {group!r} has no member with instance id {instance_id!r}",
                    group=self.group_id,
                    instance_id=instance_id,
                )
            if static.member_id != member_id:
                raise fenced_instance(self.group_id, instance_id, member_id)
            return static
        member = self.members.get(member_id)
        if member is None:
            raise unknown_member(self.group_id, member_id)
        return member

    def find_in_generation(self, identity: MemberIdentity) -> Member:
        """Calls `find`. Raises its errors, and IllegalGeneration for another generation."""
        member = self.find(identity)
        if identity.generation != self.generation:
            raise IllegalGeneration(
                "generation {generation} of group {group!r} is not {current_generation}",
                group=self.group_id,
                generation=identity.generation,
                current_generation=self.generation,
            )
        return member

    # Protocols.

    def supports(self, protocol_type: str, protocols: Iterable[tuple[str, bytes]]) -> bool:
        """Whether every member supports at least one of `protocols`."""
        if self.state is EMPTY:
            return bool(protocol_type) and any(True for _ in protocols)
        return protocol_type == self.protocol_type and any(
            self._speakers[name] == len(self.members) for name, _ in protocols
        )

    def selected_protocol(self) -> str:
        """The protocol that most members prefer among those all support; needs a member."""
        everybody = len(self.members)
        spoken = {name for name, speakers in self._speakers.items() if speakers == everybody}
        votes = Counter(
            next(name for name, _ in member.protocols if name in spoken)
            for member in self.members.values()
        )
        return max(votes, key=votes.__getitem__)  # A tie goes to the first one that got a vote.

    def begin_generation(self, wall_ms: int) -> None:
        """Begins the next generation. All of the group's members have joined."""
        self.generation += 1
        self.unsynced_ids.clear()
        self.is_recorded = False
        if self.members:
            self.protocol = self.selected_protocol()
            self._topics_read = None
            self.enter(COMPLETING, wall_ms)
        else:
            self.protocol = ""
            self.enter(EMPTY, wall_ms)

    def elect_leader(self) -> bool:
        """Makes a member that has joined the leader. Returns False if there is none."""
        leader = self.members.get(self.leader_id)
        if leader is not None and leader.join_token is None:
            joined = (each for each in self.members.values() if each.join_token is not None)
            leader = next(joined, None)
            if leader is not None:
                self.leader_id = leader.member_id
        return leader is not None

    # Queries.

    is_readable = True
    group_type = GroupType.CLASSIC

    @property
    def has_members(self) -> bool:
        """Whether the group is not Empty. As in Kafka, a group that rebalances is not Empty."""
        return self.state is not EMPTY

    @property
    def is_ahead_of_record(self) -> bool:
        """Whether the group differs from its record, or may soon."""
        return self.state is not EMPTY or not self.is_recorded

    @property
    def waiting_joins(self) -> int:
        """The number of members that wait in a join."""
        return self._waiting_joins

    @property
    def have_all_joined(self) -> bool:
        """Whether all members have joined."""
        return self._waiting_joins == len(self.members) and not self.promised_ids

    @property
    def is_forgettable(self) -> bool:
        """Whether the record holds everything, so that the group may be dropped from memory."""
        return (
            self.state is EMPTY and self.is_recorded and not self.members and not self.promised_ids
        )

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest time that a member may take to join again."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    def joined(self, member: Member, *, skips_assignment: bool = False) -> Joined:
        """The answer to a member's join; the leader also gets the list of members."""
        members: tuple[JoinedMember, ...] = ()
        if member.member_id == self.leader_id:
            members = tuple(
                JoinedMember(each.member_id, each.instance_id, each.subscription(self.protocol))
                for each in self.members.values()
            )
        return Joined(
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader_id=self.leader_id,
            members=members,
            skips_assignment=skips_assignment,
        )

    def check_commit(self, identity: MemberIdentity | None) -> None:
        """Checks that a member, or a commit without a member, may commit offsets.

        The checks and their order are Kafka's, with one addition: a member may commit only after it
        has asked for its assignment of the generation.

        Raises UnknownMemberId, FencedInstanceId, IllegalGeneration, RebalanceInProgress.
        """
        if identity is None:
            if self.state is EMPTY:
                return
            raise commits_from_outside(self.group_id)
        if identity.generation <= GENERATION_NONE and self.state is EMPTY:
            return
        self.find_in_generation(identity)
        if self.state is COMPLETING:
            raise RebalanceInProgress(
                "group {group!r} waits for its leader's assignment", group=self.group_id
            )
        if identity.member_id in self.unsynced_ids:
            # The member may belong to a generation that was lost in a crash and had the same
            # number (ADR 0058). It becomes a member of this one when it asks for its assignment.
            raise RebalanceInProgress(
                "member {member_id!r} of group {group!r} has not asked for its assignment yet",
                group=self.group_id,
                member_id=identity.member_id,
            )

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member is subscribed to the topic, as far as that is known."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE or not self.members:
            return False
        if not self.protocol:
            return True  # As in Kafka: unknown subscriptions count as reading every topic.
        if self._topics_read is None:
            self._topics_read = TopicsRead.of(
                member.subscription(self.protocol) for member in self.members.values()
            )
        return self._topics_read.has(topic)

    def listing(self) -> GroupListing:
        """The group as an entry of a list."""
        return GroupListing(self.group_id, GroupType.CLASSIC, self.state, self.protocol_type)

    def describe(self, offset_count: int) -> Group:
        """The group in full. As in Kafka, only a stable one shows its members' subscriptions."""
        return Group(
            group_id=self.group_id,
            type=GroupType.CLASSIC,
            state=self.state,
            protocol_type=self.protocol_type,
            protocol=self.protocol if self.state is STABLE else "",
            generation=self.generation,
            leader_id=self.leader_id,
            members=tuple(map(self._describe_member, self.members.values())),
            offset_count=offset_count,
            state_timestamp_ms=self.state_timestamp_ms,
        )

    def _describe_member(self, member: Member) -> GroupMember:
        topics: tuple[str, ...] = ()
        assignment: tuple[tuple[str, int], ...] = ()
        if self.state is STABLE and self.protocol_type == CONSUMER_PROTOCOL_TYPE:
            topics, assignment = read_protocol(
                member.subscription(self.protocol), member.assignment
            )
        return GroupMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            topics=topics,
            assignment=assignment,
        )

    def _put(self, member: Member) -> None:
        assert member.member_id not in self.members, "a member comes in once"
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self._instances[member.instance_id] = member.member_id
        self._count_protocols(member, 1)
        self._waiting_joins += member.join_token is not None

    def _take(self, member: Member) -> None:
        del self.members[member.member_id]
        instance_id = member.instance_id
        if instance_id is not None and self._instances.get(instance_id) == member.member_id:
            del self._instances[instance_id]
        self._count_protocols(member, -1)
        self._waiting_joins -= member.join_token is not None

    def _count_protocols(self, member: Member, count: int) -> None:
        self._topics_read = None
        for name, _ in member.protocols:
            self._speakers[name] += count
            if not self._speakers[name]:
                del self._speakers[name]
