"""A limit on the number of offsets a second."""

import time
from collections.abc import Callable


class RateLimit:
    """`rate` is in offsets a second; None means no limit. Unused capacity is not saved."""

    def __init__(
        self,
        rate: float | None,
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = rate
        self._monotonic_s = monotonic_s
        self._sleep = sleep
        self._free_at_s = monotonic_s()

    def wait(self, count: int) -> None:
        """Waits until `count` more offsets are allowed."""
        if self._rate is None:
            return
        now_s = self._monotonic_s()
        if self._free_at_s > now_s:
            self._sleep(self._free_at_s - now_s)
        self._free_at_s = max(self._free_at_s, now_s) + count / self._rate
