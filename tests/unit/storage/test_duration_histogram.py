"""Buckets of durations."""

from __future__ import annotations

import pytest
from offsetd_storage.duration_histogram import BOUNDS_SECONDS, Durations


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [
        (0.0, 0),
        (BOUNDS_SECONDS[0], 0),
        (BOUNDS_SECONDS[0] * 1.01, 1),
        (0.003, 5),
        (BOUNDS_SECONDS[-1], len(BOUNDS_SECONDS) - 1),
        (BOUNDS_SECONDS[-1] + 1, len(BOUNDS_SECONDS)),
    ],
)
def test_a_duration_is_counted_under_the_first_bound_that_is_not_below_it(
    seconds: float, bucket: int
) -> None:
    durations = Durations()
    durations.note(seconds)
    assert [place for place, count in enumerate(durations.counts) if count] == [bucket]
    assert durations.total_seconds == seconds


def test_the_bounds_grow() -> None:
    assert list(BOUNDS_SECONDS) == sorted(set(BOUNDS_SECONDS))


def test_durations_add_up() -> None:
    durations = Durations()
    for _ in range(3):
        durations.note(0.5)
    assert (sum(durations.counts), durations.total_seconds) == (3, 1.5)
