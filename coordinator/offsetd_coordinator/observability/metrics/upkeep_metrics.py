"""Metrics of the cleaner, retention and the other background tasks."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from offsetd_storage.disk.disk_space import SpaceState
from offsetd_storage.errors import StorageError

from offsetd_coordinator.observability.metrics.families import (
    counter,
    counters,
    gauge,
    gauges_of,
    seconds,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from offsetd_storage.cleaner.cleaner_status import CleanerStatus, LogCleaningStatus
    from offsetd_storage.cleaner.log_cleaner import LogCleaner
    from offsetd_storage.disk.delayed_deletion import FileDeleter
    from offsetd_storage.disk.disk_space import DiskStatus
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.maintenance.upkeep import Upkeep
    from offsetd_storage.tasks.supervision import RunStatus
    from prometheus_client import Metric

    from offsetd_coordinator.observability.cleaner_log import RoundTotals


def upkeep_families(
    upkeep: Upkeep, store: LogStore, totals: RoundTotals, *, now_ms: int
) -> Iterator[Metric]:
    """Metrics of all tasks that keep the log small. `now_ms` is wall-clock time."""
    status = upkeep.cleaner.status
    logs = _log_statuses(upkeep.cleaner, store)
    yield from cleaner_families(status, now_ms=now_ms)
    yield from round_families(status, totals)
    yield from uncleanable_families(status, logs)
    yield from dirty_families(logs)
    yield from task_families(upkeep.tasks)
    yield from retention_families(upkeep)
    yield from deletion_families(upkeep.deleter)
    yield from disk_families(upkeep.disk.status)


def _log_statuses(cleaner: LogCleaner, store: LogStore) -> list[LogCleaningStatus]:
    statuses = []
    for topic_partition, log in sorted(store.logs.items()):
        if log.config.is_compacted:
            # A log that was just quarantined has no status, so it has no samples.
            with suppress(StorageError, OSError):
                statuses.append(cleaner.log_status(topic_partition))
    return statuses


def cleaner_families(status: CleanerStatus, *, now_ms: int) -> Iterator[Metric]:
    """Metrics of the cleaner's threads, and of the dirty logs at their last search."""
    yield gauge(
        "offsetd_cleaner_threads",
        "Number of cleaner threads; 0 with log.cleaner.enable=false.",
        len(status.threads),
    )
    yield gauge(
        "offsetd_cleaner_dead_threads",
        "Kafka's DeadThreadCount: cleaner threads that died or keep failing.",
        status.dead_threads,
    )
    yield counter(
        "offsetd_cleaner_threads_replaced_total",
        "Cleaner threads that died and were replaced.",
        status.replaced_threads,
    )
    yield gauge(
        "offsetd_cleaner_since_last_run_seconds",
        "Kafka's time-since-last-run-ms: time since a thread last looked for a log to clean.",
        None if status.last_looked_ms is None else (now_ms - status.last_looked_ms) / 1000,
    )
    yield gauge(
        "offsetd_cleaner_max_dirty_ratio",
        "Kafka's max-dirty-percent: dirty ratio of the dirtiest log when a thread last looked.",
        status.max_dirty_ratio,
    )
    yield gauge(
        "offsetd_cleaner_max_compaction_delay_seconds",
        "Kafka's max-compaction-delay-secs: longest delay beyond max.compaction.lag.ms when a"
        " thread last looked.",
        status.max_overdue_ms / 1000,
    )


def round_families(status: CleanerStatus, totals: RoundTotals) -> Iterator[Metric]:
    """Metrics of the last round of each thread, and totals of all rounds."""
    reports = [each.last.report for each in status.threads if each.last is not None]
    bytes_read = sum(each.bytes_read for each in reports)
    bytes_written = sum(each.bytes_written for each in reports)
    yield gauge(
        "offsetd_cleaner_max_buffer_utilization_ratio",
        "Kafka's max-buffer-utilization-percent: fullest offset map in the threads' last rounds.",
        max((each.map_utilization for each in reports), default=0.0),
    )
    yield gauge(
        "offsetd_cleaner_max_clean_time_seconds",
        "Kafka's max-clean-time-secs: duration of the longest of the threads' last rounds.",
        max((each.elapsed_ms for each in reports), default=0) / 1000,
    )
    yield gauge(
        "offsetd_cleaner_recopy_ratio",
        "Kafka's cleaner-recopy-percent: share of the bytes that the threads' last rounds read"
        " and retained.",
        bytes_written / bytes_read if bytes_read else 0.0,
    )
    yield counter("offsetd_cleaner_rounds_total", "Cleaning rounds that succeeded.", totals.rounds)
    yield counter(
        "offsetd_cleaner_full_map_rounds_total",
        "Cleaning rounds that ended early because the offset map was full.",
        totals.full_map_rounds,
    )
    yield counter(
        "offsetd_cleaner_read_bytes_total", "Bytes that cleaning rounds read.", totals.bytes_read
    )
    yield counter(
        "offsetd_cleaner_retained_bytes_total",
        "Bytes that cleaning rounds retained.",
        totals.bytes_written,
    )
    yield counter(
        "offsetd_cleaner_read_messages_total",
        "Records that cleaning rounds read.",
        totals.messages_read,
    )
    yield counter(
        "offsetd_cleaner_retained_messages_total",
        "Records that cleaning rounds retained.",
        totals.messages_written,
    )


def uncleanable_families(
    status: CleanerStatus, logs: Sequence[LogCleaningStatus]
) -> Iterator[Metric]:
    """Metrics of logs whose last round failed."""
    failed = {each.topic_partition for each in status.uncleanable}
    yield gauge(
        "offsetd_cleaner_uncleanable_partitions",
        "Kafka's uncleanable-partitions-count: logs whose last round failed; they are retried.",
        len(failed),
    )
    yield gauge(
        "offsetd_cleaner_uncleanable_bytes",
        "Kafka's uncleanable-bytes: the dirty bytes of those logs.",
        sum(each.dirty_bytes for each in logs if each.topic_partition in failed),
    )
    yield from gauges_of(
        "partition",
        [(str(each.topic_partition), each) for each in status.uncleanable],
        (
            "offsetd_cleaner_failures_in_row",
            "How often in a row the rounds of a log failed.",
            lambda failure: failure.failures_in_row,
        ),
    )


def dirty_families(logs: Sequence[LogCleaningStatus]) -> Iterator[Metric]:
    """Metrics of the dirty part of each compacted log."""
    yield from gauges_of(
        "partition",
        [(str(each.topic_partition), each) for each in logs],
        (
            "offsetd_log_dirty_ratio",
            "Bytes that a round could clean now, divided by the bytes that it would read.",
            lambda status: status.dirty_ratio,
        ),
        (
            "offsetd_log_dirty_bytes",
            "Bytes that were not cleaned yet, including the active segment.",
            lambda status: status.dirty_bytes,
        ),
        (
            "offsetd_log_oldest_dirty_age_seconds",
            "Age of the oldest record that was not cleaned yet; no sample if nothing is dirty.",
            lambda status: seconds(status.oldest_dirty_age_ms),
        ),
    )


def task_families(tasks: Sequence[RunStatus]) -> Iterator[Metric]:
    """Metrics of the scheduler's tasks, which have Kafka's names."""
    yield counters(
        "offsetd_task_runs_total",
        "Runs of a task that have ended, with or without success.",
        ("task",),
        (((each.name,), each.runs) for each in tasks),
    )
    yield counters(
        "offsetd_task_failures_total",
        "Runs of a task that failed.",
        ("task",),
        (((each.name,), each.failures) for each in tasks),
    )
    yield from gauges_of(
        "task",
        [(each.name, each) for each in tasks],
        (
            "offsetd_task_failures_in_row",
            "Failed runs of a task since its last successful run.",
            lambda status: status.failures_in_row,
        ),
        (
            "offsetd_task_last_start_timestamp_seconds",
            "When the last run of a task began.",
            lambda status: seconds(status.last_started_ms),
        ),
        (
            "offsetd_task_last_duration_seconds",
            "Duration of the last run that has ended.",
            lambda status: seconds(status.last_duration_ms),
        ),
    )


def retention_families(upkeep: Upkeep) -> Iterator[Metric]:
    """Metrics of logs whose retention is blocked."""
    blocked = sorted((str(each), blocked) for each, blocked in upkeep.blocked.items())
    yield gauge(
        "offsetd_retention_blocked_partitions",
        "Logs in which a timestamp in the future holds back segments that are due.",
        len(blocked),
    )
    yield from gauges_of(
        "partition",
        blocked,
        (
            "offsetd_retention_blocked_bytes",
            "Bytes of due segments that are held back.",
            lambda each: each.held_bytes,
        ),
        (
            "offsetd_retention_blocked_until_timestamp_seconds",
            "When the timestamp no longer holds retention back.",
            lambda each: seconds(each.blocked_until_ms),
        ),
    )


def deletion_families(deleter: FileDeleter) -> Iterator[Metric]:
    """Metrics of deleted files that still exist for file.delete.delay.ms."""
    yield gauge(
        "offsetd_deletion_waiting_files",
        "Deleted files that wait to be removed from the disk.",
        deleter.waiting_files,
    )
    yield gauge(
        "offsetd_deletion_waiting_bytes",
        "Bytes of deleted files that wait to be removed from the disk.",
        deleter.waiting_bytes,
    )


def disk_families(disk: DiskStatus) -> Iterator[Metric]:
    """Metrics of the data folder's file system, from its last check."""
    yield gauge(
        "offsetd_disk_low",
        "1 while the disk is nearly full: commits are refused, and all logs are cleaned.",
        float(disk.state is SpaceState.LOW),
    )
    yield counter(
        "offsetd_disk_shortages_total", "How often the disk became nearly full.", disk.times_low
    )
    yield gauge(
        "offsetd_disk_free_bytes", "Free bytes of the data folder's file system.", disk.free_bytes
    )
    yield gauge(
        "offsetd_disk_free_limit_bytes",
        "The limit below which the disk is nearly full: disk.free.bytes.min, or a share of a small"
        " disk.",
        disk.marks.free_bytes_min,
    )
    yield gauge(
        "offsetd_disk_reserve_bytes",
        "Bytes of the reserve on the disk. It is released while the disk is nearly full.",
        disk.reserve_bytes_held,
    )
