"""What a server lets others see beside its answers: metrics, the cleaner's reports, its health."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from grpc_health.v1 import health_pb2

from offsetd_coordinator.cleaner_health import CLEANER_SERVICE, CleanerWatch
from offsetd_coordinator.cleaner_log import CleanerLog
from offsetd_coordinator.metrics.figures import CallFigures, ExpiryFigures

if TYPE_CHECKING:
    from grpc_health.v1.health import aio as health_aio
    from offsetd_storage.clock import Clock

    from offsetd_coordinator.cleaner_health import WatchedCleaner
    from offsetd_coordinator.metrics.collector import ServerCollector
    from offsetd_coordinator.metrics.endpoint import MetricsEndpoint
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.service.limits import Admission
    from offsetd_coordinator.settings import Settings

_log = structlog.get_logger(__name__)


class Visibility:
    """Of one server. For the event loop's thread, but for `cleaner_log`."""

    def __init__(
        self, settings: Settings, node: Node, admission: Admission, *, clock: Clock
    ) -> None:
        self.figures = CallFigures()
        self.expiry = ExpiryFigures()
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

    def open_port(self) -> None:
        """Serves metrics from now on, where there is to be a port. Raises OSError."""
        address = self._settings.metrics_address
        if not address:
            return
        # Loaded only where somebody may ask: with its HTTP server that is 10 ms of a start.
        from offsetd_coordinator.metrics.collector import (  # noqa: PLC0415
            ServerCollector,
            registry_of,
        )
        from offsetd_coordinator.metrics.endpoint import MetricsEndpoint  # noqa: PLC0415

        self._collector = ServerCollector(
            self._node,
            self._admission,
            self.figures,
            self.cleaner_log,
            self._clock,
            expiry=self.expiry,
        )
        self._endpoint = MetricsEndpoint(address, registry_of(self._collector))
        _log.info("metrics served", address=self._endpoint.address)

    def note_loaded(self) -> None:
        """The log is loaded."""
        if self._collector is not None:
            self._collector.load_seconds = (self._clock.monotonic_ms() - self._began_ms) / 1000

    def watch(self, cleaner: WatchedCleaner, health: health_aio.HealthServicer) -> None:
        """Has health say from now on whether the cleaner works; and of nothing else."""

        async def tell(works: bool) -> None:
            status = health_pb2.HealthCheckResponse
            await health.set(CLEANER_SERVICE, status.SERVING if works else status.NOT_SERVING)

        watch = CleanerWatch(
            cleaner, tell, clock=self._clock, stall_ms=self._settings.cleaner_stall_ms
        )
        self._watching = asyncio.get_running_loop().create_task(watch.run())

    def stop_watching(self) -> None:
        """The cleaner is about to be stopped, and that is no failure."""
        if self._watching is not None:
            self._watching.cancel()

    def close(self) -> None:
        """No round goes on any more. The port stays until the process ends, or `close_port`."""
        self.cleaner_log.close()

    def close_port(self) -> None:
        """For a process that goes on."""
        if self._endpoint is not None:
            self._endpoint.close()
            self._endpoint = None
