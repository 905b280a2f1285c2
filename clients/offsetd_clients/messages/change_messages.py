"""Conversions between values and messages, without IO: resets, clones, files, the audit log."""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, SupportsIndex

from offsetd.v1 import admin_service_pb2, group_service_pb2, offset_service_pb2

from offsetd_clients.change_values import (
    AuditEvent,
    Bounds,
    ClonedGroup,
    ImportedGroup,
    OffsetChange,
    OffsetFormat,
    ResetOffsets,
    ResetTo,
    ShiftBy,
    ToOffset,
)
from offsetd_clients.messages.conversions import (
    building,
    error_in,
    partition_messages,
    revision_of,
    several,
    text_of,
)
from offsetd_clients.values import TopicPartition, whole

ResetTarget = (
    ToOffset | ShiftBy | ResetTo | datetime | timedelta | Mapping[TopicPartition, SupportsIndex]
)

_PIECE_BYTES = 64 * 1024


def reset_offsets_request(
    group_id: str,
    target: ResetTarget,
    *,
    partitions: Iterable[TopicPartition],
    topics: Iterable[str],
    bounds: Mapping[TopicPartition, Bounds],
    force: bool,
    request_id: str,
    validate_only: bool,
    reason: str,
) -> offset_service_pb2.ResetOffsetsRequest:
    """A ResetOffsetsRequest. A time without a zone is UTC."""
    with building("reset offsets"):
        return offset_service_pb2.ResetOffsetsRequest(
            group_id=text_of("group_id", group_id),
            partitions=partition_messages(several("partitions", partitions)),
            topics=several("topics", topics),
            bounds=[
                offset_service_pb2.PartitionBounds(
                    topic=each.topic,
                    partition=each.partition,
                    earliest=bound.earliest,
                    latest=bound.latest,
                )
                for each, bound in bounds.items()
            ],
            force=force,
            request_id=request_id,
            validate_only=validate_only,
            reason=reason,
            **_target(target),
        )


def reset_offsets(response: offset_service_pb2.ResetOffsetsResponse) -> ResetOffsets:
    """The changes of a reset."""
    return ResetOffsets(
        changes=_changes(response.changes),
        revision=revision_of(response.revision) if response.HasField("revision") else None,
        reported_end_count=response.reported_end_count,
        unknown_end_count=response.unknown_end_count,
    )


def fetch_bounds_request(
    partitions: Iterable[TopicPartition], topics: Iterable[str]
) -> offset_service_pb2.FetchBoundsRequest:
    """A FetchBoundsRequest for partitions, and for all partitions of topics."""
    with building("fetch bounds"):
        return offset_service_pb2.FetchBoundsRequest(
            partitions=partition_messages(several("partitions", partitions)),
            topics=several("topics", topics),
        )


def fetched_bounds(
    response: offset_service_pb2.FetchBoundsResponse,
) -> dict[TopicPartition, Bounds]:
    """The bounds by partition."""
    return {
        TopicPartition(each.topic, each.partition): Bounds(
            each.earliest if each.HasField("earliest") else None,
            each.latest if each.HasField("latest") else None,
        )
        for each in response.bounds
    }


def clone_group_request(
    source_group_id: str,
    target_group_id: str,
    *,
    topics: Iterable[str],
    overwrite: bool,
    request_id: str,
    validate_only: bool,
    reason: str,
) -> group_service_pb2.CloneGroupRequest:
    """A CloneGroupRequest. Without `topics`, it is for all."""
    with building("clone group"):
        return group_service_pb2.CloneGroupRequest(
            source_group_id=source_group_id,
            target_group_id=target_group_id,
            topics=several("topics", topics),
            overwrite=overwrite,
            request_id=request_id,
            validate_only=validate_only,
            reason=reason,
        )


def cloned_group(response: group_service_pb2.CloneGroupResponse) -> ClonedGroup:
    """The changes of a clone."""
    return ClonedGroup(
        offset_count=response.offset_count,
        kept_offset_count=response.kept_offset_count,
        changes=_changes(response.changes),
        revision=revision_of(response.revision) if response.HasField("revision") else None,
    )


def export_offsets_request(
    file_format: OffsetFormat,
    *,
    group_ids: Iterable[str],
    group_id_prefix: str,
    topics: Iterable[str],
) -> admin_service_pb2.ExportOffsetsRequest:
    """An ExportOffsetsRequest. Without `group_ids`, it is for all groups with the prefix."""
    with building("export offsets"):
        return admin_service_pb2.ExportOffsetsRequest(
            format=_format(file_format),
            group_ids=several("group_ids", group_ids),
            group_id_prefix=group_id_prefix,
            topics=several("topics", topics),
            this_node_only=True,
        )


def import_offsets_requests(
    content: bytes,
    file_format: OffsetFormat,
    *,
    group_id: str,
    request_id: str,
    validate_only: bool,
    reason: str,
    keep_commit_times: bool = False,
    is_unaudited: bool = False,
) -> list[admin_service_pb2.ImportOffsetsRequest]:
    """ImportOffsetsRequests: first the options, then the file in pieces."""
    with building("import offsets"):
        first = admin_service_pb2.ImportOffsetsRequest(
            options=admin_service_pb2.ImportOffsetsOptions(
                format=_format(file_format),
                group_id=text_of("group_id", group_id),
                request_id=request_id,
                validate_only=validate_only,
                reason=reason,
                keep_commit_times=keep_commit_times,
                is_unaudited=is_unaudited,
            )
        )
    pieces = (content[at : at + _PIECE_BYTES] for at in range(0, len(content), _PIECE_BYTES))
    return [first, *(admin_service_pb2.ImportOffsetsRequest(content=piece) for piece in pieces)]


def imported_groups(
    response: admin_service_pb2.ImportOffsetsResponse,
) -> tuple[ImportedGroup, ...]:
    """The outcome for each group, in the order of the file."""
    return tuple(
        ImportedGroup(
            group_id=group.group_id,
            offset_count=group.offset_count,
            revision=revision_of(group.revision) if group.HasField("revision") else None,
            error=error_in(group.error) if group.HasField("error") else None,
            replaced_offset_count=group.replaced_offset_count,
            changes=_changes(group.changes),
        )
        for group in response.groups
    )


def list_audit_events_request(
    *,
    methods: Iterable[str],
    group_id: str,
    principal: str,
    start_time: datetime | None,
    end_time: datetime | None,
    page_size: int,
) -> admin_service_pb2.ListAuditEventsRequest:
    """A ListAuditEventsRequest for the first page. Without `methods`, it is for any."""
    with building("list audit events"):
        return admin_service_pb2.ListAuditEventsRequest(
            page_size=page_size,
            methods=several("methods", methods),
            group_id=text_of("group_id", group_id),
            principal=text_of("principal", principal),
            start_time=None if start_time is None else _utc(start_time),
            end_time=None if end_time is None else _utc(end_time),
        )


def audit_events(response: admin_service_pb2.ListAuditEventsResponse) -> Iterator[AuditEvent]:
    """The events of one page."""
    for event in response.events:
        yield AuditEvent(
            revision=revision_of(event.revision),
            time=event.time.ToDatetime(tzinfo=UTC),
            method=event.method,
            topic=event.topic,
            what=json.loads(event.what),
            reason=event.reason,
            request_id=event.request_id,
            peer=event.peer,
            node_id=response.node_id,
            principal=event.principal,
        )


def _target(target: ResetTarget) -> dict[str, Any]:
    match target:
        case ToOffset():
            return {"offset": whole(target.offset)}
        case ShiftBy():
            return {"shift_by": whole(target.count)}
        case ResetTo():
            return {str(target): True}
        case datetime():
            return {"time": _utc(target)}
        case timedelta():
            return {"duration": target}
        case Mapping():
            explicit = [
                offset_service_pb2.ExplicitOffset(
                    topic=each.topic, partition=each.partition, offset=whole(offset)
                )
                for each, offset in target.items()
            ]
            return {"explicit": offset_service_pb2.ExplicitOffsets(offsets=explicit)}
    raise TypeError(f"{target!r} is not a reset target")


def _utc(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def _format(file_format: OffsetFormat) -> Any:
    return f"OFFSET_FORMAT_{OffsetFormat(file_format).name}"


def _changes(messages: Iterable[offset_service_pb2.OffsetChange]) -> tuple[OffsetChange, ...]:
    return tuple(
        OffsetChange(
            TopicPartition(each.topic, each.partition),
            each.offset_before if each.HasField("offset_before") else None,
            each.offset_after,
            revision_of(each.revision) if each.HasField("revision") else None,
        )
        for each in messages
    )
