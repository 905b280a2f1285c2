"""What members are told, and who they are: plain values, no protobuf."""

from collections.abc import Mapping

import attrs

from offsetd_clients.errors import OffsetdError
from offsetd_clients.values import Revision


@attrs.frozen(kw_only=True)
class Membership:
    """A member in one generation of its group: what its further calls are made with."""

    group_id: str
    member_id: str
    generation_id: int
    instance_id: str | None = None


@attrs.frozen(kw_only=True)
class JoinedMember:
    """A member as the leader is told of it; `metadata` is what it said under the protocol."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@attrs.frozen(kw_only=True)
class JoinedGroup:
    """A generation, as a member is told of it. `members` are all of them if it leads, else none.

    `skip_assignment`: it leads, but the assignments stand: it syncs without any.
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
    """A member by its id, or a static one by its instance id alone."""

    member_id: str = ""
    instance_id: str | None = None


@attrs.frozen(kw_only=True)
class RemovedMembers:
    """Who was removed, and who could not be, and why, as they were named.

    `revision`, in `__offsetd_audit`, None: there was nobody to remove, or it was only validated.
    """

    removed: tuple[MemberToRemove, ...]
    refused: Mapping[MemberToRemove, OffsetdError]
    revision: Revision | None
