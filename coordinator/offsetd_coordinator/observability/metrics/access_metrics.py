"""Metrics of callers: refusals and quotas. Only quotas name principals; none names a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_coordinator.observability.metrics.families import counter, counters, gauge, seconds
from offsetd_coordinator.security.acl import Operation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from offsetd_coordinator.counters import AccessCounters, QuotaCounters


def access_families(figures: AccessCounters) -> Iterator[Metric]:
    """Metrics of refused callers, and of the server's certificate."""
    yield counter(
        "offsetd_authentication_failures_total",
        "Calls whose token or certificate is not valid.",
        figures.failed_authentications,
    )
    yield counters(
        "offsetd_authorization_refusals_total",
        "Rights that callers lacked, by operation.",
        ("operation",),
        (((each.value,), figures.refusals[each.value]) for each in Operation),
    )
    yield gauge(
        "offsetd_ssl_certificate_expiry_timestamp_seconds",
        "When the server's certificate ends.",
        seconds(figures.certificate_expire_ms),
    )
    if figures.quotas is not None:
        yield from _quota_families(figures.quotas)


def _quota_families(figures: QuotaCounters) -> Iterator[Metric]:
    yield counters(
        "offsetd_quota_refusals_total",
        "Calls that were refused because their caller exceeds a quota.",
        ("principal", "quota"),
        figures.refusals.copy().items(),
    )
    yield counters(
        "offsetd_quota_delay_seconds_total",
        "How long streams were paused because their caller exceeds a quota.",
        ("principal",),
        (((name,), value) for name, value in figures.delay_seconds.copy().items()),
    )
