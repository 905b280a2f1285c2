"""The members of a group, and the results of their calls: plain values, no protobuf."""

from collections.abc import Mapping

import attrs

from offsetd_clients.errors import OffsetdError
from offsetd_clients.values import Revision


@attrs.frozen(kw_only=True)
class Membership:
    """A member in one generation of its group, as its later calls need it."""

    group_id: str
    member_id: str
    generation_id: int
    instance_id: str | None = None


@attrs.frozen(kw_only=True)
class JoinedMember:
    """A member, as the leader sees it. `metadata` is what it sent for the chosen protocol."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@attrs.frozen(kw_only=True)
class JoinedGroup:
    """A generation, as a member sees it. The leader gets all `members`, the others none.

    `skip_assignment`: the member leads, but the assignments stay as they are. It syncs without any.
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

    Members are named as in the call. `revision` is in `__offsetd_audit`; None: there was no member
    to remove, or the call only validated.
    """

    removed: tuple[MemberToRemove, ...]
    refused: Mapping[MemberToRemove, OffsetdError]
    revision: Revision | None
