"""Group commit: what a ticket promises, failures, and a journal that fills."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_coordinator.runtime.flusher import FlushDefect, Flusher, FlushPace, as_storage_failed
from offsetd_storage.errors import StorageFailed
from patience import PATIENCE_SECONDS
from server_process import poll

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class GatedStore:
    """A store whose flushes wait to be let through, and that remembers what each one covered."""

    def __init__(self) -> None:
        self.appended = 0
        self.flushed: list[int] = []
        self.entered: queue.Queue[int] = queue.Queue()
        self.gate: queue.Queue[BaseException | None] = queue.Queue()
        self.failed: StorageFailed | None = None
        self.journal_used_ratio = 0.0
        self.on_bound: Callable[[], object] = lambda: None

    def flush(self) -> None:
        covered = self.appended
        self.entered.put(covered)
        error = self.gate.get(timeout=PATIENCE_SECONDS)
        if error is not None:
            raise error
        self.flushed.append(covered)

    def bound_unwritten(self) -> None:
        self.on_bound()


class Run:
    """A flusher over a gated store, with what it reported."""

    def __init__(self, pace: FlushPace | None = None, *, make: type[Flusher] = Flusher) -> None:
        self.store = GatedStore()
        self.durable: queue.Queue[int] = queue.Queue()
        self.failed: queue.Queue[BaseException] = queue.Queue()
        self.fillings: queue.Queue[None] = queue.Queue()
        self.flusher = make(
            self.store,
            on_durable=self.durable.put,
            on_failed=self.failed.put,
            on_journal_filling=lambda: self.fillings.put(None),
            pace=pace,
        )

    def append(self, count: int = 1, *, is_beside: bool = False) -> int | None:
        self.store.appended += count
        for _ in range(count):
            self.flusher.count_append(is_beside=is_beside)
        return self.flusher.kick()

    def let_through(self, error: BaseException | None = None) -> int:
        covered = self.store.entered.get(timeout=PATIENCE_SECONDS)
        self.store.gate.put(error)
        return covered


@pytest.fixture
def run() -> Iterator[Run]:
    run = Run()
    run.flusher.start()
    yield run
    for _ in range(10):
        run.store.gate.put(None)
    run.flusher.stop()


def test_a_ticket_is_durable_once_a_flush_that_began_after_it_has_returned(run: Run) -> None:
    run.append()
    covered = run.store.entered.get(timeout=PATIENCE_SECONDS)
    assert covered == 1
    run.append(2)  # While the flush of the first is under way: the next one's.
    assert run.durable.empty()
    run.store.gate.put(None)
    assert run.durable.get(timeout=PATIENCE_SECONDS) == 1
    assert run.let_through() == 3
    assert run.durable.get(timeout=PATIENCE_SECONDS) == 3


def test_who_waits_is_told_before_segments_are_written(run: Run) -> None:
    told: list[int] = []
    bounded = threading.Event()

    def bound() -> None:
        told.append(run.durable.get_nowait())
        bounded.set()

    run.store.on_bound = bound
    run.append()
    run.let_through()
    assert bounded.wait(PATIENCE_SECONDS)
    assert told == [1]


def test_segments_that_cannot_be_written_are_a_failure(run: Run) -> None:
    error = StorageFailed("gone")

    def fail() -> None:
        raise error

    run.store.on_bound = fail
    run.append()
    run.let_through()
    assert run.durable.get(timeout=PATIENCE_SECONDS) == 1
    assert run.failed.get(timeout=PATIENCE_SECONDS) is error


def test_many_appends_share_one_flush(run: Run) -> None:
    run.append()
    run.store.entered.get(timeout=PATIENCE_SECONDS)
    for _ in range(100):
        run.append()
    run.store.gate.put(None)
    assert run.durable.get(timeout=PATIENCE_SECONDS) == 1
    assert run.let_through() == 101
    assert run.durable.get(timeout=PATIENCE_SECONDS) == 101
    assert run.store.flushed == [1, 101]


@pytest.mark.parametrize("error", [StorageFailed("gone"), OSError(5, "EIO"), ValueError("defect")])
def test_after_a_failed_flush_nothing_is_flushed_or_reported_again(
    run: Run, error: BaseException
) -> None:
    run.append()
    run.let_through(error)
    assert run.failed.get(timeout=PATIENCE_SECONDS) is error
    run.append()
    run.flusher.stop()
    assert run.durable.empty()
    assert run.store.flushed == []
    assert run.store.entered.empty()


def test_a_store_that_failed_beside_a_flush_gets_no_other(run: Run) -> None:
    run.append()
    run.store.entered.get(timeout=PATIENCE_SECONDS)
    run.store.failed = StorageFailed("gone")
    run.store.gate.put(None)
    assert run.failed.get(timeout=PATIENCE_SECONDS) is run.store.failed
    run.append()
    run.flusher.stop()
    assert run.store.flushed == [1]
    assert run.durable.empty()


def test_stop_flushes_what_is_pending(run: Run) -> None:
    run.append(3)
    run.store.gate.put(None)
    run.flusher.stop()
    assert run.store.flushed == [3]
    assert run.durable.get(timeout=PATIENCE_SECONDS) == 3


def test_a_journal_that_is_more_than_half_used_is_told_after_each_flush(run: Run) -> None:
    run.append()
    run.let_through()
    assert run.durable.get(timeout=PATIENCE_SECONDS) == 1
    assert run.fillings.empty()
    run.store.journal_used_ratio = 0.51
    for _ in range(2):
        run.append()
        run.let_through()
        run.fillings.get(timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize("is_beside", [False, True])
def test_the_next_flush_keeps_a_distance_from_one_of_calls_and_from_no_other(
    is_beside: bool,
) -> None:
    slept = [0.0]
    run = Run(FlushPace(now=lambda: sum(slept), used=lambda: 0.0, sleep=slept.append))
    run.append(3, is_beside=is_beside)
    run.flusher.start()
    run.let_through()
    assert run.durable.get(timeout=PATIENCE_SECONDS) == 3
    run.append()
    run.let_through()
    assert run.durable.get(timeout=PATIENCE_SECONDS) == 4
    run.flusher.stop()
    assert bool(slept[1:]) is not is_beside


class LonePace(FlushPace):
    """Every caller is alone."""

    is_alone = True  # type: ignore[assignment]


@pytest.fixture
def lone() -> Iterator[Run]:
    run = Run(LonePace(used=lambda: 0.0))
    run.flusher.start()
    poll(lambda: run.flusher._is_waiting, PATIENCE_SECONDS)
    yield run
    for _ in range(10):
        run.store.gate.put(None)
    run.flusher.stop()


def test_the_commit_of_a_caller_who_is_alone_is_flushed_by_whoever_appends_it(lone: Run) -> None:
    for ticket in (1, 2, 3):
        lone.store.gate.put(None)
        assert lone.append() == ticket
    assert lone.store.flushed == [1, 2, 3]
    assert lone.durable.empty(), "who is told has been told"


def test_commits_that_come_together_are_the_threads(lone: Run) -> None:
    assert lone.append(2) is None
    assert lone.let_through() == 2
    assert lone.durable.get(timeout=PATIENCE_SECONDS) == 2


def test_while_the_thread_flushes_nobody_else_does(lone: Run) -> None:
    assert lone.append(2) is None
    lone.store.entered.get(timeout=PATIENCE_SECONDS)
    assert lone.append() is None
    lone.store.gate.put(None)
    assert lone.durable.get(timeout=PATIENCE_SECONDS) == 2
    assert lone.let_through() == 3
    assert lone.durable.get(timeout=PATIENCE_SECONDS) == 3


def test_while_it_is_the_threads_turn_nobody_else_flushes(lone: Run) -> None:
    with lone.flusher._turn:
        assert lone.append() is None
    assert lone.let_through() == 1
    assert lone.durable.get(timeout=PATIENCE_SECONDS) == 1


def test_a_journal_that_fills_is_the_threads_to_tell(lone: Run) -> None:
    lone.store.journal_used_ratio = 0.51
    assert lone.append() is None
    lone.let_through()
    lone.fillings.get(timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize("fails_beside", [False, True])
def test_a_flush_that_fails_where_it_was_appended_is_the_last(
    lone: Run, fails_beside: bool
) -> None:
    error = StorageFailed("gone")
    if fails_beside:
        lone.store.failed = error
    lone.store.gate.put(None if fails_beside else error)
    assert lone.append() is None
    assert lone.failed.get_nowait() is error
    lone.store.gate.put(None)
    assert lone.append() is None
    lone.flusher.stop()
    assert lone.store.entered.qsize() == 1
    assert lone.durable.empty()


class WaitingPace(FlushPace):
    """A flush waits for three commits, however long that takes."""

    has_all = False  # type: ignore[assignment]

    def note_round(self, commits: int) -> None:
        self.has_all = commits >= 3  # type: ignore[misc]

    def wait(self) -> None:
        while not self.has_all:
            self._sleep(10 * PATIENCE_SECONDS)


class WaitingFlusher(Flusher):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._pace = WaitingPace(sleep=self._gather)


def test_the_last_commit_that_is_expected_ends_the_wait_for_it() -> None:
    run = Run(make=WaitingFlusher)
    run.flusher.start()
    run.append()
    poll(lambda: run.flusher._is_gathering, PATIENCE_SECONDS)
    run.append()
    run.append()
    assert run.let_through() == 3
    assert run.durable.get(timeout=PATIENCE_SECONDS) == 3
    run.flusher.stop()


def test_what_is_appended_beside_does_not_say_that_commits_keep_coming() -> None:
    rounds: list[int] = []

    class NotedPace(FlushPace):
        def note_round(self, commits: int) -> None:
            rounds.append(commits)

    run = Run(NotedPace(used=lambda: 0.0))
    run.append(7, is_beside=True)
    run.append(2)
    assert rounds == [0, 2]


class LateFlusher(Flusher):
    """Something is appended right behind the look that found nothing, before anybody waits."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.is_late = False
        self._count = 0
        super().__init__(*arguments, **named)

    @property
    def appended(self) -> int:
        seen = self._count
        if self.is_late and threading.current_thread().name == "flush":
            self.is_late = False
            self._count += 1
            self.kick()
        return seen

    @appended.setter
    def appended(self, count: int) -> None:
        self._count = count


def test_what_is_appended_while_the_thread_begins_to_wait_is_flushed() -> None:
    run = Run(make=LateFlusher)
    assert isinstance(run.flusher, LateFlusher)
    run.flusher.is_late = True
    run.flusher.start()
    run.let_through()
    assert run.durable.get(timeout=PATIENCE_SECONDS) == 1
    run.flusher.stop()


def test_stop_before_start_does_nothing() -> None:
    run = Run()
    run.flusher.stop()
    assert run.durable.empty()
    assert run.store.entered.empty()


def test_what_the_disk_did_is_told_as_the_disks() -> None:
    failed = StorageFailed("gone")
    assert as_storage_failed(failed) is failed
    failed.__cause__ = OSError(5, "EIO")
    assert as_storage_failed(failed) is failed
    told = as_storage_failed(OSError(5, "EIO"))
    assert "EIO" in str(told)
    assert not isinstance(told, FlushDefect)


def test_a_defect_of_ours_is_no_failure_of_the_disk_but_ends_as_much() -> None:
    mistake = ZeroDivisionError("our own mistake")
    latched = StorageFailed("storage failed: ...")  # What a store says after a defect of its own.
    latched.__cause__ = mistake
    again = StorageFailed("storage failed: ...")
    again.__cause__ = latched
    for raised in (mistake, latched, again):
        told = as_storage_failed(raised)
        assert isinstance(told, FlushDefect)
        assert isinstance(told, StorageFailed), "whoever waits for the disk is refused all the same"
        assert str(told) == "ZeroDivisionError: our own mistake"
        assert told.__cause__ is mistake
        assert as_storage_failed(told) is told
