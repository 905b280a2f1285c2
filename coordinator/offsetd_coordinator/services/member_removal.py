"""RemoveMembers: an operator removes members of a group, with an audit record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd.v1 import group_service_pb2
from offsetd_storage.offsets_topic.group_listing import GroupType

from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_PARTITION
from offsetd_coordinator.cooperative_scheduling import Turns
from offsetd_coordinator.errors import UnknownMemberId
from offsetd_coordinator.membership.member_requests import LeaveGroup, LeftMember
from offsetd_coordinator.membership.refusals import (
    FencedInstanceId,
    fenced_instance,
    unknown_member,
)
from offsetd_coordinator.messages import member_validation, validation
from offsetd_coordinator.messages.audit_events import group_event
from offsetd_coordinator.requests import EndConsumerMembers
from offsetd_coordinator.services.durable_answers import once_durable
from offsetd_coordinator.services.membership_calls import add_left_members, leave_in_turns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offsetd_storage.offsets_topic.group_listing import Group

    from offsetd_coordinator.errors import CoordinatorError
    from offsetd_coordinator.membership.group_membership import Membership
    from offsetd_coordinator.node import Node

    Names = Sequence[tuple[str, str | None]]
    """Members as a request names them: a member id, which may be empty, and an instance id."""
    Going = Mapping[str, str | None]
    """Instance ids by member id."""

METHOD: Final = "RemoveMembers"


class MemberRemoval:
    """The method: it takes a request's bytes and returns the answer's bytes."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def remove_members(self, message: bytes) -> bytes:
        """Removes members; answers once the removal and its audit event are durable."""
        runtime, administration = self._node.serving(), self._node.administering()
        received = validation.parse(group_service_pb2.RemoveMembersRequest, message)
        turns = Turns()
        names = await member_validation.members_to_remove(received, turns)
        group_id = validation.written_group_id(received.group_id)
        recorded = None
        if not received.validate_only:
            recorded = administration.find(METHOD, received.request_id)
        if recorded is not None:
            left = _left_before(group_id, names, recorded.event.what["members"])
        else:
            group = await once_durable(runtime, *runtime.get_group(group_id))
            if group.type is GroupType.CONSUMER:
                left, going = await _named_of_consumer_group(group, names, turns)
            else:
                left, going = await _named_now(
                    runtime.membership_of(group_id), group_id, names, turns
                )
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
        response = group_service_pb2.RemoveMembersResponse()
        await add_left_members(response.members, left, turns)
        if recorded is not None:
            # A member that has left or was fenced since then is not an error: it is removed too.
            going = recorded.event.what["members"]
            leaving = LeaveGroup(group_id=group_id, members=tuple(going.items()))
            await leave_in_turns(self._node.members, leaving, turns)
            ended = EndConsumerMembers(group_id=group_id, member_ids=tuple(going))
            await once_durable(runtime, *runtime.submit(ended))
            response.revision.log_partition = AUDIT_PARTITION.partition
            response.revision.log_offset = recorded.offset
        return response.SerializeToString()


async def _named_now(
    membership: Membership, group_id: bytes, names: Names | None, turns: Turns
) -> tuple[list[LeftMember], dict[str, str | None]]:
    """The result for each named member, and the members to remove. None names all members."""
    if names is None:
        names = [(each.member_id, each.instance_id) for each in membership.members(group_id)]
    left: list[LeftMember] = []
    going: dict[str, str | None] = {}
    async for member_id, instance_id in turns.each(names):
        refusal: CoordinatorError | None = None
        try:
            member = membership.named(group_id, member_id, instance_id)
            going[member.member_id] = member.instance_id
        except (UnknownMemberId, FencedInstanceId) as error:
            refusal = error.without_traces()
        left.append(LeftMember(member_id, instance_id, refusal))
    return left, going


async def _named_of_consumer_group(
    group: Group, names: Names | None, turns: Turns
) -> tuple[list[LeftMember], dict[str, str | None]]:
    """The result for each named member of a KIP-848 group, and the members to remove."""
    instances = {each.member_id: each.instance_id for each in group.members}
    ids = {each.instance_id: each.member_id for each in group.members if each.instance_id}
    if names is None:
        names = list(instances.items())
    left: list[LeftMember] = []
    going: dict[str, str | None] = {}
    async for named_id, instance_id in turns.each(names):
        member_id = named_id or ids.get(instance_id or "", "")
        refusal: CoordinatorError | None = None
        if member_id not in instances:
            refusal = unknown_member(group.group_id, named_id)
        elif instance_id is not None and instances[member_id] != instance_id:
            refusal = fenced_instance(group.group_id, instance_id, named_id)
        else:
            going[member_id] = instances[member_id]
        left.append(LeftMember(named_id, instance_id, refusal))
    return left, going


def _left_before(group_id: bytes, names: Names | None, going: Going) -> list[LeftMember]:
    """The result for each named member if an earlier try wrote the audit event with `going`."""
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
