"""What a scrape says of refused callers, and of the server's certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_coordinator.counters import AccessCounters
from offsetd_coordinator.observability.metrics.access_metrics import access_families
from offsetd_coordinator.security.acl import Operation
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector
from scrapes import Scrape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

REFUSALS = "offsetd_authorization_refusals_total"
FAILURES = "offsetd_authentication_failures_total"
EXPIRY = "offsetd_ssl_certificate_expiry_timestamp_seconds"


class _Access(Collector):
    def __init__(self, counters: AccessCounters) -> None:
        self._counters = counters

    def collect(self) -> Iterator[Metric]:
        return access_families(self._counters)


def scraped(counters: AccessCounters) -> Scrape:
    registry = CollectorRegistry()
    registry.register(_Access(counters))
    return Scrape.of(generate_latest(registry).decode())


def test_a_server_that_refused_nobody_says_zero() -> None:
    scrape = scraped(AccessCounters())
    assert scrape.value(FAILURES) == 0
    assert {each.value: scrape.value(REFUSALS, operation=each.value) for each in Operation} == {
        each.value: 0 for each in Operation
    }


def test_refusals_are_counted_by_operation() -> None:
    counters = AccessCounters()
    counters.failed_authentications = 3
    counters.refusals.update(["Read", "Read", "AlterConfigs"])
    scrape = scraped(counters)
    assert scrape.value(FAILURES) == 3
    assert scrape.value(REFUSALS, operation="Read") == 2
    assert scrape.value(REFUSALS, operation="AlterConfigs") == 1
    assert scrape.value(REFUSALS, operation="Delete") == 0


def test_a_scrape_adds_no_operation_to_the_counts() -> None:
    counters = AccessCounters()
    scraped(counters)
    assert not counters.refusals


def test_the_end_of_the_certificate_is_in_seconds() -> None:
    counters = AccessCounters()
    counters.certificate_expire_ms = 1_800_000_000_500
    assert scraped(counters).value(EXPIRY) == 1_800_000_000.5


def test_without_tls_no_certificate_ends() -> None:
    [family] = [each for each in access_families(AccessCounters()) if each.name == EXPIRY]
    assert family.samples == []
