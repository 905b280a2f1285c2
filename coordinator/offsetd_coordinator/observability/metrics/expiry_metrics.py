"""Metrics of expiry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_coordinator.expiry.expiry_guard import Hold
from offsetd_coordinator.observability.metrics.families import counter, gauge, gauges, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from offsetd_coordinator.counters import ExpiryCounters


def expiry_families(figures: ExpiryCounters) -> Iterator[Metric]:
    """Metrics of the expiry of offsets and groups."""
    yield counter(
        "offsetd_expired_offsets_total",
        "Offsets that expired and got a tombstone.",
        figures.expired_offsets,
    )
    yield counter(
        "offsetd_expired_groups_total",
        "Groups that had nothing left and got a tombstone.",
        figures.expired_groups,
    )
    yield gauge(
        "offsetd_expiring_groups",
        "Groups that will lose offsets within offsets.expiry.warning.ms, at the last check.",
        figures.warned_groups,
    )
    yield gauge(
        "offsetd_expiry_last_check_timestamp_seconds",
        "When the last check of all groups ended.",
        seconds(figures.last_check_ms),
    )
    yield gauge(
        "offsetd_expiry_check_seconds", "Duration of the last check.", figures.check_seconds
    )
    yield counter(
        "offsetd_expiry_failed_checks_total",
        "Checks that ended early, because the disk was full or a log was damaged. The next check"
        " continues.",
        figures.failures,
    )
    held = figures.held
    yield gauges(
        "offsetd_expiry_suspended",
        "1 for the reason that holds expiry back now.",
        "reason",
        ((each.value, float(held is not None and held.hold is each)) for each in Hold),
    )
    yield gauge(
        "offsetd_expiry_suspended_until_timestamp_seconds",
        "When the hold on expiry ends, if it ends by itself.",
        seconds(figures.held_until_ms),
    )
    yield counter(
        "offsetd_clock_jumps_total",
        "How often the wall clock was found to have jumped by more than a minute.",
        figures.clock_jumps,
    )
    yield gauge(
        "offsetd_clock_offset_seconds",
        "How far the wall clock is ahead of the server's time; negative if it is behind.",
        figures.clock_offset_ms / 1000,
    )
