"""Clocks that are passed as arguments: the system's clock, and one that tests move by hand."""

from __future__ import annotations

import threading
import time
from typing import Final, Protocol

_LOOK_MS: Final = 1000
"""The interval at which a `SteadyClock` reads the clock that it follows."""
_PERCENT: Final = 100
_SLOW_PERCENT: Final = 50
_NEVER: Final = (0, 0, 0)


class Clock(Protocol):
    """Wall time for what is recorded, monotonic time for waiting."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""

    def age_now_ms(self) -> int:
        """The time from which ages are computed before a deletion: the earliest of all clocks."""

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start; never goes back."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000

    def age_now_ms(self) -> int:
        """The same time as `now_ms`, because there is only one clock."""
        return self.now_ms()

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start; never goes back."""
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock that does not run. Only `advance` moves it."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        return self._now_ms

    def age_now_ms(self) -> int:
        """The same time as `now_ms`, because there is only one clock."""
        return self.now_ms()

    def monotonic_ms(self) -> int:
        """Milliseconds since this clock was made; never goes back."""
        return self._monotonic_ms

    def advance(self, milliseconds: int) -> None:
        """Moves the clock. A negative amount moves only the wall clock back."""
        self._now_ms += milliseconds
        self._monotonic_ms += max(0, milliseconds)


class SteadyClock:
    """The time of a server, for records and for ages. Any thread may use it.

    It never goes back. It follows the wall clock, but its pace stays between half and one and a
    half times the pace of the monotonic clock. So if the wall clock is set, this time moves there
    slowly.
    """

    def __init__(self, clock: Clock) -> None:
        """Begins with the present time of the wall clock of `clock`."""
        self._clock = clock
        self.monotonic_ms = clock.monotonic_ms  # The method itself, without a call in between.
        self._lock = threading.Lock()
        self._now_ms = clock.now_ms()
        self._looked_ms = clock.monotonic_ms()
        self._pace_percent = _PERCENT
        # From the first to the second monotonic time, this time is ahead of the monotonic clock by
        # the third number. While the wall clock is not set, `now_ms` needs only this, and no lock.
        self._even = self._looked_ms, self._looked_ms + _LOOK_MS, self._now_ms - self._looked_ms

    def begin_at(self, recorded_ms: int) -> None:
        """Sets the time to at least `recorded_ms`, which was recorded earlier."""
        with self._lock:
            now_ms, monotonic_ms = self._stopped()
            self._go_on(max(now_ms, recorded_ms), monotonic_ms)

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        monotonic_ms = self.monotonic_ms()
        since_ms, until_ms, ahead_ms = self._even
        if since_ms <= monotonic_ms < until_ms:
            return monotonic_ms + ahead_ms
        with self._lock:
            passed_ms = self.monotonic_ms() - self._looked_ms
            if passed_ms < _LOOK_MS:
                return self._now_ms + passed_ms * self._pace_percent // _PERCENT
            return self._followed()

    def age_now_ms(self) -> int:
        """The time from which ages are computed before a deletion: the earlier of both clocks."""
        return min(self.now_ms(), self._clock.now_ms())

    def wall_ms(self) -> int:
        """The time of the wall clock, right or wrong."""
        return self._clock.now_ms()

    def _stopped(self) -> tuple[int, int]:
        """This time and the monotonic time. After this call, no thread uses `_even`."""
        self._even = _NEVER
        monotonic_ms = self.monotonic_ms()
        passed_ms = monotonic_ms - self._looked_ms
        return self._now_ms + passed_ms * self._pace_percent // _PERCENT, monotonic_ms

    def _followed(self) -> int:
        """Moves this time nearer to the wall clock if that is ahead, else slows this time down."""
        now_ms, monotonic_ms = self._stopped()
        ahead_ms = now_ms - self._clock.now_ms()
        gain_ms = min(max(-ahead_ms, 0), (monotonic_ms - self._looked_ms) // 2)
        slower_percent = max(ahead_ms, 0) * _PERCENT // _LOOK_MS
        self._go_on(now_ms + gain_ms, monotonic_ms, max(_PERCENT - slower_percent, _SLOW_PERCENT))
        return self._now_ms

    def _go_on(self, now_ms: int, monotonic_ms: int, pace_percent: int = _PERCENT) -> None:
        self._now_ms, self._looked_ms = now_ms, monotonic_ms
        self._pace_percent = pace_percent
        if pace_percent == _PERCENT:
            self._even = monotonic_ms, monotonic_ms + _LOOK_MS, now_ms - monotonic_ms
