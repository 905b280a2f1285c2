"""Groups as their records describe them: types, states, and the fields of a listing."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

import attrs

if TYPE_CHECKING:
    from offsetd_storage.offsets_topic.schemas.group_settings import GroupSettings, Lease


class GroupType(enum.IntEnum):
    """The protocol of a group; the numbers are those of `offsetd.v1.GroupType`."""

    CLASSIC = 1
    CONSUMER = 2


class GroupState(enum.IntEnum):
    """A group's state; the numbers are those of `offsetd.v1.GroupState`."""

    UNSPECIFIED = 0  # its record cannot be read
    EMPTY = 1
    PREPARING_REBALANCE = 2
    COMPLETING_REBALANCE = 3
    STABLE = 4
    ASSIGNING = 5
    RECONCILING = 6
    DEAD = 7


class GroupListing(NamedTuple):
    """One line of a list of groups. `protocol_type` is empty for a simple group."""

    group_id: bytes
    type: GroupType
    state: GroupState
    protocol_type: str
    settings: GroupSettings | None = None


def simple_group(group_id: bytes) -> GroupListing:
    """The listing of a group that has offsets but no record of its own."""
    return GroupListing(group_id, GroupType.CLASSIC, GroupState.EMPTY, "")


@attrs.frozen(kw_only=True)
class GroupMember:
    """A member; `topics` are its subscription, `assignment` is the part assigned to it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    assignment: tuple[tuple[str, int], ...]


class LeaseStatus(NamedTuple):
    """A lease. `expire_ms` is its end by the wall clock, only for display."""

    lease: Lease
    expire_ms: int
    is_held: bool


@attrs.frozen(kw_only=True)
class Group:
    """A group with all details. For a KIP-848 group, `generation` is its epoch.

    `state_timestamp_ms` is -1 if it is not known.
    """

    group_id: bytes
    type: GroupType
    state: GroupState
    protocol_type: str
    protocol: str
    generation: int
    leader_id: str
    members: tuple[GroupMember, ...]
    offset_count: int
    state_timestamp_ms: int
    settings: GroupSettings | None = None
    lease: LeaseStatus | None = None
