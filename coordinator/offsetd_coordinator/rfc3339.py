"""Wall-clock times as RFC 3339 text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_YEAR_9999_MS: Final = 253_402_300_799_999


def rfc3339(time_ms: int) -> str:
    """Milliseconds since the epoch as text such as `2026-11-20T21:06:15.341Z`.

    A time after the year 9999 becomes the last moment of that year.
    """
    # Whole numbers: a float would round a far time to the millisecond before it.
    moment = _EPOCH + timedelta(milliseconds=min(time_ms, _YEAR_9999_MS))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
