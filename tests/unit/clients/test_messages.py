"""offsetd_clients.messages"""

from typing import Any

import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from offsetd.v1 import admin_service_pb2, group_service_pb2, offset_service_pb2
from offsetd_clients import messages
from offsetd_clients.errors import Conflict, Failure, InvalidRequest
from offsetd_clients.values import (
    GroupState,
    GroupType,
    OffsetToCommit,
    ServerState,
    TopicPartition,
)

ORDERS_0 = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("to_commit", "fields"),
    [
        (42, {"offset": 42}),
        (OffsetToCommit(42), {"offset": 42}),
        (OffsetToCommit(0, leader_epoch=0), {"offset": 0, "leader_epoch": 0}),
        (OffsetToCommit(1, metadata="größe 🚀"), {"offset": 1, "metadata": "größe 🚀"}),
        (OffsetToCommit(1, expected_offset=0), {"offset": 1, "expected_offset": 0}),
        (OffsetToCommit(1, expected_revision=0), {"offset": 1, "expected_revision": 0}),
        (OffsetToCommit(1, must_not_exist=True), {"offset": 1, "must_not_exist": True}),
        (OffsetToCommit(1, monotonic=True), {"offset": 1, "monotonic": True}),
        (OffsetToCommit(1, end_offset=0), {"offset": 1, "end_offset": 0}),
    ],
)
def test_an_offset_becomes_a_message_with_only_what_was_given(
    to_commit: int | OffsetToCommit, fields: dict[str, Any]
) -> None:
    request = messages.commit_request("g", {ORDERS_0: to_commit}, request_id="r")
    expected = offset_service_pb2.OffsetCommit(topic="orders", partition=0, **fields)
    assert list(request.offsets) == [expected]
    assert request.offsets[0].SerializeToString() == expected.SerializeToString()
    assert (request.group_id, request.request_id) == ("g", "r")


@pytest.mark.parametrize(
    ("group_id", "topic_partition", "offset"),
    [
        ("g", TopicPartition("t", 2**31), 1),
        ("g", TopicPartition("t", 0), 2**63),
        ("g\ud800", TopicPartition("t", 0), 1),
        ("g", TopicPartition("t\ud800", 0), 1),
    ],
)
def test_what_no_message_can_hold_is_an_invalid_request(
    group_id: str, topic_partition: TopicPartition, offset: int
) -> None:
    with pytest.raises(InvalidRequest) as raised:
        messages.commit_request(group_id, {topic_partition: offset}, request_id="r")
    assert raised.value.reason == "INVALID_REQUEST"


def test_what_is_absent_from_a_stored_offset_is_none() -> None:
    response = offset_service_pb2.FetchOffsetsResponse(
        groups=[
            offset_service_pb2.GroupOffsets(
                group_id="g",
                offsets=[offset_service_pb2.CommittedOffset(topic="orders", offset=0)],
            ),
            offset_service_pb2.GroupOffsets(group_id="without"),
        ]
    )
    offsets = messages.fetched_offsets(response)
    assert offsets["without"] == {}
    stored = offsets["g"][ORDERS_0]
    assert (stored.offset, stored.revision, stored.metadata) == (0, 0, "")
    assert (stored.leader_epoch, stored.end_offset, stored.expire_time) == (None, None, None)


def test_zero_is_not_absent_in_a_stored_offset() -> None:
    message = offset_service_pb2.CommittedOffset(topic="orders", leader_epoch=0, end_offset=0)
    message.commit_time.FromMilliseconds(1_795_208_775_341)
    message.expire_time.FromMilliseconds(0)
    group = offset_service_pb2.GroupOffsets(group_id="g", offsets=[message])
    response = offset_service_pb2.FetchOffsetsResponse(groups=[group])
    stored = messages.fetched_offsets(response)["g"][ORDERS_0]
    assert (stored.leader_epoch, stored.end_offset) == (0, 0)
    assert stored.commit_time.isoformat() == "2026-11-20T21:06:15.341000+00:00"
    assert stored.expire_time is not None
    assert stored.expire_time.timestamp() == 0


@pytest.mark.parametrize("name", group_service_pb2.GroupType.keys())
def test_every_group_type_of_the_contract_has_a_value(name: str) -> None:
    listing = group_service_pb2.GroupListing(group_id="g", type=name)
    (listed,) = messages.listed_groups(group_service_pb2.ListGroupsResponse(groups=[listing]))
    assert (listed.type is GroupType.UNKNOWN) == name.endswith("_UNSPECIFIED")


@pytest.mark.parametrize("name", group_service_pb2.GroupState.keys())
def test_every_group_state_of_the_contract_has_a_value(name: str) -> None:
    group = messages.group_of(group_service_pb2.Group(state=name))
    assert (group.state is GroupState.UNKNOWN) == name.endswith("_UNSPECIFIED")


@pytest.mark.parametrize("name", admin_service_pb2.ServerState.keys())
def test_every_server_state_of_the_contract_has_a_value(name: str) -> None:
    server = messages.server_info(admin_service_pb2.GetServerInfoResponse(state=name))
    assert (server.state is ServerState.UNKNOWN) == name.endswith("_UNSPECIFIED")


def test_a_state_of_a_newer_server_is_unknown() -> None:
    listing = group_service_pb2.GroupListing()
    listing.MergeFromString(b"\x10\x63\x18\x63")  # type = 99, state = 99
    response = group_service_pb2.ListGroupsResponse(groups=[listing])
    (listed,) = messages.listed_groups(response)
    assert (listed.type, listed.state) == (GroupType.UNKNOWN, GroupState.UNKNOWN)


@pytest.mark.parametrize("status_details", [None, b"", b"\xff\xff\xff"])
def test_details_that_do_not_parse_are_as_good_as_none(status_details: bytes | None) -> None:
    failure = messages.failure_of("UNAVAILABLE", "gone", status_details)
    assert failure == Failure(code="UNAVAILABLE", message="gone")


def test_details_of_another_domain_are_not_ours() -> None:
    status = Status()
    status.details.add().Pack(ErrorInfo(reason="GROUP_ID_NOT_FOUND", domain="example.org"))
    assert messages.failure_of("NOT_FOUND", "", status.SerializeToString()).reason == ""


@pytest.mark.parametrize(
    ("text", "conflicts"),
    [
        (
            (
                '[{"topic":"orders","partition":0,"offset":5,"revision":0},'
                '{"topic":"orders","partition":1}]'
            ),
            (
                Conflict(topic_partition=ORDERS_0, offset=5, revision=0),
                Conflict(topic_partition=TopicPartition("orders", 1), offset=None, revision=None),
            ),
        ),
        ("[]", ()),
        ("{", ()),
        ("5", ()),
        ("[5]", ()),
        ('[{"topic":"orders"}]', ()),
    ],
)
def test_conflicts_come_as_values_and_never_in_the_way_of_the_error(
    text: str, conflicts: tuple[Conflict, ...]
) -> None:
    status = Status()
    status.details.add().Pack(
        ErrorInfo(reason="OFFSET_CONFLICT", domain="offsetd", metadata={"conflicts": text})
    )
    failure = messages.failure_of("ABORTED", "lost", status.SerializeToString())
    assert (failure.reason, failure.conflicts) == ("OFFSET_CONFLICT", conflicts)
