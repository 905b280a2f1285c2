"""Messages of members to checked values."""

from __future__ import annotations

from contextvars import copy_context
from typing import Any

import pytest
from offsetd.v1 import group_service_pb2, offset_service_pb2
from offsetd_coordinator.calls import current_call
from offsetd_coordinator.calls.connections import AnswerBudget, Connection
from offsetd_coordinator.cooperative_scheduling import Turns
from offsetd_coordinator.errors import InvalidField
from offsetd_coordinator.membership.member_requests import MemberIdentity
from offsetd_coordinator.messages.member_validation import (
    commits_as,
    join_group,
    leave_group,
    members_to_remove,
    sync_group,
)
from offsetd_coordinator.services.membership_calls import client_host

RANGE = [group_service_pb2.GroupProtocol(name="range", metadata=b"m")]


def join_request(**fields: Any) -> group_service_pb2.JoinGroupRequest:
    """A join that is valid but for `fields`."""
    session_ms = fields.pop("session_ms", 10_000)
    rebalance_ms = fields.pop("rebalance_ms", None)
    request = group_service_pb2.JoinGroupRequest(
        **{"group_id": "g", "protocol_type": "consumer", "protocols": RANGE, **fields}
    )
    if session_ms is not None:
        request.session_timeout.FromMilliseconds(session_ms)
    if rebalance_ms is not None:
        request.rebalance_timeout.FromMilliseconds(rebalance_ms)
    return request


@pytest.mark.parametrize(
    ("fields", "field", "reason"),
    [
        ({"group_id": ""}, "group_id", "INVALID_GROUP_ID"),
        ({"group_id": "é" * 16_384}, "group_id", "INVALID_GROUP_ID"),
        ({"member_id": "é" * 16_384}, "member_id", "INVALID_MEMBER_ID"),
        ({"client_id": "é" * 128}, "client_id", "INVALID_REQUEST"),
        ({"instance_id": ""}, "instance_id", "INVALID_INSTANCE_ID"),
        ({"instance_id": "."}, "instance_id", "INVALID_INSTANCE_ID"),
        ({"instance_id": ".."}, "instance_id", "INVALID_INSTANCE_ID"),
        ({"instance_id": "a/b"}, "instance_id", "INVALID_INSTANCE_ID"),
        ({"instance_id": "é"}, "instance_id", "INVALID_INSTANCE_ID"),
        ({"instance_id": "a\n"}, "instance_id", "INVALID_INSTANCE_ID"),
        ({"instance_id": "a" * 250}, "instance_id", "INVALID_INSTANCE_ID"),
        ({"session_ms": None}, "session_timeout", "INVALID_SESSION_TIMEOUT"),
        ({"session_ms": 0}, "session_timeout", "INVALID_SESSION_TIMEOUT"),
        ({"session_ms": -1}, "session_timeout", "INVALID_SESSION_TIMEOUT"),
        ({"session_ms": 2**31}, "session_timeout", "INVALID_SESSION_TIMEOUT"),
        ({"rebalance_ms": 0}, "rebalance_timeout", "INVALID_REQUEST"),
        ({"rebalance_ms": 2**31}, "rebalance_timeout", "INVALID_REQUEST"),
        ({"protocol_type": ""}, "protocol_type", "INVALID_PROTOCOL"),
        ({"protocol_type": "é" * 16_384}, "protocol_type", "INVALID_PROTOCOL"),
        ({"protocols": []}, "protocols", "INVALID_PROTOCOL"),
        ({"protocols": RANGE * 2}, "protocols[1].name", "INVALID_PROTOCOL"),
        (
            {"protocols": [group_service_pb2.GroupProtocol()]},
            "protocols[0].name",
            "INVALID_PROTOCOL",
        ),
        ({"reason": "x" * 1025}, "reason", "INVALID_REQUEST"),
    ],
)
def test_a_join_that_breaks_a_rule_is_refused_by_field(
    fields: dict[str, Any], field: str, reason: str
) -> None:
    with pytest.raises(InvalidField) as refused:
        join_group(join_request(**fields), "/h")
    assert (refused.value.field, refused.value.reason) == (field, reason)


@pytest.mark.parametrize(
    "fields",
    [
        {"group_id": "é" * 16_383},
        {"client_id": "é" * 127},
        {"instance_id": "a" * 249},
        {"instance_id": "A-z_0.9"},
        {"session_ms": 1},
        {"rebalance_ms": 2**31 - 1},
    ],
)
def test_what_is_just_within_a_rule_is_taken(fields: dict[str, Any]) -> None:
    join_group(join_request(**fields), "/h")


def test_a_join_without_a_rebalance_timeout_has_the_sessions() -> None:
    join = join_group(join_request(session_ms=7000), "/h")
    assert (join.session_timeout_ms, join.rebalance_timeout_ms) == (7000, 7000)
    assert (join.instance_id, join.protocols) == (None, (("range", b"m"),))
    assert join_group(join_request(rebalance_ms=9), "/h").rebalance_timeout_ms == 9


def test_assignments_are_brought_once_a_member() -> None:
    request = group_service_pb2.SyncGroupRequest(group_id="g", member_id="m", generation_id=3)
    request.assignments.add(member_id="m", assignment=b"x")
    sync = sync_group(request)
    assert sync.member == MemberIdentity("m", 3, None)
    assert (sync.assignments, sync.protocol_type, sync.protocol) == ({"m": b"x"}, None, None)
    request.assignments.add(member_id="m", assignment=b"y")
    with pytest.raises(InvalidField) as refused:
        sync_group(request)
    assert refused.value.field == "assignments[1].member_id"


async def test_who_leaves_has_a_name() -> None:
    request = group_service_pb2.LeaveGroupRequest(group_id="g")
    with pytest.raises(InvalidField):
        await leave_group(request, Turns())
    request.members.add(instance_id="i")
    request.members.add(member_id="m")
    assert (await leave_group(request, Turns())).members == (("", "i"), ("m", None))
    request.members.add(reason="none")
    with pytest.raises(InvalidField) as refused:
        await leave_group(request, Turns())
    assert refused.value.field == "members[2].member_id"


async def test_members_to_remove_are_named_or_all() -> None:
    request = group_service_pb2.RemoveMembersRequest(group_id="g", all=True)
    assert await members_to_remove(request, Turns()) is None
    request.members.add(instance_id="i")
    request.members.add(member_id="m", instance_id="j")
    with pytest.raises(InvalidField) as refused:
        await members_to_remove(request, Turns())
    assert refused.value.field == "members"
    request.all = False
    assert await members_to_remove(request, Turns()) == (("", "i"), ("m", "j"))
    request.members.add(instance_id="no such letters")
    with pytest.raises(InvalidField) as refused:
        await members_to_remove(request, Turns())
    assert refused.value.field == "members[2].instance_id"


@pytest.mark.parametrize(
    ("fields", "identity"),
    [
        ({}, None),
        ({"member_id": "m", "generation_id": 0}, MemberIdentity("m", 0, None)),
        ({"generation_id": 5}, MemberIdentity("", 5, None)),
        ({"member_id": "m"}, MemberIdentity("m", -1, None)),
        ({"instance_id": "i"}, MemberIdentity("", -1, "i")),
    ],
)
def test_a_commit_says_whether_it_comes_from_a_member(
    fields: dict[str, Any], identity: MemberIdentity | None
) -> None:
    assert commits_as(offset_service_pb2.CommitOffsetsRequest(**fields)) == identity


def test_a_commit_of_a_generation_below_0_is_refused() -> None:
    with pytest.raises(InvalidField) as refused:
        commits_as(offset_service_pb2.CommitOffsetsRequest(generation_id=-1))
    assert refused.value.field == "generation_id"


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:10.0.0.7:51234", "/10.0.0.7"),
        ("ipv6:[::1]:51234", "/::1"),
        ("ipv6:%5B::1%5D:51234", "/::1"),
        ("unix:", "/"),
        ("", "/"),
    ],
)
def test_a_members_host_is_written_as_kafka_does(peer: str, host: str) -> None:
    context = copy_context()
    context.run(current_call.note_connection, Connection(peer, AnswerBudget(0)))
    assert context.run(client_host) == host
