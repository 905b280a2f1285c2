"""Which segments go: a row for each rule of Kafka's retention, and where ours does better."""

from __future__ import annotations

import attrs
import pytest
from offsetd_storage.configuration.log_config import COMPACT, DELETE, LogConfig
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.retention.retention_rules import (
    NOT_YET_MS,
    Breach,
    FutureTimestamp,
    RetentionPlan,
    SegmentFigures,
    plan_retention,
    segment_figures,
)
from partition_logs import append, created

NOW_MS = 1_700_000_000_000
LIMIT_MS = 60_000
DUE, YOUNG = LIMIT_MS + 1, LIMIT_MS
LOG_START, SIZE, TIME = Breach.LOG_START_OFFSET, Breach.SIZE, Breach.TIME

BY_TIME = LogConfig(retention_ms=LIMIT_MS)
BY_SIZE = LogConfig(retention_ms=-1, retention_bytes=250)
BY_BOTH = LogConfig(retention_ms=LIMIT_MS, retention_bytes=250)
KAFKAS_AGE = attrs.evolve(BY_TIME, retention_age_from_roll=False)


@attrs.frozen
class Seg:
    """A segment by its size, and the ages of its largest timestamp and of its file."""

    size_bytes: int = 100
    age_ms: int | None = 0  # None: no record has a timestamp.
    file_age_ms: int = 0


def figures(*segments: Seg, log_end: int | None = None) -> list[SegmentFigures]:
    """Segments of ten offsets each."""
    found = [
        SegmentFigures(
            base_offset=place * 10,
            offset_next=place * 10 + 10,
            size_bytes=each.size_bytes,
            largest_timestamp_ms=-1 if each.age_ms is None else NOW_MS - each.age_ms,
            modified_ms=NOW_MS - each.file_age_ms,
        )
        for place, each in enumerate(segments)
    ]
    if segments[-1].size_bytes == 0:
        log_end = found[-1].base_offset
    if log_end is not None:
        found[-1] = attrs.evolve(found[-1], offset_next=log_end)
    return found


def planned(
    segments: list[SegmentFigures],
    config: LogConfig,
    *,
    log_start_offset: int = 0,
    high_watermark: int | None = None,
    now_ms: int = NOW_MS,
) -> RetentionPlan:
    if high_watermark is None:
        high_watermark = segments[-1].offset_next
    return plan_retention(
        segments,
        config,
        log_start_offset=log_start_offset,
        high_watermark=high_watermark,
        now_ms=now_ms,
    )


def breaches(plan: RetentionPlan) -> list[Breach]:
    return [each.breach for each in plan.deletions]


OLD = Seg(age_ms=DUE, file_age_ms=DUE)
NEW = Seg()


@pytest.mark.parametrize(
    ("config", "segments", "expected"),
    [
        # By time: strictly older, from the oldest up to the first that is not.
        (BY_TIME, [OLD, OLD, NEW], [TIME, TIME]),
        (BY_TIME, [Seg(age_ms=YOUNG), NEW], []),
        (BY_TIME, [Seg(age_ms=DUE), NEW], [TIME]),
        (BY_TIME, [NEW, OLD, NEW], []),
        (BY_TIME, [OLD, NEW, OLD, NEW], [TIME]),
        (LogConfig(retention_ms=-1), [OLD, NEW], []),
        (LogConfig(retention_ms=0), [Seg(age_ms=1), Seg(age_ms=0)], [TIME]),
        # Where no record has a timestamp, the file's time counts.
        (BY_TIME, [Seg(age_ms=None, file_age_ms=DUE), NEW], [TIME]),
        (BY_TIME, [Seg(age_ms=None, file_age_ms=YOUNG), NEW], []),
        # Timestamp 0 is one.
        (BY_TIME, [Seg(age_ms=NOW_MS), NEW], [TIME]),
        # The active segment goes, unless it is empty.
        (BY_TIME, [OLD, OLD], [TIME, TIME]),
        (BY_TIME, [OLD, Seg(size_bytes=0, age_ms=None, file_age_ms=DUE)], [TIME]),
        (BY_TIME, [Seg(size_bytes=0, age_ms=None, file_age_ms=DUE)], []),
        # An empty segment that is not the active one goes by its file's time.
        (BY_TIME, [Seg(size_bytes=0, age_ms=None, file_age_ms=DUE), NEW], [TIME]),
        # By size: as long as no less than the limit stays.
        (BY_SIZE, [NEW] * 3, []),  # 300 bytes, without the first 200.
        (BY_SIZE, [NEW] * 4, [SIZE]),
        (BY_SIZE, [Seg(size_bytes=50), NEW, NEW, NEW], [SIZE]),
        (BY_SIZE, [Seg(size_bytes=50), NEW, NEW], []),  # 250 bytes: the limit.
        (BY_SIZE, [Seg(size_bytes=50), NEW, Seg(size_bytes=101)], []),  # 1 byte too many.
        (BY_SIZE, [Seg(size_bytes=1), NEW, NEW, Seg(size_bytes=50)], [SIZE]),
        (BY_SIZE, [Seg(size_bytes=200), Seg(size_bytes=10), NEW, NEW], []),
        (LogConfig(retention_ms=-1, retention_bytes=0), [NEW, NEW], [SIZE, SIZE]),
        (LogConfig(retention_ms=-1, retention_bytes=-1), [NEW] * 9, []),
        (LogConfig(retention_ms=-1, retention_bytes=-7), [NEW] * 9, []),
        # First by size, then by time.
        (BY_BOTH, [OLD, OLD, NEW, NEW, NEW], [SIZE, SIZE]),
        (BY_BOTH, [OLD, OLD, OLD, NEW, Seg(size_bytes=80)], [SIZE, SIZE, TIME]),
        (BY_BOTH, [NEW, OLD, NEW, Seg(size_bytes=60)], [SIZE, TIME]),
    ],
)
def test_segments_go_by_size_and_by_time(
    config: LogConfig, segments: list[Seg], expected: list[Breach]
) -> None:
    plan = planned(figures(*segments), config)
    assert breaches(plan) == expected
    assert plan.log_start_offset == len(expected) * 10
    assert plan.freed_bytes == sum(each.size_bytes for each in segments[: len(expected)])
    assert plan.rolls_active == (len(expected) == len(segments))


@pytest.mark.parametrize(
    ("config", "log_start_offset", "expected"),
    [
        (LogConfig(retention_ms=-1), 9, []),
        (LogConfig(retention_ms=-1), 10, [LOG_START]),
        (LogConfig(retention_ms=-1), 25, [LOG_START, LOG_START]),
        (LogConfig(retention_ms=-1), 40, [LOG_START] * 3),  # Never the active segment.
        # What it takes no longer counts for the size; it goes before size and time.
        (BY_SIZE, 10, [LOG_START]),
        (BY_BOTH, 10, [LOG_START, TIME]),
        # Without the policy `delete` it is all there is.
        (LogConfig(cleanup_policy=COMPACT, retention_ms=0, retention_bytes=0), 10, [LOG_START]),
        (LogConfig(cleanup_policy=frozenset(), retention_ms=0, retention_bytes=0), 0, []),
        (attrs.evolve(BY_BOTH, cleanup_policy=COMPACT | DELETE), 10, [LOG_START, TIME]),
    ],
)
def test_what_lies_below_the_logs_start_goes_first(
    config: LogConfig, log_start_offset: int, expected: list[Breach]
) -> None:
    segments = figures(NEW, OLD, NEW, NEW)
    plan = planned(segments, config, log_start_offset=log_start_offset)
    assert breaches(plan) == expected
    assert plan.log_start_offset == max(log_start_offset, len(expected) * 10)
    assert not plan.rolls_active


@pytest.mark.parametrize(
    ("high_watermark", "config", "log_start_offset", "expected"),
    [
        (30, BY_TIME, 0, [TIME] * 3),
        (29, BY_TIME, 0, [TIME] * 2),
        (19, BY_TIME, 0, [TIME]),
        (9, BY_TIME, 0, []),
        (19, LogConfig(retention_ms=-1), 20, [LOG_START]),
        (10, LogConfig(retention_ms=-1, retention_bytes=0), 0, [SIZE]),
    ],
)
def test_nothing_above_the_high_watermark_goes(
    high_watermark: int, config: LogConfig, log_start_offset: int, expected: list[Breach]
) -> None:
    plan = planned(
        figures(OLD, OLD, OLD),
        config,
        log_start_offset=log_start_offset,
        high_watermark=high_watermark,
    )
    assert breaches(plan) == expected


def test_the_log_starts_at_its_end_when_all_goes() -> None:
    plan = planned(figures(OLD, OLD, log_end=17), BY_TIME)
    assert plan.log_start_offset == 17
    assert plan.rolls_active


def test_the_log_start_inside_a_segment_stays_where_it_is() -> None:
    assert planned(figures(NEW, NEW), BY_TIME, log_start_offset=5).log_start_offset == 5


# A timestamp in the future.

FUTURE = -(10**10)


@pytest.mark.parametrize(
    ("segments", "by_kafka", "by_us"),
    [
        # One at the head blocks all behind it; for us it is as old as its file.
        ([Seg(age_ms=FUTURE, file_age_ms=DUE), OLD, NEW], 0, 2),
        ([Seg(age_ms=FUTURE, file_age_ms=YOUNG), OLD, NEW], 0, 0),
        ([OLD, Seg(age_ms=FUTURE, file_age_ms=DUE), OLD, NEW], 1, 3),
        # A file that was written again later does not make its records younger.
        ([Seg(age_ms=DUE, file_age_ms=0), NEW], 1, 1),
        # The active segment still takes appends: it has to roll first, by the clock.
        ([OLD, Seg(age_ms=FUTURE, file_age_ms=DUE)], 1, 1),
    ],
)
def test_age_counts_from_the_last_write_at_the_latest(
    segments: list[Seg], by_kafka: int, by_us: int
) -> None:
    assert len(planned(figures(*segments), KAFKAS_AGE).deletions) == by_kafka
    assert len(planned(figures(*segments), BY_TIME).deletions) == by_us


@pytest.mark.parametrize(
    ("config", "segments", "held"),
    [
        (KAFKAS_AGE, [Seg(age_ms=FUTURE, file_age_ms=DUE), OLD, NEW], 2),
        (KAFKAS_AGE, [Seg(age_ms=FUTURE), OLD, OLD, NEW], 2),
        (KAFKAS_AGE, [OLD, Seg(age_ms=FUTURE), OLD, NEW], 1),
        (BY_TIME, [Seg(age_ms=FUTURE), OLD, NEW], 1),  # Until the file is old enough.
        (BY_TIME, [Seg(age_ms=FUTURE, file_age_ms=DUE)], 1),  # It was not rolled yet.
        # Nothing would go without it.
        (KAFKAS_AGE, [Seg(age_ms=FUTURE), NEW], 0),
        (KAFKAS_AGE, [Seg(age_ms=FUTURE), NEW, Seg(size_bytes=0, file_age_ms=DUE)], 0),
        # No timestamp in the future keeps the oldest.
        (KAFKAS_AGE, [NEW, OLD, Seg(age_ms=FUTURE, file_age_ms=DUE)], 0),
        (BY_TIME, [Seg(age_ms=FUTURE, file_age_ms=DUE), OLD], 0),
        # Time does not count.
        (LogConfig(retention_ms=-1), [Seg(age_ms=FUTURE, file_age_ms=DUE)], 0),
        (attrs.evolve(KAFKAS_AGE, cleanup_policy=COMPACT), [Seg(age_ms=FUTURE), OLD], 0),
    ],
)
def test_a_warning_says_that_retention_is_blocked(
    config: LogConfig, segments: list[Seg], held: int
) -> None:
    plan = planned(figures(*segments), config)
    assert (plan.blocked.held_segments if plan.blocked else 0) == held


def test_the_warning_names_the_segment_its_timestamp_and_the_end() -> None:
    segments = figures(OLD, Seg(age_ms=-5000, file_age_ms=DUE), OLD, NEW)
    plan = planned(segments, KAFKAS_AGE)
    until_ms = NOW_MS + 5000 + LIMIT_MS + 1
    assert plan.blocked == FutureTimestamp(
        base_offset=10,
        timestamp_ms=NOW_MS + 5000,
        held_segments=2,
        held_bytes=200,
        blocked_until_ms=until_ms,
    )
    assert str(NOW_MS + 5000) in str(plan.blocked)
    assert "offset 10" in str(plan.blocked)
    before = planned(segments, KAFKAS_AGE, now_ms=until_ms - 1)
    assert len(before.deletions) == 1
    assert len(planned(segments, KAFKAS_AGE, now_ms=until_ms).deletions) == 4


def test_figures_are_those_of_the_log() -> None:
    files = SimulatedFiles()
    log = created(files, config=LogConfig(segment_bytes_max=300))
    for timestamp_ms in (1000, 3000, 2000, -1):
        append(log, count=2, size_bytes=200, timestamp_ms=timestamp_ms)
    log.write()
    files.set_modified_ms(log.segments[0].path, 77)
    found = segment_figures(files, log)
    assert [(each.base_offset, each.offset_next) for each in found] == [
        (0, 2),
        (2, 4),
        (4, 6),
        (6, 8),
    ]
    assert [each.largest_timestamp_ms for each in found] == [1000, 3000, 2000, -1]
    assert [each.size_bytes for each in found] == [each.size_bytes for each in log.segments]
    assert found[0].modified_ms == 77


def test_a_segment_that_waits_to_be_written_has_no_age_by_its_file() -> None:
    files = SimulatedFiles()
    log = created(files)
    append(log, count=1, size_bytes=200, timestamp_ms=1000)
    log.write()
    files.set_modified_ms(log.segments[0].path, 77)
    append(log, count=1, size_bytes=200, timestamp_ms=2000)
    [waiting] = segment_figures(files, log)
    assert waiting.modified_ms == NOT_YET_MS
