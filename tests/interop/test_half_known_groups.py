"""Commits with half of a membership, and groups of promised members: as a real broker has it."""

import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

import attrs
import grpc
import pytest
from google.protobuf import duration_pb2
from google.rpc.error_details_pb2 import ErrorInfo
from interop.kafka_protocol import Answer, KafkaConnection
from interop.served_folder import ServedFolder
from offsetd.v1 import group_service_pb2, offset_service_pb2
from refusals import status_of
from server_process import Stubs, poll

if TYPE_CHECKING:
    from interop.kafka_broker import KafkaBroker

pytestmark = pytest.mark.kafka

COMMIT, JOIN_GROUP, LIST_GROUPS, DELETE_GROUPS = 8, 11, 16, 42
ERRORS = {
    0: "",
    25: "UNKNOWN_MEMBER_ID",
    69: "GROUP_ID_NOT_FOUND",
    79: "MEMBER_ID_REQUIRED",
}
WAIT_SECONDS = 60
NO_TAGS = b"\0"


class Coordinator(Protocol):
    """What is asked of both. An answer is the name of the error, or nothing."""

    def commit(self, group_id: str, member_id: str, generation: int) -> str: ...
    def join(self, group_id: str, member_id: str) -> tuple[str, str]:
        """The error, and the member's id."""

    def delete(self, group_id: str) -> str: ...
    def listed(self) -> set[str]: ...


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def compact(value: str) -> bytes:
    return bytes([len(value) + 1]) + value.encode()


@attrs.frozen
class Broker:
    """A real one."""

    connection: KafkaConnection

    def commit(self, group_id: str, member_id: str, generation: int) -> str:
        """By OffsetCommit of version 9: those before it know no GROUP_ID_NOT_FOUND."""
        body = compact(group_id) + struct.pack(">i", generation) + compact(member_id) + b"\0"
        body += b"\2" + compact("orders")
        body += b"\2" + struct.pack(">iqi", 0, 5, -1) + compact("") + 3 * NO_TAGS
        # The header of a request with tags has tags, too; so does that of its answer.
        answer = Answer(self.connection.call(COMMIT, 9, NO_TAGS + body)[1:])
        answer.number("i")
        assert answer.number("b") == 2, "a topic"
        topic_bytes = answer.number("b") - 1
        answer.position += topic_bytes
        assert answer.number("b") == 2, "a partition"
        answer.number("i")
        return ERRORS[answer.number("h")]

    def join(self, group_id: str, member_id: str) -> tuple[str, str]:
        body = text(group_id) + struct.pack(">ii", 10_000, 10_000) + text(member_id)
        body += text("consumer") + struct.pack(">i", 1) + text("range") + struct.pack(">i", 0)
        answer = Answer(self.connection.call(JOIN_GROUP, 4, body))
        answer.number("i")
        error = ERRORS[answer.number("h")]
        answer.number("i")
        answer.string()
        answer.string()
        return error, answer.string()

    def delete(self, group_id: str) -> str:
        answer = Answer(
            self.connection.call(DELETE_GROUPS, 1, struct.pack(">i", 1) + text(group_id))
        )
        answer.number("i")
        assert answer.number("i") == 1
        assert answer.string() == group_id
        return ERRORS[answer.number("h")]

    def listed(self) -> set[str]:
        answer = Answer(self.connection.call(LIST_GROUPS, 1, b""))
        answer.number("i")
        assert ERRORS[answer.number("h")] == ""
        return {(answer.string(), answer.string())[0] for _ in range(answer.number("i"))}


@attrs.frozen
class Ours:
    """An offsetd."""

    stubs: Stubs

    def commit(self, group_id: str, member_id: str, generation: int) -> str:
        request = offset_service_pb2.CommitOffsetsRequest(
            group_id=group_id,
            member_id=member_id,
            generation_id=None if generation < 0 else generation,
        )
        request.offsets.add(topic="orders", partition=0, offset=5)
        return refusal(lambda: self.stubs.offsets.CommitOffsets(request))

    def join(self, group_id: str, member_id: str) -> tuple[str, str]:
        request = group_service_pb2.JoinGroupRequest(
            group_id=group_id,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[group_service_pb2.GroupProtocol(name="range")],
            session_timeout=duration_pb2.Duration(seconds=10),
            rebalance_timeout=duration_pb2.Duration(seconds=10),
        )
        try:
            return "", self.stubs.groups.JoinGroup(request).member_id
        except grpc.RpcError as error:
            info = information(error)
            return info.reason, info.metadata.get("member_id", "")

    def delete(self, group_id: str) -> str:
        request = group_service_pb2.DeleteGroupRequest(group_id=group_id)
        return refusal(lambda: self.stubs.groups.DeleteGroup(request))

    def listed(self) -> set[str]:
        request = group_service_pb2.ListGroupsRequest()
        return {each.group_id for each in self.stubs.groups.ListGroups(request).groups}


def refusal(call: Callable[[], object]) -> str:
    """The reason for which a call is refused; empty: it is not."""
    try:
        call()
    except grpc.RpcError as error:
        return information(error).reason
    return ""


def information(error: grpc.RpcError) -> ErrorInfo:
    info = ErrorInfo()
    for packed in status_of(error).details:
        if packed.Is(info.DESCRIPTOR):
            packed.Unpack(info)
    assert info.reason, error
    return info


@pytest.fixture(scope="module", params=["a broker", "offsetd"])
def coordinator(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Coordinator]:
    folder = tmp_path_factory.mktemp("half-known")
    if request.param == "a broker":
        used: KafkaBroker = request.getfixturevalue("used_broker")
        broker = used.copy_to(folder / "broker")
        with broker.running(), KafkaConnection(broker.address) as connection:
            yield Broker(connection)
        return
    server = ServedFolder(folder / "data")
    with server.running(), grpc.insecure_channel(server.address) as channel:
        yield Ours(Stubs(channel))


def test_a_member_id_without_a_generation_commits_to_an_empty_group(
    coordinator: Coordinator,
) -> None:
    assert coordinator.commit("absent", "somebody", -1) == ""
    assert coordinator.commit("absent", "somebody", -1) == "", "now it is there"


def test_a_generation_of_a_group_that_is_absent_names_the_group(
    coordinator: Coordinator,
) -> None:
    assert coordinator.commit("nowhere", "somebody", 3) == "GROUP_ID_NOT_FOUND"
    assert coordinator.commit("empty", "", -1) == ""
    assert coordinator.commit("empty", "somebody", 3) == "UNKNOWN_MEMBER_ID"


def test_a_group_with_offsets_is_deleted_and_what_it_promised_with_it(
    coordinator: Coordinator,
) -> None:
    error, promised = coordinator.join("promising", "")
    assert (error, bool(promised)) == ("MEMBER_ID_REQUIRED", True)
    assert coordinator.commit("promising", promised, -1) == ""
    assert coordinator.delete("promising") == ""
    assert coordinator.join("promising", promised)[0] == "UNKNOWN_MEMBER_ID"


def test_a_group_that_has_only_promised_an_id_is_deleted_and_listed_by_a_broker_alone(
    coordinator: Coordinator,
) -> None:
    _, promised = coordinator.join("only promising", "")
    if isinstance(coordinator, Broker):  # It has written a record, and lists what is committed.
        poll(lambda: "only promising" in coordinator.listed(), WAIT_SECONDS)
    else:
        assert "only promising" not in coordinator.listed()
    assert coordinator.commit("only promising", promised, 3) == "UNKNOWN_MEMBER_ID"
    assert coordinator.delete("only promising") == ""
    assert coordinator.delete("only promising") == "GROUP_ID_NOT_FOUND"
    assert coordinator.join("only promising", promised)[0] == "UNKNOWN_MEMBER_ID"
