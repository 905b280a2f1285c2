"""A clock that stops while the event loop is paused, because no heartbeat is read then."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

    from offsetd_storage.clock import Clock

PULSE_MS: Final = 500
"""The loop notes at this interval that it runs."""
PAUSE_MS_MAX: Final = 1500
"""A time without a run of the loop counts as at most this long."""


class AwakeClock:
    """A clock over another one. Its monotonic time leaves out the pauses of an event loop.

    A process is paused by SIGSTOP, by a virtual machine that is paused, or by a call that holds its
    loop. Sessions, rebalances and leases that use this clock end later by the length of the pause.
    A pause is noted before anything is decided by the time after it. Wall time is the other
    clock's.
    """

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        """Begins the pulse; for the loop's thread."""
        self._clock = clock
        # Commits read the time: each layer of clocks would cost them a call.
        self.now_ms = clock.now_ms
        self._clock_ms = clock.monotonic_ms
        self._loop = loop
        self._thread = threading.get_ident()
        self._paused_ms = 0
        self._pulse_ms = self._clock_ms()
        self._pulse()

    def age_now_ms(self) -> int:
        """The time for deletions by age: not later than any clock's time."""
        return self._clock.age_now_ms()

    def monotonic_ms(self) -> int:
        """The milliseconds in which the loop ran, from an arbitrary start; never decreases.

        For another thread, the time continues during a pause, until the loop has noted it.
        """
        now_ms = self._clock_ms()
        silent_ms = now_ms - self._pulse_ms
        if silent_ms > PAUSE_MS_MAX and threading.get_ident() == self._thread:
            self._paused_ms += silent_ms - PAUSE_MS_MAX
            self._pulse_ms = now_ms
        return now_ms - self._paused_ms

    def _pulse(self) -> None:
        self.monotonic_ms()
        self._pulse_ms = self._clock_ms()
        self._loop.call_later(PULSE_MS / 1000, self._pulse)
