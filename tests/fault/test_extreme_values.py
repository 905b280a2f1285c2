"""Whatever a field says, a call is answered or refused: never INTERNAL, and never by a traceback.

The fields come from the contract's descriptors, so that a new one is tried without a test of its
own. Each is set alone, in a request that is otherwise a good one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from offsetd.v1 import (
    acl_service_pb2,
    admin_service_pb2,
    backup_service_pb2,
    group_service_pb2,
    history_pb2,
    offset_service_pb2,
    types_pb2,
)
from server_process import ServerProcess, Stubs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.message import Message

GROUP = "kept"
# Of calls that wait for something by design, such as watchers.
CALL_SECONDS = 0.3
ANSWER_SECONDS = 60
FILES = (
    acl_service_pb2,
    admin_service_pb2,
    backup_service_pb2,
    group_service_pb2,
    offset_service_pb2,
)
METHODS = {
    method.name: method
    for file in FILES
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
WAITING = {"WatchOffsets", "JoinGroup", "SyncGroup"}
PLACE = types_pb2.TopicPartition(topic="orders", partition=0)
COMMIT = offset_service_pb2.CommitOffsetsRequest(
    group_id=GROUP,
    offsets=[offset_service_pb2.OffsetCommit(topic="orders", partition=0, offset=1)],
)
ACL = acl_service_pb2.Acl(
    principal="User:a",
    permission="ACL_PERMISSION_ALLOW",
    operation="ACL_OPERATION_READ",
    resource_type="RESOURCE_TYPE_GROUP",
    name=GROUP,
)
# Good requests, with an element in each list.
REQUESTS: dict[str, Message] = {
    "CommitOffsets": COMMIT,
    "StreamCommits": offset_service_pb2.StreamCommitsRequest(
        commits=[offset_service_pb2.SequencedCommit(sequence=1, commit=COMMIT)]
    ),
    "FetchOffsets": offset_service_pb2.FetchOffsetsRequest(
        groups=[offset_service_pb2.GroupSelection(group_id=GROUP, partitions=[PLACE])]
    ),
    "DeleteOffsets": offset_service_pb2.DeleteOffsetsRequest(
        group_id=GROUP, partitions=[PLACE], validate_only=True
    ),
    "ResetOffsets": offset_service_pb2.ResetOffsetsRequest(
        group_id=GROUP, partitions=[PLACE], offset=1, validate_only=True
    ),
    "FetchBounds": offset_service_pb2.FetchBoundsRequest(partitions=[PLACE]),
    "ListOffsetHistory": history_pb2.ListOffsetHistoryRequest(group_id=GROUP, partitions=[PLACE]),
    "WatchOffsets": history_pb2.WatchOffsetsRequest(group_ids=[GROUP], topics=["orders"]),
    "ListGroups": group_service_pb2.ListGroupsRequest(),
    "GetGroup": group_service_pb2.GetGroupRequest(
        group_id=GROUP, include_offsets=True, include_lags=True
    ),
    "DeleteGroup": group_service_pb2.DeleteGroupRequest(group_id=GROUP, validate_only=True),
    "CloneGroup": group_service_pb2.CloneGroupRequest(
        source_group_id=GROUP, target_group_id="copy", topics=["orders"], overwrite=True
    ),
    "RestoreGroup": history_pb2.RestoreGroupRequest(group_id=GROUP, revision=1, validate_only=True),
    "JoinGroup": group_service_pb2.JoinGroupRequest(
        group_id="joined",
        session_timeout=Duration(seconds=6),
        protocol_type="consumer",
        protocols=[group_service_pb2.GroupProtocol(name="range")],
    ),
    "SyncGroup": group_service_pb2.SyncGroupRequest(
        group_id="joined", member_id="m", assignments=[group_service_pb2.MemberAssignment()]
    ),
    "Heartbeat": group_service_pb2.HeartbeatRequest(group_id="joined", member_id="m"),
    "LeaveGroup": group_service_pb2.LeaveGroupRequest(
        group_id="joined", members=[group_service_pb2.LeavingMember(member_id="m")]
    ),
    "RemoveMembers": group_service_pb2.RemoveMembersRequest(
        group_id="joined", members=[group_service_pb2.MemberToRemove(member_id="m")]
    ),
    "UpdateGroup": group_service_pb2.UpdateGroupRequest(group_id="updated", allow_missing=True),
    "AcquireGroup": group_service_pb2.AcquireGroupRequest(
        group_id="leased", holder="h", ttl=Duration(seconds=5)
    ),
    "RenewGroup": group_service_pb2.RenewGroupRequest(group_id="leased", ttl=Duration(seconds=5)),
    "ReleaseGroup": group_service_pb2.ReleaseGroupRequest(group_id="leased"),
    "GetServerInfo": admin_service_pb2.GetServerInfoRequest(),
    "DescribeCluster": admin_service_pb2.DescribeClusterRequest(),
    "FindCoordinator": admin_service_pb2.FindCoordinatorRequest(group_id=GROUP),
    "DescribeLog": admin_service_pb2.DescribeLogRequest(partitions=[0]),
    "CompactLog": admin_service_pb2.CompactLogRequest(partitions=[0], validate_only=True),
    "RetryPartition": admin_service_pb2.RetryPartitionRequest(
        topic="__consumer_offsets", partition=0, validate_only=True
    ),
    "DeleteRecords": admin_service_pb2.DeleteRecordsRequest(
        topic="__offsetd_audit", partition=0, offset=0, validate_only=True
    ),
    "DescribeConfig": admin_service_pb2.DescribeConfigRequest(),
    "UpdateConfig": admin_service_pb2.UpdateConfigRequest(
        set={"watch.watchers.max": "100"}, validate_only=True
    ),
    "ExportOffsets": admin_service_pb2.ExportOffsetsRequest(
        format=admin_service_pb2.OFFSET_FORMAT_JSONL, group_ids=[GROUP], topics=["orders"]
    ),
    "ImportOffsets": admin_service_pb2.ImportOffsetsRequest(
        options=admin_service_pb2.ImportOffsetsOptions(
            format=admin_service_pb2.OFFSET_FORMAT_JSONL,
            validate_only=True,
            keep_commit_times=True,
        ),
        content=b'{"group": "kept", "topic": "orders", "partition": 0, "offset": 1}\n',
    ),
    "DescribeQuotas": admin_service_pb2.DescribeQuotasRequest(principal="User:a"),
    "ListAcls": acl_service_pb2.ListAclsRequest(filter=acl_service_pb2.AclFilter(name=GROUP)),
    "AddAcls": acl_service_pb2.AddAclsRequest(acls=[ACL]),
    "RemoveAcls": acl_service_pb2.RemoveAclsRequest(
        filters=[acl_service_pb2.AclFilter(name=GROUP)], acls=[ACL]
    ),
    "TestAcl": acl_service_pb2.TestAclRequest(
        principal="User:a",
        operation="ACL_OPERATION_READ",
        resource_type="RESOURCE_TYPE_GROUP",
        name=GROUP,
    ),
    "StreamBackup": backup_service_pb2.StreamBackupRequest(),
    "ListAuditEvents": admin_service_pb2.ListAuditEventsRequest(methods=["ResetOffsets"]),
}
DEFECTS = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN}
DEFECT_NUMBERS = {code.value[0] for code in DEFECTS}
SECONDS = (-(2**63), -(2**55), -62_135_596_801, -1, 253_402_300_800, 2**55, 2**63 - 1)
NANOS = (-(2**31), -1, 10**9, 2**31 - 1)
EXTREMES: dict[int, tuple[Any, ...]] = {
    FieldDescriptor.TYPE_INT32: (-(2**31), -1, 0, 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), -1, 0, 2**62, 2**63 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**63, 2**64 - 1),
    FieldDescriptor.TYPE_ENUM: (-1, 0, 99, 2**31 - 1),
    FieldDescriptor.TYPE_STRING: ("", "\0", "\n", "🚀" * 300, "x" * 70_000, "AAAA", "//////////8="),
    FieldDescriptor.TYPE_BYTES: (b"", b"\xff" * 8, b"\0" * 64, b"\n", b"[]\n", b"nul\n"),
    FieldDescriptor.TYPE_BOOL: (False, True),
}
IMPORTED_TIMES = (
    '"commit_time": "0001-01-01T00:00:00Z"',
    '"commit_time": "9999-12-31T23:59:59.999999Z"',
    '"commit_time": "9999-12-31T23:59:59-23:59"',
    '"commit_time": 1e308',
    '"expire_time": "9999-12-31T23:59:59-23:59"',
    '"expire_time": "0001-01-01T00:00:00+23:59"',
    '"offset": 1e400',
    '"revision": -1',
    '"leader_epoch": 99999999999999999999',
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("data")) as process:
        yield process.wait_until_serving()
        process.stop_well()


@pytest.fixture(scope="module")
def stubs(server: ServerProcess) -> Iterator[Stubs]:
    with server.channel() as channel:
        stubs = Stubs(channel)
        stubs.offsets.CommitOffsets(COMMIT)
        yield stubs


def errors(server: ServerProcess) -> list[dict[str, Any]]:
    return [event for event in server.events if event["level"] == "error"]


def variants(message: Message) -> Iterator[tuple[str, Message]]:
    """Copies of a message, each with one field set to an extreme, also within its fields."""
    for field in message.DESCRIPTOR.fields:
        for text, change in changes(message, field):
            copy = type(message)()
            copy.CopyFrom(message)
            change(copy)
            yield f"{field.name}{text}", copy


def changes(message: Message, field: FieldDescriptor) -> Iterator[tuple[str, Any]]:
    name: str = field.name
    if field.message_type is None:
        for value in EXTREMES[field.type]:
            if field.is_repeated:
                yield f" = [{value!r:.20}]", lambda copy, v=value: put_list(copy, name, [v])
            else:
                yield f" = {value!r:.20}", lambda copy, v=value: setattr(copy, name, v)
        return
    if field.message_type.GetOptions().map_entry:
        for value in EXTREMES[FieldDescriptor.TYPE_STRING]:
            for key in (value, "watch.watchers.max"):
                yield (
                    f"[{key!r:.20}] = {value!r:.20}",
                    lambda copy, k=key, v=value: getattr(copy, name).update({k: v}),
                )
        return
    if field.is_repeated:
        listed = getattr(message, name)
        first = listed[0] if listed else listed.add()
        for text, part in variants(first):
            yield f"[0].{text}", lambda copy, p=part: put_list(copy, name, [p])
        del listed[1:]
        return
    for text, part in parts(getattr(message, name)):
        yield text, lambda copy, p=part: getattr(copy, name).CopyFrom(p)


def parts(message: Message) -> Iterator[tuple[str, Message]]:
    if isinstance(message, Timestamp | Duration):
        for seconds in SECONDS:
            yield f" = {seconds} s", type(message)(seconds=seconds)
        for nanos in NANOS:
            yield f" = {nanos} ns", type(message)(seconds=1, nanos=nanos)
        return
    for text, part in variants(message):
        yield f".{text}", part


def put_list(copy: Message, name: str, values: list[Any]) -> None:
    copy.ClearField(name)
    getattr(copy, name).extend(values)


def answer(stubs: Stubs, method: str, request: Message) -> grpc.StatusCode:
    """With which code the call ended; a stream that goes on is abandoned."""
    descriptor = METHODS[method]
    kinds = (
        "stream" if descriptor.client_streaming else "unary",
        "stream" if descriptor.server_streaming else "unary",
    )
    path = f"/{descriptor.containing_service.full_name}/{method}"
    call: Any = getattr(stubs.channel, "_".join(kinds))(path)
    sent: Any = request.SerializeToString()
    seconds = CALL_SECONDS if method in WAITING else ANSWER_SECONDS
    try:
        answers = call(iter([sent]) if descriptor.client_streaming else sent, timeout=seconds)
        received = list(answers) if descriptor.server_streaming else []
    except grpc.RpcError as error:
        return error.code()
    if method == "StreamCommits":
        for each in map(offset_service_pb2.StreamCommitsResponse.FromString, received):
            if any(result.error.code in DEFECT_NUMBERS for result in each.results):
                return grpc.StatusCode.INTERNAL
    return grpc.StatusCode.OK


@pytest.mark.parametrize("method", METHODS)
def test_no_field_makes_a_call_fail_for_a_defect(
    server: ServerProcess, stubs: Stubs, method: str
) -> None:
    before = len(errors(server))
    codes = {text: answer(stubs, method, request) for text, request in variants(REQUESTS[method])}
    assert not {text: code for text, code in codes.items() if code in DEFECTS}
    if method not in WAITING:
        assert grpc.StatusCode.DEADLINE_EXCEEDED not in codes.values()
    assert not errors(server)[before:]


@pytest.mark.parametrize("members", IMPORTED_TIMES)
def test_no_line_of_a_file_makes_an_import_fail_for_a_defect(
    server: ServerProcess, stubs: Stubs, members: str
) -> None:
    before = len(errors(server))
    request = admin_service_pb2.ImportOffsetsRequest()
    request.CopyFrom(REQUESTS["ImportOffsets"])
    line = '{"group": "kept", "topic": "orders", "partition": 0, "offset": 1, ' + members + "}\n"
    request.content = line.encode()
    assert answer(stubs, "ImportOffsets", request) in (
        grpc.StatusCode.OK,
        grpc.StatusCode.INVALID_ARGUMENT,
    )
    assert not errors(server)[before:]


@pytest.mark.parametrize(
    "interval",
    [Duration(seconds=-1), Duration(), Duration(seconds=86_401), Duration(seconds=315_576_000_000)],
)
def test_a_watcher_cannot_ask_for_tokens_that_never_come(stubs: Stubs, interval: Duration) -> None:
    request = history_pb2.WatchOffsetsRequest(group_ids=[GROUP], progress_interval=interval)
    assert answer(stubs, "WatchOffsets", request) is grpc.StatusCode.INVALID_ARGUMENT
