"""Guards against too many commits: the groups that commit most, and a rate limit for each group.

Both use memory of a bounded size, and a commit's cost does not depend on the number of groups.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from offsetd_coordinator.errors import CommitRateExceeded
from offsetd_coordinator.quotas.token_buckets import TokenBuckets

if TYPE_CHECKING:
    from collections.abc import Iterable

    from offsetd_coordinator.configuration.dynamic_settings import CommitGuardConfig

WINDOW_MS: Final = 60_000
"""The length of the window in which commits are counted."""
_GROUPS_LEFT_MAX: Final = 1000  # After the groups that commit rarely were removed.
_BUCKETS_MAX: Final = 65_536
_MS_NS: Final = 1_000_000
_GROUP_BYTES_MAX: Final = 256  # A longer group id is cut or hashed.


class CommitGuards:
    """The guards of one server. For the event loop's thread, except for reads by metrics."""

    def __init__(self) -> None:
        self.activity = GroupActivity()
        self.quota = CommitQuota()
        self.unchanged_commits = 0
        """Commits that were answered, but not written, because they changed nothing."""

    def configure(self, config: CommitGuardConfig) -> None:
        """Puts these settings in force. For any thread."""
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
    """The number of commits of a group."""

    group_id: bytes
    """A long id is cut, so groups whose ids begin alike are counted together."""
    commits: int


class GroupActivity:
    """The groups that commit most, in the last complete window.

    If there are more groups than counters, the groups that commit least lose theirs (Misra and
    Gries; many at a time, as Agarwal and others do). A group with more than a thousandth of a
    window's commits is never missed. A group's number is never too high; it is too low by at most
    that thousandth.
    """

    def __init__(self) -> None:
        self.top_max = 0
        self._counts: Counter[bytes] = Counter()
        self._begun_ms = 0
        self._window: tuple[int, Counter[bytes]] = (0, Counter())  # Its end, and its counts.

    def note(self, group_id: bytes, now_ms: int) -> None:
        """Counts a commit."""
        self.note_all((group_id,), now_ms)

    def note_all(self, group_ids: Iterable[bytes], now_ms: int) -> None:
        """Counts several commits."""
        if now_ms - self._begun_ms >= WINDOW_MS:
            self._begin_window(now_ms)
        self._counts.update([group_id[:_GROUP_BYTES_MAX] for group_id in group_ids])
        if len(self._counts) > 2 * _GROUPS_LEFT_MAX:
            self._make_way()

    def _make_way(self) -> None:
        """Subtracts from each count so that at most 1000 counts stay above 0.

        The number is subtracted from at least 1001 counts, so it is at most a thousandth of the
        commits. At least 1000 groups came since the last call, so the cost for each commit is
        small.
        """
        counts = self._counts
        taken = sorted(counts.values(), reverse=True)[_GROUPS_LEFT_MAX]
        self._counts = Counter({each: n - taken for each, n in counts.items() if n > taken})

    def top(self, now_ms: int) -> list[GroupCommits]:
        """The groups with most commits, the highest first; none without commits. For any thread."""
        counts = self._counts.copy()
        begun_ms = self._begun_ms  # Read after the counts, because it is written before them.
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
    """A token bucket for each group."""

    def __init__(self) -> None:
        self.is_on = False
        self.refusals = 0
        self._rate = 0
        self._interval_ns = 0
        self._burst = 0
        self._buckets = TokenBuckets[bytes](_BUCKETS_MAX)

    def configure(self, *, rate: int, burst: int) -> None:
        """Sets the commits per second (0: no limit) and the `burst` (0: as many as in a second)."""
        self._rate = rate
        if rate:
            self._interval_ns = 1_000_000_000 // rate
            self._burst = burst or rate
        self.is_on = rate > 0

    def take(self, group_id: bytes, now_ms: int) -> None:
        """Takes a token. Raises CommitRateExceeded if there is none, and nothing is taken then."""
        key = group_id
        if len(key) > _GROUP_BYTES_MAX:
            key = hashlib.blake2b(key).digest()
        now_ns = now_ms * _MS_NS
        wait_ns = self._buckets.wait_ns(
            key, now_ns, interval_ns=self._interval_ns, depth=self._burst
        )
        if wait_ns > 0:
            self.refusals += 1
            raise CommitRateExceeded(
                "group {group!r} commits more than {rate_max} times a second",
                retry_after_ms=int(-(-wait_ns // _MS_NS)),
                group=group_id,
                rate_max=self._rate,
            )
        self._buckets.take(key, 1, now_ns, interval_ns=self._interval_ns)
