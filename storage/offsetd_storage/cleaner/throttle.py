"""A throttle: keeps the reads and writes of all cleaner threads together below a rate."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_storage.clock import Clock

_NAP_SECONDS_MAX: Final = 0.3  # After each, a look at whether to go on.


def _never() -> bool:
    return False


class Throttle:
    """Waits, before more is read or written, until the rate is kept again. For several threads.

    Like Kafka's, it counts what is read for the map, what is read to be filtered, and what is
    written (`log.cleaner.io.max.bytes.per.second`).
    """

    def __init__(
        self, bytes_per_second_max: float, *, clock: Clock, sleep: Callable[[float], None]
    ) -> None:
        self._bytes_per_second_max = bytes_per_second_max
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._free_ms = 0.0  # When what was taken so far is paid for.
        self._changes = 0  # Of the rate.

    def configure(self, bytes_per_second_max: float) -> None:
        """Another rate; what was taken at the one before is forgotten, and nobody waits for it."""
        with self._lock:
            if bytes_per_second_max != self._bytes_per_second_max:
                self._bytes_per_second_max = bytes_per_second_max
                self._free_ms = 0.0
                self._changes += 1

    def __call__(self, size_bytes: int, *, should_stop: Callable[[], bool] = _never) -> None:
        """Takes so many bytes. Returns early where it `should_stop`."""
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            free_ms, changes = self._free_ms, self._changes
            cost_ms = 1000 * size_bytes / self._bytes_per_second_max
            self._free_ms = max(free_ms, now_ms) + cost_ms
        # Less than the clock can tell is left to the next call.
        while (wait_ms := free_ms - self._clock.monotonic_ms()) >= 1:
            if changes != self._changes or should_stop():
                return
            self._sleep(min(wait_ms / 1000, _NAP_SECONDS_MAX))
