"""The reports of a running mirror: lines on standard error, and metrics for Prometheus."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import typer

from offsetd_clients.cli.printing.terminal import Terminal, named_id
from offsetd_clients.migration.values import MigrationError
from offsetd_clients.migration.zookeeper.mirror import Mirror
from offsetd_clients.migration.zookeeper.mirror_events import MirrorEvent, MirrorEventKind

PREFIX = "offsetd_mirror_"


def line_of(event: MirrorEvent, time_s: float) -> str:
    """`2026-11-23T09:21:05Z stopped: group billing: …`"""
    when = datetime.fromtimestamp(time_s, UTC).isoformat(timespec="seconds")
    group = f"{named_id(event.group_id)}" if event.group_id else ""
    told = ": ".join(part for part in (str(event.kind), group, event.text) if part)
    return f"{when.replace('+00:00', 'Z')} {told}"


class EventLines:
    """Prints a line for each event, and counts events by kind. Several threads may use it."""

    def __init__(self, terminal: Terminal) -> None:
        self.counts = dict.fromkeys(MirrorEventKind, 0)
        self._terminal = terminal

    def tell(self, event: MirrorEvent) -> None:
        """Prints and counts an event."""
        self.counts[event.kind] += 1
        self._terminal.note(line_of(event, time.time()))


def checked_metrics_address(value: str | None) -> str | None:
    """Returns HOST:PORT, or None. Raises BadParameter."""
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise typer.BadParameter(f"{value!r} is not HOST:PORT.")
    return value


@contextmanager
def metrics_served(
    address: str | None, mirror: Mirror, events: EventLines
) -> Iterator[Callable[[], str] | None]:
    """Serves the metrics at an address, if one is given. Yields a function that returns the URL.

    Raises MigrationError if the library is missing, OSError if the address is not available.
    """
    if address is None:
        yield None
        return
    try:
        from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MigrationError(
            "--metrics needs prometheus-client, which is not installed: pip install"
            " prometheus-client"
        ) from error
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(mirror, events))
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    server, thread = start_http_server(int(port), host, registry)
    try:
        yield lambda: f"http://{host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Collector:
    """Reads the mirror's status at each scrape."""

    def __init__(self, mirror: Mirror, events: EventLines) -> None:
        self._mirror = mirror
        self._events = events

    def collect(self) -> Iterator[Any]:
        """Yields the metrics; prometheus_client calls it."""
        from prometheus_client.core import (  # noqa: PLC0415
            CounterMetricFamily,
            GaugeMetricFamily,
        )

        status = self._mirror.status
        groups = GaugeMetricFamily(
            f"{PREFIX}groups", "Groups of the plan, by state.", labels=["state"]
        )
        for state, count in (
            ("followed", status.followed_count),
            ("stopped", status.stopped_count),
            ("moved", status.moved_count),
        ):
            groups.add_metric([state], count)
        yield groups
        stopped = GaugeMetricFamily(
            f"{PREFIX}group_stopped",
            "1 for each group that is no longer followed.",
            labels=["group"],
        )
        for each in list(self._mirror.groups.values()):
            if each.stopped:
                stopped.add_metric([each.group_id], 1)
        yield stopped
        for name, text, value in (
            (
                "changed_groups",
                "Changed groups that wait for the next pass.",
                status.changed_count,
            ),
            ("lag_seconds", "Seconds since the first of these changes was seen.", status.lag_s),
            (
                "left_offsets",
                "Offsets left because a later commit is stored in offsetd.",
                status.left_count,
            ),
            ("deleted_offsets", "Offsets deleted in ZooKeeper.", status.deleted_count),
            ("zookeeper_connected", "Whether ZooKeeper answers.", int(status.is_connected)),
        ):
            yield GaugeMetricFamily(PREFIX + name, text, value)
        yield CounterMetricFamily(
            f"{PREFIX}stored_offsets", "Offsets stored in offsetd.", status.stored_count
        )
        counts = CounterMetricFamily(
            f"{PREFIX}events", "Events reported, by kind.", labels=["kind"]
        )
        for kind, count in self._events.counts.items():
            counts.add_metric([str(kind)], count)
        yield counts
