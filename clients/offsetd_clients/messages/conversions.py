"""Conversions between values and messages, without IO: the parts that several modules share."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, TypeVar

from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc.code_pb2 import Code
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from offsetd.v1 import admin_service_pb2, group_service_pb2, types_pb2

from offsetd_clients.calling.handshakes import explained
from offsetd_clients.calling.security import TlsOptions
from offsetd_clients.errors import (
    Conflict,
    Failure,
    FieldViolation,
    InvalidRequest,
    OffsetdError,
    error_of,
)
from offsetd_clients.messages.lag_messages import verdict_of
from offsetd_clients.values import (
    Coordinator,
    DeletedGroup,
    DiskRoom,
    ExpirySuspension,
    Group,
    GroupListing,
    GroupMember,
    GroupState,
    GroupType,
    LagVerdict,
    Lease,
    ListedDetails,
    Retention,
    Revision,
    ServerInfo,
    ServerState,
    TopicPartition,
)

ERROR_DOMAIN = "offsetd"
STATUS_DETAILS_KEY = "grpc-status-details-bin"

Value = TypeVar("Value")


class building:  # noqa: N801  # Called as a function. A generator would take five times as long.
    """Raises InvalidRequest for values that protobuf refuses, and adds the call to TypeErrors."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, UnicodeEncodeError):
            problem = f"{error.object!r} cannot be encoded as UTF-8"
            raise _invalid(f"{self._what}: {problem}") from error
        if isinstance(error, ValueError):  # The value is out of the field's range.
            raise _invalid(f"{self._what}: {error}") from error
        if isinstance(error, TypeError):
            raise TypeError(f"{self._what}: {error}") from error


def _invalid(message: str) -> InvalidRequest:
    return InvalidRequest(
        Failure(code="INVALID_ARGUMENT", message=message, reason="INVALID_REQUEST")
    )


def text_of(name: str, value: str) -> str:
    """Returns `value`. Raises TypeError unless it is a str: protobuf would also accept bytes."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: {value!r} is not a string")
    return value


def several(name: str, values: Iterable[Value]) -> tuple[Value, ...]:
    """Returns `values` as a tuple. Raises TypeError for one value: a str would be split up."""
    if isinstance(values, str | bytes | TopicPartition):
        raise TypeError(f"{name}: one {type(values).__name__} where a list of them is expected")
    return tuple(values)


def delete_group_request(
    group_id: str, *, request_id: str, validate_only: bool, reason: str
) -> group_service_pb2.DeleteGroupRequest:
    """A DeleteGroupRequest for a group with its offsets."""
    with building("delete group"):
        return group_service_pb2.DeleteGroupRequest(
            group_id=text_of("group_id", group_id),
            request_id=request_id,
            validate_only=validate_only,
            reason=reason,
        )


def list_groups_request(
    *,
    states: Iterable[GroupState],
    types: Iterable[GroupType],
    lag_verdicts: Iterable[LagVerdict],
    group_id_prefix: str,
    topics: Iterable[str],
    lease_holder: str,
    include_details: bool,
    page_size: int,
    include_lag_verdicts: bool,
) -> group_service_pb2.ListGroupsRequest:
    """A ListGroupsRequest for the first page of a node. A filter that is empty is none."""
    with building("list groups"):
        return group_service_pb2.ListGroupsRequest(
            page_size=page_size,
            states=[f"GROUP_STATE_{state.name}" for state in several("states", states)],
            types=[f"GROUP_TYPE_{type_.name}" for type_ in several("types", types)],
            lag_verdicts=[
                f"LAG_VERDICT_{verdict.name}" for verdict in several("lag_verdicts", lag_verdicts)
            ],
            group_id_prefix=group_id_prefix,
            topics=several("topics", topics),
            lease_holder=lease_holder,
            include_details=include_details,
            this_node_only=True,
            include_lag_verdicts=include_lag_verdicts,
        )


def get_group_request(group_id: str) -> group_service_pb2.GetGroupRequest:
    """A GetGroupRequest."""
    with building("get group"):
        return group_service_pb2.GetGroupRequest(group_id=text_of("group_id", group_id))


def find_coordinator_request(group_id: str) -> admin_service_pb2.FindCoordinatorRequest:
    """A FindCoordinatorRequest."""
    with building("find coordinator"):
        return admin_service_pb2.FindCoordinatorRequest(group_id=text_of("group_id", group_id))


def coordinator_of(response: admin_service_pb2.FindCoordinatorResponse) -> Coordinator:
    """The server that owns a group."""
    return Coordinator(
        log_partition=response.log_partition, node_id=response.node_id, address=response.address
    )


def revision_of(message: types_pb2.Revision) -> Revision:
    """The position of a record in the log."""
    return Revision(message.log_partition, message.log_offset)


def deleted_group(response: group_service_pb2.DeleteGroupResponse) -> DeletedGroup:
    """The number of offsets deleted with a group."""
    return DeletedGroup(
        offset_count=response.offset_count,
        revision=revision_of(response.revision) if response.HasField("revision") else None,
    )


def listed_groups(response: group_service_pb2.ListGroupsResponse) -> list[GroupListing]:
    """The groups of one page."""
    return [
        GroupListing(
            group_id=listing.group_id,
            type=_group_type(listing.type),
            state=_group_state(listing.state),
            protocol_type=listing.protocol_type,
            retention=_retention_of(listing),
            details=_details_of(listing.details) if listing.HasField("details") else None,
            lag_verdict=verdict_of(listing.lag_verdict),
            lag=listing.lag if listing.HasField("lag") else None,
        )
        for listing in response.groups
    ]


def _details_of(message: group_service_pb2.ListedDetails) -> ListedDetails:
    return ListedDetails(
        offset_count=message.offset_count,
        member_count=message.member_count,
        lease_holder=message.lease_holder,
    )


def group_of(message: group_service_pb2.Group) -> Group:
    """A group with all details."""
    return Group(
        group_id=message.group_id,
        type=_group_type(message.type),
        state=_group_state(message.state),
        protocol_type=message.protocol_type,
        protocol=message.protocol,
        generation=message.generation,
        leader_id=message.leader_id,
        members=tuple(
            GroupMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                topics=tuple(member.topics),
                assignment=partitions_of(member.assignment),
            )
            for member in message.members
        ),
        log_partition=message.log_partition,
        offset_count=message.offset_count,
        state_time=_time(message.state_time) if message.HasField("state_time") else None,
        retention=_retention_of(message),
        lease=lease_of(message.lease) if message.HasField("lease") else None,
        lag_verdict=verdict_of(message.lag_verdict),
    )


def lease_of(message: group_service_pb2.Lease) -> Lease:
    """A lease."""
    return Lease(
        holder=message.holder,
        epoch=message.epoch,
        ttl=message.ttl.ToTimedelta(),
        grant_time=_time(message.grant_time) if message.HasField("grant_time") else None,
        expire_time=_time(message.expire_time) if message.HasField("expire_time") else None,
    )


def retention_message(retention: Retention) -> types_pb2.Retention:
    """The Retention message of a group."""
    if retention is None:
        return types_pb2.Retention()
    if isinstance(retention, timedelta):
        return types_pb2.Retention(duration=retention)
    if retention != "never":
        raise ValueError(f"a retention is a time, 'never' or None, not {retention!r}")
    return types_pb2.Retention(never=True)


def _retention_of(message: group_service_pb2.Group | group_service_pb2.GroupListing) -> Retention:
    kind = message.retention.WhichOneof("kind")
    if kind == "duration":
        return message.retention.duration.ToTimedelta()
    return "never" if kind == "never" else None


def server_info(response: admin_service_pb2.GetServerInfoResponse) -> ServerInfo:
    """The description of the server."""
    prefix = "SERVER_STATE_"
    state = admin_service_pb2.ServerState
    name = state.Name(response.state) if response.state in state.values() else ""
    return ServerInfo(
        version=response.version,
        folder_id=response.folder_id,
        node_id=response.node_id,
        start_time=_time(response.start_time),
        log_partitions=response.log_partitions,
        state=ServerState.__members__.get(name.removeprefix(prefix), ServerState.UNKNOWN),
        group_count=response.group_count,
        offset_count=response.offset_count,
        unknown_record_count=response.unknown_record_count,
        undecodable_record_count=response.undecodable_record_count,
        quarantined_partitions=tuple(response.quarantined_partitions),
        expiry_suspension=_expiry_suspension(response),
        settings_problem=response.settings_problem,
        clock_offset=response.clock_offset.ToTimedelta(),
        problems=tuple(response.problems),
        other_addresses=tuple(response.other_addresses),
        cluster_id=response.cluster_id,
        flush_count=response.flush_count if response.HasField("flush_count") else None,
        stopped_cleanly=response.stopped_cleanly if response.HasField("stopped_cleanly") else None,
        disk=_disk_of(response.disk) if response.HasField("disk") else None,
        counts_hidden=response.counts_hidden,
    )


def _disk_of(message: admin_service_pb2.DiskRoom) -> DiskRoom:
    return DiskRoom(total_bytes=message.total_bytes, free_bytes=message.free_bytes)


def _expiry_suspension(
    response: admin_service_pb2.GetServerInfoResponse,
) -> ExpirySuspension | None:
    if not response.HasField("expiry_suspension"):
        return None
    suspension = response.expiry_suspension
    return ExpirySuspension(
        reason=suspension.reason,
        end_time=_time(suspension.end_time) if suspension.HasField("end_time") else None,
        remaining=suspension.remaining.ToTimedelta() if suspension.HasField("remaining") else None,
    )


def error_in(status: Status) -> OffsetdError:
    """The error in one of several results of a call."""
    details = status.SerializeToString()
    return error_of(failure_of(Code.Name(status.code), status.message, details))


def call_failure(error: Any, tls: TlsOptions | None) -> Failure:
    """The failure in gRPC's exception, of a client with these TLS settings."""
    details = dict(error.trailing_metadata() or ()).get(STATUS_DETAILS_KEY)
    return failure_of(error.code().name, explained(error.details() or "", tls), details)


def failure_of(code: str, message: str, status_details: bytes | None) -> Failure:
    """The failure from gRPC's code and message and the `grpc-status-details-bin` trailer.

    Details that cannot be parsed are ignored: the code still gives the kind of failure.
    """
    status = Status()
    try:
        status.ParseFromString(status_details or b"")
    except DecodeError:
        status = Status()
    reason = ""
    details: dict[str, str] = {}
    retry_after_s = None
    violations: list[FieldViolation] = []
    error_info, retry_info, bad_request = ErrorInfo(), RetryInfo(), BadRequest()
    for detail in status.details:
        if detail.Unpack(error_info) and error_info.domain == ERROR_DOMAIN:
            reason, details = error_info.reason, dict(error_info.metadata)
        elif detail.Unpack(retry_info):
            retry_after_s = retry_info.retry_delay.ToTimedelta().total_seconds()
        elif detail.Unpack(bad_request):
            violations += [
                FieldViolation(field=violation.field, description=violation.description)
                for violation in bad_request.field_violations
            ]
    return Failure(
        code=code,
        message=message,
        reason=reason,
        details=details,
        retry_after_s=retry_after_s,
        field_violations=tuple(violations),
        conflicts=_conflicts(details),
    )


def _conflicts(details: Mapping[str, str]) -> tuple[Conflict, ...]:
    try:
        return tuple(
            Conflict(
                topic_partition=TopicPartition(entry["topic"], entry["partition"]),
                offset=entry.get("offset"),
                revision=entry.get("revision"),
            )
            for entry in json.loads(details.get("conflicts", "[]"))
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return ()


def partition_messages(partitions: Iterable[TopicPartition]) -> list[types_pb2.TopicPartition]:
    """The messages of partitions. Raises TypeError for a value that is not a TopicPartition."""
    return [
        types_pb2.TopicPartition(topic=each.topic, partition=each.partition)
        for each in map(checked_partition, partitions)
    ]


def checked_partition(value: object) -> TopicPartition:
    """Returns `value`. Raises TypeError if it is not a TopicPartition."""
    if not isinstance(value, TopicPartition):
        raise TypeError(f"{value!r} is not a TopicPartition")
    text_of("topic", value.topic)
    return value


def partitions_of(messages: Iterable[types_pb2.TopicPartition]) -> tuple[TopicPartition, ...]:
    """The partitions in messages."""
    return tuple(TopicPartition(message.topic, message.partition) for message in messages)


def _time(message: Timestamp) -> datetime:
    return message.ToDatetime(tzinfo=UTC)


def _group_type(number: group_service_pb2.GroupType) -> GroupType:
    if number not in group_service_pb2.GroupType.values():
        return GroupType.UNKNOWN  # A newer server sent it.
    name = group_service_pb2.GroupType.Name(number).removeprefix("GROUP_TYPE_")
    return GroupType.__members__.get(name, GroupType.UNKNOWN)


def _group_state(number: group_service_pb2.GroupState) -> GroupState:
    if number not in group_service_pb2.GroupState.values():
        return GroupState.UNKNOWN  # A newer server sent it.
    name = group_service_pb2.GroupState.Name(number).removeprefix("GROUP_STATE_")
    return GroupState.__members__.get(name, GroupState.UNKNOWN)
