"""Guards against too many commits: the groups that commit most, and a rate limit for each group.

Both use memory of a bounded size, and a commit's cost does not depend on the number of groups.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from offsetd_coordinator.errors import CommitRateExceeded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from offsetd_coordinator.configuration.dynamic_settings import CommitGuardConfig

WINDOW_MS: Final = 60_000
"""Over so long commits are counted."""
_GROUPS_LEFT_MAX: Final = 1000  # Once those that commit seldom have made way.
_BUCKETS_MAX: Final = 65_536
_MS_NS: Final = 1_000_000
_GROUP_BYTES_MAX: Final = 256  # Of a group id that is kept as it is.


class CommitGuards:
    """Of one server. For the event loop's thread, but for what metrics read."""

    def __init__(self) -> None:
        self.activity = GroupActivity()
        self.quota = CommitQuota()
        self.unchanged_commits = 0
        """Commits that were answered, and not written, since they changed nothing."""

    def configure(self, config: CommitGuardConfig) -> None:
        """From now on these settings hold. For any thread."""
        self.activity.top_max = config.top_groups_max
        self.quota.configure(rate=config.rate_max, burst=config.burst_max)

    @property
    def counts_groups(self) -> bool:
        """Whether it is to know how many commits each group makes."""
        return self.activity.top_max > 0

    def admit(self, group_id: bytes, now_ms: int) -> None:
        """Counts a commit, by the monotonic clock. Raises CommitRateExceeded."""
        if self.counts_groups:
            self.activity.note(group_id, now_ms)
        if self.quota.is_on:
            self.quota.take(group_id, now_ms)

    def note(self, group_ids: Iterable[bytes], now_ms: int) -> None:
        """Counts commits, for who has seen that groups are counted and there is no quota."""
        self.activity.note_all(group_ids, now_ms)


class GroupCommits(NamedTuple):
    """How often a group committed."""

    group_id: bytes
    """Cut where it is long; groups that begin alike are counted together."""
    commits: int


class GroupActivity:
    """The groups that commit most, of the last whole window.

    Of more groups than it has counters for, those that commit seldom make way (Misra and Gries, and
    many at a time, as Agarwal and others do): a group with more than a thousandth of a window's
    commits is never missed, and none is said to have made more commits than it did, or less by
    more than that thousandth.
    """

    def __init__(self) -> None:
        self.top_max = 0
        self._counts: Counter[bytes] = Counter()
        self._begun_ms = 0
        self._window: tuple[int, Counter[bytes]] = (0, Counter())  # Its end, and what it counted.

    def note(self, group_id: bytes, now_ms: int) -> None:
        """A commit was asked for."""
        self.note_all((group_id,), now_ms)

    def note_all(self, group_ids: Iterable[bytes], now_ms: int) -> None:
        """The same for several commits."""
        if now_ms - self._begun_ms >= WINDOW_MS:
            self._begin_window(now_ms)
        self._counts.update([group_id[:_GROUP_BYTES_MAX] for group_id in group_ids])
        if len(self._counts) > 2 * _GROUPS_LEFT_MAX:
            self._make_way()

    def _make_way(self) -> None:
        """Takes so much from each count that no more than a thousand are left.

        That is taken from a thousand and one at the least, so in all it is no more than a
        thousandth of the commits. And a thousand groups have come for it, a moment for each.
        """
        counts = self._counts
        taken = sorted(counts.values(), reverse=True)[_GROUPS_LEFT_MAX]
        self._counts = Counter({each: n - taken for each, n in counts.items() if n > taken})

    def top(self, now_ms: int) -> list[GroupCommits]:
        """Those with most commits, most first; none if nobody committed of late. For any thread."""
        counts = self._counts.copy()
        begun_ms = self._begun_ms  # Read behind them, as it is written before.
        if now_ms - begun_ms < WINDOW_MS:
            ended_ms, counts = self._window
        else:
            ended_ms = begun_ms + WINDOW_MS
        if now_ms - ended_ms >= WINDOW_MS:
            return []
        largest = heapq.nlargest(self.top_max, counts.items(), key=lambda item: (item[1], item[0]))
        return [GroupCommits(group_id, commits) for group_id, commits in largest]

    def _begin_window(self, now_ms: int) -> None:
        self._window = (self._begun_ms + WINDOW_MS, self._counts)
        self._begun_ms = now_ms - now_ms % WINDOW_MS
        self._counts = Counter()


class CommitQuota:
    """A token bucket a group; of the full ones, which are as good as none, nothing is kept.

    Each is one number: the time at which it is full again.
    """

    def __init__(self) -> None:
        self.is_on = False
        self.refusals = 0
        self._rate = 0
        self._interval_ns = 0
        self._depth_ns = 0
        self._full_at_ns: OrderedDict[bytes, int] = OrderedDict()  # Least lately used first.

    def configure(self, *, rate: int, burst: int) -> None:
        """So many commits a second, 0 for any number; `burst` at once, 0 for those of a second."""
        self._rate = rate
        if rate:
            self._interval_ns = 1_000_000_000 // rate
            self._depth_ns = ((burst or rate) - 1) * self._interval_ns
        self.is_on = rate > 0

    @property
    def bucket_count(self) -> int:
        """How many groups are remembered."""
        return len(self._full_at_ns)

    def take(self, group_id: bytes, now_ms: int) -> None:
        """Takes a token. Raises CommitRateExceeded if there is none, and nothing is taken then."""
        key = group_id
        if len(key) > _GROUP_BYTES_MAX:
            key = hashlib.blake2b(key).digest()
        buckets = self._full_at_ns
        now_ns = now_ms * _MS_NS
        full_at_ns = max(buckets.get(key, 0), now_ns)
        wait_ns = full_at_ns - now_ns - self._depth_ns
        if wait_ns > 0:
            self.refusals += 1
            raise CommitRateExceeded(
                "group {group!r} commits more than {rate_max} times a second",
                retry_after_ms=-(-wait_ns // _MS_NS),
                group=group_id,
                rate_max=self._rate,
            )
        buckets[key] = full_at_ns + self._interval_ns
        buckets.move_to_end(key)
        self._forget_idle(now_ns)

    def _forget_idle(self, now_ns: int) -> None:
        """Looks at two that were not used for longest: one more than is added by a commit."""
        buckets = self._full_at_ns
        for _ in range(2):
            oldest = next(iter(buckets))
            if buckets[oldest] > now_ns and len(buckets) <= _BUCKETS_MAX:
                return
            del buckets[oldest]
