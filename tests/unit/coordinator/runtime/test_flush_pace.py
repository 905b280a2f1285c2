"""How long flushes wait for each other, by clocks that only a sleep moves; and by which clock."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from offsetd_coordinator.runtime.flusher import FlushPace, loop_clock
from patience import PATIENCE_SECONDS
from server_process import poll

if TYPE_CHECKING:
    from collections.abc import Callable

BEGUN_SECONDS = 100.0


@attrs.define
class Load:
    """What happens while the flushing thread sleeps: commits, and processor time that is used."""

    rounds_per_ms: float = 0.0
    commits_per_round: int = 1
    used_ratio: float = 0.0
    ends_seconds: float = 1.0  # After the flush began.


class Run:
    """A pace whose last flush began at BEGUN_SECONDS."""

    def __init__(self) -> None:
        self.now = BEGUN_SECONDS
        self.used = 7.0
        self.load = Load()
        self.appended = self.begun = 0
        self.sleeps: list[float] = []
        self.pace = FlushPace(now=lambda: self.now, used=lambda: self.used, sleep=self.sleep)
        self.pace.note_begun(0)

    def flush(
        self, commits: int, *, came: int = 0, rounds: int | None = None, took_seconds: float = 0.0
    ) -> None:
        """Flushes so many commits, which came in so many rounds; one by one if not said."""
        rounds = commits if rounds is None else rounds
        self.begun = self.appended = self.begun + commits
        for _ in range(rounds):
            self.pace.note_round(self.appended)
        self.pace.note_begun(self.begun)
        self.now += took_seconds
        self.append(came)
        self.pace.note_ended(self.appended)

    def append(self, commits: int) -> None:
        """So many come, one by one."""
        for _ in range(commits):
            self.appended += 1
            self.pace.note_round(self.appended)

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        left_seconds = BEGUN_SECONDS + self.load.ends_seconds - self.now
        busy_seconds = max(0.0, min(seconds, left_seconds))
        for _ in range(round(busy_seconds * 1000 * self.load.rounds_per_ms)):
            self.appended += self.load.commits_per_round
            self.pace.note_round(self.appended)
        self.used += busy_seconds * self.load.used_ratio
        self.now += seconds

    def waited_ms(self) -> float:
        self.pace.wait()
        return round((self.now - BEGUN_SECONDS) * 1000, 6)


@pytest.mark.parametrize(
    ("commits", "rounds", "came", "waited_ms"),
    [
        pytest.param(1, 1, 0, 0.0, id="a caller who is alone"),
        pytest.param(0, 0, 0, 0.0, id="no commit"),
        pytest.param(1, 1, 1, 0.6, id="two who take turns"),
        pytest.param(3, 3, 0, 1.8, id="some"),
        pytest.param(4, 2, 0, 2.0, id="many"),
        pytest.param(500, 125, 1, 2.0, id="very many"),
        pytest.param(5, 1, 0, 0.3, id="a message of many"),
        pytest.param(501, 125, 1, 0.3, id="messages of many"),
    ],
)
def test_a_flush_keeps_a_distance_by_what_the_last_one_covered(
    commits: int, rounds: int, came: int, waited_ms: float
) -> None:
    run = Run()
    run.flush(commits, came=came, rounds=rounds)
    assert run.waited_ms() == waited_ms


def test_what_comes_later_than_the_distance_waits_no_more() -> None:
    run = Run()
    run.flush(4, came=1)
    run.now += 0.5
    assert run.waited_ms() == 500.0
    assert run.sleeps == []


def test_a_distance_counts_for_the_next_flush_alone() -> None:
    run = Run()
    run.flush(4, came=1)
    run.waited_ms()
    run.flush(1, came=0)
    run.load = Load(rounds_per_ms=3, used_ratio=1.0)
    assert run.waited_ms() == 2.0, "no more than the one before has waited"


@pytest.mark.parametrize(
    ("load", "waited_ms"),
    [
        pytest.param(Load(rounds_per_ms=2, used_ratio=1.0), 8.0, id="calls"),
        pytest.param(Load(rounds_per_ms=2, used_ratio=1.4), 8.0, id="calls, other threads too"),
        pytest.param(
            Load(rounds_per_ms=2, commits_per_round=4, used_ratio=1.0), 8.0, id="some at a time"
        ),
        pytest.param(Load(rounds_per_ms=2, used_ratio=0.5), 2.0, id="time to spare"),
        pytest.param(
            Load(rounds_per_ms=2, commits_per_round=5, used_ratio=1.0), 2.0, id="messages of many"
        ),
        pytest.param(Load(rounds_per_ms=0, used_ratio=1.0), 2.0, id="busy with something else"),
        pytest.param(
            Load(rounds_per_ms=2, used_ratio=1.0, ends_seconds=0.004), 6.0, id="all have come"
        ),
        pytest.param(
            Load(rounds_per_ms=2, used_ratio=1.0, ends_seconds=0.003), 4.0, id="idle at the look"
        ),
    ],
)
def test_flushes_get_rarer_while_calls_keep_a_busy_process_busy(
    load: Load, waited_ms: float
) -> None:
    run = Run()
    run.load = load
    run.flush(100, came=1)
    assert run.waited_ms() == waited_ms


@pytest.mark.parametrize(("more", "waited_ms"), [(0, 2.0), (3, 2.0), (4, 0.0), (9, 0.0)])
def test_as_many_are_waited_for_as_were_answered_and_came_meanwhile(
    more: int, waited_ms: float
) -> None:
    run = Run()
    run.flush(4, came=1)
    run.append(more)
    assert run.waited_ms() == waited_ms


def test_a_busy_process_flushes_as_soon_as_all_have_come() -> None:
    run = Run()
    run.load = Load(rounds_per_ms=2, used_ratio=1.0)
    run.flush(10, came=1)
    assert run.waited_ms() == 6.0, "ten more have come, as the looks at 2, 4 and 6 ms find"


def test_who_comes_no_more_is_expected_for_a_while() -> None:
    run = Run()
    run.flush(16)
    expected = []
    for _ in range(40):
        run.flush(2)
        run.append(1)
        while not run.pace.has_all:
            run.append(1)
        expected.append(run.appended - run.begun)
    assert expected[:4] == [15, 14, 13, 12]
    assert expected[-1] == 2


def alone(run: Run) -> list[bool]:
    """What is said of the next flushes, if each covers one commit."""
    said = []
    for _ in range(80):
        said.append(run.pace.is_alone)
        run.flush(1)
    return said


def test_flushes_of_one_commit_need_no_thread_but_for_one_now_and_then() -> None:
    said = alone(Run())
    assert said == [False] * 16 + [True] * 31 + [False] + [True] * 31 + [False]


@pytest.mark.parametrize(
    "flush",
    [
        pytest.param({"commits": 2}, id="two"),
        pytest.param({"commits": 1, "came": 1}, id="another came meanwhile"),
        pytest.param({"commits": 0}, id="no commit"),
        pytest.param({"commits": 1, "took_seconds": 0.0011}, id="a long one"),
    ],
)
def test_any_other_flush_is_the_threads_and_so_are_the_next(flush: dict[str, Any]) -> None:
    run = Run()
    for _ in range(20):
        run.flush(1)
    assert run.pace.is_alone
    run.flush(**flush)
    assert alone(run)[:20] == [False] * 16 + [True] * 4


def test_who_comes_after_a_pause_is_not_known_to_be_alone() -> None:
    run = Run()
    for _ in range(20):
        run.flush(1)
    run.now += 1.0
    assert run.pace.is_alone
    run.now += 0.001
    assert not run.pace.is_alone
    run.flush(1)
    assert run.pace.is_alone


def test_a_few_callers_never_wait_for_more_than_their_distance() -> None:
    run = Run()
    run.load = Load(rounds_per_ms=3, used_ratio=1.0)
    run.flush(3, came=1)
    assert run.waited_ms() == 1.8


def test_another_thread_that_is_busy_is_not_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    used = loop_clock()
    before = used()
    other = threading.Thread(target=burn, args=(0.05,))
    other.start()
    other.join()
    here = used() - before
    burn(0.05)
    assert here < 0.05 <= used() - before


def test_with_one_core_all_threads_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    used = loop_clock()
    before = used()
    other = threading.Thread(target=burn, args=(0.05,))
    other.start()
    other.join()
    assert used() - before >= 0.05


def test_a_loop_whose_thread_has_ended_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    clocks: list[Callable[[], float]] = []
    thread = threading.Thread(target=lambda: clocks.append(loop_clock()))
    thread.start()
    thread.join()
    # `join` returns a moment before the system has ended the thread.
    poll(lambda: clocks[0]() == 0.0, PATIENCE_SECONDS)


def burn(seconds: float) -> None:
    """Uses so much processor time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_a_long_flush_ends_all_waiting() -> None:
    run = Run()
    run.flush(4, came=1)
    run.now += 0.009
    run.used += 0.009
    run.pace.note_round(100)
    assert run.waited_ms() == 9.0
