"""Validation of members' messages: only the rules of their fields.

Stored values must fit Kafka's schemas: the length of a text's UTF-8 form fits an int16. Instance
ids may only use the letters that Kafka allows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from offsetd_coordinator.errors import InvalidRequest
from offsetd_coordinator.membership.member_requests import (
    GENERATION_NONE,
    JoinGroup,
    LeaveGroup,
    MemberIdentity,
    SyncGroup,
)
from offsetd_coordinator.membership.refusals import (
    InvalidInstanceId,
    InvalidMemberId,
    InvalidProtocol,
    InvalidSessionTimeout,
)
from offsetd_coordinator.messages import validation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from google.protobuf.duration_pb2 import Duration
    from offsetd.v1 import group_service_pb2, offset_service_pb2

    from offsetd_coordinator.cooperative_scheduling import Turns

TEXT_BYTES_MAX: Final = 32_767
CLIENT_ID_BYTES_MAX: Final = 255
INSTANCE_ID_UNITS_MAX: Final = 249
TIMEOUT_MS_MAX: Final = 2**31 - 1

_INSTANCE_ID: Final = re.compile(r"[A-Za-z0-9._-]+")
_TOO_MANY_BYTES: Final = "{size_bytes} bytes of UTF-8, more than {bytes_max}"


def join_group(request: group_service_pb2.JoinGroupRequest, client_host: str) -> JoinGroup:
    """The checked request. Raises the Invalid… error of the first field that breaks a rule."""
    validation.check_reason(request.reason)
    if (size := len(request.client_id.encode())) > CLIENT_ID_BYTES_MAX:
        raise InvalidRequest(
            "client_id", _TOO_MANY_BYTES, size_bytes=size, bytes_max=CLIENT_ID_BYTES_MAX
        )
    if not request.HasField("session_timeout"):
        raise InvalidSessionTimeout("session_timeout", "absent")
    session_timeout_ms = _milliseconds(request.session_timeout, "session_timeout")
    rebalance_timeout_ms = session_timeout_ms
    if request.HasField("rebalance_timeout"):
        rebalance_timeout_ms = _milliseconds(request.rebalance_timeout, "rebalance_timeout")
    return JoinGroup(
        group_id=validation.written_group_id(request.group_id),
        member_id=_member_id(request.member_id, "member_id"),
        instance_id=_instance_id(request, "instance_id"),
        client_id=request.client_id,
        client_host=client_host,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        protocol_type=_protocol_type(request.protocol_type),
        protocols=tuple(_protocols(request.protocols)),
    )


def sync_group(request: group_service_pb2.SyncGroupRequest) -> SyncGroup:
    """The checked request. Raises the errors of `join_group`."""
    assignments: dict[str, bytes] = {}
    for index, each in enumerate(request.assignments):
        field = f"assignments[{index}].member_id"
        member_id = _member_id(each.member_id, field)
        if member_id in assignments:
            raise InvalidMemberId(field, "{member_id!r} is named twice", member_id=member_id)
        assignments[member_id] = each.assignment
    return SyncGroup(
        group_id=validation.written_group_id(request.group_id),
        member=member_identity(request),
        protocol_type=request.protocol_type if request.HasField("protocol_type") else None,
        protocol=request.protocol if request.HasField("protocol") else None,
        assignments=assignments,
    )


async def leave_group(request: group_service_pb2.LeaveGroupRequest, turns: Turns) -> LeaveGroup:
    """The checked request, read in turns of the event loop. Raises the errors of `join_group`."""
    async for member in turns.each(request.members):
        validation.check_reason(member.reason)
    return LeaveGroup(
        group_id=validation.written_group_id(request.group_id),
        members=tuple([each async for each in turns.each(_named_members(request.members))]),
    )


async def members_to_remove(
    request: group_service_pb2.RemoveMembersRequest, turns: Turns
) -> tuple[tuple[str, str | None], ...] | None:
    """The members to remove, in the form of `LeaveGroup`; None means all members.

    Raises the errors of `join_group`.
    """
    validation.check_reason(request.reason)
    validation.read_request_id(request.request_id)
    if not request.all:
        return tuple([each async for each in turns.each(_named_members(request.members))])
    if request.members:
        raise InvalidRequest("members", "all members are removed: name none")
    return None


def _named_members(
    members: Sequence[group_service_pb2.LeavingMember | group_service_pb2.MemberToRemove],
) -> Iterator[tuple[str, str | None]]:
    if not members:
        raise InvalidRequest("members", "name at least one member")
    for index, member in enumerate(members):
        field = f"members[{index}]"
        member_id = _member_id(member.member_id, f"{field}.member_id")
        instance_id = _instance_id(member, f"{field}.instance_id")
        if not member_id and instance_id is None:
            raise InvalidMemberId(f"{field}.member_id", "it is empty, and there is no instance id")
        yield member_id, instance_id


def member_identity(
    request: group_service_pb2.SyncGroupRequest | group_service_pb2.HeartbeatRequest,
) -> MemberIdentity:
    """The identity of the calling member. Raises InvalidMemberId, InvalidInstanceId."""
    return MemberIdentity(
        _member_id(request.member_id, "member_id"),
        request.generation_id,
        _instance_id(request, "instance_id"),
    )


def commits_as(request: offset_service_pb2.CommitOffsetsRequest) -> MemberIdentity | None:
    """The committing member, or None. Raises InvalidMemberId, InvalidInstanceId, InvalidRequest."""
    generation = GENERATION_NONE
    if request.HasField("generation_id"):
        generation = request.generation_id
        if generation < 0:
            raise InvalidRequest("generation_id", "{value} is below 0", value=generation)
    identity = MemberIdentity(
        _member_id(request.member_id, "member_id"), generation, _instance_id(request, "instance_id")
    )
    return None if identity == MemberIdentity() else identity


def _member_id(member_id: str, field: str) -> str:
    if (size := len(member_id.encode())) > TEXT_BYTES_MAX:
        raise InvalidMemberId(field, _TOO_MANY_BYTES, size_bytes=size, bytes_max=TEXT_BYTES_MAX)
    return member_id


def _instance_id(
    message: group_service_pb2.JoinGroupRequest
    | group_service_pb2.SyncGroupRequest
    | group_service_pb2.HeartbeatRequest
    | group_service_pb2.LeavingMember
    | group_service_pb2.MemberToRemove
    | offset_service_pb2.CommitOffsetsRequest,
    field: str,
) -> str | None:
    if not message.HasField("instance_id"):
        return None
    instance_id = message.instance_id
    if len(instance_id) > INSTANCE_ID_UNITS_MAX:
        raise InvalidInstanceId(
            field,
            "{units} characters, more than {units_max}",
            units=len(instance_id),
            units_max=INSTANCE_ID_UNITS_MAX,
        )
    if instance_id in (".", "..") or not _INSTANCE_ID.fullmatch(instance_id):
        raise InvalidInstanceId(
            field, "{instance_id!r} is not of letters, digits, . _ -", instance_id=instance_id
        )
    return instance_id


def _protocol_type(protocol_type: str) -> str:
    if not protocol_type:
        raise InvalidProtocol("protocol_type", "empty")
    return _name(protocol_type, "protocol_type")


def _protocols(protocols: Iterable[group_service_pb2.GroupProtocol]) -> list[tuple[str, bytes]]:
    checked: dict[str, bytes] = {}
    for index, protocol in enumerate(protocols):
        field = f"protocols[{index}].name"
        if not protocol.name:
            raise InvalidProtocol(field, "empty")
        if protocol.name in checked:
            raise InvalidProtocol(field, "{name!r} is named twice", name=protocol.name)
        checked[_name(protocol.name, field)] = protocol.metadata
    if not checked:
        raise InvalidProtocol("protocols", "name at least one protocol")
    return list(checked.items())


def _name(name: str, field: str) -> str:
    if (size := len(name.encode())) > TEXT_BYTES_MAX:
        raise InvalidProtocol(field, _TOO_MANY_BYTES, size_bytes=size, bytes_max=TEXT_BYTES_MAX)
    return name


def _milliseconds(duration: Duration, field: str) -> int:
    milliseconds = duration.seconds * 1000 + duration.nanos // 1_000_000
    if not 0 < milliseconds <= TIMEOUT_MS_MAX:
        error = InvalidSessionTimeout if field == "session_timeout" else InvalidRequest
        raise error(
            field,
            "{value_ms} ms is not between {ms_min} and {ms_max}",
            value_ms=milliseconds,
            ms_min=1,
            ms_max=TIMEOUT_MS_MAX,
        )
    return milliseconds
