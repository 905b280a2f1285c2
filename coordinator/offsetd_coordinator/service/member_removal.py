"""RemoveMembers: an operator removes members of a group, and that is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd.v1 import group_service_pb2
from offsetd_storage.offsets_topic.groups import GroupType

from offsetd_coordinator.errors import UnknownMemberId
from offsetd_coordinator.membership.calls import LeaveGroup, LeftMember
from offsetd_coordinator.membership.refusals import (
    FencedInstanceId,
    InconsistentGroupProtocol,
    unknown_member,
)
from offsetd_coordinator.service import member_validation, validation
from offsetd_coordinator.service.change_events import group_event
from offsetd_coordinator.service.durable import once_durable
from offsetd_coordinator.service.membership import left_member
from offsetd_coordinator.topics import AUDIT_PARTITION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offsetd_coordinator.errors import CoordinatorError
    from offsetd_coordinator.membership.membership import Membership
    from offsetd_coordinator.node import Node

    Names = Sequence[tuple[str, str | None]]
    """Of members: their ids, or none, and their instance ids."""
    Going = Mapping[str, str | None]
    """Instance ids by member id."""

METHOD: Final = "RemoveMembers"


class MemberRemoval:
    """The method, from a request's bytes to those of its answer."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def remove_members(self, message: bytes) -> bytes:
        """Removes members; the answer leaves when that is durable, and the record of it."""
        runtime, administration = self._node.serving(), self._node.administering()
        received = validation.parse(group_service_pb2.RemoveMembersRequest, message)
        names = member_validation.members_to_remove(received)
        group_id = validation.written_group_id(received.group_id)
        recorded = None
        if not received.validate_only:
            recorded = administration.find(METHOD, received.request_id)
        if recorded is not None:
            left = _left_before(group_id, names, recorded.event.what["members"])
        else:
            group = await once_durable(runtime, *runtime.get_group(group_id))
            if group.type is GroupType.CONSUMER:
                raise InconsistentGroupProtocol(
                    "group {group!r} is of the protocol of KIP-848", group=group_id
                )
            left, going = _named_now(runtime.membership_of(group_id), group_id, names)
            if going and not received.validate_only:
                event = group_event(
                    METHOD,
                    group_id,
                    {"members": going},
                    time_ms=administration.clock.now_ms(),
                    reason=received.reason,
                    request_id=received.request_id,
                )
                recorded = await administration.recorded(event)
        response = group_service_pb2.RemoveMembersResponse(members=map(left_member, left))
        if recorded is not None:
            # Who has gone meanwhile, or is fenced, is no member either.
            going = recorded.event.what["members"]
            await runtime.members.leave(LeaveGroup(group_id=group_id, members=tuple(going.items())))
            response.revision.log_partition = AUDIT_PARTITION.partition
            response.revision.log_offset = recorded.offset
        return response.SerializeToString()


def _named_now(
    membership: Membership, group_id: bytes, names: Names | None
) -> tuple[list[LeftMember], dict[str, str | None]]:
    """What is to become of those who are named (None: all), and the members that they are."""
    if names is None:
        names = [(each.member_id, each.instance_id) for each in membership.members(group_id)]
    left: list[LeftMember] = []
    going: dict[str, str | None] = {}
    for member_id, instance_id in names:
        refusal: CoordinatorError | None = None
        try:
            member = membership.named(group_id, member_id, instance_id)
            going[member.member_id] = member.instance_id
        except (UnknownMemberId, FencedInstanceId) as error:
            refusal = error.without_traces()
        left.append(LeftMember(member_id, instance_id, refusal))
    return left, going


def _left_before(group_id: bytes, names: Names | None, going: Going) -> list[LeftMember]:
    """What became of those who were named when `going` was recorded."""
    if names is None:
        return [
            LeftMember(member_id, instance_id, None) for member_id, instance_id in going.items()
        ]
    instances = set(going.values())
    return [
        LeftMember(
            member_id,
            instance_id,
            None
            if (member_id in going if member_id else instance_id in instances)
            else unknown_member(group_id, member_id),
        )
        for member_id, instance_id in names
    ]
