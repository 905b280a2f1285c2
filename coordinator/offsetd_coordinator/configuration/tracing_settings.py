"""Settings of traces."""

from __future__ import annotations

import attrs
from offsetd_storage.configuration.settings import flag, real

from offsetd_coordinator.configuration.transport_settings import TransportSettings


@attrs.frozen(kw_only=True)
class TracingSettings(TransportSettings):
    """The values for traces by OpenTelemetry."""

    tracing_enable: bool = flag(
        False,
        "tracing.enable",
        is_ours=True,
        reason="Whether the server sends spans of its calls by OTLP, to OTEL_EXPORTER_OTLP_ENDPOINT"
        " (http://localhost:4318 by default). It needs the extra otel.",
    )
    tracing_sample_ratio: float = real(
        0.01,
        "tracing.sample.ratio",
        unit="",
        least=0,
        most=1,
        is_ours=True,
        reason="The share of calls that begin a trace. A call of a caller that traces is in its"
        " trace, if the caller sampled it.",
    )
