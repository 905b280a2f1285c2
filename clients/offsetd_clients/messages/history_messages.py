"""Conversions between values and messages, without IO: the history of offsets."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import SupportsIndex

from offsetd.v1 import history_pb2

from offsetd_clients.history_values import OffsetEvent, OffsetEvents, RestoredGroup, RestoredOffset
from offsetd_clients.messages.conversions import (
    building,
    partition_messages,
    revision_of,
    several,
    text_of,
)
from offsetd_clients.values import TopicPartition, whole


def list_offset_history_request(
    group_id: str,
    partitions: Iterable[TopicPartition],
    *,
    since: datetime | SupportsIndex | None,
    until: datetime | SupportsIndex | None,
    oldest_first: bool,
    page_size: int,
) -> history_pb2.ListOffsetHistoryRequest:
    """A ListOffsetHistoryRequest for the first page. If `partitions` is empty, it is for all."""
    with building("history"):
        request = history_pb2.ListOffsetHistoryRequest(
            group_id=text_of("group_id", group_id),
            partitions=partition_messages(several("partitions", partitions)),
            oldest_first=oldest_first,
            page_size=page_size,
        )
        _set_bound(request, "from", since)
        _set_bound(request, "to", until)
        return request


def restore_group_request(
    group_id: str,
    target: datetime | SupportsIndex,
    *,
    force: bool,
    validate_only: bool,
    reason: str,
    request_id: str,
) -> history_pb2.RestoreGroupRequest:
    """A RestoreGroupRequest. The target is a time or a log offset."""
    with building("restore"):
        request = history_pb2.RestoreGroupRequest(
            group_id=text_of("group_id", group_id),
            force=force,
            validate_only=validate_only,
            reason=reason,
            request_id=request_id,
        )
        if isinstance(target, datetime):
            request.time.FromDatetime(target)
        else:
            request.revision = whole(target)
        return request


def watch_offsets_request(
    group_ids: Iterable[str],
    *,
    group_id_prefix: str,
    topics: Iterable[str],
    token: str,
    from_oldest: bool,
    progress_interval_s: float | None,
    until_token: str,
) -> history_pb2.WatchOffsetsRequest:
    """A WatchOffsetsRequest."""
    groups, named = several("group_ids", group_ids), several("topics", topics)
    with building("watch"):
        request = history_pb2.WatchOffsetsRequest(
            group_ids=groups,
            group_id_prefix=group_id_prefix,
            topics=named,
            token=token,
            from_oldest=from_oldest,
            until_token=until_token,
            this_node_only=True,
        )
        if progress_interval_s is not None:
            request.progress_interval.FromMilliseconds(round(progress_interval_s * 1000))
        return request


def offset_event(event: history_pb2.OffsetEvent) -> OffsetEvent:
    """A commit or a deletion."""
    change = event.WhichOneof("change")
    committed = event.committed
    is_commit = change == "committed"
    return OffsetEvent(
        group_id=event.group_id,
        topic_partition=TopicPartition(event.topic, event.partition),
        revision=revision_of(event.revision),
        time=event.time.ToDatetime(tzinfo=UTC),
        offset=committed.offset if is_commit else None,
        leader_epoch=committed.leader_epoch if committed.HasField("leader_epoch") else None,
        metadata=committed.metadata,
        commit_time=_time_in(committed, "commit_time"),
        expire_time=_time_in(committed, "expire_time"),
        is_readable=change is not None,
    )


def offset_events(response: history_pb2.WatchOffsetsResponse) -> OffsetEvents:
    """The events of one answer, with their token."""
    return OffsetEvents(events=tuple(map(offset_event, response.events)), token=response.token)


def restored_group(response: history_pb2.RestoreGroupResponse) -> RestoredGroup:
    """The changes of a restore."""
    return RestoredGroup(
        revision=revision_of(response.revision) if response.HasField("revision") else None,
        changes=tuple(map(_restored, response.changes)),
        restored_before=revision_of(response.restored_before),
    )


def _set_bound(
    request: history_pb2.ListOffsetHistoryRequest,
    name: str,
    bound: datetime | SupportsIndex | None,
) -> None:
    if isinstance(bound, datetime):
        getattr(request, f"{name}_time").FromDatetime(bound)
    elif bound is not None:
        setattr(request, f"{name}_revision", whole(bound))


def _time_in(message: history_pb2.CommittedPosition, field: str) -> datetime | None:
    if not message.HasField(field):
        return None
    time_of: datetime = getattr(message, field).ToDatetime(tzinfo=UTC)
    return time_of


def _restored(offset: history_pb2.RestoredOffset) -> RestoredOffset:
    return RestoredOffset(
        topic_partition=TopicPartition(offset.topic, offset.partition),
        offset_before=offset.offset_before if offset.HasField("offset_before") else None,
        offset_after=offset.offset_after if offset.HasField("offset_after") else None,
        revision=revision_of(offset.revision) if offset.HasField("revision") else None,
    )
