"""Durations on the command line: `500ms`, `45s`, `30m`, `12h`, `7d`, `4w`."""

import re
from datetime import timedelta

from offsetd_clients.values import Retention

_UNITS = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
_DURATION = re.compile(r"([0-9]{1,15})(ms|[smhdw])")
NEVER = "never"
SERVERS_OWN = "default"
_NO_DURATION = "not a time like 45s, 30m, 12h or 7d"


def parse_duration(text: str) -> timedelta:
    """Reads a duration. Raises ValueError."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is {_NO_DURATION}")
    try:
        return int(found[1]) * _UNITS[found[2]]
    except OverflowError:
        raise ValueError(f"{text!r} is too long") from None


def parse_retention(text: str) -> Retention:
    """Reads a duration, `never`, or `default` for the server's setting. Raises ValueError."""
    if text == NEVER:
        return "never"
    if text == SERVERS_OWN:
        return None
    if _DURATION.fullmatch(text) is None:
        raise ValueError(f"{text!r} is {_NO_DURATION}, nor {NEVER!r} or {SERVERS_OWN!r}")
    return parse_duration(text)


def duration_text(duration: timedelta) -> str:
    """The duration in the largest unit that divides it. Weeks are given in days."""
    for unit in ("d", "h", "m", "s"):
        if duration and not duration % _UNITS[unit]:
            return f"{duration // _UNITS[unit]}{unit}"
    return f"{duration // _UNITS['ms']}ms"


def retention_text(retention: Retention) -> str | None:
    """The inverse of `parse_retention`; None for the server's setting."""
    return duration_text(retention) if isinstance(retention, timedelta) else retention
