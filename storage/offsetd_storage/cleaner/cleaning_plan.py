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

_RELATIVE_OFFSET_MAX: Final = 2**31 - 1  # What an index entry can hold.


@attrs.frozen(kw_only=True)
class SegmentSummary:
    """What is planned with. Sizes are in bytes.

    `first_timestamp_ms`: the largest one of its first batch, -1 for none. `largest_timestamp_ms`:
    where no batch has one, when the file was last written.
    """

    base_offset: int
    size_bytes: int
    index_bytes: int
    time_index_bytes: int
    first_timestamp_ms: int
    largest_timestamp_ms: int


@attrs.frozen(kw_only=True)
class LogSummary:
    """One log as it is now; the last of its `segments` is active."""

    topic_partition: TopicPartition
    segments: Sequence[SegmentSummary]
    log_start_offset: int
    # Durable: where the log ends after a crash, and the segment that was active there.
    recovery_point: int
    recovery_segment_base_offset: int
    last_stable_offset: int
    checkpoint: int | None  # The first dirty offset, as the last round left it.
    delete_horizon_ms: int | None = None  # The earliest one among its batches, where it is known.


@attrs.frozen(kw_only=True)
class LogToClean:
    """A log with what there is to clean in it.

    Its dirty range is that from `first_dirty` to `first_uncleanable` (exclusive), the base of a
    segment. Where that is not above `first_dirty`, the range is empty.
    """

    topic_partition: TopicPartition
    first_dirty: int
    checkpoint_was_reset: bool  # It cannot be right, and is to be written anew.
    first_uncleanable: int
    clean_bytes: int  # Of the segments that begin below `first_dirty`.
    cleanable_bytes: int  # Of those in the dirty range.
    overdue_ms: int  # For how long its oldest dirty batch has been waiting above the bound; 0: not.
    is_dirty: bool  # More of it than Kafka's ratio.
    horizon_is_due: bool

    @property
    def cleanable_ratio(self) -> float:
        """The dirty part of it, 0 to 1."""
        total_bytes = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total_bytes if total_bytes else 0.0

    @property
    def is_overdue(self) -> bool:
        """Whether it is to be cleaned whatever the ratio is."""
        return self.overdue_ms > 0 and self.cleanable_bytes > 0

    @property
    def is_due(self) -> bool:
        """Whether it is to be cleaned."""
        return self.is_overdue or self.is_dirty or self.horizon_is_due


def log_to_clean(log: LogSummary, config: LogConfig, *, now_ms: int) -> LogToClean:
    """What there is to clean in one log, by its settings (`LogCleanerManager`)."""
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
    """Where the last round ended; and whether that cannot be, and the log's start is taken.

    Above the recovery point it cannot be either: nothing there was ever cleaned.
    """
    if log.checkpoint is None:
        return log.log_start_offset, False
    if log.log_start_offset <= log.checkpoint <= log.recovery_point:
        return log.checkpoint, False
    return log.log_start_offset, True


def first_uncleanable_offset(
    log: LogSummary, *, first_dirty: int, lag_ms_min: int, now_ms: int
) -> int:
    """The base of the first segment that is not to be cleaned yet."""
    active_base = log.segments[-1].base_offset
    bounds = [log.last_stable_offset, active_base, log.recovery_segment_base_offset]
    if lag_ms_min > 0:
        bounds += [
            each.base_offset
            for each in _inactive_from(log.segments, first_dirty)
            if each.largest_timestamp_ms > now_ms - lag_ms_min
        ][:1]
    bound = max(first_dirty, min(bounds))
    # Rounded down to where a segment begins; one that is half in is out. What lies at the recovery
    # point's segment or the active one stays out, wherever the dirty range begins.
    inactive = _inactive_from(log.segments, bound)
    floor = inactive[0].base_offset if inactive else active_base
    return min(floor, log.recovery_segment_base_offset)


def _inactive_from(segments: Sequence[SegmentSummary], offset: int) -> Sequence[SegmentSummary]:
    """From the one that holds `offset` on, without the active one."""
    slot = bisect_right(segments, offset, key=lambda each: each.base_offset)
    return segments[max(slot - 1, 0) : -1]


def _segments_between(
    segments: Sequence[SegmentSummary], start: int, end: int
) -> Sequence[SegmentSummary]:
    """From the one that holds `start` on, those that begin below `end`."""
    if end <= start:
        return ()
    return [each for each in _inactive_from(segments, start) if each.base_offset < end]


def _overdue_ms(log: LogSummary, first_dirty: int, lag_ms_max: int, now_ms: int) -> int:
    """How long ago the oldest dirty batch was as old as `max.compaction.lag.ms` allows."""
    first_timestamps = [
        each.first_timestamp_ms
        for each in _inactive_from(log.segments, first_dirty)
        if each.first_timestamp_ms > 0
    ]
    return max(0, now_ms - lag_ms_max - min(first_timestamps)) if first_timestamps else 0


def select(logs: Iterable[LogToClean]) -> LogToClean | None:
    """The log to be cleaned next: one that is overdue before others, then the dirtiest.

    Logs of which only a horizon is due come last.
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
    """Splits segments into rows, each of which becomes one (`Cleaner.groupSegmentsBySize`).

    A group's sizes, as they are before it is cleaned, add up to no more than one segment may have,
    and its offsets to no more than one segment's index can hold.
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
    """Whether a group gains by being replaced with what stays of it.

    It does where that is not what it holds: a record is superseded or aborted, a tombstone or a
    marker is not stamped yet, an empty batch can go, a horizon is due. Kafka rewrites all. Nothing
    but fewer files is gained by joining segments that stay as they are. So that is done only where
    none of them has most of the bytes, and each byte is copied but a few times for it.
    """
    sizes = [each.size_bytes for each in group]
    return is_changed or (len(group) > 1 and 2 * max(sizes) <= sum(sizes))
