"""A histogram of durations: a few numbers, which are cheap enough to update in every call."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

BOUNDS_SECONDS: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025),
    *(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
"""Upper bounds, inclusive. Durations above the last one are in a bucket of their own."""


class Durations:
    """Counts durations. One thread notes them; other threads may read at any time.

    A reader may miss the duration that is being noted, in the counts or in the total.
    """

    __slots__ = ("_counts", "total_seconds")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_SECONDS) + 1)
        self.total_seconds = 0.0

    def note(self, seconds: float) -> None:
        """Counts one duration."""
        self._counts[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        self.total_seconds += seconds

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of durations in each bucket: one bucket more than there are bounds."""
        return tuple(self._counts)
