"""Metrics of expiry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_coordinator.expiry.expiry_guard import Hold
from offsetd_coordinator.observability.metrics.families import counter, gauge, gauges, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from offsetd_coordinator.figures import ExpiryFigures


def expiry_families(figures: ExpiryFigures) -> Iterator[Metric]:
    """Expiry of offsets and groups."""
    yield counter(
        "offsetd_expired_offsets_total",
        "Offsets that got a tombstone because they were not committed for long.",
        figures.expired_offsets,
    )
    yield counter(
        "offsetd_expired_groups_total",
        "Groups of which nothing was left, and that got a tombstone.",
        figures.expired_groups,
    )
    yield gauge(
        "offsetd_expiring_groups",
        "Groups that lose offsets within offsets.expiry.warning.ms, as of the last check.",
        figures.warned_groups,
    )
    yield gauge(
        "offsetd_expiry_last_check_timestamp_seconds",
        "When all groups were last looked at.",
        seconds(figures.last_check_ms),
    )
    yield gauge("offsetd_expiry_check_seconds", "What the last check took.", figures.check_seconds)
    yield counter(
        "offsetd_expiry_failed_checks_total",
        "Checks that ended early: the disk was full, or a log damaged. The next goes on.",
        figures.failures,
    )
    held = figures.held
    yield gauges(
        "offsetd_expiry_suspended",
        "1 for what keeps offsets from expiring now.",
        "reason",
        ((each.value, float(held is not None and held.hold is each)) for each in Hold),
    )
    yield gauge(
        "offsetd_expiry_suspended_until_timestamp_seconds",
        "When that ends, if it ends by itself.",
        seconds(figures.held_until_ms),
    )
    yield counter(
        "offsetd_clock_jumps_total",
        "Times the wall clock was found to have been set by more than a minute.",
        figures.clock_jumps,
    )
    yield gauge(
        "offsetd_clock_offset_seconds",
        "How far the wall clock is ahead of the server's time; below 0, behind it.",
        figures.clock_offset_ms / 1000,
    )
