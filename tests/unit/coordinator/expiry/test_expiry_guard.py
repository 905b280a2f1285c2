"""What holds expiry back: clocks that jump, long stops."""

from __future__ import annotations

import pytest
from offsetd_coordinator.expiry.expiry_guard import ExpiryGuard, Held, Hold, grace_at_start_ms
from offsetd_coordinator.expiry.uptime_marker import UptimeMarker

GRACE_MS = 86_400_000
NOW_MS = 1_700_000_000_000
PERIOD_MS = 600_000


def up(ago_ms: int, grace_left_ms: int = 0) -> UptimeMarker:
    return UptimeMarker(up_ms=NOW_MS - ago_ms, grace_until_ms=NOW_MS + grace_left_ms)


@pytest.mark.parametrize(
    ("newest_ago_ms", "last_up", "expected"),
    [
        # A new folder: nothing could expire.
        (None, None, 0),
        # A short stop.
        (1000, None, 0),
        (GRACE_MS, None, 0),
        (None, up(1000), 0),
        # The server was up, though nobody committed.
        (30 * GRACE_MS, up(1000), 0),
        # A long stop: what was written last tells, whichever it is.
        (GRACE_MS + 1, None, GRACE_MS),
        (None, up(GRACE_MS + 1), GRACE_MS),
        (2 * GRACE_MS, up(GRACE_MS + 1), GRACE_MS),
        # Another program wrote to it since.
        (1000, up(30 * GRACE_MS), 0),
        # A restart does not end a grace.
        (1000, up(1000, GRACE_MS - 5000), GRACE_MS - 5000),
        (1000, up(1000, -5000), 0),
        # Nor does it make it longer than any.
        (1000, up(1000, 10 * GRACE_MS), GRACE_MS),
        # The clock was set back since: nobody knows how long the stop was.
        (-60_001, None, GRACE_MS),
        (1000, up(-60_001), GRACE_MS),
        (1000, up(-60_000), 0),
    ],
)
def test_after_a_long_stop_there_is_a_grace(
    newest_ago_ms: int | None, last_up: UptimeMarker | None, expected: int
) -> None:
    newest_ms = None if newest_ago_ms is None else NOW_MS - newest_ago_ms
    found = grace_at_start_ms(
        now_ms=NOW_MS, newest_record_ms=newest_ms, last_up=last_up, grace_ms=GRACE_MS
    )
    assert found == expected


def guard(grace_left_ms: int = 0) -> ExpiryGuard:
    return ExpiryGuard(now_ms=NOW_MS, monotonic_ms=0, grace_left_ms=grace_left_ms)


@pytest.mark.parametrize(
    ("drift_ms", "is_jump"),
    [(0, False), (60_000, False), (60_001, True), (-60_000, False), (-60_001, True)],
)
def test_a_wall_clock_that_goes_another_way_than_the_monotonic_one_holds_for_a_period(
    drift_ms: int, is_jump: bool
) -> None:
    watched = guard()
    found = watched.observe(now_ms=NOW_MS + 5000 + drift_ms, monotonic_ms=5000, period_ms=PERIOD_MS)
    assert found == (drift_ms if is_jump else None)
    held = watched.held(monotonic_ms=5000, grace_ms=GRACE_MS)
    assert held == (Held(hold=Hold.CLOCK_JUMP, remaining_ms=PERIOD_MS) if is_jump else None)
    # It is told once.
    now_ms = NOW_MS + 6000 + drift_ms
    assert watched.observe(now_ms=now_ms, monotonic_ms=6000, period_ms=PERIOD_MS) is None
    last_ms = 5000 + PERIOD_MS - 1
    assert (watched.held(monotonic_ms=last_ms, grace_ms=GRACE_MS) is not None) is is_jump
    assert watched.held(monotonic_ms=last_ms + 1, grace_ms=GRACE_MS) is None


def test_after_a_low_disk_there_is_a_period_to_commit_what_was_refused() -> None:
    watched = guard()
    watched.note_disk_low(monotonic_ms=5000, period_ms=PERIOD_MS)
    watched.note_disk_low(monotonic_ms=7000, period_ms=PERIOD_MS)
    end_ms = 7000 + PERIOD_MS
    assert watched.held(monotonic_ms=8000, grace_ms=GRACE_MS, is_disk_low=True) is None
    assert watched.held(monotonic_ms=8000, grace_ms=GRACE_MS) == Held(
        hold=Hold.LOW_DISK, remaining_ms=end_ms - 8000
    )
    assert watched.held(monotonic_ms=end_ms, grace_ms=GRACE_MS) is None


def test_each_look_is_measured_from_the_one_before() -> None:
    watched = guard()
    for look in range(1, 10):
        now_ms = NOW_MS + look * 61_000
        assert watched.observe(now_ms=now_ms, monotonic_ms=look * 1000, period_ms=1) is None


def test_a_grace_ends_by_the_monotonic_clock_and_sooner_if_it_is_made_shorter() -> None:
    watched = guard(GRACE_MS)
    assert watched.held(monotonic_ms=GRACE_MS - 1, grace_ms=GRACE_MS) == Held(
        hold=Hold.LONG_STOP, remaining_ms=1
    )
    assert watched.held(monotonic_ms=GRACE_MS, grace_ms=GRACE_MS) is None
    assert watched.held(monotonic_ms=5000, grace_ms=5001) is not None
    assert watched.held(monotonic_ms=5000, grace_ms=5000) is None
