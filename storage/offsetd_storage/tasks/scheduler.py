"""Periodic tasks under Kafka's names, and workers that run without a pause; all are supervised.

A run that fails is counted, its error is kept, and it is repeated after a delay that doubles with
each failure in a row. A thread that dies, for example for lack of memory, is replaced.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

from offsetd_storage.tasks.supervision import RunStatus, Supervised, SupervisedThreads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from offsetd_storage.clock import Clock

LOG_RETENTION: Final = "kafka-log-retention"
LOG_FLUSHER: Final = "kafka-log-flusher"
RECOVERY_POINT_CHECKPOINT: Final = "kafka-recovery-point-checkpoint"
LOG_START_OFFSET_CHECKPOINT: Final = "kafka-log-start-offset-checkpoint"
DELETE_LOGS: Final = "kafka-delete-logs"


@attrs.frozen(kw_only=True)
class PeriodicTask:
    """Work that is repeated; it never runs twice at the same time."""

    name: str
    run: Callable[[], object]
    # The time from the start of one run to the start of the next. If it is None, `run` returns the
    # rest after the run, in milliseconds.
    interval_ms: int | None = attrs.field(
        validator=attrs.validators.optional(attrs.validators.ge(1))
    )
    initial_delay_ms: int = attrs.field(default=0, validator=attrs.validators.ge(0))


class _Turn:
    """A task, and the next time at which it is due, by the monotonic clock."""

    def __init__(self, task: PeriodicTask, due_ms: int) -> None:
        self.task = task
        self.due_ms = due_ms
        self.is_called = False  # True if a run was requested, perhaps during a run.
        self.thread: threading.Thread | None = None  # The thread that runs it.
        self.work = Supervised(task.name)


class Scheduler:
    """Runs tasks on a few threads. If the clock is moved by hand, call `wake` after that."""

    def __init__(self, tasks: Iterable[PeriodicTask], *, threads: int, clock: Clock) -> None:
        """The initial delays count from now. There are never more threads than tasks."""
        self._clock = clock
        now_ms = clock.monotonic_ms()
        turns = [_Turn(task, now_ms + task.initial_delay_ms) for task in tasks]
        self._turns = {turn.task.name: turn for turn in turns}
        assert len(self._turns) == len(turns), "two tasks have one name"
        self._changed = threading.Condition()
        self._is_stopping = False
        name = turns[0].task.name if len(turns) == 1 else "scheduler"
        self._threads = SupervisedThreads(name, min(threads, len(turns)), self._work)

    def start(self) -> None:
        """Starts the threads."""
        self._threads.ensure()

    def configure(self, tasks: Iterable[PeriodicTask], *, threads: int) -> None:
        """Replaces the tasks by others of the same names. Does not wait for a run.

        Requested runs still happen, and counts stay. The next run of each task is neither later
        than it was, nor later than its interval from now.
        """
        self._threads.resize(min(threads, len(self._turns)))
        with self._changed:
            now_ms = self._clock.monotonic_ms()
            for task in tasks:
                turn = self._turns[task.name]
                turn.task = task
                turn.due_ms = min(turn.due_ms, now_ms + (task.interval_ms or 0))
            self._changed.notify_all()

    def tell_to_stop(self) -> None:
        """Starts no more runs. Runs that have started may check `is_stopping`."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()

    def stop(self) -> None:
        """Starts no more runs, and waits for those that have started."""
        self.tell_to_stop()
        self._threads.join()

    def wake(self) -> None:
        """Makes the threads read the clock again, after it was moved by hand."""
        with self._changed:
            self._changed.notify_all()

    def run_soon(self, name: str) -> None:
        """Runs a task at once; if it is running, once more after that.

        A task that is waiting after a failure runs at once, too.
        """
        with self._changed:
            self._turns[name].is_called = True
            self._changed.notify_all()

    @property
    def is_stopping(self) -> bool:
        """True after a request to stop. Long tasks should check it."""
        return self._is_stopping

    @property
    def statuses(self) -> tuple[RunStatus, ...]:
        """The status of each task."""
        with self._changed:
            return tuple(turn.work.status for turn in self._turns.values())

    @property
    def threads_alive(self) -> int:
        """The number of threads that run now."""
        return self._threads.alive

    @property
    def threads_replaced(self) -> int:
        """The number of threads that have died so far."""
        return self._threads.replaced

    def _work(self) -> None:
        try:
            while (turn := self._next()) is not None:
                self._run(turn)
                # If a thread died and the system could not start another one, try again now.
                with suppress(RuntimeError):
                    self._threads.ensure()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Releases the task of a thread that dies, so that another thread can run it."""
        with self._changed:
            for turn in self._turns.values():
                if turn.thread is threading.current_thread():
                    turn.thread = None
            self._changed.notify_all()

    def _next(self) -> _Turn | None:
        """Waits for a task that is due, and takes it. Returns None if the thread should end."""
        with self._changed:
            while not (self._is_stopping or self._threads.leave_if_too_many()):
                now_ms = self._clock.monotonic_ms()
                idle = [turn for turn in self._turns.values() if turn.thread is None]
                turn = min(idle, key=_due_ms, default=None)
                if turn is not None and _due_ms(turn) <= now_ms:
                    turn.thread = threading.current_thread()
                    turn.is_called = False
                    turn.due_ms = now_ms + (turn.task.interval_ms or 0)
                    turn.work.begin(now_ms=self._clock.now_ms(), monotonic_ms=now_ms)
                    return turn
                self._changed.wait(None if turn is None else _seconds(turn.due_ms - now_ms))
            return None

    def _run(self, turn: _Turn) -> None:
        try:
            rest_ms = turn.task.run()
            assert turn.task.interval_ms is not None or isinstance(rest_ms, int), "no rest given"
        except BaseException as error:
            self._end(turn, rest_ms=0, error=error)
            if not isinstance(error, Exception):
                raise
        else:
            self._end(turn, rest_ms=rest_ms, error=None)

    def _end(self, turn: _Turn, *, rest_ms: object, error: BaseException | None) -> None:
        with self._changed:
            now_ms, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
            if error is not None:
                wait_ms = turn.work.fail(error, now_ms=now_ms, monotonic_ms=monotonic_ms)
                turn.due_ms = monotonic_ms + wait_ms
            else:
                turn.work.succeed(now_ms=now_ms, monotonic_ms=monotonic_ms)
                if turn.task.interval_ms is None and isinstance(rest_ms, int):
                    turn.due_ms = monotonic_ms + rest_ms
            turn.thread = None
            self._changed.notify_all()


class WorkerLife(NamedTuple):
    """The state of a worker. If it is not alive, `run` has the reason."""

    is_alive: bool  # False from a failure until a step has succeeded again.
    run: RunStatus  # The status of the steps.


class SupervisedWorker:
    """A thread that takes one step after the other, for example a thread of the cleaner."""

    def __init__(
        self, name: str, step: Callable[[], int], *, clock: Clock, initial_delay_ms: int = 0
    ) -> None:
        """`step` returns the rest before the next step, in milliseconds.

        A long step checks `is_stopping` from time to time.
        """
        task = PeriodicTask(
            name=name, run=step, interval_ms=None, initial_delay_ms=initial_delay_ms
        )
        self._name = name
        self._scheduler = Scheduler([task], threads=1, clock=clock)

    def start(self) -> None:
        """Starts the thread, even after it died and could not be replaced."""
        self._scheduler.start()

    def stop(self) -> None:
        """Takes no more steps, and waits for the one that has started."""
        self._scheduler.stop()

    def wake(self) -> None:
        """Ends the present rest, even a rest after a failure."""
        self._scheduler.run_soon(self._name)

    @property
    def is_stopping(self) -> bool:
        """True after a request to stop."""
        return self._scheduler.is_stopping

    @property
    def life(self) -> WorkerLife:
        """Its present state."""
        # Read the threads first: a failure is noted before its thread ends.
        has_thread, run = self._scheduler.threads_alive > 0, self._scheduler.statuses[0]
        return WorkerLife(has_thread and run.failures_in_row == 0, run)

    @property
    def threads_replaced(self) -> int:
        """The number of times its thread has died."""
        return self._scheduler.threads_replaced


def _due_ms(turn: _Turn) -> int:
    return -1 if turn.is_called else turn.due_ms


def _seconds(wait_ms: int) -> float:
    return min(wait_ms / 1000, threading.TIMEOUT_MAX)
