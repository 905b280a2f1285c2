"""Tasks come again in their time, whatever became of the last run, under a clock moved by hand."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from offsetd_storage.clock import ManualClock, SystemClock
from offsetd_storage.tasks.scheduler import PeriodicTask, Scheduler, SupervisedWorker
from offsetd_storage.tasks.supervision import RunStatus, Supervised, SupervisedThreads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE_SECONDS = 60
NOW_MS = 1_700_000_000_000


def await_(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.001)


@contextmanager
def scheduled(
    *tasks: PeriodicTask, clock: ManualClock | SystemClock, threads: int = 2
) -> Iterator[Scheduler]:
    scheduler = Scheduler(tasks, threads=threads, clock=clock)
    scheduler.start()
    try:
        yield scheduler
    finally:
        scheduler.stop()


def status_of(scheduler: Scheduler, name: str) -> RunStatus:
    return next(status for status in scheduler.statuses if status.name == name)


def await_runs(scheduler: Scheduler, name: str, runs: int) -> None:
    await_(lambda: status_of(scheduler, name).runs >= runs)


def move(scheduler: Scheduler, clock: ManualClock, milliseconds: int) -> None:
    clock.advance(milliseconds)
    scheduler.wake()


class Failing:
    """A run that raises what it is told to, as long as that lasts."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)

    def __call__(self) -> int:
        if self.errors:
            raise self.errors.pop(0)
        return 100


def test_tasks_run_after_their_delay_and_then_in_their_interval() -> None:
    clock = ManualClock(now_ms=NOW_MS)
    ran: list[tuple[str, int]] = []

    def task(name: str, interval_ms: int, initial_delay_ms: int) -> PeriodicTask:
        return PeriodicTask(
            name=name,
            interval_ms=interval_ms,
            initial_delay_ms=initial_delay_ms,
            run=lambda: ran.append((name, clock.monotonic_ms())),
        )

    with scheduled(task("a", 100, 50), task("b", 30, 70), clock=clock, threads=1) as scheduler:
        for moment in range(0, 200, 10):
            due_a = sum(at <= moment for at in (50, 150))
            due_b = sum(at <= moment for at in (70, 100, 130, 160, 190))
            await_runs(scheduler, "a", due_a)
            await_runs(scheduler, "b", due_b)
            move(scheduler, clock, 10)
    assert sorted(ran) == sorted(
        [("a", at) for at in (50, 150)] + [("b", at) for at in (70, 100, 130, 160, 190)]
    )


def test_a_run_that_is_late_is_done_once() -> None:
    clock = ManualClock()
    with scheduled(PeriodicTask(name="a", interval_ms=10, run=int), clock=clock) as scheduler:
        await_runs(scheduler, "a", 1)
        move(scheduler, clock, 95)
        await_runs(scheduler, "a", 2)
        move(scheduler, clock, 9)
        scheduler.run_soon("a")
        await_runs(scheduler, "a", 3)
    assert status_of(scheduler, "a").runs == 3


def test_a_status_says_when_and_how_long_a_run_was() -> None:
    clock = ManualClock(now_ms=NOW_MS)
    task = PeriodicTask(name="a", interval_ms=1000, run=lambda: clock.advance(7))
    with scheduled(task, clock=clock) as scheduler:
        await_runs(scheduler, "a", 1)
    assert status_of(scheduler, "a") == RunStatus(
        name="a",
        is_running=False,
        runs=1,
        failures=0,
        failures_in_row=0,
        last_started_ms=NOW_MS,
        last_duration_ms=7,
        last_succeeded_ms=NOW_MS + 7,
        last_failed_ms=None,
        last_error=None,
    )


def test_a_failure_is_kept_and_the_task_runs_again_later_and_later() -> None:
    clock = ManualClock(now_ms=NOW_MS)
    failing = Failing(OSError("no"), ValueError("still not"), ValueError("nor now"))
    task = PeriodicTask(name="a", interval_ms=60_000, run=failing)
    with scheduled(task, clock=clock) as scheduler:
        for failures, wait_ms in ((1, 1000), (2, 2000), (3, 4000)):
            await_runs(scheduler, "a", failures)
            status = status_of(scheduler, "a")
            assert (status.failures, status.failures_in_row) == (failures, failures)
            assert status.last_failed_ms == clock.now_ms()
            move(scheduler, clock, wait_ms - 1)
            move(scheduler, clock, 1)
        await_runs(scheduler, "a", 4)
        status = status_of(scheduler, "a")
        assert (status.failures, status.failures_in_row) == (3, 0)
        assert status.last_error == "ValueError: nor now"
        assert (status.last_failed_ms, status.last_succeeded_ms) == (NOW_MS + 3000, NOW_MS + 7000)
        move(scheduler, clock, 60_000)
        await_runs(scheduler, "a", 5)


def test_the_wait_after_failures_has_a_bound() -> None:
    work = Supervised("a")
    waits = [work.fail(OSError(), now_ms=0, monotonic_ms=0) for _ in range(100)]
    assert waits == [1000 << doublings for doublings in range(9)] + [300_000] * 91
    work.succeed(now_ms=0, monotonic_ms=0)
    assert work.fail(OSError(), now_ms=0, monotonic_ms=0) == 1000


def test_a_failing_task_holds_up_no_other() -> None:
    clock = ManualClock()
    failing = PeriodicTask(name="bad", interval_ms=1, run=Failing(*[OSError()] * 1000))
    good = PeriodicTask(name="good", interval_ms=1, run=int)
    with scheduled(failing, good, clock=clock, threads=1) as scheduler:
        for runs in range(1, 20):
            await_runs(scheduler, "good", runs)
            move(scheduler, clock, 1)


def test_a_task_that_takes_long_holds_up_no_other_and_is_not_begun_twice() -> None:
    clock = ManualClock()
    release = threading.Event()
    long = PeriodicTask(name="long", interval_ms=10, run=release.wait)
    short = PeriodicTask(name="short", interval_ms=10, run=int)
    with scheduled(long, short, clock=clock, threads=2) as scheduler:
        for runs in range(1, 5):
            await_runs(scheduler, "short", runs)
            move(scheduler, clock, 10)
        status = status_of(scheduler, "long")
        assert (status.is_running, status.runs) == (True, 0)
        release.set()
        await_runs(scheduler, "long", 1)


@pytest.mark.parametrize("fatal", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_a_thread_that_dies_is_replaced(fatal: BaseException) -> None:
    clock = ManualClock()
    task = PeriodicTask(name="a", interval_ms=10, run=Failing(fatal))
    with scheduled(task, clock=clock, threads=1) as scheduler:
        await_(lambda: scheduler.threads_replaced == 1)
        await_(lambda: scheduler.threads_alive == 1)
        status = status_of(scheduler, "a")
        assert status.failures == 1
        assert status.last_error is not None
        assert status.last_error.startswith(type(fatal).__name__)
        move(scheduler, clock, 1000)
        await_runs(scheduler, "a", 2)
        assert status_of(scheduler, "a").failures_in_row == 0


def test_a_task_is_run_again_after_its_thread_died_without_a_word() -> None:
    clock = ManualClock()
    scheduler = Scheduler([PeriodicTask(name="a", interval_ms=10, run=int)], threads=1, clock=clock)
    deaths = [MemoryError("not even to count it")]
    end = scheduler._end

    def dying(*arguments: object, **named: object) -> None:
        if deaths:
            raise deaths.pop()
        end(*arguments, **named)  # type: ignore[arg-type]

    scheduler._end = dying  # type: ignore[method-assign]
    scheduler.start()
    try:
        await_(lambda: scheduler.threads_replaced == 1)
        move(scheduler, clock, 10)
        await_runs(scheduler, "a", 1)
    finally:
        scheduler.stop()


def test_a_task_can_be_asked_for() -> None:
    clock = ManualClock()
    task = PeriodicTask(name="a", interval_ms=10**9, initial_delay_ms=10**9, run=Failing(OSError()))
    with scheduled(task, clock=clock) as scheduler:
        scheduler.run_soon("a")
        await_runs(scheduler, "a", 1)
        scheduler.run_soon("a")  # Nor does it wait after a failure.
        await_runs(scheduler, "a", 2)
        assert status_of(scheduler, "a").failures_in_row == 0


def test_a_task_asked_for_while_it_runs_runs_again() -> None:
    clock = ManualClock()
    release = threading.Semaphore(0)
    task = PeriodicTask(name="a", interval_ms=10**9, run=release.acquire)
    with scheduled(task, clock=clock) as scheduler:
        await_(lambda: status_of(scheduler, "a").is_running)
        scheduler.run_soon("a")
        release.release()
        await_runs(scheduler, "a", 1)
        release.release()
        await_runs(scheduler, "a", 2)


def test_stopping_waits_for_what_has_begun_and_begins_nothing() -> None:
    clock = ManualClock()
    release = threading.Event()
    ended = []

    def run() -> None:
        release.wait()
        ended.append(True)

    tasks = [
        PeriodicTask(name="a", interval_ms=1, run=run),
        PeriodicTask(name="b", interval_ms=1, initial_delay_ms=1, run=int),
    ]
    scheduler = Scheduler(tasks, threads=2, clock=clock)
    scheduler.start()
    await_(lambda: status_of(scheduler, "a").is_running)
    stopper = threading.Thread(target=scheduler.stop)
    stopper.start()
    await_(lambda: scheduler.is_stopping)
    move(scheduler, clock, 100)
    release.set()
    stopper.join()
    assert ended == [True]
    assert status_of(scheduler, "b").runs == 0
    assert scheduler.threads_alive == 0


def stop_all(schedulers: list[Scheduler]) -> None:
    for scheduler in schedulers:
        scheduler.stop()


def test_a_task_may_stop_the_scheduler() -> None:
    schedulers: list[Scheduler] = []
    task = PeriodicTask(name="a", interval_ms=1, run=lambda: stop_all(schedulers))
    schedulers.append(Scheduler([task], threads=1, clock=ManualClock()))
    schedulers[0].start()
    await_(lambda: schedulers[0].threads_alive == 0)
    assert status_of(schedulers[0], "a").failures == 0


def test_the_systems_clock_needs_no_waking() -> None:
    task = PeriodicTask(name="a", interval_ms=1, run=int)
    never = PeriodicTask(name="never", interval_ms=2**63 - 1, initial_delay_ms=2**63 - 1, run=int)
    with scheduled(task, never, clock=SystemClock()) as scheduler:
        await_runs(scheduler, "a", 3)
    assert status_of(scheduler, "never").runs == 0


def test_there_are_no_more_threads_than_tasks() -> None:
    task = PeriodicTask(name="a", interval_ms=1, run=int)
    with scheduled(task, clock=ManualClock(), threads=10) as scheduler:
        assert scheduler.threads_alive == 1


def test_other_intervals_keep_what_was_asked_for_and_counted_and_wait_for_nothing() -> None:
    clock = ManualClock()
    release = threading.Semaphore(0)

    def tasks(interval_ms: int) -> list[PeriodicTask]:
        return [
            PeriodicTask(name="long", interval_ms=interval_ms, run=release.acquire),
            PeriodicTask(name="short", interval_ms=interval_ms, run=int),
        ]

    with scheduled(*tasks(1000), clock=clock) as scheduler:
        await_(lambda: status_of(scheduler, "long").is_running)
        await_runs(scheduler, "short", 1)
        scheduler.run_soon("long")
        scheduler.configure(tasks(10), threads=2)
        assert status_of(scheduler, "long").is_running
        move(scheduler, clock, 10)
        await_runs(scheduler, "short", 2)
        scheduler.configure(tasks(1000), threads=2)
        move(scheduler, clock, 10)
        await_runs(scheduler, "short", 3)  # No later than it was to be.
        release.release()
        await_runs(scheduler, "long", 1)
        release.release()
        await_runs(scheduler, "long", 2)
    assert status_of(scheduler, "short").runs == 3


@pytest.mark.parametrize("threads", [1, 4, 9])
def test_the_number_of_threads_may_change_while_they_run(threads: int) -> None:
    clock = ManualClock()
    tasks = [PeriodicTask(name=f"{place}", interval_ms=1, run=int) for place in range(5)]
    with scheduled(*tasks, clock=clock, threads=3) as scheduler:
        await_runs(scheduler, "0", 1)
        scheduler.configure(tasks, threads=threads)
        await_(lambda: scheduler.threads_alive == min(threads, 5))
        runs = status_of(scheduler, "4").runs
        move(scheduler, clock, 1)
        await_runs(scheduler, "4", runs + 1)
    assert scheduler.threads_alive == scheduler.threads_replaced == 0


def test_a_scheduler_that_was_not_started_gets_no_threads_by_other_settings() -> None:
    task = PeriodicTask(name="a", interval_ms=1, run=int)
    scheduler = Scheduler([task], threads=1, clock=ManualClock())
    scheduler.configure([task], threads=1)
    assert scheduler.threads_alive == 0


# Workers.


@contextmanager
def working(step: Callable[[], int], clock: ManualClock) -> Iterator[SupervisedWorker]:
    worker = SupervisedWorker("cleaner-0", step, clock=clock)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop()


def test_a_worker_begins_when_it_is_time_or_when_it_is_woken() -> None:
    clock = ManualClock()
    begun_ms = clock.monotonic_ms()
    steps_ms: list[int] = []

    def step() -> int:
        steps_ms.append(clock.monotonic_ms() - begun_ms)
        return 10**9

    late = SupervisedWorker("late", step, clock=clock, initial_delay_ms=1000)
    woken = SupervisedWorker("woken", step, clock=clock, initial_delay_ms=1000)
    late.start()
    woken.start()
    with working(lambda: 10**9, clock) as worker:
        await_(lambda: worker.life.run.runs == 1)  # So those would have, too.
    woken.wake()
    await_(lambda: woken.life.run.runs == 1)
    clock.advance(1000)
    late._scheduler.wake()
    await_(lambda: late.life.run.runs == 1)
    for worker in (late, woken):
        worker.stop()
    assert steps_ms == [0, 1000]


def test_a_worker_rests_as_long_as_its_step_says() -> None:
    clock = ManualClock()
    rests = [0, 0, 10**9]
    with working(lambda: rests.pop(0), clock) as worker:
        await_(lambda: worker.life.run.runs == 3)
        assert worker.life.is_alive
        rests.append(0)
        rests.append(10**9)
        worker.wake()
        await_(lambda: worker.life.run.runs == 5)
    assert worker.is_stopping
    assert not worker.life.is_alive


@pytest.mark.parametrize("error", [ValueError("bad"), SystemExit(1)])
def test_a_worker_is_not_alive_from_a_failure_until_it_works_again(error: BaseException) -> None:
    clock = ManualClock()
    with working(Failing(error), clock) as worker:
        await_(lambda: worker.life.run.failures == 1)
        assert not worker.life.is_alive
        assert str(worker.life.run.last_error).startswith(type(error).__name__)
        await_(lambda: worker.threads_replaced == isinstance(error, SystemExit))
        clock.advance(1000)
        worker.wake()
        await_(lambda: worker.life.run.runs == 2)
        assert worker.life.is_alive
        assert worker.life.run.last_error is not None


def test_a_worker_that_fails_while_it_is_asked_says_of_what(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However the two are read, the step that ends between them counts in both or in neither."""
    fails = threading.Event()

    def step() -> int:
        fails.wait()
        raise MemoryError

    def fail_meanwhile(scheduler: Scheduler) -> int:
        fails.set()
        await_(lambda: scheduler.statuses[0].failures == 1)
        return 1

    with working(step, ManualClock()) as worker:
        monkeypatch.setattr(Scheduler, "threads_alive", property(fail_meanwhile))
        life = worker.life
        assert not life.is_alive
        assert life.run.last_error == "MemoryError: "


def test_a_worker_whose_step_gives_no_rest_has_failed() -> None:
    with working(lambda: None, ManualClock()) as worker:  # type: ignore[arg-type, return-value]
        await_(lambda: worker.life.run.failures == 1)


def test_threads_that_could_not_be_replaced_are_started_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop, dies = threading.Event(), threading.Event()
    lacking = [False]
    start = threading.Thread.start

    def starting(thread: threading.Thread) -> None:
        if lacking[0]:
            raise RuntimeError("can't start new thread")
        start(thread)

    def body() -> None:
        if not dies.is_set():
            dies.wait()
            raise MemoryError
        stop.wait()

    monkeypatch.setattr(threading.Thread, "start", starting)
    threads = SupervisedThreads("t", 1, body)
    threads.ensure()
    lacking[0] = True
    dies.set()
    await_(lambda: threads.replaced == 1)
    await_(lambda: threads.alive == 0)
    assert threads.last_error == "MemoryError: "
    lacking[0] = False
    threads.ensure()
    assert threads.alive == 1
    stop.set()
    threads.join()
    assert threads.alive == 0
