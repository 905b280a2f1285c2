"""Lag verdicts, and metrics of lag: settings that may be changed while the server runs."""

from __future__ import annotations

import attrs
from offsetd_storage.configuration.settings import listed, milliseconds, whole


@attrs.frozen(kw_only=True)
class LagConfig:
    """Settings of the lag that commits report: how much is kept, and how much metrics show."""

    window_ms: int = milliseconds(
        600_000,
        "lag.window.ms",
        most=86_400_000,
        is_ours=True,
        reason="The time on which the verdict on a consumer's lag rests. Ten samples of each offset"
        " whose commits report an end offset are kept in memory. 0: no verdicts.",
    )
    partitions_max: int = whole(
        0,
        "metrics.lag.partitions.max",
        unit="partitions",
        least=0,
        most=10_000,
        is_ours=True,
        reason="The most partitions of groups whose lag has metrics, which name groups and topics."
        " 0: none.",
    )
    compatibility: str = listed(
        "none",
        "metrics.compatibility",
        ("none", "kafka_exporter"),
        is_ours=True,
        reason="Other names under which the lag is shown, too: those of kafka_exporter.",
    )
