"""Time, as an argument: the system's clock, and one that tests move by hand."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is written down, monotonic time for waiting."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start; never goes back."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start; never goes back."""
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        return self._now_ms

    def monotonic_ms(self) -> int:
        """Milliseconds since this clock was made; never goes back."""
        return self._monotonic_ms

    def advance(self, milliseconds: int) -> None:
        """Lets time pass. A negative amount moves the wall clock back only."""
        self._now_ms += milliseconds
        self._monotonic_ms += max(0, milliseconds)
