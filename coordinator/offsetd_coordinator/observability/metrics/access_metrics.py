"""Metrics of who may call. No principal, group or topic is a label: only operators see names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_coordinator.observability.metrics.families import counter, counters, gauge, seconds
from offsetd_coordinator.security.acl import Operation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from offsetd_coordinator.figures import AccessFigures


def access_families(figures: AccessFigures) -> Iterator[Metric]:
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
