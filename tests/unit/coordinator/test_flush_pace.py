"""How long flushes wait for each other, by clocks that only a sleep moves; and by which clock."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

import attrs
import pytest
from offsetd_coordinator.flush_pace import FlushPace, loop_clock
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
        self.appended = 0
        self.sleeps: list[float] = []
        self.pace = FlushPace(now=lambda: self.now, used=lambda: self.used, sleep=self.sleep)
        self.pace.note_begun()

    def flush(self, commits: int, *, came_more: bool, rounds: int | None = None) -> None:
        """Flushes so many commits, which came in so many rounds; one by one if not said."""
        for _ in range(commits if rounds is None else rounds):
            self.pace.note_round(0)
        self.pace.note_begun()
        self.pace.note_covered(commits, came_more=came_more)

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
    ("commits", "rounds", "came_more", "waited_ms"),
    [
        pytest.param(1, 1, False, 0.0, id="a caller who is alone"),
        pytest.param(0, 0, False, 0.0, id="no commit"),
        pytest.param(1, 1, True, 0.6, id="two who take turns"),
        pytest.param(3, 3, False, 1.8, id="some"),
        pytest.param(4, 2, False, 2.0, id="many"),
        pytest.param(500, 125, True, 2.0, id="very many"),
        pytest.param(5, 1, False, 0.3, id="a message of many"),
        pytest.param(501, 125, True, 0.3, id="messages of many"),
    ],
)
def test_a_flush_keeps_a_distance_by_what_the_last_one_covered(
    commits: int, rounds: int, came_more: bool, waited_ms: float
) -> None:
    run = Run()
    run.flush(commits, came_more=came_more, rounds=rounds)
    assert run.waited_ms() == waited_ms


def test_what_comes_later_than_the_distance_waits_no_more() -> None:
    run = Run()
    run.flush(4, came_more=True)
    run.now += 0.5
    assert run.waited_ms() == 500.0
    assert run.sleeps == []


def test_a_distance_counts_for_the_next_flush_alone() -> None:
    run = Run()
    run.flush(4, came_more=True)
    run.waited_ms()
    run.flush(1, came_more=False)
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
        pytest.param(Load(rounds_per_ms=2, used_ratio=0.7), 2.0, id="time to spare"),
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
    run.flush(4, came_more=True)
    assert run.waited_ms() == waited_ms


def test_a_few_callers_never_wait_for_more_than_their_distance() -> None:
    run = Run()
    run.load = Load(rounds_per_ms=3, used_ratio=1.0)
    run.flush(3, came_more=True)
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
    run.flush(4, came_more=True)
    run.now += 0.009
    run.used += 0.009
    run.pace.note_round(100)
    assert run.waited_ms() == 9.0
