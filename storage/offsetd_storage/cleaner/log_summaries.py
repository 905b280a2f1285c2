"""Summaries of an open log, as input for `cleaning_plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from offsetd_storage.batch.record_batch import NO_TIMESTAMP
from offsetd_storage.cleaner.cleaning_plan import LogSummary, SegmentSummary

if TYPE_CHECKING:
    from offsetd_storage.cleaner.cleaned_transactions import ProducerHistory
    from offsetd_storage.cleaner.cleaning_plan import LogToClean
    from offsetd_storage.disk.files import Files
    from offsetd_storage.journal.journal_format import RecoveryPoint
    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.log.segment import Segment


def segment_summary(files: Files, segment: Segment) -> SegmentSummary:
    """The summary of one segment.

    Raises OSError if no batch has a timestamp and the file's time cannot be read.
    """
    largest_timestamp_ms = segment.largest_timestamp_ms
    if largest_timestamp_ms == NO_TIMESTAMP:
        largest_timestamp_ms = files.modified_ms(segment.path)
    return SegmentSummary(
        base_offset=segment.base_offset,
        size_bytes=segment.size_bytes,
        index_bytes=len(segment.offset_index.entries),
        time_index_bytes=len(segment.time_index.entries),
        first_timestamp_ms=segment.first_timestamp_ms,
        largest_timestamp_ms=largest_timestamp_ms,
    )


def log_summary(
    files: Files,
    log: PartitionLog,
    *,
    recovery_point: RecoveryPoint | None,
    history: ProducerHistory,
    checkpoint: int | None,
    delete_horizon_ms: int | None = None,
) -> LogSummary:
    """The summary of a whole log. Without a `recovery_point`, all of the log is durable.

    The point must be in a durable frame (`LogStore.recovery_point`).
    """
    segments = log.segments  # Read once, because the list is replaced as a whole.
    return LogSummary(
        topic_partition=log.topic_partition,
        segments=[segment_summary(files, each) for each in segments],
        log_start_offset=log.log_start_offset,
        recovery_point=log.offset_next if recovery_point is None else recovery_point.offset,
        recovery_segment_base_offset=(
            segments[-1].base_offset
            if recovery_point is None
            else recovery_point.segment_base_offset
        ),
        last_stable_offset=history.last_stable_offset(log.offset_next),
        checkpoint=checkpoint,
        delete_horizon_ms=delete_horizon_ms,
    )


def as_rolled(summary: LogSummary, log: PartitionLog) -> LogSummary:
    """The summary as if the log had rolled, with the recovery point at the new segment's start."""
    active = SegmentSummary(
        base_offset=log.offset_next,
        size_bytes=0,
        index_bytes=0,
        time_index_bytes=0,
        first_timestamp_ms=NO_TIMESTAMP,
        largest_timestamp_ms=NO_TIMESTAMP,
    )
    return attrs.evolve(
        summary,
        segments=[*summary.segments, active],
        recovery_point=log.offset_next,
        recovery_segment_base_offset=log.offset_next,
    )


def goes_over_any(found: LogToClean, log: PartitionLog) -> bool:
    """Whether there is a segment that a round may change."""
    return log.segments[0].base_offset < found.first_uncleanable
