"""The port that is scraped."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest
import structlog
from offsetd_coordinator.observability.metrics import endpoint
from offsetd_coordinator.observability.metrics.endpoint import MetricsEndpoint
from offsetd_coordinator.observability.metrics.families import counter
from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector
from scrapes import Scrape
from server_process import poll

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric


class Growing(Collector):
    """One more at each scrape."""

    def __init__(self) -> None:
        self.scrapes = 0

    def collect(self) -> Iterator[Metric]:
        self.scrapes += 1
        yield counter("offsetd_scrapes_total", "Scrapes.", self.scrapes)


@pytest.fixture
def served() -> Iterator[MetricsEndpoint]:
    registry = CollectorRegistry()
    registry.register(Growing())
    port = MetricsEndpoint("127.0.0.1:0", registry)
    yield port
    port.close()


def test_a_scrape_is_made_when_it_is_asked_for(served: MetricsEndpoint) -> None:
    first = Scrape.from_address(served.address).value("offsetd_scrapes_total")
    assert Scrape.from_address(served.address).value("offsetd_scrapes_total") == first + 1


@pytest.mark.parametrize("path", ["/", "/metrics/more", "/favicon.ico"])
def test_nothing_else_is_there(served: MetricsEndpoint, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"http://{served.address}{path}", timeout=60)
    assert caught.value.code == 404
    caught.value.close()


def test_a_port_that_is_taken_is_an_error_at_once(served: MetricsEndpoint) -> None:
    with pytest.raises(OSError, match="in use"):
        MetricsEndpoint(served.address, CollectorRegistry())


@pytest.mark.parametrize("address", ["no.such.host.invalid:0", "unix:/run/metrics.sock"])
def test_an_address_that_cannot_be_had_is_an_error_at_once(address: str) -> None:
    with pytest.raises(OSError, match=r".") as caught:
        MetricsEndpoint(address, CollectorRegistry())
    assert caught.value.strerror


def test_ipv6_has_brackets() -> None:
    try:
        port = MetricsEndpoint("[::1]:0", CollectorRegistry())
    except OSError:
        pytest.skip("this machine has no IPv6")
    assert port.address.startswith("[::1]:")
    assert Scrape.from_address(port.address).families == {}
    port.close()


def test_those_who_say_nothing_do_not_keep_others_out_for_long(
    served: MetricsEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint._Handler, "timeout", 0.2)
    host, _, port = served.address.rpartition(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(20)]
    try:

        def answers() -> bool:
            try:
                Scrape.from_address(served.address)
            except OSError:
                return False
            return True

        poll(answers, 60)
    finally:
        for each in silent:
            each.close()


def test_a_scrape_that_fails_is_told_and_the_next_one_is_served() -> None:
    class Failing(Growing):
        def collect(self) -> Iterator[Metric]:
            for family in super().collect():
                if self.scrapes == 1:
                    raise RuntimeError("a defect")
                yield family

    registry = CollectorRegistry()
    registry.register(Failing())
    port = MetricsEndpoint("127.0.0.1:0", registry)
    with structlog.testing.capture_logs() as events:
        with pytest.raises(urllib.error.HTTPError) as caught:
            Scrape.from_address(port.address)
        assert caught.value.code == 500
        caught.value.close()
        assert Scrape.from_address(port.address).value("offsetd_scrapes_total") == 2
    port.close()
    assert [event["event"] for event in events] == ["a scrape failed because of a defect"]
