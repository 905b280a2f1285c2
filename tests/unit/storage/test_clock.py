"""The time of a server beside a wall clock that is set."""

from __future__ import annotations

import random

import pytest
from offsetd_storage.clock import SteadyClock
from set_clocks import SetClock

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
YEAR_MS = 365 * DAY_MS


def test_it_says_what_a_wall_clock_says_that_nobody_sets() -> None:
    clock = SetClock()
    steady = SteadyClock(clock)
    for passed_ms in (0, 1, 999, 1000, 1001, DAY_MS, YEAR_MS):
        clock.advance(passed_ms)
        assert steady.now_ms() == steady.age_now_ms() == steady.wall_ms() == clock.now_ms()


@pytest.mark.parametrize("set_ms", [YEAR_MS, HOUR_MS, -HOUR_MS, -YEAR_MS])
def test_a_step_of_the_wall_clock_changes_nothing_at_once(set_ms: int) -> None:
    clock = SetClock()
    steady = SteadyClock(clock)
    before_ms = steady.now_ms()
    clock.set_by(set_ms)
    assert steady.now_ms() == before_ms
    clock.advance(HOUR_MS)
    assert before_ms + HOUR_MS // 2 <= steady.now_ms() <= before_ms + HOUR_MS * 3 // 2


@pytest.mark.parametrize("set_ms", [30_000, HOUR_MS, -HOUR_MS])
def test_it_reaches_the_wall_clock_in_twice_the_step(set_ms: int) -> None:
    clock = SetClock()
    steady = SteadyClock(clock)
    clock.set_by(set_ms)
    for _ in range(2 * abs(set_ms) // 1000 + 10):
        clock.advance(1000)
        steady.now_ms()
    assert abs(steady.now_ms() - clock.now_ms()) < 10


def test_a_step_that_is_taken_back_leaves_no_trace() -> None:
    clock = SetClock()
    steady = SteadyClock(clock)
    clock.set_by(YEAR_MS)
    clock.advance(10_000)
    steady.now_ms()
    clock.set_by(-YEAR_MS)
    for _ in range(20):
        clock.advance(1000)
        steady.now_ms()
    assert abs(steady.now_ms() - clock.now_ms()) < 10


def test_it_never_goes_back_whatever_is_set() -> None:
    drawn = random.Random(7)
    clock = SetClock()
    steady = SteadyClock(clock)
    last_ms, monotonic_ms = steady.now_ms(), clock.monotonic_ms()
    for _ in range(20_000):
        if drawn.random() < 0.05:
            clock.set_by(drawn.randint(-DAY_MS, DAY_MS) // 10 ** drawn.randint(0, 8))
        clock.advance(drawn.choice((0, 1, 17, 400, 1000, 5000)))
        now_ms = steady.now_ms()
        passed_ms = clock.monotonic_ms() - monotonic_ms
        assert last_ms <= now_ms
        assert now_ms - last_ms <= passed_ms + (passed_ms + 1000) // 2
        assert steady.age_now_ms() <= min(now_ms, clock.now_ms())
        last_ms, monotonic_ms = now_ms, clock.monotonic_ms()


def test_it_goes_on_from_what_is_recorded() -> None:
    clock = SetClock()
    steady = SteadyClock(clock)
    recorded_ms = clock.now_ms() + YEAR_MS
    steady.begin_at(recorded_ms)
    assert steady.now_ms() == recorded_ms
    assert steady.age_now_ms() == clock.now_ms(), "one of the two is wrong: the earlier one counts"
    clock.advance(HOUR_MS)
    assert recorded_ms < steady.now_ms() <= recorded_ms + HOUR_MS
    steady.begin_at(recorded_ms - YEAR_MS)
    assert steady.now_ms() > recorded_ms
