"""Conversions between values and messages, without IO: the calls of members."""

from collections.abc import Iterable, Mapping
from datetime import timedelta

from offsetd.v1 import group_service_pb2, offset_service_pb2

from offsetd_clients.errors import OffsetdError
from offsetd_clients.membership_values import (
    JoinedGroup,
    JoinedMember,
    Membership,
    MemberToRemove,
    RemovedMembers,
)
from offsetd_clients.messages.conversions import building, error_in, revision_of, several, text_of


def join_request(
    group_id: str,
    protocols: Mapping[str, bytes],
    *,
    member_id: str,
    instance_id: str | None,
    client_id: str,
    protocol_type: str,
    session_timeout_s: float,
    rebalance_timeout_s: float,
    reason: str,
) -> group_service_pb2.JoinGroupRequest:
    """A JoinGroupRequest. `protocols` has the preferred one first."""
    with building("join"):
        return group_service_pb2.JoinGroupRequest(
            group_id=text_of("group_id", group_id),
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


def sync_request(
    membership: Membership, assignments: Mapping[str, bytes]
) -> group_service_pb2.SyncGroupRequest:
    """A SyncGroupRequest. The leader's request has the assignments by member id."""
    with building("sync"):
        return group_service_pb2.SyncGroupRequest(
            group_id=membership.group_id,
            member_id=membership.member_id,
            instance_id=membership.instance_id,
            generation_id=membership.generation_id,
            assignments=[
                group_service_pb2.MemberAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in assignments.items()
            ],
        )


def heartbeat_request(membership: Membership) -> group_service_pb2.HeartbeatRequest:
    """A HeartbeatRequest."""
    return group_service_pb2.HeartbeatRequest(
        group_id=membership.group_id,
        member_id=membership.member_id,
        instance_id=membership.instance_id,
        generation_id=membership.generation_id,
    )


def leave_request(
    group_id: str, members: Iterable[MemberToRemove], *, reason: str
) -> group_service_pb2.LeaveGroupRequest:
    """A LeaveGroupRequest for some members."""
    leaving = several("members", members)
    with building("leave"):
        return group_service_pb2.LeaveGroupRequest(
            group_id=text_of("group_id", group_id),
            members=[
                group_service_pb2.LeavingMember(
                    member_id=each.member_id, instance_id=each.instance_id, reason=reason
                )
                for each in leaving
            ],
        )


def remove_members_request(
    group_id: str,
    members: Iterable[MemberToRemove] | None,
    *,
    request_id: str,
    validate_only: bool,
    reason: str,
) -> group_service_pb2.RemoveMembersRequest:
    """A RemoveMembersRequest for members that an operator removes; for all if it is None."""
    named = () if members is None else several("members", members)
    with building("remove members"):
        return group_service_pb2.RemoveMembersRequest(
            group_id=text_of("group_id", group_id),
            members=[
                group_service_pb2.MemberToRemove(
                    member_id=each.member_id, instance_id=each.instance_id
                )
                for each in named
            ],
            all=members is None,
            request_id=request_id,
            validate_only=validate_only,
            reason=reason,
        )


def note_member(
    request: offset_service_pb2.CommitOffsetsRequest, membership: Membership | None
) -> None:
    """Adds the committing member to a commit, if there is one."""
    if membership is not None:
        request.generation_id = membership.generation_id
        request.member_id = membership.member_id
        if membership.instance_id is not None:
            request.instance_id = membership.instance_id


def joined_group(
    group_id: str, instance_id: str | None, response: group_service_pb2.JoinGroupResponse
) -> JoinedGroup:
    """The generation that the member has joined."""
    return JoinedGroup(
        membership=Membership(
            group_id=text_of("group_id", group_id),
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


def removed_members(response: group_service_pb2.RemoveMembersResponse) -> RemovedMembers:
    """The members that were removed, and those that were not."""
    return RemovedMembers(
        removed=tuple(_named(each) for each in response.members if not each.HasField("error")),
        refused=refused_members(response.members),
        revision=revision_of(response.revision) if response.HasField("revision") else None,
    )


def refused_members(
    members: Iterable[group_service_pb2.LeftMember],
) -> dict[MemberToRemove, OffsetdError]:
    """The members that could not leave, with their errors."""
    return {_named(each): error_in(each.error) for each in members if each.HasField("error")}


def _named(member: group_service_pb2.LeftMember) -> MemberToRemove:
    return MemberToRemove(
        member_id=member.member_id,
        instance_id=member.instance_id if member.HasField("instance_id") else None,
    )
