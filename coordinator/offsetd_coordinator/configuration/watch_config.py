"""Limits of watchers: settings that may be changed while the server runs."""

from __future__ import annotations

import attrs
from offsetd_storage.configuration.setting_kinds import INT32_MAX
from offsetd_storage.configuration.settings import milliseconds, whole


@attrs.frozen(kw_only=True)
class WatchConfig:
    """Limits of watchers. A call uses the settings in force when it begins."""

    watchers_max: int = whole(
        100,
        "watch.watchers.max",
        unit="calls",
        least=0,
        most=100_000,
        is_ours=True,
        reason="The most open calls of WatchOffsets. More are refused.",
    )
    idle_max_ms: int = milliseconds(
        30_000,
        "watch.idle.max.ms",
        least=100,
        most=INT32_MAX,
        is_ours=True,
        reason="A watcher that does not read for this time is cut off.",
    )
    progress_interval_ms: int = milliseconds(
        10_000,
        "watch.progress.interval.ms",
        least=100,
        most=INT32_MAX,
        is_ours=True,
        reason="A watcher gets a token at least this often, unless it requests another interval.",
    )
