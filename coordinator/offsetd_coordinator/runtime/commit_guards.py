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
"""The length of the window in which commits are counted."""
_GROUPS_LEFT_MAX: Final = 1000  # Once those that commit seldom have made way.
_BUCKETS_MAX: Final = 65_536
_MS_NS: Final = 1_000_000
_GROUP_BYTES_MAX: Final = 256  # A longer group id is cut or hashed.


class CommitGuards:
    """The guards of one server. For the event loop's thread, except what metrics read."""

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
        """Whether the commits of each group are counted."""
        return self.activity.top_max > 0

    def admit(self, group_id: bytes, now_ms: int) -> None:
        """Counts a commit, by the monotonic clock. Raises CommitRateExceeded."""
        if self.counts_groups:
            self.activity.note(group_id, now_ms)
        if self.quota.is_on:
            self.quota.take(group_id, now_ms)

    def note(self, group_ids: Iterable[bytes], now_ms: int) -> None:
        """Counts commits. The caller has checked that groups are counted and no quota is set."""
        self.activity.note_all(group_ids, now_ms)


class GroupCommits(NamedTuple):
    """How often a group committed."""

    group_id: bytes
    """Cut where it is long; groups that begin alike are counted together."""
    commits: int


class GroupActivity:
    """The groups that commit most, of the last whole window.

    If groups outnumber counters, those that commit least lose theirs (Misra and Gries, and
    many at a time, as Agarwal and others do). A group with more than a thousandth of a window's
    commits is never missed. The number for a group is never too high, and too low by at most that
    thousandth.
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
        """Subtracts from each count so that at most 1000 counts stay above 0.

        The number is subtracted from at least 1001 counts, so it is at most a
        thousandth of the commits. At least 1000 groups came since the last call: a call is cheap.
        """
        counts = self._counts
        taken = sorted(counts.values(), reverse=True)[_GROUPS_LEFT_MAX]
        self._counts = Counter({each: n - taken for each, n in counts.items() if n > taken})

    def top(self, now_ms: int) -> list[GroupCommits]:
        """The groups with most commits, in falling order; none without commits. For any thread."""
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
    """A token bucket for each group. A full bucket is not kept, because it equals a new one.

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
        """Sets the commits per second (0: no limit) and the `burst` (0: as many as in a second)."""
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
