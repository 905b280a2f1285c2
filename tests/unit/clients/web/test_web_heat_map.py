"""The map of the log, and the texts of the cluster's page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import attrs
import pytest
from offsetd_clients.admin_values import CleaningRound, CleaningState, LogCleaning, LogPartition
from offsetd_clients.web.pages.cluster import ranges_text
from offsetd_clients.web.pages.heat_map import MEASURES, heat_map
from offsetd_clients.web.pages.log import RoundShown

CLEANING = LogCleaning(
    state=CleaningState.IDLE,
    first_dirty_offset=0,
    first_uncleanable_offset=0,
    last_stable_offset=0,
    clean_bytes=0,
    cleanable_bytes=0,
    dirty_ratio=0.0,
    oldest_dirty_age=None,
    overdue=None,
    delete_horizon_time=None,
    uncleanable=None,
    last_round=None,
)
PLAIN = LogPartition(
    partition=0,
    log_start_offset=0,
    log_end_offset=0,
    recovery_point=0,
    size_bytes=0,
    segments=(),
    quarantine_reason="",
    cleaning=CLEANING,
    blocked_retention=None,
)
ROUND = CleaningRound(
    start_time=datetime(2026, 11, 28, tzinfo=UTC),
    duration=timedelta(seconds=2),
    first_dirty_offset=0,
    end_offset=9,
    bytes_before=10_000_000,
    bytes_after=1_000_000,
    records_before=9,
    records_after=1,
    segments_before=2,
    segments_after=1,
    map_utilization=0.1,
    is_partial=False,
)


def levels(by: str, *partitions: LogPartition) -> list[str]:
    return [each.level for each in heat_map(partitions, by)]


def test_size_and_age_are_relative_to_the_most_and_the_ratio_is_not() -> None:
    sized = [attrs.evolve(PLAIN, size_bytes=size) for size in (0, 20, 50, 100)]
    assert levels("size", *sized) == ["0", "1", "2", "5"]
    ratios = [
        attrs.evolve(PLAIN, cleaning=attrs.evolve(CLEANING, dirty_ratio=ratio))
        for ratio in (0.0, 0.4, 1.0)
    ]
    assert levels("dirty", *ratios) == ["0", "2", "5"]
    ages = [
        attrs.evolve(PLAIN, cleaning=attrs.evolve(CLEANING, oldest_dirty_age=age))
        for age in (None, timedelta(seconds=1), timedelta(hours=1))
    ]
    assert levels("age", *ages) == ["none", "0", "5"]


@pytest.mark.parametrize("by", MEASURES)
def test_what_is_not_known_and_what_is_damaged_have_marks_of_their_own(by: str) -> None:
    damaged = attrs.evolve(PLAIN, size_bytes=10**9, quarantine_reason="a bad sum")
    other = attrs.evolve(PLAIN, cleaning=None)
    found = heat_map([damaged, other], by)
    assert (found[0].level, found[0].told) == ("bad", "quarantined")
    assert found[1].level == ("0" if by == "size" else "none")
    assert heat_map([], by) == []


def test_a_round_is_told_with_its_rate_and_what_it_saved() -> None:
    cleaned = attrs.evolve(PLAIN, cleaning=attrs.evolve(CLEANING, last_round=ROUND))
    shown = RoundShown.of(cleaned)
    assert shown is not None
    assert (shown.rate_bytes, shown.saved) == (5_000_000, 0.9)
    at_once = attrs.evolve(ROUND, duration=timedelta(0), bytes_before=0)
    cleaned = attrs.evolve(PLAIN, cleaning=attrs.evolve(CLEANING, last_round=at_once))
    shown = RoundShown.of(cleaned)
    assert shown is not None
    assert (shown.rate_bytes, shown.saved) == (None, None)
    assert RoundShown.of(PLAIN) is None
    assert RoundShown.of(attrs.evolve(PLAIN, cleaning=None)) is None


def test_numbers_are_told_as_ranges() -> None:
    assert ranges_text([]) == ""
    assert ranges_text([3]) == "3"
    assert ranges_text([9, 0, 1, 2, 5, 6]) == "0\N{EN DASH}2, 5\N{EN DASH}6, 9"
