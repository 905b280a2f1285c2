"""The plan of a cleaning round: which log, which offsets, which segments are merged. Pure.

The rules are those of Kafka's `LogCleanerManager` and `Cleaner`, and three more:

* nothing at or above the segment of the durable recovery point is cleaned: after a crash the log
  ends at that point, and the journal's batches follow it;
* a pass is due when the delete horizon of a tombstone has come, so that idle logs shrink too;
* segments that would lose nothing are left as they are (`is_worth_rewriting`).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from offsetd_storage.configuration.log_config import LogConfig
    from offsetd_storage.topic_partition import TopicPartition

_RELATIVE_OFFSET_MAX: Final = 2**31 - 1  # The largest that an index entry holds.


@attrs.frozen(kw_only=True)
class SegmentSummary:
    """The figures of a segment for the plan. Sizes are in bytes.

    `first_timestamp_ms`: the largest timestamp of its first batch, -1 for none.
    `largest_timestamp_ms`: if no batch has one, the time of the file's last write.
    """

    base_offset: int
    size_bytes: int
    index_bytes: int
    time_index_bytes: int
    first_timestamp_ms: int
    largest_timestamp_ms: int


@attrs.frozen(kw_only=True)
class LogSummary:
    """The figures of one log; the last of its `segments` is active."""

    topic_partition: TopicPartition
    segments: Sequence[SegmentSummary]
    log_start_offset: int
    # The durable recovery point, at which the log ends after a crash, and the base offset of the
    # segment that was active at that point.
    recovery_point: int
    recovery_segment_base_offset: int
    last_stable_offset: int
    checkpoint: int | None  # The first dirty offset that the last round left.
    delete_horizon_ms: int | None = None  # The earliest of its batches, if known.


@attrs.frozen(kw_only=True)
class LogToClean:
    """A log, and what there is to clean in it.

    The dirty range goes from `first_dirty` to `first_uncleanable` (exclusive), the base of a
    segment. If that is not above `first_dirty`, the range is empty.
    """

    topic_partition: TopicPartition
    first_dirty: int
    # True if the checkpoint's offset was outside the log. The round replaces the checkpoint.
    checkpoint_was_reset: bool
    first_uncleanable: int
    clean_bytes: int  # The size of the segments that begin below `first_dirty`.
    cleanable_bytes: int  # The size of the segments in the dirty range.
    overdue_ms: int  # The age of its oldest dirty batch above the bound; 0 if not above.
    is_dirty: bool  # The ratio is above the log's setting.
    horizon_is_due: bool

    @property
    def cleanable_ratio(self) -> float:
        """The dirty share of the log, 0 to 1."""
        total_bytes = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total_bytes if total_bytes else 0.0

    @property
    def is_overdue(self) -> bool:
        """Whether it must be cleaned at any ratio."""
        return self.overdue_ms > 0 and self.cleanable_bytes > 0

    @property
    def is_due(self) -> bool:
        """Whether it should be cleaned now."""
        return self.is_overdue or self.is_dirty or self.horizon_is_due


def log_to_clean(log: LogSummary, config: LogConfig, *, now_ms: int) -> LogToClean:
    """Finds what there is to clean in one log, by its settings (`LogCleanerManager`)."""
    first_dirty, was_reset = first_dirty_offset(log)
    first_uncleanable = first_uncleanable_offset(
        log, first_dirty=first_dirty, lag_ms_min=config.compaction_lag_ms_min, now_ms=now_ms
    )
    clean_bytes = sum(each.size_bytes for each in log.segments if each.base_offset < first_dirty)
    dirty = _segments_between(log.segments, first_dirty, first_uncleanable)
    cleanable_bytes = sum(each.size_bytes for each in dirty)
    found = LogToClean(
        topic_partition=log.topic_partition,
        first_dirty=first_dirty,
        checkpoint_was_reset=was_reset,
        first_uncleanable=first_uncleanable,
        clean_bytes=clean_bytes,
        cleanable_bytes=cleanable_bytes,
        overdue_ms=_overdue_ms(log, first_dirty, config.compaction_lag_ms_max, now_ms),
        is_dirty=False,
        horizon_is_due=(
            log.delete_horizon_ms is not None
            and log.delete_horizon_ms <= now_ms
            and any(each.base_offset < first_uncleanable for each in log.segments)
        ),
    )
    return attrs.evolve(found, is_dirty=found.cleanable_ratio > config.dirty_ratio_min)


def first_dirty_offset(log: LogSummary) -> tuple[int, bool]:
    """The first dirty offset, and whether the end of the last round is impossible.

    The first dirty offset is the end of the last round, or the log's start if that end is unknown
    or impossible. An end above the recovery point is impossible: nothing there was ever cleaned.
    """
    if log.checkpoint is None:
        return log.log_start_offset, False
    if log.log_start_offset <= log.checkpoint <= log.recovery_point:
        return log.checkpoint, False
    return log.log_start_offset, True


def first_uncleanable_offset(
    log: LogSummary, *, first_dirty: int, lag_ms_min: int, now_ms: int
) -> int:
    """The base of the first segment that may not be cleaned yet."""
    active_base = log.segments[-1].base_offset
    bounds = [log.last_stable_offset, active_base, log.recovery_segment_base_offset]
    if lag_ms_min > 0:
        bounds += [
            each.base_offset
            for each in _inactive_from(log.segments, first_dirty)
            if each.largest_timestamp_ms > now_ms - lag_ms_min
        ][:1]
    bound = max(first_dirty, min(bounds))
    # The bound is rounded down to the start of a segment: a segment that is only partly in range
    # stays out. The segment of the recovery point and the active one always stay out.
    inactive = _inactive_from(log.segments, bound)
    floor = inactive[0].base_offset if inactive else active_base
    return min(floor, log.recovery_segment_base_offset)


def _inactive_from(segments: Sequence[SegmentSummary], offset: int) -> Sequence[SegmentSummary]:
    """The segments without the active one, starting at the one with `offset`."""
    slot = bisect_right(segments, offset, key=lambda each: each.base_offset)
    return segments[max(slot - 1, 0) : -1]


def _segments_between(
    segments: Sequence[SegmentSummary], start: int, end: int
) -> Sequence[SegmentSummary]:
    """The segments that begin below `end`, starting at the one with `start`."""
    if end <= start:
        return ()
    return [each for each in _inactive_from(segments, start) if each.base_offset < end]


def _overdue_ms(log: LogSummary, first_dirty: int, lag_ms_max: int, now_ms: int) -> int:
    """The age of the oldest dirty batch above `max.compaction.lag.ms`; 0 if it is not above."""
    first_timestamps = [
        each.first_timestamp_ms
        for each in _inactive_from(log.segments, first_dirty)
        if each.first_timestamp_ms > 0
    ]
    return max(0, now_ms - lag_ms_max - min(first_timestamps)) if first_timestamps else 0


def select(logs: Iterable[LogToClean]) -> LogToClean | None:
    """The log to clean next: an overdue one first, then the dirtiest.

    Logs for which only a delete horizon is due come last.
    """
    return max(
        (each for each in logs if each.is_due),
        key=lambda each: (each.is_overdue, each.is_dirty, each.cleanable_ratio),
        default=None,
    )


def group_segments(
    segments: Sequence[SegmentSummary],
    *,
    segment_bytes_max: int,
    segment_index_bytes_max: int,
    first_uncleanable: int,
) -> list[Sequence[SegmentSummary]]:
    """Splits segments into groups; each group becomes one segment (`Cleaner.groupSegmentsBySize`).

    Before cleaning, a group's sizes add up to at most one segment's size, and its offsets to at
    most what one segment's index can hold.
    """
    groups: list[Sequence[SegmentSummary]] = []
    start = 0
    size_bytes = index_bytes = time_index_bytes = 0
    for place, each in enumerate(segments):
        if place + 1 < len(segments):
            offset_next = segments[place + 1].base_offset
        else:
            offset_next = first_uncleanable
        span = offset_next - 1 - segments[start].base_offset
        size_bytes += each.size_bytes
        index_bytes += each.index_bytes
        time_index_bytes += each.time_index_bytes
        if place > start and (
            size_bytes > segment_bytes_max
            or index_bytes > segment_index_bytes_max
            or time_index_bytes > segment_index_bytes_max
            or (each.size_bytes > 0 and span > _RELATIVE_OFFSET_MAX)
        ):
            groups.append(segments[start:place])
            start = place
            size_bytes, index_bytes = each.size_bytes, each.index_bytes
            time_index_bytes = each.time_index_bytes
    if segments:
        groups.append(segments[start:])
    return groups


def is_worth_rewriting(group: Sequence[SegmentSummary], *, is_changed: bool) -> bool:
    """Whether it is worth it to replace a group by what is left of it.

    It is if something changes: a record is superseded or aborted, a tombstone or a marker gets its
    stamp, an empty batch can be removed, a horizon is due. Kafka rewrites all groups. If no batch
    changes, a merge only gives fewer files. So it is done only if no segment has most of the bytes;
    then each byte is copied only a few times by merges.
    """
    sizes = [each.size_bytes for each in group]
    return is_changed or (len(group) > 1 and 2 * max(sizes) <= sum(sizes))
