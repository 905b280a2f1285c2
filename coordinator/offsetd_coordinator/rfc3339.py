"""Wall-clock times as RFC 3339 text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_YEAR_9999_MS: Final = 253_402_300_799_999


def rfc3339(time_ms: int) -> str:
    """A wall time like `2026-11-20T21:06:15.341Z`; what is later than 9999 is its last moment."""
    moment = datetime.fromtimestamp(min(time_ms, _YEAR_9999_MS) / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
