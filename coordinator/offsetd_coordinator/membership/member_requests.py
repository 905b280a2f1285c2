"""The requests of group members and the answers to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from offsetd_storage.offsets_topic.schemas.group_metadata import GroupMetadataValue

    from offsetd_coordinator.errors import CoordinatorError

    Token = Hashable
    """Identifies a waiting call; chosen by the caller of this room, never None."""

    Outcome: TypeAlias = "Joined | Synced | Left | CoordinatorError"

GENERATION_NONE = -1


class Moment(NamedTuple):
    """The present time: by the wall clock for records, by the monotonic clock for waiting."""

    wall_ms: int
    monotonic_ms: int


class MemberIdentity(NamedTuple):
    """The identity with which a member makes a call."""

    member_id: str = ""
    generation: int = GENERATION_NONE
    instance_id: str | None = None


@attrs.frozen(kw_only=True)
class JoinGroup:
    """A member joins the next generation. `member_id` is empty in its first request.

    `protocols` are names with the member's metadata for each, in order of preference.
    """

    group_id: bytes
    member_id: str = ""
    instance_id: str | None = None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]


@attrs.frozen(kw_only=True)
class SyncGroup:
    """A member asks for its assignment; the leader sends all assignments, by member id.

    If `protocol_type` or `protocol` is given, it must be the group's.
    """

    group_id: bytes
    member: MemberIdentity
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class LeaveGroup:
    """Members leave or are removed: by member id, or by instance id with an empty member id."""

    group_id: bytes
    members: tuple[tuple[str, str | None], ...]


class JoinedMember(NamedTuple):
    """A member in the answer to the leader's join."""

    member_id: str
    instance_id: str | None
    subscription: bytes


class Joined(NamedTuple):
    """The member is in a generation. `members` is empty unless it leads.

    `skips_assignment` means that it leads, but the assignments stay, and SyncGroup returns its own.
    """

    member_id: str
    generation: int
    protocol_type: str
    protocol: str
    leader_id: str
    members: tuple[JoinedMember, ...]
    skips_assignment: bool


class Synced(NamedTuple):
    """The member's assignment in a stable generation."""

    protocol_type: str
    protocol: str
    assignment: bytes


class LeftMember(NamedTuple):
    """A member in the form that LeaveGroup named it. `refusal` is None if the member has left."""

    member_id: str
    instance_id: str | None
    refusal: CoordinatorError | None


class Left(NamedTuple):
    """The result for each member of a LeaveGroup, in its order."""

    members: tuple[LeftMember, ...]


class Answer(NamedTuple):
    """The answer to a waiting call."""

    token: Token
    outcome: Outcome


@attrs.define(kw_only=True, eq=False)
class Step:
    """The consequences of one call or one deadline.

    If there is a `record`, it has to be written before the group's next request. Then
    `Membership.settle` returns the step that follows. The answers may be sent once all records
    written so far are durable.
    """

    group_id: bytes
    answers: list[Answer] = attrs.field(factory=list)
    record: GroupMetadataValue | None = None
    ended_consumer_ids: tuple[str, ...] = ()
    """Members of a KIP-848 group to remove from its records. If there are any, `record` is None."""

    def answer(self, token: Token | None, outcome: Outcome) -> None:
        """Adds the answer to a call. A `token` of None means that no call waits."""
        if token is not None:
            self.answers.append(Answer(token, outcome))
