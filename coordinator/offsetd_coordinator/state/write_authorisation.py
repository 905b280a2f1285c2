"""Authorisation of writes: decides whether a caller may write to a group.

| write | the group's members | its lease | its records |
|---|---|---|---|
| commit | it comes from a member, or there is none | with its epoch, or not held | readable |
| reset, import, clone, restore | there is none, or it is forced | the same | the same |
| deletion of offsets | none reads their topics | with its epoch, or not held | readable |
| deletion of the group | there is none | not held | readable |
| acquisition of the lease | there is none | not held by others, or forced | readable |
| release of the lease | | with its epoch | |

A group that lives in memory counts as readable, except for its deletion and for its lease. A forced
acquisition only needs the records of members to be readable.

The rules and their order are Kafka's (GroupMetadataManager, OffsetMetadataManager), except for
leases, which Kafka does not have. `Shard.decide` refuses all writes to a group during a large
change of it (`shard.group_holds`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.offsets_topic.group_listing import GroupType
from offsetd_storage.offsets_topic.schemas.protocol_metadata import CONSUMER_PROTOCOL_TYPE

from offsetd_coordinator.errors import (
    CoordinatorError,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    NonEmptyGroup,
    RecordUndecodable,
)
from offsetd_coordinator.membership.refusals import commits_from_outside, unknown_member
from offsetd_coordinator.requests import DeleteGroup
from offsetd_coordinator.state.leases import check_not_held

if TYPE_CHECKING:
    from collections.abc import Collection

    from offsetd_storage.offsets_topic.group_listing import LeaseStatus
    from offsetd_storage.offsets_topic.group_records import GroupRecords

    from offsetd_coordinator.membership.classic_group import ClassicGroup
    from offsetd_coordinator.membership.group_membership import Membership
    from offsetd_coordinator.membership.member_requests import MemberIdentity, Moment
    from offsetd_coordinator.offset_changes import OffsetsChange, RestoreOffsets
    from offsetd_coordinator.requests import AcquireGroup, CommitOffsets, DeleteOffsets
    from offsetd_coordinator.state.leases import Leases
    from offsetd_coordinator.state.replayed_state import ReplayedState

UNREADABLE: Final = "a record of group {group!r} cannot be read"
_MAY_HAVE_MEMBERS: Final = "a record of group {group!r} cannot be read: it may have members"
_MAY_HAVE_MEMBERS_OR_A_LEASE: Final = (
    "a record of group {group!r} cannot be read: it may have members, or a lease"
)


class WriteAuthorisation:
    """Authorises writes to the groups of one shard by its state, living groups and leases."""

    def __init__(self, state: ReplayedState, membership: Membership, leases: Leases) -> None:
        self._state = state
        self._membership = membership
        self._leases = leases

    def has_group(self, group_id: bytes) -> bool:
        """Returns whether a group exists: in the stored state, or only in memory so far."""
        return self._membership.live(group_id) is not None or self._state.has_group(group_id)

    def has_promised(self, group_id: bytes) -> bool:
        """Returns whether a group has promised ids to members that have not joined yet."""
        return self._membership.has_promised(group_id)

    def has_members(self, group_id: bytes) -> bool:
        """Returns whether a group has members, including members that are not recorded yet."""
        return (self._membership.live(group_id) or self._state.group_records(group_id)).has_members

    def commit_refusal(self, commit: CommitOffsets, now: Moment) -> CoordinatorError | None:
        """The refusal if the client may not commit to this group, else None."""
        group_id = commit.group_id
        live = self._membership.live(group_id)
        records = self._state.known_group_records(group_id)
        if live is None and records is None and commit.member is None and commit.epoch < 0:
            return None
        try:
            if live is not None:
                live.check_commit(commit.member)
            else:
                has_group = (
                    records is not None
                    or self._state.has_group(group_id)
                    or self._membership.has_promised(group_id)
                )
                check_commit(group_id, records, commit.member, has_group=has_group)
            self._leases.check_writer(group_id, commit.epoch, now)
        except CoordinatorError as refusal:
            return refusal.without_traces()
        return None

    def check_change(self, request: OffsetsChange | RestoreOffsets, now: Moment) -> None:
        """Raises RecordUndecodable, NonEmptyGroup, LeaseHeld, unless the change is forced."""
        if request.is_forced:
            return
        group_id = request.group_id
        group = self._membership.live(group_id) or self._state.group_records(group_id)
        _check_may_have_members(group)
        _check_empty(group)
        self._leases.check_writer(group_id, -1, now)

    def check_deletion_lease(self, request: DeleteOffsets | DeleteGroup, now: Moment) -> None:
        """Raises EpochFenced, or LeaseHeld if the deletion has no epoch."""
        epoch = -1 if isinstance(request, DeleteGroup) else request.epoch
        self._leases.check_writer(request.group_id, epoch, now)

    def check_offsets_deletable(self, request: DeleteOffsets) -> None:
        """Raises RecordUndecodable, NonEmptyGroup, GroupSubscribedToTopic."""
        group_id = request.group_id
        group = self._membership.live(group_id) or self._state.group_records(group_id)
        _check_may_have_members(group)
        _check_unread(group, {*request.topics, *(topic for topic, _ in request.partitions)})

    def check_group_deletable(self, group_id: bytes) -> None:
        """Checks an existing group. Raises RecordUndecodable, NonEmptyGroup."""
        live, records = self._membership.live(group_id), self._state.group_records(group_id)
        if live is not None:
            _check_empty(live)
        _check_may_have_members(records)
        if live is None:
            _check_empty(records)


def check_commit(
    group_id: bytes,
    records: GroupRecords | None,
    member: MemberIdentity | None,
    *,
    has_group: bool,
) -> None:
    """Checks a commit to a group that has no member in memory. The order is Kafka's.

    Raises RecordUndecodable, UnknownMemberId, GroupIdNotFound.
    """
    if records is not None:
        check_readable(records, _MAY_HAVE_MEMBERS_OR_A_LEASE)
        if records.has_members:
            raise commits_from_outside(group_id)
    if member is None or member.generation < 0:
        return
    if not has_group:
        raise GroupIdNotFound("there is no group {group!r}", group=group_id)
    raise unknown_member(group_id, member.member_id)


def check_acquisition(
    records: GroupRecords, request: AcquireGroup, status: LeaseStatus | None, *, has_members: bool
) -> None:
    """Checks that a lease may be granted. `status` is the newest lease. `has_members` also counts
    members that are not recorded yet.

    Raises RecordUndecodable, LeaseHeld, NonEmptyGroup.
    """
    if not (request.force and records.is_readable_but_for_settings):
        check_readable(records)
    if not request.force and status is not None and status.lease.holder != request.holder:
        check_not_held(request.group_id, status)
    if has_members:
        raise _has_members(request.group_id)


def check_readable(group: GroupRecords | ClassicGroup, message: str = UNREADABLE) -> None:
    """Raises RecordUndecodable if a record of the group cannot be read.

    Such a record may have a lease or members; `message` may say so.
    """
    if not group.is_readable:
        raise RecordUndecodable(message, group=group.group_id)


def _check_may_have_members(group: GroupRecords | ClassicGroup) -> None:
    check_readable(group, _MAY_HAVE_MEMBERS)


def _check_empty(group: GroupRecords | ClassicGroup) -> None:
    if group.has_members:
        raise _has_members(group.group_id)


def _check_unread(group: GroupRecords | ClassicGroup, topics: Collection[bytes]) -> None:
    """Checks that no member reads these topics. The topics of other protocols are unknown."""
    if not group.has_members:
        return
    group_id = group.group_id
    if group.group_type is GroupType.CLASSIC and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _has_members(group_id)
    for topic in sorted(topics):
        if group.is_subscribed(topic.decode()):
            raise GroupSubscribedToTopic(
                "group {group!r} is subscribed to {topic!r}", group=group_id, topic=topic
            )


def _has_members(group_id: bytes) -> NonEmptyGroup:
    return NonEmptyGroup("group {group!r} has members", group=group_id)
