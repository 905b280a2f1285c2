"""What is read and written is kept below a rate, by whoever does it."""

from __future__ import annotations

import pytest
from offsetd_storage.cleaner.throttle import Throttle
from offsetd_storage.clock import ManualClock


class Run:
    """A throttle of a thousand bytes a second, whose sleep moves the clock."""

    def __init__(self, rate: float = 1000) -> None:
        self.clock = ManualClock()
        self.slept: list[float] = []
        self.throttle = Throttle(rate, clock=self.clock, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.advance(round(seconds * 1000))

    @property
    def slept_seconds(self) -> float:
        return round(sum(self.slept), 6)


def test_what_was_taken_is_paid_for_before_more_is() -> None:
    run = Run()
    run.throttle(500)
    assert run.slept_seconds == 0
    run.throttle(2000)
    assert run.slept_seconds == 0.5
    run.throttle(1)
    assert run.slept_seconds == 2.5
    assert max(run.slept) <= 0.3


def test_idle_time_is_no_credit() -> None:
    run = Run()
    run.clock.advance(60_000)
    run.throttle(1000)
    run.throttle(1000)
    assert run.slept_seconds == 1.0


def test_small_pieces_add_up() -> None:
    run = Run(rate=1_000_000)
    for _ in range(1000):
        run.throttle(100)
    assert run.slept_seconds == pytest.approx(0.1, abs=0.005)


def test_a_rate_without_a_bound_never_sleeps() -> None:
    run = Run(rate=1.7976931348623157e308)
    for _ in range(100):
        run.throttle(1 << 30)
    assert not run.slept


def test_another_rate_forgets_what_was_taken_at_the_one_before() -> None:
    run = Run(rate=1)
    run.throttle(1000)
    run.throttle.configure(1000)
    run.throttle(1000)
    assert not run.slept
    run.throttle(1000)
    assert run.slept_seconds == 1.0


def test_a_wait_ends_when_it_should_stop() -> None:
    run = Run(rate=1)
    run.throttle(1000)
    run.throttle(1, should_stop=lambda: len(run.slept) == 3)
    assert len(run.slept) == 3
