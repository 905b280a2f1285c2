"""Sleeping until another thread wakes."""

from __future__ import annotations

import threading
import time

import pytest
from offsetd_coordinator.runtime.flusher import WakeUp
from patience import PATIENCE_SECONDS

# In CPython 3.11 a queue may never return from a timeout that is over before it has looked twice.
MOMENT_SECONDS = 1.8e-7


def ends(thread: threading.Thread) -> bool:
    thread.join(PATIENCE_SECONDS)
    return not thread.is_alive()


def test_who_sleeps_is_woken() -> None:
    wake_up = WakeUp()
    asleep = threading.Thread(target=wake_up.sleep, daemon=True)
    asleep.start()
    time.sleep(0.02)
    assert asleep.is_alive()
    wake_up.wake()
    assert ends(asleep)


def test_wake_ups_before_a_sleep_end_that_one_and_no_other() -> None:
    wake_up = WakeUp()
    wake_up.wake()
    wake_up.wake()
    first = threading.Thread(target=wake_up.sleep, daemon=True)
    first.start()
    assert ends(first)
    begun = time.monotonic()
    wake_up.sleep(0.05)
    assert time.monotonic() - begun >= 0.05


@pytest.mark.parametrize("is_woken_between", [False, True])
def test_a_sleep_of_a_moment_ends(*, is_woken_between: bool) -> None:
    wake_up = WakeUp()

    def sleep_often() -> None:
        for _ in range(20_000):
            if is_woken_between:
                wake_up.wake()
                wake_up.sleep()
            wake_up.sleep(MOMENT_SECONDS)

    sleeper = threading.Thread(target=sleep_often, daemon=True)
    sleeper.start()
    assert ends(sleeper)


def test_a_sleep_until_a_time_that_is_over_ends_at_once() -> None:
    sleeper = threading.Thread(target=WakeUp().sleep, args=(-1,), daemon=True)
    sleeper.start()
    assert ends(sleeper)
