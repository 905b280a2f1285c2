"""Group commit: a thread that makes appended commits durable, with one fsync for all that wait.

Tickets count appended commits: ticket 7 is durable once a flush that began after the seventh append
has returned. The loop's thread raises `appended`. The flusher's thread flushes while something is
pending, and reports its progress after each flush. When the journal fills, it requests that the
recovery points move, so that the journal can be reused. If only one caller is waiting, the loop's
thread flushes that commit itself if the flush takes no longer than the hand-over.

`FlushPace` says how long a flush waits for more commits. A flush costs about a quarter of a
millisecond of processor time for any number of commits, because two threads take turns. So while
commits keep coming, flushes keep a minimum distance. The distance is longer while calls or messages
keep coming one by one and the event loop is busy. Then callers wait for the processor, which each
flush also uses, and not for the flush.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING, Final, Protocol

from offsetd_storage.duration_histogram import Durations
from offsetd_storage.errors import StorageFailed, storage_failed

if TYPE_CHECKING:
    from collections.abc import Callable

# Above this ratio, recovery points move before their time: a full journal delays flushes.
_JOURNAL_USED_RATIO_MAX: Final = 0.5
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


class FlushedStore(Protocol):
    """The part of `offsetd_storage.log_store.LogStore` that the flusher needs."""

    @property
    def failed(self) -> StorageFailed | None:
        """The error after which nothing becomes durable, or None."""

    def flush(self) -> None:
        """Returns when all that was appended before the call is durable, or raises."""

    def bound_unwritten(self) -> None:
        """Writes durable batches to the segments if many of them wait in memory. May raise."""

    @property
    def journal_used_ratio(self) -> float:
        """The used share of the journal, 0 to 1."""


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


class Flusher:
    """The flush thread of one store; it calls the callbacks.

    After the first failure (even one of the store outside a flush), nothing is flushed again and
    `on_durable` is never called again. `on_journal_filling` is called after each flush that leaves
    the journal half full, or fuller.
    """

    def __init__(
        self,
        store: FlushedStore,
        *,
        on_durable: Callable[[int], object],
        on_failed: Callable[[BaseException], object],
        on_journal_filling: Callable[[], object] = lambda: None,
        pace: FlushPace | None = None,
    ) -> None:
        self._store = store
        self._on_durable = on_durable
        self._on_failed = on_failed
        self._on_journal_filling = on_journal_filling
        self._stopping = False
        self._has_failed = False
        # Whether the thread waits for any kick, or for the kick of the last expected commit. Each
        # kick costs the event loop a thread switch.
        self._is_waiting = self._is_gathering = False
        self._pace = FlushPace(sleep=self._gather) if pace is None else pace
        self._wake_up = WakeUp()
        self._thread = threading.Thread(target=self._guard, name="flush", daemon=True)
        self.flush_durations = Durations()
        self.appended = 0
        """The newest ticket."""
        self._appended_beside = 0
        self._turn = threading.Lock()  # Held by the thread that flushes: this one or the loop's.
        self._durable = 0

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def count_append(self, commits: int = 1, *, is_beside: bool) -> int:
        """Returns the ticket of the commits that were just appended. For the appending thread.

        `is_beside` means that it is not a commit, so it does not suggest that more commits will
        come.
        """
        if is_beside:
            self._appended_beside += commits
        self.appended += commits
        return self.appended

    def kick(self) -> int | None:
        """Reports that this round of the event loop has appended. One call a round is enough.

        Returns the newest ticket if this call flushed it, else None.
        """
        self._pace.note_round(self.appended - self._appended_beside)
        if self._is_gathering and self._pace.has_all:
            self._is_gathering = False
            self._wake_up.wake()
        if not self._is_waiting:
            return None
        if not (self._may_flush_here() and self._turn.acquire(blocking=False)):
            self._wake_up.wake()
            return None
        try:
            return self._flush()
        except BaseException as error:  # noqa: BLE001  As in the thread.
            self._fail(error)
            return None
        finally:
            self._turn.release()

    def stop(self) -> None:
        """Flushes what is pending, reports it, and ends the thread. Blocks."""
        self._stopping = True
        self._wake_up.wake()
        if self._thread.ident is not None:
            self._thread.join()

    def _may_flush_here(self) -> bool:
        return (
            self.appended - self._durable == 1
            and self._pace.is_alone
            and not self._has_failed
            and self._store.journal_used_ratio <= _JOURNAL_USED_RATIO_MAX
        )

    def _guard(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001  Whatever it was: nothing more is durable.
            self._fail(error)

    def _run(self) -> None:
        while not self._has_failed:
            if self.appended > self._durable:
                self._pace.wait()
                with self._turn:
                    ticket = self._flush()
                self._on_durable(ticket)
                self._store.bound_unwritten()  # No caller waits for this.
                if self._store.journal_used_ratio > _JOURNAL_USED_RATIO_MAX:
                    self._on_journal_filling()
            elif self._stopping:
                return
            elif not self._is_waiting:
                # Kicks wake it after this. The next round finds commits from just before.
                self._is_waiting = True
            else:
                self._wake_up.sleep()
                self._is_waiting = False

    def _gather(self, seconds: float) -> None:
        """Sleeps until all expected commits have come."""
        self._is_gathering = True
        if not self._pace.has_all:
            self._wake_up.sleep(seconds)
        self._is_gathering = False

    def _flush(self) -> int:
        # Read before the flush: all tickets up to this one were appended before it began.
        ticket = self.appended
        begun_seconds = self._pace.note_begun(ticket - self._appended_beside)
        self._store.flush()
        if self._store.failed is not None:
            raise self._store.failed  # It failed during this flush, so this is the last one.
        self.flush_durations.note(time.perf_counter() - begun_seconds)
        self._durable = ticket
        self._pace.note_ended(self.appended - self._appended_beside)
        return ticket

    def _fail(self, error: BaseException) -> None:
        self._has_failed = True
        self._on_failed(error)


class FlushDefect(StorageFailed):
    """Our own code failed, not the disk; the effect is the same. The cause is `__cause__`."""


def as_storage_failed(error: BaseException) -> StorageFailed:
    """Returns the error that stops the log: a FlushDefect for a defect of offsetd.

    A store that has stopped because of a defect also raises StorageFailed, so the oldest cause
    counts.
    """
    first = error
    while isinstance(first, StorageFailed) and first.__cause__ is not None:
        first = first.__cause__
    if isinstance(first, StorageFailed | OSError):
        return storage_failed(error)
    if isinstance(error, FlushDefect):
        return error
    defect = FlushDefect(_told(first))
    defect.__cause__ = first
    return defect


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


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
