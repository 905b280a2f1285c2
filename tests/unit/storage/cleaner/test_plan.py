"""Which log is cleaned next, where its dirty range lies, and which segments become one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest
from offsetd_storage.cleaner.cleaning_plan import (
    LogSummary,
    LogToClean,
    SegmentSummary,
    first_dirty_offset,
    first_uncleanable_offset,
    group_segments,
    is_worth_rewriting,
    log_to_clean,
    select,
)
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

P0 = TopicPartition("t", 0)
NOW_MS = 1_000_000
INT32_MAX = 2**31 - 1
CONFIG = LogConfig(dirty_ratio_min=0.5)


def segment(base_offset: int, **fields: Any) -> SegmentSummary:
    """100 bytes, with batches of 1000 ms."""
    fields = {"first_timestamp_ms": 1000, "largest_timestamp_ms": 1000, **fields}
    fields = {"size_bytes": 100, "index_bytes": 8, "time_index_bytes": 12, **fields}
    return SegmentSummary(base_offset=base_offset, **fields)


def log_of(*segments: int | SegmentSummary, **fields: Any) -> LogSummary:
    """A log, durable to its end, that was never cleaned. The last segment is active."""
    summaries = [each if isinstance(each, SegmentSummary) else segment(each) for each in segments]
    end = summaries[-1].base_offset + 10
    fields = {"checkpoint": None, "log_start_offset": summaries[0].base_offset, **fields}
    fields = {"last_stable_offset": end, "recovery_point": end, **fields}
    fields.setdefault("recovery_segment_base_offset", summaries[-1].base_offset)
    return LogSummary(topic_partition=P0, segments=summaries, **fields)


# First dirty


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (log_of(0, 10, 20), (0, False)),
        (log_of(10, 20, log_start_offset=15), (15, False)),
        (log_of(0, 10, 20, checkpoint=15), (15, False)),
        (log_of(0, 10, 20, checkpoint=0), (0, False)),
        (log_of(0, 10, 20, checkpoint=30), (30, False)),
        (log_of(0, 10, 20, checkpoint=31), (0, True)),  # Above the end.
        (log_of(0, 10, 20, checkpoint=25, recovery_point=24), (0, True)),  # Above R.
        (log_of(0, 10, 20, checkpoint=24, recovery_point=24), (24, False)),
        (log_of(10, 20, checkpoint=9), (10, True)),  # Below the start.
        (log_of(10, 20, checkpoint=14, log_start_offset=15), (15, True)),
    ],
)
def test_the_checkpoint_says_where_a_log_is_dirty_unless_it_cannot(
    log: LogSummary, expected: tuple[int, bool]
) -> None:
    assert first_dirty_offset(log) == expected


# First uncleanable


@pytest.mark.parametrize(
    ("log", "first_dirty", "expected"),
    [
        (log_of(0, 10, 20), 0, 20),  # The active segment.
        (log_of(0), 0, 0),
        (log_of(0, 10, 20, last_stable_offset=10), 0, 10),
        (log_of(0, 10, 20, last_stable_offset=19), 0, 10),  # A segment half in is out.
        (log_of(0, 10, 20, last_stable_offset=5), 0, 0),
        (log_of(0, 10, 20, last_stable_offset=5), 10, 10),
        (log_of(0, 10, 20, last_stable_offset=5), 12, 10),  # Below first dirty: nothing is.
        (log_of(0, 10, 20, recovery_point=15, recovery_segment_base_offset=10), 0, 10),
        (log_of(0, 10, 20, recovery_point=10, recovery_segment_base_offset=0), 0, 0),
        (log_of(0, 10, 20, recovery_point=20, recovery_segment_base_offset=10), 0, 10),
        (log_of(0, 10, 20, recovery_point=20, recovery_segment_base_offset=10), 15, 10),
    ],
)
def test_nothing_is_cleaned_from_the_stable_end_the_active_segment_or_the_recovery_points_on(
    log: LogSummary, first_dirty: int, expected: int
) -> None:
    assert (
        first_uncleanable_offset(log, first_dirty=first_dirty, lag_ms_min=0, now_ms=NOW_MS)
        == expected
    )


@pytest.mark.parametrize(
    ("timestamps", "first_dirty", "lag_ms", "expected"),
    [
        ((10, 20, 30, 40), 0, 0, 30),
        ((NOW_MS, NOW_MS, NOW_MS, 0), 0, 0, 30),  # No lag: the clock does not matter.
        ((NOW_MS + 1, 0, 0, 0), 0, 0, 30),
        ((0, NOW_MS - 100, 0, 0), 0, 100, 30),  # As old as that: it is cleaned.
        ((0, NOW_MS - 99, 0, 0), 0, 100, 10),
        ((0, NOW_MS - 99, NOW_MS, 0), 0, 100, 10),  # Only the first one counts.
        ((NOW_MS, 0, 0, 0), 10, 100, 30),  # What is clean is not asked.
        ((NOW_MS, 0, 0, 0), 5, 100, 0),  # Where it is half clean, it is.
        ((0, 0, 0, NOW_MS), 0, 100, 30),  # Nor is the active one.
    ],
)
def test_the_first_young_dirty_segment_is_not_cleaned(
    timestamps: Sequence[int], first_dirty: int, lag_ms: int, expected: int
) -> None:
    segments = [
        segment(10 * place, largest_timestamp_ms=each) for place, each in enumerate(timestamps)
    ]
    assert (
        first_uncleanable_offset(
            log_of(*segments), first_dirty=first_dirty, lag_ms_min=lag_ms, now_ms=NOW_MS
        )
        == expected
    )


# What there is to clean


@pytest.mark.parametrize(
    ("log", "clean_bytes", "cleanable_bytes"),
    [
        (log_of(0, 10, 20, 30), 0, 300),
        (log_of(0, 10, 20, 30, checkpoint=10), 100, 200),
        (log_of(0, 10, 20, 30, checkpoint=15), 200, 200),  # Kafka counts that one in both.
        (log_of(0, 10, 20, 30, checkpoint=30), 300, 0),
        (log_of(0, 10, 20, 30, checkpoint=12, last_stable_offset=12), 200, 0),
        (log_of(0), 0, 0),
    ],
)
def test_the_ratio_is_of_bytes_that_were_not_cleaned_yet(
    log: LogSummary, clean_bytes: int, cleanable_bytes: int
) -> None:
    found = log_to_clean(log, CONFIG, now_ms=NOW_MS)
    assert (found.clean_bytes, found.cleanable_bytes) == (clean_bytes, cleanable_bytes)
    total_bytes = clean_bytes + cleanable_bytes
    assert found.cleanable_ratio == (cleanable_bytes / total_bytes if total_bytes else 0)


@pytest.mark.parametrize(
    ("checkpoint", "ratio_min", "is_due"),
    [
        (20, 0.5, False),  # Half of it is dirty, and that is not more than half.
        (20, 0.499, True),
        (None, 0.5, True),
        (None, 1.0, False),
        (40, 0.0, False),  # Nothing is dirty.
        (30, 0.0, True),
    ],
)
def test_a_log_is_due_when_more_than_the_ratio_is_dirty(
    checkpoint: int | None, ratio_min: float, is_due: bool
) -> None:
    log = log_of(0, 10, 20, 30, 40, checkpoint=checkpoint)
    config = attrs.evolve(CONFIG, dirty_ratio_min=ratio_min)
    found = log_to_clean(log, config, now_ms=NOW_MS)
    assert found.is_due == is_due
    assert (select([found]) is None) != is_due


@pytest.mark.parametrize(
    ("first_timestamps", "checkpoint", "overdue_ms"),
    [
        ((1000, 2000, 3000), None, NOW_MS - 500 - 1000),
        ((1000, 2000, 3000), 10, NOW_MS - 500 - 2000),
        ((1000, 2000, 3000), 15, NOW_MS - 500 - 2000),
        ((1000, 2000, 3000), 20, 0),  # The active one does not count.
        ((NOW_MS - 500, NOW_MS, NOW_MS), None, 0),
        ((NOW_MS - 501, NOW_MS, NOW_MS), None, 1),
        ((-1, NOW_MS - 502, 0), None, 2),  # Without a timestamp it is of no age.
        ((0, NOW_MS - 502, 0), None, 2),
    ],
)
def test_a_log_is_overdue_by_the_first_batch_of_its_dirty_segments(
    first_timestamps: Sequence[int], checkpoint: int | None, overdue_ms: int
) -> None:
    segments = [
        segment(10 * place, first_timestamp_ms=each) for place, each in enumerate(first_timestamps)
    ]
    config = LogConfig(compaction_lag_ms_max=500, dirty_ratio_min=1.0)
    found = log_to_clean(log_of(*segments, checkpoint=checkpoint), config, now_ms=NOW_MS)
    assert found.overdue_ms == overdue_ms
    assert found.is_due == (overdue_ms > 0)


def test_a_log_that_is_overdue_without_anything_cleanable_is_not_due() -> None:
    config = LogConfig(compaction_lag_ms_max=1)
    log = log_of(0, 10, last_stable_offset=5)
    found = log_to_clean(log, config, now_ms=NOW_MS)
    assert found.overdue_ms > 0
    assert not found.is_due


@pytest.mark.parametrize(
    ("horizon_ms", "is_due"), [(None, False), (NOW_MS, True), (NOW_MS + 1, False), (5, True)]
)
def test_a_clean_log_is_due_when_the_horizon_of_a_tombstone_has_come(
    horizon_ms: int | None, is_due: bool
) -> None:
    log = log_of(0, 10, checkpoint=10, delete_horizon_ms=horizon_ms)
    found = log_to_clean(log, CONFIG, now_ms=NOW_MS)
    assert (found.is_due, found.cleanable_bytes) == (is_due, 0)


def test_a_horizon_where_nothing_may_be_cleaned_is_not_due() -> None:
    log = log_of(0, checkpoint=0, delete_horizon_ms=5)
    assert not log_to_clean(log, CONFIG, now_ms=NOW_MS).is_due


def candidate(partition: int, **fields: Any) -> LogToClean:
    fields = {
        "clean_bytes": 100,
        "cleanable_bytes": 0,
        "overdue_ms": 0,
        "is_dirty": False,
        **fields,
    }
    return LogToClean(
        topic_partition=TopicPartition("t", partition),
        first_dirty=0,
        checkpoint_was_reset=False,
        first_uncleanable=10,
        **{"horizon_is_due": False, **fields},
    )


CLEAN = candidate(0)
DIRTY = candidate(1, cleanable_bytes=200, is_dirty=True)
DIRTIEST = candidate(2, cleanable_bytes=300, is_dirty=True)
OVERDUE = candidate(3, cleanable_bytes=10, overdue_ms=1)
OVERDUE_DIRTIER = candidate(4, cleanable_bytes=20, overdue_ms=1)
HORIZON = candidate(5, cleanable_bytes=90, horizon_is_due=True)


@pytest.mark.parametrize(
    ("logs", "chosen"),
    [
        ([], None),
        ([CLEAN], None),
        ([DIRTY, DIRTIEST, CLEAN], DIRTIEST),
        ([DIRTIEST, DIRTY], DIRTIEST),
        ([DIRTIEST, OVERDUE], OVERDUE),
        ([OVERDUE, OVERDUE_DIRTIER, DIRTIEST], OVERDUE_DIRTIER),
        ([HORIZON, DIRTY], DIRTY),
        ([HORIZON, CLEAN], HORIZON),
    ],
)
def test_what_is_overdue_comes_first_then_the_dirtiest(
    logs: Sequence[LogToClean], chosen: LogToClean | None
) -> None:
    assert select(logs) == chosen


# Grouping


def groups_of(segments: Sequence[SegmentSummary], **bounds: int) -> list[list[int]]:
    bounds = {"segment_bytes_max": 1 << 30, "segment_index_bytes_max": 1 << 20, **bounds}
    bounds.setdefault("first_uncleanable", segments[-1].base_offset + 10 if segments else 0)
    groups = group_segments(segments, **bounds)
    return [[each.base_offset for each in group] for group in groups]


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({}, [[0, 10, 20, 30, 40]]),
        ({"segment_bytes_max": 200}, [[0, 10], [20, 30], [40]]),
        ({"segment_bytes_max": 299}, [[0, 10], [20, 30], [40]]),
        ({"segment_bytes_max": 300}, [[0, 10, 20], [30, 40]]),
        ({"segment_bytes_max": 99}, [[0], [10], [20], [30], [40]]),  # Larger than one may be.
        ({"segment_index_bytes_max": 24}, [[0, 10], [20, 30], [40]]),  # By the time index.
        ({"segment_index_bytes_max": 36}, [[0, 10, 20], [30, 40]]),
    ],
)
def test_neighbours_are_grouped_up_to_the_size_of_a_segment(
    bounds: dict[str, int], expected: list[list[int]]
) -> None:
    assert groups_of([segment(base) for base in (0, 10, 20, 30, 40)], **bounds) == expected


def test_the_offset_index_bounds_a_group() -> None:
    segments = [segment(base, index_bytes=80, time_index_bytes=0) for base in (0, 10, 20)]
    assert groups_of(segments, segment_index_bytes_max=160) == [[0, 10], [20]]


def test_no_segments_make_no_group() -> None:
    assert groups_of([]) == []


@pytest.mark.parametrize(
    ("bases", "first_uncleanable", "expected"),
    [
        # What a segment may hold ends before the next one begins; behind the last one, before
        # the first uncleanable offset.
        ((0, INT32_MAX), INT32_MAX + 1, [[0, INT32_MAX]]),
        ((0, INT32_MAX), INT32_MAX + 2, [[0], [INT32_MAX]]),
        ((0, 1, INT32_MAX + 1), INT32_MAX + 2, [[0, 1], [INT32_MAX + 1]]),
        ((0, 1, INT32_MAX + 2), INT32_MAX + 9, [[0], [1], [INT32_MAX + 2]]),
        ((5, 6, INT32_MAX + 6), INT32_MAX + 7, [[5, 6], [INT32_MAX + 6]]),
        # It is counted from the first segment of the group.
        (
            (0, 10, 2**30, 2**31 - 10, 2**31 + 5),
            2**31 + 6,
            [[0, 10, 2**30], [2**31 - 10, 2**31 + 5]],
        ),
    ],
)
def test_a_group_spans_no_more_offsets_than_an_index_holds(
    bases: Sequence[int], first_uncleanable: int, expected: list[list[int]]
) -> None:
    segments = [segment(base) for base in bases]
    assert groups_of(segments, first_uncleanable=first_uncleanable) == expected


def test_an_empty_segment_joins_a_group_whatever_it_spans() -> None:
    segments = [segment(0), segment(10, size_bytes=0), segment(INT32_MAX + 100)]
    assert groups_of(segments) == [[0, 10], [INT32_MAX + 100]]


@pytest.mark.parametrize(
    ("sizes", "is_changed", "expected"),
    [
        ((100,), True, True),
        ((100,), False, False),
        ((100, 100), True, True),
        ((100, 100), False, True),  # One file instead of two.
        ((100, 99), False, False),  # Most would be copied again for each small one that comes.
        ((50, 40, 10), False, True),
        ((0, 0), False, True),
        ((100, 0), False, False),
    ],
)
def test_a_group_with_nothing_to_gain_is_not_rewritten(
    sizes: Sequence[int], is_changed: bool, expected: bool
) -> None:
    group = [segment(place, size_bytes=size) for place, size in enumerate(sizes)]
    assert is_worth_rewriting(group, is_changed=is_changed) == expected
