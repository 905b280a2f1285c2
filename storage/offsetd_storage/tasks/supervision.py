"""Supervision of repeated work: failures are counted, the last is kept, the work is repeated.

`Supervised` is the state, without threads and without a clock. `SupervisedThreads` keeps a number
of threads alive.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

_BACKOFF_MS_MIN: Final = 1000
_BACKOFF_MS_MAX: Final = 300_000
_DOUBLINGS_MAX: Final = 40


def backoff_ms(failures_in_row: int) -> int:
    """The delay after `failures_in_row` failures (at least 1). It doubles with each failure."""
    return min(_BACKOFF_MS_MIN << min(failures_in_row - 1, _DOUBLINGS_MAX), _BACKOFF_MS_MAX)


@attrs.frozen(kw_only=True)
class RunStatus:
    """The runs so far. Times are by the wall clock. A time is None if there was no such run."""

    name: str
    is_running: bool
    runs: int  # The number of runs that have ended, with success or failure.
    failures: int
    failures_in_row: int
    last_started_ms: int | None
    last_duration_ms: int | None
    last_succeeded_ms: int | None
    last_failed_ms: int | None
    last_error: str | None  # It is kept when a later run succeeds.


class Supervised:
    """The counts of one piece of work. For one thread at a time."""

    def __init__(self, name: str) -> None:
        self._status = RunStatus(
            name=name,
            is_running=False,
            runs=0,
            failures=0,
            failures_in_row=0,
            last_started_ms=None,
            last_duration_ms=None,
            last_succeeded_ms=None,
            last_failed_ms=None,
            last_error=None,
        )
        self._started_monotonic_ms = 0

    @property
    def status(self) -> RunStatus:
        """The present status."""
        return self._status

    def begin(self, *, now_ms: int, monotonic_ms: int) -> None:
        """Notes that a run starts."""
        self._started_monotonic_ms = monotonic_ms
        self._status = attrs.evolve(self._status, is_running=True, last_started_ms=now_ms)

    def succeed(self, *, now_ms: int, monotonic_ms: int) -> None:
        """Notes that the run succeeded."""
        self._status = attrs.evolve(
            self._ended(monotonic_ms), failures_in_row=0, last_succeeded_ms=now_ms
        )

    def fail(self, error: BaseException, *, now_ms: int, monotonic_ms: int) -> int:
        """Notes that the run raised `error`. Returns the delay before the next, in milliseconds."""
        in_row = self._status.failures_in_row + 1
        self._status = attrs.evolve(
            self._ended(monotonic_ms),
            failures=self._status.failures + 1,
            failures_in_row=in_row,
            last_failed_ms=now_ms,
            last_error=f"{type(error).__name__}: {error}",
        )
        return backoff_ms(in_row)

    def _ended(self, monotonic_ms: int) -> RunStatus:
        return attrs.evolve(
            self._status,
            is_running=False,
            runs=self._status.runs + 1,
            last_duration_ms=monotonic_ms - self._started_monotonic_ms,
        )


class SupervisedThreads:
    """Threads that run `body` until it returns. A thread that dies of an error is replaced."""

    def __init__(self, name: str, count: int, body: Callable[[], None]) -> None:
        self.replaced = 0
        self.last_error: str | None = None  # The last error that ended a thread.
        self._name = name
        self._count = count
        self._body = body
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._is_started = False
        self._is_stopping = False

    @property
    def alive(self) -> int:
        """The number of threads."""
        with self._lock:
            return sum(thread.is_alive() for thread in self._threads)

    def ensure(self) -> None:
        """Starts missing threads: all at first, later those that could not be replaced.

        Raises RuntimeError if the system cannot start a thread.
        """
        with self._lock:
            if self._is_stopping:
                return
            self._is_started = True
            while len(self._threads) < self._count:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                thread.start()
                self._threads.append(thread)

    def resize(self, count: int) -> None:
        """Changes the number of threads. Surplus threads leave in `leave_if_too_many`.

        Raises RuntimeError if the system cannot start a thread.
        """
        with self._lock:
            self._count = count
            is_started = self._is_started
        if is_started:
            self.ensure()

    def leave_if_too_many(self) -> bool:
        """Returns whether the calling thread must return from `body`. Then it no longer counts."""
        with self._lock:
            is_too_many = len(self._threads) > self._count
            if is_too_many:
                self._threads.remove(threading.current_thread())
            return is_too_many

    def join(self) -> None:
        """Starts no more threads, and waits for those that run, except the calling one."""
        with self._lock:
            self._is_stopping = True
            threads = list(self._threads)  # A copy, as a thread that dies removes itself.
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    def _run(self) -> None:
        try:
            self._body()
        except BaseException as error:  # noqa: BLE001  Whatever a thread dies of.
            with self._lock:
                self.last_error = f"{type(error).__name__}: {error}"
                self.replaced += not self._is_stopping
                with suppress(ValueError):
                    self._threads.remove(threading.current_thread())
            with suppress(RuntimeError):  # If it fails, the next `ensure` starts the thread.
                self.ensure()
