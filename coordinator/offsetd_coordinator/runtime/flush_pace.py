"""The pace of flushes: how long a flush waits for more commits.

A flush costs about a quarter of a millisecond of processor time for any number of commits, because
two threads take turns. So while commits keep coming, flushes keep a minimum distance. The distance
is longer while calls or messages keep coming one by one and the event loop is busy. Then callers
wait for the processor, which each flush also uses, and not for the flush.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

# The distance between the starts of two flushes. A call with one commit costs about a third of a
# millisecond, so the loop has work in that time (measured: benchmarks/commit_path).
_DISTANCE_SECONDS_PER_COMMIT: Final = 0.0006
_DISTANCE_SECONDS_MAX: Final = 0.002
# If a message has many commits, all their callers wait for the flush, and few others come.
_DISTANCE_SECONDS_OF_MANY: Final = 0.0003
_COMMITS_PER_ROUND_MAX: Final = 4  # Above it, messages have many commits.
# The longest distance, while the loop is busy with calls, or with messages of few commits.
_BUSY_DISTANCE_SECONDS_MAX: Final = 0.008
_LOOK_SECONDS: Final = 0.002  # The interval of checks whether the loop is still busy.
_BUSY_RATIO: Final = 0.6  # A share of one core.
# A caller is alone while each flush covers one commit. After `_FLUSHES_ALONE` such flushes, each
# shorter than `_SHORT_SECONDS`, the event loop flushes: a hand-over to a thread would take as long
# as the flush. After `_FLUSHES_HERE_MAX` of those, the flush thread flushes once and does its other
# work.
_FLUSHES_ALONE: Final = 16
_FLUSHES_HERE_MAX: Final = 31
_SHORT_SECONDS: Final = 0.001
# After a longer pause, a caller counts as new: the journal's files may be changing then.
_PAUSE_SECONDS_MAX: Final = 1.0


class FlushPace:
    """Paces flushes. The flushing thread reports their start and end, the event loop the commits.

    Times are in seconds. A commit that arrives as a flush begins may count for it or for the next.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float] = time.perf_counter,
        used: Callable[[], float] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`used` returns the CPU time of the event loop. Without it, `loop_clock` measures that.

        `sleep` may return early.
        """
        self._now = now
        self._used = used
        self._sleep = sleep
        self._begun = self._earliest = now()
        self._rounds = self._commits = 0
        self._rounds_covered = self._rounds_begun = 0
        self._commits_begun = self._commits_covered = self._commits_expected = 0
        self._looked_at = (self._begun, 0.0, 0, 0)
        self._flushes_alone = 0

    def note_round(self, commits: int) -> None:
        """Notes a round of the event loop with appends. `commits` is the total so far.

        Call it on the event loop's thread.
        """
        if self._used is None:
            self._used = loop_clock()
        self._rounds += 1
        self._commits = commits

    def wait(self) -> None:
        """Returns when it is time to flush the pending commits."""
        now = self._now()
        while now < self._earliest and not self.has_all:
            self._sleep(self._earliest - now)
            now = self._now()
        if self._earliest < self._begun + _DISTANCE_SECONDS_MAX:
            return
        latest = self._begun + _BUSY_DISTANCE_SECONDS_MAX
        while now < latest and not self.has_all and self._is_busy(now):
            self._sleep(min(_LOOK_SECONDS, latest - now))
            now = self._now()

    @property
    def has_all(self) -> bool:
        """Whether the number of waiting commits has reached the expected number.

        The expected commits are those of the last flush and those that came during it. Callers who
        wait for an answer before they commit again are then all waiting.
        """
        return self._commits - self._commits_begun >= self._commits_expected

    @property
    def is_alone(self) -> bool:
        """Whether the thread that appends a single commit should also flush it.

        False if a flush takes long, or may take long: that thread does nothing else during the
        flush.
        """
        past = self._flushes_alone - _FLUSHES_ALONE
        if past < 0 or past % (_FLUSHES_HERE_MAX + 1) == _FLUSHES_HERE_MAX:
            return False
        return self._now() - self._begun <= _PAUSE_SECONDS_MAX

    def note_begun(self, commits: int) -> float:
        """Notes that a flush begins, and returns the time. `commits` is the total so far."""
        rounds = self._rounds
        self._commits_covered, self._commits_begun = commits - self._commits_begun, commits
        self._rounds_covered, self._rounds_begun = rounds - self._rounds_begun, rounds
        self._begun = self._now()
        return self._begun

    def note_ended(self, commits: int) -> None:
        """Notes that the flush has ended. `commits` is the total number so far.

        Without other commits, the next flush may begin at once.
        """
        covered, came = self._commits_covered, commits - self._commits_begun
        self._commits_expected = max(covered + came, self._commits_expected * 15 // 16)
        now = self._now()
        if covered != 1 or came or now - self._begun > _SHORT_SECONDS:
            self._flushes_alone = 0
        else:
            self._flushes_alone += 1
        if covered > 1 or came:
            distance_seconds = min(covered * _DISTANCE_SECONDS_PER_COMMIT, _DISTANCE_SECONDS_MAX)
            if covered > self._rounds_covered * _COMMITS_PER_ROUND_MAX:
                distance_seconds = _DISTANCE_SECONDS_OF_MANY
            self._earliest = self._begun + distance_seconds
            self._look(now)

    def _is_busy(self, now: float) -> bool:
        """Whether the loop was busy with single commits since the last check or flush."""
        looked, used_then, rounds_then, commits_then = self._looked_at
        self._look(now)
        _, used, rounds, commits = self._looked_at
        return (
            0 < commits - commits_then <= (rounds - rounds_then) * _COMMITS_PER_ROUND_MAX
            and used - used_then >= (now - looked) * _BUSY_RATIO
        )

    def _look(self, now: float) -> None:
        used = 0.0 if self._used is None else self._used()
        self._looked_at = (now, used, self._rounds, self._commits)


def loop_clock() -> Callable[[], float]:
    """A function that returns the CPU time of the calling thread, which is the event loop's.

    If the process may use only one core, it is the CPU time of all threads: gRPC's threads take
    half of a call's CPU time, and the loop waits for them. Otherwise other threads do not count.
    """
    if len(os.sched_getaffinity(0)) == 1:
        return time.process_time
    clock = time.pthread_getcpuclockid(threading.get_ident())

    def used() -> float:
        try:
            return time.clock_gettime(clock)
        except OSError:
            return 0.0  # The loop's thread has ended.

    return used
