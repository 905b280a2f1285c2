"""A round over each log of a folder that no server has open, and what it would leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from offsetd_storage.cleaner.clean import (
    clean_and_checkpoint,
    clean_log,
    open_folder,
    read_history,
)
from offsetd_storage.cleaner.plan import LogSummary, SegmentSummary, log_to_clean
from offsetd_storage.cleaner.summaries import log_summary
from offsetd_storage.record_batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from offsetd_storage.cleaner.checkpoint import CleanerCheckpoint
    from offsetd_storage.cleaner.clean import CleanerTools, CleanReport
    from offsetd_storage.cleaner.plan import LogToClean
    from offsetd_storage.folder_view import LogView
    from offsetd_storage.log_config import LogConfig
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.partition_log import PartitionLog
    from offsetd_storage.topic_partition import TopicPartition


def roll_active(store: LogStore, partitions: Iterable[TopicPartition]) -> None:
    """Ends the active segments of these logs, so that all they hold can be cleaned.

    Raises StorageFull and StorageFailed.
    """
    for topic_partition in partitions:
        store.roll(topic_partition)
    store.flush()
    store.advance_recovery_points()


def clean_partition(
    store: LogStore,
    topic_partition: TopicPartition,
    tools: CleanerTools,
    checkpoint: CleanerCheckpoint,
) -> CleanReport | None:
    """Cleans a log of an open store once, however clean it is; None: no segment may be cleaned.

    Raises what `clean_and_checkpoint` does.
    """
    log = store.logs[topic_partition]
    history = read_history(log)
    summary = log_summary(
        tools.files,
        log,
        recovery_point=store.recovery_point(topic_partition),
        history=history,
        checkpoint=checkpoint.first_dirty(topic_partition),
    )
    found = log_to_clean(summary, log.config, now_ms=tools.clock.now_ms())
    if not goes_over_any(found, log):
        return None
    with store.latching():
        return clean_and_checkpoint(log, tools, found, checkpoint, history=history)


def preview_partition(
    view: LogView,
    tools: CleanerTools,
    config: LogConfig,
    *,
    first_dirty: int | None,
    log_start_offset: int = 0,
    rolls_active: bool = False,
) -> CleanReport | None:
    """What `clean_partition` would do; reads, takes no lock, and changes nothing.

    `first_dirty` is what the cleaner's checkpoint says. `rolls_active`: as if the active segment
    had been rolled before. Raises what `clean_log` does, DamageFound, FolderMismatch.
    """
    point = view.recovery_point
    log = open_folder(
        view.folder,
        tools.files,
        config,
        settles=False,
        recovery_point=point,
        log_start_offset=log_start_offset if point is None else point.log_start_offset,
    )
    try:
        history = read_history(log)
        summary = log_summary(
            tools.files, log, recovery_point=point, history=history, checkpoint=first_dirty
        )
        if rolls_active and log.segments[-1].size_bytes > 0:
            summary = as_rolled(summary, log)
        found = log_to_clean(summary, config, now_ms=tools.clock.now_ms())
        if not goes_over_any(found, log):
            return None
        return clean_log(
            log,
            tools,
            first_dirty=found.first_dirty,
            first_uncleanable=found.first_uncleanable,
            history=history,
            dry_run=True,
        )
    finally:
        log.abandon()


def goes_over_any(found: LogToClean, log: PartitionLog) -> bool:
    """Whether there is a segment that a round may touch."""
    return log.segments[0].base_offset < found.first_uncleanable


def as_rolled(summary: LogSummary, log: PartitionLog) -> LogSummary:
    """The summary with a new active segment, and the recovery point at its start."""
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
