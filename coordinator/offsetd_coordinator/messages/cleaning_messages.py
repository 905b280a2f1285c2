"""Cleaning and retention figures as protobuf messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd.v1 import admin_service_pb2
from offsetd_storage.retention.log_claims import CleaningState

from offsetd_coordinator.messages.timestamps import set_duration, set_time

if TYPE_CHECKING:
    from offsetd_storage.cleaner.cleaner_status import LogCleaningStatus
    from offsetd_storage.cleaner.cleaning_round import CleanReport
    from offsetd_storage.cleaner.uncleanable_logs import UncleanablePartition
    from offsetd_storage.retention.retention_rules import FutureTimestamp

_STATES: Final = {
    CleaningState.IDLE: admin_service_pb2.CLEANING_STATE_IDLE,
    CleaningState.IN_PROGRESS: admin_service_pb2.CLEANING_STATE_IN_PROGRESS,
    CleaningState.ABORTED: admin_service_pb2.CLEANING_STATE_ABORTED,
    CleaningState.PAUSED: admin_service_pb2.CLEANING_STATE_PAUSED,
}
assert set(_STATES) == set(CleaningState), "every state has its name in the contract"


def log_cleaning(status: LogCleaningStatus, *, now_ms: int) -> admin_service_pb2.LogCleaning:
    """The state of a log's cleaning."""
    message = admin_service_pb2.LogCleaning(
        state=_STATES[status.state],
        first_dirty_offset=status.first_dirty,
        first_uncleanable_offset=status.first_uncleanable,
        last_stable_offset=status.last_stable_offset,
        clean_bytes=status.clean_bytes,
        cleanable_bytes=status.cleanable_bytes,
        dirty_ratio=status.dirty_ratio,
    )
    if status.oldest_dirty_age_ms is not None:
        set_duration(message.oldest_dirty_age, status.oldest_dirty_age_ms)
    if status.overdue_ms > 0:
        set_duration(message.overdue, status.overdue_ms)
    if status.delete_horizon_ms is not None:
        set_time(message.delete_horizon_time, status.delete_horizon_ms)
    if status.uncleanable is not None:
        message.uncleanable.CopyFrom(uncleanable_partition(status.uncleanable, now_ms=now_ms))
    if status.last is not None:
        message.last_round.CopyFrom(cleaning_round(status.last.report))
    return message


def uncleanable_partition(
    failure: UncleanablePartition, *, now_ms: int
) -> admin_service_pb2.UncleanablePartition:
    """The failure to clean a log."""
    message = admin_service_pb2.UncleanablePartition(
        reason=failure.reason,
        is_damaged=failure.is_damaged,
        failures_in_row=failure.failures_in_row,
    )
    set_time(message.first_failure_time, failure.since_ms)
    set_time(message.last_failure_time, failure.last_ms)
    set_time(message.next_retry_time, now_ms + failure.retry_in_ms)
    return message


def cleaning_round(report: CleanReport) -> admin_service_pb2.CleaningRound:
    """The figures of one cleaning round."""
    message = admin_service_pb2.CleaningRound(
        first_dirty_offset=report.first_dirty,
        end_offset=report.offset_next,
        bytes_before=report.bytes_read,
        bytes_after=report.bytes_written,
        records_before=report.messages_read,
        records_after=report.messages_written,
        segments_before=report.segments_before,
        segments_after=report.segments_after,
        map_utilization=report.map_utilization,
        is_partial=report.map_is_full,
    )
    set_time(message.start_time, report.started_ms - report.index_ms)
    set_duration(message.duration, report.elapsed_ms)
    return message


def blocked_retention(blocked: FutureTimestamp) -> admin_service_pb2.BlockedRetention:
    """The timestamp in the future that blocks retention, and the segments that it blocks."""
    message = admin_service_pb2.BlockedRetention(
        base_offset=blocked.base_offset,
        held_segments=blocked.held_segments,
        held_bytes=blocked.held_bytes,
    )
    set_time(message.timestamp, blocked.timestamp_ms)
    set_time(message.blocked_until_time, blocked.blocked_until_ms)
    return message
