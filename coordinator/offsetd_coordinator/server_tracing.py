"""Set-up of traces: where spans go, and how many calls are traced."""

from __future__ import annotations

import os
from importlib import metadata
from typing import TYPE_CHECKING, Any

from offsetd_coordinator.server_folder import StartFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_coordinator.configuration.server_settings import Settings
    from offsetd_coordinator.grpc.call_tracing import CallTracing


class ServerTracing:
    """The traces of a server. `calls` is None if tracing is off."""

    def __init__(self, settings: Settings) -> None:
        """Raises StartFailed without the extra `otel`."""
        self.calls: CallTracing | None = None
        self._shutdown: Callable[[], Any] | None = None
        if not settings.tracing_enable:
            return
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
                OTLPSpanExporter,
            )
            from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
            from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
            from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
            from opentelemetry.sdk.trace.sampling import ALWAYS_ON  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise StartFailed(
                f"tracing.enable needs the extra otel ({error}): pip install 'offsetd[otel]'"
            ) from error
        from offsetd_coordinator.grpc.call_tracing import CallTracing  # noqa: PLC0415

        version = metadata.version("offsetd")
        described = {
            "service.name": os.environ.get("OTEL_SERVICE_NAME") or "offsetd",
            "service.version": version,
            "service.instance.id": settings.node_id,
        }
        provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource.create(described),  # It adds OTEL_RESOURCE_ATTRIBUTES.
        )
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self.calls = CallTracing(
            provider.get_tracer("offsetd", version), settings.tracing_sample_ratio
        )
        self._shutdown = provider.shutdown

    def close(self) -> None:
        """Sends the last spans. It may wait for the receiver, some seconds."""
        if self._shutdown is not None:
            self._shutdown()
