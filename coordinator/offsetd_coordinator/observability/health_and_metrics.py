"""Reporting of one server: its metrics, the cleaner's reports, and its health."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
from grpc_health.v1 import health_pb2

from offsetd_coordinator.counters import BackupCounters, CallCounters, ExpiryCounters
from offsetd_coordinator.expiry.expiry_guard import CLOCK_JUMP_MS
from offsetd_coordinator.observability.cleaner_health import CLEANER_SERVICE, CleanerWatch
from offsetd_coordinator.observability.cleaner_log import CleanerLog

if TYPE_CHECKING:
    from grpc_health.v1.health import aio as health_aio
    from offsetd_storage.clock import Clock

    from offsetd_coordinator.calls.admission import Admission
    from offsetd_coordinator.configuration.server_settings import Settings
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.observability.cleaner_health import WatchedCleaner
    from offsetd_coordinator.observability.endpoint_security import EndpointSecurity
    from offsetd_coordinator.observability.metrics.collector import ServerCollector
    from offsetd_coordinator.observability.metrics.endpoint import MetricsEndpoint

CLOCK_SERVICE: Final = "offsetd.clock"
DISK_SERVICE: Final = "offsetd.disk"

_CLOCK_LOOK_SECONDS: Final = 1.0
_LOOP_LOOK_SECONDS: Final = 0.1

_log = structlog.get_logger(__name__)


class Observability:
    """The metrics, logs and health of one server.

    For the event loop's thread, except `cleaner_log`, which any thread may use.
    """

    def __init__(
        self, settings: Settings, node: Node, admission: Admission, *, clock: Clock
    ) -> None:
        self.counters = CallCounters()
        self.expiry = ExpiryCounters()
        self.backups = BackupCounters()
        reports = settings.logging_cleaner_file
        self.cleaner_log = CleanerLog(Path(settings.data_dir) / reports if reports else None)
        self._settings = settings
        self._node = node
        self._admission = admission
        self._clock = clock
        self._began_ms = clock.monotonic_ms()
        self._collector: ServerCollector | None = None
        self._endpoint: MetricsEndpoint | None = None
        self._watching: asyncio.Task[None] | None = None
        self._watching_clock: asyncio.Task[None] | None = None
        self._watching_loop: asyncio.Task[None] | None = None

    def open_port(self, security: EndpointSecurity) -> None:
        """Starts to serve metrics, if a port is configured. Raises OSError."""
        address = self._settings.metrics_address
        if not address:
            return
        # Imported only if metrics are served: the import and the HTTP server take 10 ms of a start.
        from offsetd_coordinator.observability.metrics.collector import (  # noqa: PLC0415
            ServerCollector,
            registry_of,
        )
        from offsetd_coordinator.observability.metrics.endpoint import (  # noqa: PLC0415
            MetricsEndpoint,
        )

        self._collector = ServerCollector(
            self._node,
            self._admission,
            self.counters,
            self.cleaner_log,
            self._clock,
            expiry=self.expiry,
            backups=self.backups,
        )
        self._endpoint = MetricsEndpoint(address, registry_of(self._collector), security=security)
        _log.info("metrics served", address=self._endpoint.address)
        self._watching_loop = asyncio.get_running_loop().create_task(self._watch_loop())

    async def _watch_loop(self) -> None:
        """Measures repeatedly how late the event loop is, and how long calls blocked it."""
        loop = asyncio.get_running_loop()
        while True:
            used_seconds = time.thread_time()
            due_seconds = loop.time() + _LOOP_LOOK_SECONDS
            await asyncio.sleep(_LOOP_LOOK_SECONDS)
            self.counters.loop_delays.note(max(0.0, loop.time() - due_seconds))
            # Before the wake-up was due, the thread used at most `_LOOP_LOOK_SECONDS`.
            held_seconds = time.thread_time() - used_seconds - _LOOP_LOOK_SECONDS
            self.counters.loop_holds.note(max(0.0, held_seconds))

    def note_loaded(self) -> None:
        """Notes that the log is loaded."""
        if self._collector is not None:
            self._collector.load_seconds = (self._clock.monotonic_ms() - self._began_ms) / 1000

    def watch(self, cleaner: WatchedCleaner, health: health_aio.HealthServicer) -> None:
        """Starts to report in the health service whether the cleaner works."""

        async def tell(works: bool) -> None:
            status = health_pb2.HealthCheckResponse
            await health.set(CLEANER_SERVICE, status.SERVING if works else status.NOT_SERVING)

        watch = CleanerWatch(
            cleaner, tell, clock=self._clock, stall_ms=self._settings.cleaner_stall_ms
        )
        self._watching = asyncio.get_running_loop().create_task(watch.run())

    def watch_clock_and_disk(self, health: health_aio.HealthServicer) -> None:
        """Starts to report the state of the clock and the disk in the health service.

        The clock is healthy if the wall clock agrees with the server's time. The disk is healthy if
        it has room for commits.
        """

        async def look() -> None:
            status = health_pb2.HealthCheckResponse
            was_low = False
            while True:
                is_low = self._node.runtime is not None and self._node.runtime.disk.is_low
                if is_low and not was_low:
                    _log.error("the disk is nearly full: commits are refused")
                elif was_low and not is_low:
                    _log.info("there is room on the disk again: commits are accepted")
                was_low = is_low
                await health.set(DISK_SERVICE, status.NOT_SERVING if is_low else status.SERVING)
                agrees = abs(self.expiry.clock_offset_ms) <= CLOCK_JUMP_MS
                await health.set(CLOCK_SERVICE, status.SERVING if agrees else status.NOT_SERVING)
                await asyncio.sleep(_CLOCK_LOOK_SECONDS)

        self._watching_clock = asyncio.get_running_loop().create_task(look())

    def stop_watching(self) -> None:
        """Stops the checks, so that the next stop of the cleaner is not reported as a failure."""
        for watching in (self._watching, self._watching_clock, self._watching_loop):
            if watching is not None:
                watching.cancel()

    def close(self) -> None:
        """Closes the cleaner's log, once no round is running.

        The port stays open until `close_port` or the end of the process.
        """
        self.cleaner_log.close()

    def close_port(self) -> None:
        """Closes the metrics port, for a process that continues without this server."""
        if self._endpoint is not None:
            self._endpoint.close()
            self._endpoint = None
