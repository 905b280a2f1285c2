"""Conversions between values and messages, without IO: the administrative calls."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, SupportsIndex

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from offsetd.v1 import admin_service_pb2

from offsetd_clients.admin_values import (
    BlockedRetention,
    CleaningRound,
    CleaningState,
    CompactedLog,
    CompactedPartition,
    ConfigSetting,
    ConfigSource,
    DeletedRecords,
    LogCleaning,
    LogPartition,
    LogSegment,
    RetriedPartition,
    UncleanablePartition,
    UpdatedConfig,
)
from offsetd_clients.messages.conversions import building, revision_of, several
from offsetd_clients.values import Revision, whole

_SERVICE_BYTES_MAX = 127  # Its length fits into one byte.


def describe_log_request(
    topic: str, partitions: Iterable[SupportsIndex]
) -> admin_service_pb2.DescribeLogRequest:
    """A DescribeLogRequest. Without `partitions`, it asks for all."""
    with building("describe log"):
        return admin_service_pb2.DescribeLogRequest(
            topic=topic, partitions=[whole(each) for each in several("partitions", partitions)]
        )


def compact_log_request(
    topic: str,
    partitions: Iterable[SupportsIndex],
    *,
    roll_active: bool,
    request_id: str,
    validate_only: bool,
    reason: str,
) -> admin_service_pb2.CompactLogRequest:
    """A CompactLogRequest. Without `partitions`, it asks for all."""
    with building("compact log"):
        return admin_service_pb2.CompactLogRequest(
            topic=topic,
            partitions=[whole(each) for each in several("partitions", partitions)],
            roll_active=roll_active,
            request_id=request_id,
            validate_only=validate_only,
            reason=reason,
        )


def retry_partition_request(
    topic: str, partition: SupportsIndex, *, request_id: str, validate_only: bool, reason: str
) -> admin_service_pb2.RetryPartitionRequest:
    """A RetryPartitionRequest."""
    with building("retry partition"):
        return admin_service_pb2.RetryPartitionRequest(
            topic=topic,
            partition=whole(partition),
            request_id=request_id,
            validate_only=validate_only,
            reason=reason,
        )


def delete_records_request(
    topic: str,
    partition: SupportsIndex,
    offset: SupportsIndex | None,
    *,
    request_id: str,
    validate_only: bool,
    reason: str,
) -> admin_service_pb2.DeleteRecordsRequest:
    """A DeleteRecordsRequest. If `offset` is None, it asks for all records up to the log's end."""
    with building("delete records"):
        request = admin_service_pb2.DeleteRecordsRequest(
            topic=topic,
            partition=whole(partition),
            request_id=request_id,
            validate_only=validate_only,
            reason=reason,
        )
        if offset is None:
            request.end = True
        else:
            request.offset = whole(offset)
        return request


def describe_config_request(
    topic: str, names: Iterable[str]
) -> admin_service_pb2.DescribeConfigRequest:
    """A DescribeConfigRequest. Without `names`, it asks for all."""
    with building("describe config"):
        return admin_service_pb2.DescribeConfigRequest(topic=topic, names=several("names", names))


def update_config_request(
    changes: Mapping[str, str],
    *,
    topic: str,
    remove: Iterable[str],
    request_id: str,
    validate_only: bool,
    reason: str,
) -> admin_service_pb2.UpdateConfigRequest:
    """An UpdateConfigRequest. `changes` has the values by setting."""
    if not isinstance(changes, Mapping):
        raise TypeError("changes: a mapping from a setting's name to its value is expected")
    with building("update config"):
        return admin_service_pb2.UpdateConfigRequest(
            topic=topic,
            set=changes,
            remove=several("remove", remove),
            request_id=request_id,
            validate_only=validate_only,
            reason=reason,
        )


def health_request(service: str) -> bytes:
    """gRPC's `HealthCheckRequest`, encoded by hand: only the server has its generated code."""
    with building("health"):
        encoded = service.encode()
        if len(encoded) > _SERVICE_BYTES_MAX:
            raise ValueError(f"a service's name of {len(encoded)} bytes")
    return b"\x0a" + bytes([len(encoded)]) + encoded if encoded else b""


def says_serving(response: bytes) -> bool:
    """Whether a `HealthCheckResponse` says SERVING."""
    return response == b"\x08\x01"


def log_partitions(response: admin_service_pb2.DescribeLogResponse) -> tuple[LogPartition, ...]:
    """The described partitions, in the order of the request."""
    return tuple(
        LogPartition(
            partition=message.partition,
            log_start_offset=message.log_start_offset,
            log_end_offset=message.log_end_offset,
            recovery_point=message.recovery_point,
            size_bytes=message.size_bytes,
            segments=tuple(
                LogSegment(
                    base_offset=segment.base_offset,
                    size_bytes=segment.size_bytes,
                    largest_time=_time_in(segment, "largest_time"),
                )
                for segment in message.segments
            ),
            quarantine_reason=message.quarantine_reason,
            cleaning=_cleaning(message.cleaning) if message.HasField("cleaning") else None,
            blocked_retention=(
                _blocked(message.blocked_retention)
                if message.HasField("blocked_retention")
                else None
            ),
        )
        for message in response.partitions
    )


def compacted_log(response: admin_service_pb2.CompactLogResponse) -> CompactedLog:
    """The outcome for each partition."""
    return CompactedLog(
        partitions=tuple(
            CompactedPartition(
                partition=message.partition,
                round=_round(message.round) if message.HasField("round") else None,
                failure=message.failure,
            )
            for message in response.partitions
        ),
        revision=_revision_in(response),
    )


def retried_partition(response: admin_service_pb2.RetryPartitionResponse) -> RetriedPartition:
    """The partition, with the problem that it had."""
    return RetriedPartition(
        uncleanable=(
            _uncleanable(response.uncleanable) if response.HasField("uncleanable") else None
        ),
        revision=_revision_in(response),
    )


def deleted_records(response: admin_service_pb2.DeleteRecordsResponse) -> DeletedRecords:
    """The new start of the log."""
    return DeletedRecords(
        log_start_offset=response.log_start_offset,
        deleted_bytes=response.deleted_bytes,
        revision=_revision_in(response),
    )


def config_settings(
    messages: Iterable[admin_service_pb2.ConfigSetting],
) -> tuple[ConfigSetting, ...]:
    """The settings, in the order of the answer."""
    return tuple(
        ConfigSetting(
            name=message.name,
            value=message.value,
            default_value=message.default_value,
            source=_config_source(message.source),
            unit=message.unit,
            description=message.description,
            allowed_values=message.allowed_values,
            is_dynamic=message.is_dynamic,
            problem=message.problem,
        )
        for message in messages
    )


def updated_config(response: admin_service_pb2.UpdateConfigResponse) -> UpdatedConfig:
    """The settings that the request named, with their present values."""
    return UpdatedConfig(
        settings=config_settings(response.settings), revision=_revision_in(response)
    )


def _cleaning(message: admin_service_pb2.LogCleaning) -> LogCleaning:
    return LogCleaning(
        state=_cleaning_state(message.state),
        first_dirty_offset=message.first_dirty_offset,
        first_uncleanable_offset=message.first_uncleanable_offset,
        last_stable_offset=message.last_stable_offset,
        clean_bytes=message.clean_bytes,
        cleanable_bytes=message.cleanable_bytes,
        dirty_ratio=message.dirty_ratio,
        oldest_dirty_age=_duration_in(message, "oldest_dirty_age"),
        overdue=_duration_in(message, "overdue"),
        delete_horizon_time=_time_in(message, "delete_horizon_time"),
        uncleanable=_uncleanable(message.uncleanable) if message.HasField("uncleanable") else None,
        last_round=_round(message.last_round) if message.HasField("last_round") else None,
    )


def _round(message: admin_service_pb2.CleaningRound) -> CleaningRound:
    return CleaningRound(
        start_time=_time(message.start_time),
        duration=message.duration.ToTimedelta(),
        first_dirty_offset=message.first_dirty_offset,
        end_offset=message.end_offset,
        bytes_before=message.bytes_before,
        bytes_after=message.bytes_after,
        records_before=message.records_before,
        records_after=message.records_after,
        segments_before=message.segments_before,
        segments_after=message.segments_after,
        map_utilization=message.map_utilization,
        is_partial=message.is_partial,
    )


def _uncleanable(message: admin_service_pb2.UncleanablePartition) -> UncleanablePartition:
    return UncleanablePartition(
        reason=message.reason,
        is_damaged=message.is_damaged,
        failures_in_row=message.failures_in_row,
        first_failure_time=_time(message.first_failure_time),
        last_failure_time=_time(message.last_failure_time),
        next_retry_time=_time(message.next_retry_time),
    )


def _blocked(message: admin_service_pb2.BlockedRetention) -> BlockedRetention:
    return BlockedRetention(
        base_offset=message.base_offset,
        timestamp=_time(message.timestamp),
        blocked_until_time=_time(message.blocked_until_time),
        held_segments=message.held_segments,
        held_bytes=message.held_bytes,
    )


def _config_source(number: int) -> ConfigSource:
    kinds = admin_service_pb2.ConfigSource
    name = kinds.Name(number).removeprefix("CONFIG_SOURCE_") if number in kinds.values() else ""
    return ConfigSource.__members__.get(name, ConfigSource.UNKNOWN)


def _cleaning_state(number: int) -> CleaningState:
    states = admin_service_pb2.CleaningState
    name = states.Name(number).removeprefix("CLEANING_STATE_") if number in states.values() else ""
    return CleaningState.__members__.get(name, CleaningState.UNKNOWN)


def _revision_in(response: Any) -> Revision | None:
    return revision_of(response.revision) if response.HasField("revision") else None


def _time_in(message: Message, field: str) -> datetime | None:
    return _time(getattr(message, field)) if message.HasField(field) else None


def _time(message: Timestamp) -> datetime:
    return message.ToDatetime(tzinfo=UTC)


def _duration_in(message: Message, field: str) -> timedelta | None:
    if not message.HasField(field):
        return None
    duration: timedelta = getattr(message, field).ToTimedelta()
    return duration
