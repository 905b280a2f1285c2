"""A throttle: keeps the reads and writes of all cleaner threads together below a rate."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_storage.clock import Clock

_NAP_SECONDS_MAX: Final = 0.3  # After each nap, the thread checks whether it should stop.


def _never() -> bool:
    return False


class Throttle:
    """Waits before more is read or written, until the rate is met again. Threads share it.

    Like Kafka's, it counts the bytes read for the map, the bytes read by the filter, and the bytes
    written (`log.cleaner.io.max.bytes.per.second`).
    """

    def __init__(
        self, bytes_per_second_max: float, *, clock: Clock, sleep: Callable[[float], None]
    ) -> None:
        self._bytes_per_second_max = bytes_per_second_max
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._free_ms = 0.0  # The time at which the bytes taken so far are paid for.
        self._changes = 0  # The number of changes of the rate.

    def configure(self, bytes_per_second_max: float) -> None:
        """Changes the rate. No thread waits any more for bytes taken at the old rate."""
        with self._lock:
            if bytes_per_second_max != self._bytes_per_second_max:
                self._bytes_per_second_max = bytes_per_second_max
                self._free_ms = 0.0
                self._changes += 1

    def __call__(self, size_bytes: int, *, should_stop: Callable[[], bool] = _never) -> None:
        """Takes this many bytes, and waits. Returns early if `should_stop` returns True."""
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            free_ms, changes = self._free_ms, self._changes
            cost_ms = 1000 * size_bytes / self._bytes_per_second_max
            self._free_ms = max(free_ms, now_ms) + cost_ms
        # A wait shorter than the clock's resolution is left to the next call.
        while (wait_ms := free_ms - self._clock.monotonic_ms()) >= 1:
            if changes != self._changes or should_stop():
                return
            self._sleep(min(wait_ms / 1000, _NAP_SECONDS_MAX))
