"""Metrics of the backups that the server makes itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_coordinator.observability.metrics.families import counter, gauge, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from offsetd_coordinator.counters import BackupCounters


def backup_families(figures: BackupCounters) -> Iterator[Metric]:
    """Metrics of backups. Without `backup.target`, they stay as they are at the start."""
    yield counter("offsetd_backups_total", "Backups that the server has made.", figures.made)
    yield counter(
        "offsetd_backup_failures_total",
        "Backups, or prunes after them, that failed. They are tried again.",
        figures.failures,
    )
    yield gauge(
        "offsetd_backup_last_failed",
        "1 if the last try failed, else 0.",
        float(figures.last_failed),
    )
    yield counter(
        "offsetd_backup_new_bytes_total",
        "Bytes that were written to the target: what it did not have yet.",
        figures.new_bytes,
    )
    yield gauge(
        "offsetd_backup_interval_seconds",
        "The time between two backups.",
        figures.interval_seconds,
    )
    yield gauge(
        "offsetd_backup_last_moment_timestamp_seconds",
        "The moment of the last backup: what was acknowledged before is in it.",
        seconds(figures.last_moment_ms),
    )
    yield gauge(
        "offsetd_backup_last_duration_seconds",
        "Duration of the last backup.",
        figures.last_seconds,
    )
    yield gauge(
        "offsetd_backup_last_size_bytes",
        "Size of all logs in the last backup.",
        None if figures.last_bytes is None else float(figures.last_bytes),
    )
