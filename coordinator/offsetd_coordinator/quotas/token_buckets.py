"""Token buckets, by key. They bound a rate, and allow bursts."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

Key = TypeVar("Key", bound="Hashable")


class TokenBuckets(Generic[Key]):
    """Buckets of tokens. A bucket is one number: the time at which it is full again.

    A full bucket is not kept, because it equals a new one. If there are more than `count_max`, the
    least recently used one is forgotten.
    """

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._full_at_ns: OrderedDict[Key, float] = OrderedDict()  # The least recently used first.

    def __len__(self) -> int:
        return len(self._full_at_ns)

    def wait_ns(self, key: Key, now_ns: int, *, interval_ns: float, depth: int) -> float:
        """The time until a bucket has a token; 0 if it has one.

        A bucket gets a token each `interval_ns`, and has room for `depth` tokens.
        """
        full_at_ns = self._full_at_ns.get(key, 0)
        return max(0, full_at_ns - now_ns - (depth - 1) * interval_ns)

    def taken(self, key: Key, now_ns: int, *, interval_ns: float) -> int:
        """The number of tokens that were taken and have not come back, the begun one included."""
        return math.ceil(max(0, self._full_at_ns.get(key, 0) - now_ns) / interval_ns)

    def take(self, key: Key, tokens: int, now_ns: int, *, interval_ns: float) -> None:
        """Takes tokens, also those that the bucket does not have yet. Below 0, puts some back."""
        buckets = self._full_at_ns
        buckets[key] = max(buckets.get(key, 0), now_ns) + tokens * interval_ns
        buckets.move_to_end(key)
        self._forget_idle(now_ns)

    def _forget_idle(self, now_ns: int) -> None:
        """Checks the two least recently used buckets, because a call adds at most one."""
        buckets = self._full_at_ns
        for _ in range(min(2, len(buckets))):
            oldest = next(iter(buckets))
            if buckets[oldest] > now_ns and len(buckets) <= self._count_max:
                return
            del buckets[oldest]
