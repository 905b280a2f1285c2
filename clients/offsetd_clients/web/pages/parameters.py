"""Parameters of addresses: each is checked, and a wrong one is a ValueError that says so."""

from collections.abc import Mapping
from datetime import UTC, datetime

from offsetd_clients.web.names import bounded


def whole(parameters: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    """A number within bounds."""
    text = parameters.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise ValueError(f"{name}={bounded(text)}: a number from {least} to {most} is needed")
    return int(text)


def time(parameters: Mapping[str, str], name: str) -> datetime | None:
    """A time, in UTC unless it has a zone; None if it is not given."""
    text = parameters.get(name, "").strip()
    if not text:
        return None
    try:
        read = datetime.fromisoformat(text)
        return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
    except (ValueError, OverflowError):
        told = f"{name}={bounded(text)}: a time like 2026-11-20 or 2026-11-20T21:06 is needed"
        raise ValueError(told) from None
