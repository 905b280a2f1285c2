"""offsetd_clients.messages"""

import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from offsetd.v1 import admin_service_pb2, group_service_pb2
from offsetd_clients.errors import Conflict, Failure
from offsetd_clients.messages import conversions
from offsetd_clients.values import (
    GroupState,
    GroupType,
    ServerState,
    TopicPartition,
)

ORDERS_0 = TopicPartition("orders", 0)


@pytest.mark.parametrize("name", group_service_pb2.GroupType.keys())
def test_every_group_type_of_the_contract_has_a_value(name: str) -> None:
    listing = group_service_pb2.GroupListing(group_id="g", type=name)
    (listed,) = conversions.listed_groups(group_service_pb2.ListGroupsResponse(groups=[listing]))
    assert (listed.type is GroupType.UNKNOWN) == name.endswith("_UNSPECIFIED")


@pytest.mark.parametrize("name", group_service_pb2.GroupState.keys())
def test_every_group_state_of_the_contract_has_a_value(name: str) -> None:
    group = conversions.group_of(group_service_pb2.Group(state=name))
    assert (group.state is GroupState.UNKNOWN) == name.endswith("_UNSPECIFIED")


@pytest.mark.parametrize("name", admin_service_pb2.ServerState.keys())
def test_every_server_state_of_the_contract_has_a_value(name: str) -> None:
    server = conversions.server_info(admin_service_pb2.GetServerInfoResponse(state=name))
    assert (server.state is ServerState.UNKNOWN) == name.endswith("_UNSPECIFIED")


def test_a_state_of_a_newer_server_is_unknown() -> None:
    listing = group_service_pb2.GroupListing()
    listing.MergeFromString(b"\x10\x63\x18\x63")  # type = 99, state = 99
    response = group_service_pb2.ListGroupsResponse(groups=[listing])
    (listed,) = conversions.listed_groups(response)
    assert (listed.type, listed.state) == (GroupType.UNKNOWN, GroupState.UNKNOWN)


@pytest.mark.parametrize("status_details", [None, b"", b"\xff\xff\xff"])
def test_details_that_do_not_parse_are_as_good_as_none(status_details: bytes | None) -> None:
    failure = conversions.failure_of("UNAVAILABLE", "gone", status_details)
    assert failure == Failure(code="UNAVAILABLE", message="gone")


def test_details_of_another_domain_are_not_ours() -> None:
    status = Status()
    status.details.add().Pack(ErrorInfo(reason="GROUP_ID_NOT_FOUND", domain="example.org"))
    assert conversions.failure_of("NOT_FOUND", "", status.SerializeToString()).reason == ""


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
    failure = conversions.failure_of("ABORTED", "lost", status.SerializeToString())
    assert (failure.reason, failure.conflicts) == ("OFFSET_CONFLICT", conflicts)
