"""GroupService's member methods: join, sync, heartbeat, leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog
from offsetd.v1 import group_service_pb2

from offsetd_coordinator.calls import current_call
from offsetd_coordinator.cooperative_scheduling import Turns
from offsetd_coordinator.membership.member_requests import LeaveGroup
from offsetd_coordinator.messages import member_validation, statuses, validation
from offsetd_coordinator.runtime.commit_log import until_durable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

    from offsetd_coordinator.membership.member_requests import LeftMember
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.runtime.member_calls import MemberCalls

    LeftMembers = RepeatedCompositeFieldContainer[group_service_pb2.LeftMember]

_log = structlog.get_logger(__name__)

_LEAVING_AT_ONCE: Final = 100
_ITEMS_PER_LEFT_MEMBER: Final = 10
"""The number of items that one member counts in `Turns`: it takes tens of microseconds."""


class MembershipService:
    """The methods: each takes a request's bytes and returns the answer's bytes."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def join_group(self, message: bytes) -> bytes:
        """Joins the group; answers when the generation begins."""
        self._node.serving()
        members = self._node.members
        received = validation.parse(group_service_pb2.JoinGroupRequest, message)
        request = member_validation.join_group(received, client_host())
        joined = await members.join(request)
        _log.debug(
            "joined",
            group=received.group_id,
            member=joined.member_id,
            generation=joined.generation,
            reason=received.reason,
        )
        return group_service_pb2.JoinGroupResponse(
            member_id=joined.member_id,
            generation_id=joined.generation,
            protocol_type=joined.protocol_type,
            protocol=joined.protocol,
            leader_id=joined.leader_id,
            members=[
                group_service_pb2.JoinedMember(
                    member_id=each.member_id,
                    instance_id=each.instance_id,
                    metadata=each.subscription,
                )
                for each in joined.members
            ],
            skip_assignment=joined.skips_assignment,
        ).SerializeToString()

    async def sync_group(self, message: bytes) -> bytes:
        """Gets the member's assignment; answers when the generation's record is durable."""
        self._node.serving()
        members = self._node.members
        request = member_validation.sync_group(
            validation.parse(group_service_pb2.SyncGroupRequest, message)
        )
        synced = await members.sync(request)
        return group_service_pb2.SyncGroupResponse(
            protocol_type=synced.protocol_type,
            protocol=synced.protocol,
            assignment=synced.assignment,
        ).SerializeToString()

    async def heartbeat(self, message: bytes) -> bytes:
        """Extends the member's session."""
        runtime = self._node.serving()
        request = validation.parse(group_service_pb2.HeartbeatRequest, message)
        group_id = validation.written_group_id(request.group_id)
        identity = member_validation.member_identity(request)
        ticket, refusal = self._node.members.heartbeat(group_id, identity)
        await until_durable(runtime.log, ticket)
        if refusal is not None:
            raise refusal
        return b""  # HeartbeatResponse has no fields.

    async def leave_group(self, message: bytes) -> bytes:
        """Removes the named members. Each has its own result."""
        self._node.serving()
        members = self._node.members
        received = validation.parse(group_service_pb2.LeaveGroupRequest, message)
        turns = Turns()
        request = await member_validation.leave_group(received, turns)
        left = await leave_in_turns(members, request, turns)
        both = zip(received.members, left, strict=True)
        async for named, each in turns.each(both):
            if each.refusal is None:
                _log.info(
                    "member left",
                    group=received.group_id,
                    member=each.member_id,
                    instance=each.instance_id,
                    reason=named.reason,
                )
        response = group_service_pb2.LeaveGroupResponse()
        await add_left_members(response.members, left, turns)
        return response.SerializeToString()


def client_host() -> str:
    """The caller's address in Kafka's form: `/10.0.0.1`. Unix sockets have no address."""
    caller = current_call.caller()
    return f"/{caller.host}" if caller.address.startswith(("ipv4:", "ipv6:")) else "/"


async def leave_in_turns(
    members: MemberCalls, request: LeaveGroup, turns: Turns
) -> list[LeftMember]:
    """The result for each named member, in turns. Raises the errors of `MemberCalls.leave`."""
    left: list[LeftMember] = []
    for first in range(0, len(request.members), _LEAVING_AT_ONCE):
        some = request.members[first : first + _LEAVING_AT_ONCE]
        left += (await members.leave(LeaveGroup(group_id=request.group_id, members=some))).members
        await turns.spend(_ITEMS_PER_LEFT_MEMBER * len(some))
    return left


async def add_left_members(messages: LeftMembers, left: Iterable[LeftMember], turns: Turns) -> None:
    """Adds the result of each named member to `messages`, in turns."""
    for each in left:
        messages.add(
            member_id=each.member_id,
            instance_id=each.instance_id,
            error=None if each.refusal is None else statuses.status_of(each.refusal),
        )
        await turns.spend(_ITEMS_PER_LEFT_MEMBER)
