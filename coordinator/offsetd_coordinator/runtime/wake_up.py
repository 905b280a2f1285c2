"""A wake-up signal: one thread sleeps until another wakes it."""

from __future__ import annotations

import contextlib
import threading


class WakeUp:
    """A wake-up before a sleep ends that sleep at once. Several wake-ups count as one.

    It costs less than `threading.Event` or `threading.Condition`. A `queue.SimpleQueue` is as
    cheap, but in CPython 3.11 its `get` may never return from a timeout of microseconds.
    """

    def __init__(self) -> None:
        self._awake = threading.Lock()  # Not held after a wake-up without a later sleep.
        self._awake.acquire()

    def wake(self) -> None:
        """Ends the sleep, or the next one. For any thread."""
        with contextlib.suppress(RuntimeError):  # It was woken before.
            self._awake.release()

    def sleep(self, seconds: float | None = None) -> None:
        """Returns after a wake-up, or after `seconds`. For one thread."""
        self._awake.acquire(timeout=-1 if seconds is None else max(0, seconds))
