"""The members of a group, and the results of their calls: plain values, no protobuf."""

from collections.abc import Mapping

import attrs

from offsetd_clients.errors import OffsetdError
from offsetd_clients.values import Revision


@attrs.frozen(kw_only=True)
class Membership:
    """A member in one generation of its group. Its later calls need this value."""

    group_id: str
    member_id: str
    generation_id: int
    instance_id: str | None = None


@attrs.frozen(kw_only=True)
class JoinedMember:
    """The leader's view of a member. `metadata` is that for the chosen protocol."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@attrs.frozen(kw_only=True)
class JoinedGroup:
    """A member's view of a generation. The leader gets all `members`, the others none.

    `skip_assignment`: the member leads, but the assignments do not change. It syncs without
    assignments.
    """

    membership: Membership
    protocol_type: str
    protocol: str
    leader_id: str
    members: tuple[JoinedMember, ...]
    skip_assignment: bool

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self.membership.member_id


@attrs.frozen(kw_only=True)
class MemberToRemove:
    """A member to remove: by its member id, or a static member by its instance id alone."""

    member_id: str = ""
    instance_id: str | None = None


@attrs.frozen(kw_only=True)
class RemovedMembers:
    """The members that were removed, and those that were not, with the reason.

    Members have the names used in the call. `revision` is the revision of the audit record of this
    change. It is None if there was no member to remove, or if the call only validated.
    """

    removed: tuple[MemberToRemove, ...]
    refused: Mapping[MemberToRemove, OffsetdError]
    revision: Revision | None
