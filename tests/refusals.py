"""What a refused call says, and whether it changed anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status
from offsetd.v1 import admin_service_pb2, group_service_pb2, offset_service_pb2

if TYPE_CHECKING:
    import grpc
    from server_process import Stubs


def contents(stubs: Stubs) -> list[Any]:
    """Everything that the server holds, and how long its log is."""
    listed = stubs.groups.ListGroups(group_service_pb2.ListGroupsRequest()).groups
    selections = [offset_service_pb2.GroupSelection(group_id=each.group_id) for each in listed]
    fetched = stubs.offsets.FetchOffsets(offset_service_pb2.FetchOffsetsRequest(groups=selections))
    log = stubs.admin.DescribeLog(admin_service_pb2.DescribeLogRequest())
    return [listed, fetched, [partition.log_end_offset for partition in log.partitions]]


def status_of(error: grpc.RpcError) -> Status:
    """All that the server said; empty if the refusal came from the connection alone."""
    trailers: Any = error.trailing_metadata()
    return Status.FromString(dict(trailers or ()).get("grpc-status-details-bin", b""))


def details(error: grpc.RpcError) -> tuple[grpc.StatusCode, str, list[str]]:
    """Code, reason and the fields that are named."""
    info, bad_request = ErrorInfo(), BadRequest()
    for packed in status_of(error).details:
        for kind in (info, bad_request):
            if packed.Is(kind.DESCRIPTOR):
                packed.Unpack(kind)
    assert info.reason == "" or info.domain == "offsetd"
    return error.code(), info.reason, [each.field for each in bad_request.field_violations]
