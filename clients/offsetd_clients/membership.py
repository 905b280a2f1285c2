"""Classic membership: the calls of a member, and what it is told. The consumer's business is above.

A member joins, and if it leads assigns (`assignors`), syncs, and then sends heartbeats. Where one
of these raises `RebalanceInProgress`, `IllegalGeneration` or `UnknownMember` it joins again, after
`UnknownMember` without its member id.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import attrs
from offsetd.v1 import group_service_pb2, offset_service_pb2
from offsetd.v1.group_service_pb2_grpc import GroupServiceStub

from offsetd_clients import messages
from offsetd_clients.errors import MemberIdRequired, OffsetdError
from offsetd_clients.retry import TIMEOUT_S_MAX, RetryPolicy
from offsetd_clients.values import Revision

if TYPE_CHECKING:
    import grpc

JOIN_TIMEOUT_S_MIN = 310.0
"""Longer than the server keeps a new member waiting."""


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


class MembershipCalls:
    """The part of a client that members need."""

    _groups: GroupServiceStub
    _retry: RetryPolicy

    def join_group(
        self,
        group_id: str,
        protocols: Mapping[str, bytes],
        *,
        member_id: str = "",
        instance_id: str | None = None,
        client_id: str = "offsetd",
        protocol_type: str = "consumer",
        session_timeout_s: float = 45.0,
        rebalance_timeout_s: float = 300.0,
        reason: str = "",
    ) -> JoinedGroup:
        """Joins, and waits until the next generation begins: at the longest `rebalance_timeout_s`.

        `protocols`: what the member says under each assignor that it knows, the preferred one
        first. A new member is told its id first and joins with it, without the caller's doing.
        """
        with messages.building("join"):
            request = group_service_pb2.JoinGroupRequest(
                group_id=group_id,
                member_id=member_id,
                instance_id=instance_id,
                client_id=client_id,
                session_timeout=timedelta(seconds=session_timeout_s),
                rebalance_timeout=timedelta(seconds=rebalance_timeout_s),
                protocol_type=protocol_type,
                protocols=[
                    group_service_pb2.GroupProtocol(name=name, metadata=metadata)
                    for name, metadata in protocols.items()
                ],
                reason=reason,
            )
        wait_s = min(max(JOIN_TIMEOUT_S_MIN, rebalance_timeout_s + 10.0), TIMEOUT_S_MAX)
        try:
            response = self._call(self._groups.JoinGroup, request, wait_s=wait_s)
        except MemberIdRequired as required:
            request.member_id = required.member_id
            response = self._call(self._groups.JoinGroup, request, wait_s=wait_s)
        return _joined_group(group_id, instance_id, response)

    def sync_group(
        self,
        membership: Membership,
        assignments: Mapping[str, bytes] | None = None,
        *,
        wait_s: float = 300.0,
    ) -> bytes:
        """The member's assignment; the leader brings those of all, by member id.

        It waits for the leader: at the longest `wait_s`, which is best the rebalance timeout.
        """
        with messages.building("sync"):
            request = group_service_pb2.SyncGroupRequest(
                group_id=membership.group_id,
                member_id=membership.member_id,
                instance_id=membership.instance_id,
                generation_id=membership.generation_id,
                assignments=[
                    group_service_pb2.MemberAssignment(member_id=member_id, assignment=assignment)
                    for member_id, assignment in (assignments or {}).items()
                ],
            )
        response = self._call(self._groups.SyncGroup, request, wait_s=wait_s)
        assignment: bytes = response.assignment
        return assignment

    def heartbeat(self, membership: Membership) -> None:
        """A sign of life. Raises `RebalanceInProgress` where the member is to join again."""
        request = group_service_pb2.HeartbeatRequest(
            group_id=membership.group_id,
            member_id=membership.member_id,
            instance_id=membership.instance_id,
            generation_id=membership.generation_id,
        )
        self._call(self._groups.Heartbeat, request)

    def leave_group(
        self, group_id: str, members: Iterable[MemberToRemove], *, reason: str = ""
    ) -> dict[MemberToRemove, OffsetdError]:
        """Members leave, or are removed; returns those that could not, and why."""
        leaving = messages.several("members", members)
        with messages.building("leave"):
            request = group_service_pb2.LeaveGroupRequest(
                group_id=group_id,
                members=[
                    group_service_pb2.LeavingMember(
                        member_id=each.member_id, instance_id=each.instance_id, reason=reason
                    )
                    for each in leaving
                ],
            )
        return _refused(self._call(self._groups.LeaveGroup, request).members)

    def remove_members(
        self,
        group_id: str,
        members: Iterable[MemberToRemove] | None,
        *,
        validate_only: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> RemovedMembers:
        """Removes members as an operator, which is recorded; None: all of them.

        Those who stay rebalance; a consumer that is still there joins again. Raises
        `GroupNotFound`.
        """
        named = () if members is None else messages.several("members", members)
        with messages.building("remove members"):
            request = group_service_pb2.RemoveMembersRequest(
                group_id=group_id,
                members=[
                    group_service_pb2.MemberToRemove(
                        member_id=each.member_id, instance_id=each.instance_id
                    )
                    for each in named
                ],
                all=members is None,
                request_id=request_id or uuid4().hex,
                validate_only=validate_only,
                reason=reason,
            )
        response = self._call(self._groups.RemoveMembers, request)
        return RemovedMembers(
            removed=tuple(_named(each) for each in response.members if not each.HasField("error")),
            refused=_refused(response.members),
            revision=(
                messages.revision_of(response.revision) if response.HasField("revision") else None
            ),
        )

    def _call(
        self,
        method: "grpc.UnaryUnaryMultiCallable[Any, Any]",
        request: Any,
        *,
        wait_s: float | None = None,
    ) -> Any:
        raise NotImplementedError


def note_member(
    request: offset_service_pb2.CommitOffsetsRequest, membership: Membership | None
) -> None:
    """Says which member a commit comes from, if it does from one."""
    if membership is not None:
        request.generation_id = membership.generation_id
        request.member_id = membership.member_id
        if membership.instance_id is not None:
            request.instance_id = membership.instance_id


def _joined_group(
    group_id: str, instance_id: str | None, response: group_service_pb2.JoinGroupResponse
) -> JoinedGroup:
    return JoinedGroup(
        membership=Membership(
            group_id=group_id,
            member_id=response.member_id,
            generation_id=response.generation_id,
            instance_id=instance_id,
        ),
        protocol_type=response.protocol_type,
        protocol=response.protocol,
        leader_id=response.leader_id,
        members=tuple(
            JoinedMember(
                member_id=each.member_id,
                instance_id=each.instance_id if each.HasField("instance_id") else None,
                metadata=each.metadata,
            )
            for each in response.members
        ),
        skip_assignment=response.skip_assignment,
    )


def _refused(
    members: Iterable[group_service_pb2.LeftMember],
) -> dict[MemberToRemove, OffsetdError]:
    return {
        _named(each): messages.error_in(each.error) for each in members if each.HasField("error")
    }


def _named(member: group_service_pb2.LeftMember) -> MemberToRemove:
    return MemberToRemove(
        member_id=member.member_id,
        instance_id=member.instance_id if member.HasField("instance_id") else None,
    )
