"""The rules of retention: they find the due segments of a log, in Kafka's order.

Three rules are applied one after the other, each from the oldest segment up to the first that does
not match: the segment lies below the log's start; it is beyond `retention.bytes`; it is older than
`retention.ms` (`UnifiedLog.deleteOldSegments`; for a compacted log without the policy `delete`,
only the first rule applies). The active segment may be due too; then a new one is rolled first.

A segment's age counts from its largest timestamp; if no record has one, from its file's last write.
So in Kafka one record with a timestamp in the future blocks the deletion of everything after it,
until the clock has passed that timestamp. offsetd does better (`retention.age.from.roll`): if a
segment takes no more appends, its age counts from its file's last write at the latest. That write
was at the roll, or shortly before. The file's time survives a restart, a copy that keeps times,
and cleaning. A crash after which the journal's batches are written again makes it later, never
earlier.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs

from offsetd_storage.batch.record_batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offsetd_storage.configuration.log_config import LogConfig
    from offsetd_storage.disk.files import Files
    from offsetd_storage.log.partition_log import PartitionLog


NOT_YET_MS: Final = 2**63 - 1


class Breach(enum.Enum):
    """The rule by which a segment is deleted."""

    LOG_START_OFFSET = "log start offset"
    SIZE = "size"
    TIME = "time"


@attrs.frozen(kw_only=True)
class SegmentFigures:
    """The figures of a segment on which the rules depend."""

    base_offset: int
    offset_next: int  # The next segment's base offset; for the active one, the log's end.
    size_bytes: int
    largest_timestamp_ms: int  # Below 0 if no record has one.
    modified_ms: int  # The file's last write, or NOT_YET_MS if a batch is not written yet.


@attrs.frozen(kw_only=True)
class Deletion:
    """A segment that is deleted."""

    segment: SegmentFigures
    breach: Breach


@attrs.frozen(kw_only=True)
class FutureTimestamp:
    """Retention by time is blocked: segments are due by file times, but not by timestamps."""

    base_offset: int  # That of the oldest segment that stays, which has the timestamp.
    timestamp_ms: int
    held_segments: int  # The segments that are due by file time, perhaps with the blocking one.
    held_bytes: int
    blocked_until_ms: int  # The time at which the blocking segment itself becomes due.

    def __str__(self) -> str:
        return (
            f"retention is blocked by timestamp {self.timestamp_ms}, which lies in the future, in"
            f" the segment at offset {self.base_offset}: until {self.blocked_until_ms} it holds"
            f" {self.held_segments} segments of {self.held_bytes} bytes that are due"
        )


@attrs.frozen(kw_only=True)
class RetentionPlan:
    """The segments to delete, oldest first. All of them must first lie below the recovery point."""

    deletions: tuple[Deletion, ...]
    log_start_offset: int  # The log's start after the deletion.
    rolls_active: bool  # True if the active segment is among them: roll a new one first.
    blocked: FutureTimestamp | None  # A warning.

    @property
    def freed_bytes(self) -> int:
        """The size of the log files that are deleted."""
        return sum(each.segment.size_bytes for each in self.deletions)


def segment_figures(files: Files, log: PartitionLog) -> list[SegmentFigures]:
    """The present figures of a log's segments."""
    segments = log.segments
    # This must be read before the files' times. If a batch is appended in between, the file's time
    # only gets newer.
    is_written = [segment.written_bytes == segment.size_bytes for segment in segments]
    ends = [segment.base_offset for segment in segments[1:]]
    ends.append(max(log.offset_next, segments[-1].base_offset))
    return [
        SegmentFigures(
            base_offset=segment.base_offset,
            offset_next=end,
            size_bytes=segment.size_bytes,
            largest_timestamp_ms=segment.largest_timestamp_ms,
            modified_ms=files.modified_ms(segment.path) if whole else NOT_YET_MS,
        )
        for segment, end, whole in zip(segments, ends, is_written, strict=True)
    ]


def plan_of_log(
    files: Files,
    log: PartitionLog,
    *,
    now_ms: int,
    rolls_if_due: bool = False,
    goes_by_age: bool = True,
) -> RetentionPlan:
    """The plan of `plan_retention` for the present log. Raises OSError, StorageFailed.

    With `rolls_if_due`, the plan assumes that an active segment that is old enough by the clock
    was rolled first.
    """
    log.write()  # A file's time counts only after all of the segment is written.
    figures = segment_figures(files, log)
    if rolls_if_due and log.segments[-1].is_overdue(now_ms):
        figures.append(
            SegmentFigures(
                base_offset=log.offset_next,
                offset_next=log.offset_next,
                size_bytes=0,
                largest_timestamp_ms=NO_TIMESTAMP,
                modified_ms=now_ms,
            )
        )
    return plan_retention(
        figures,
        log.config,
        log_start_offset=log.log_start_offset,
        high_watermark=log.offset_next,
        now_ms=now_ms,
        goes_by_age=goes_by_age,
    )


def plan_retention(
    segments: Sequence[SegmentFigures],
    config: LogConfig,
    *,
    log_start_offset: int,
    high_watermark: int,
    now_ms: int,
    goes_by_age: bool = True,
) -> RetentionPlan:
    """Plans which segments of a log are deleted. Changes nothing.

    `segments` are all segments of the log, in order; the last is active. Nothing that ends above
    `high_watermark` is deleted, and without `goes_by_age` nothing because of `retention.ms`.
    """
    walk = _Walk(segments, config, high_watermark=high_watermark, now_ms=now_ms)
    walk.take(Breach.LOG_START_OFFSET, walk.is_below(log_start_offset))
    if config.is_deleted:
        if config.retention_bytes >= 0:
            walk.take(Breach.SIZE, walk.exceeds(config.retention_bytes))
        if config.retention_ms >= 0 and goes_by_age:
            walk.take(Breach.TIME, walk.is_older)
    deletions = tuple(walk.deletions)
    if deletions:
        log_start_offset = max(log_start_offset, deletions[-1].segment.offset_next)
    return RetentionPlan(
        deletions=deletions,
        log_start_offset=log_start_offset,
        rolls_active=bool(deletions) and len(deletions) == len(segments),
        blocked=walk.blocked() if config.is_deleted and config.retention_ms >= 0 else None,
    )


class _Walk:
    """A walk that starts at the oldest segment and ends at the first that is not due."""

    def __init__(
        self,
        segments: Sequence[SegmentFigures],
        config: LogConfig,
        *,
        high_watermark: int,
        now_ms: int,
    ) -> None:
        self.deletions: list[Deletion] = []
        self._segments = segments
        self._config = config
        self._high_watermark = high_watermark
        self._now_ms = now_ms

    def take(self, breach: Breach, is_due: Callable[[SegmentFigures], bool]) -> None:
        """Takes segments until one is not due."""
        for segment in self._segments[len(self.deletions) :]:
            is_active = segment is self._segments[-1]
            if (
                segment.offset_next > self._high_watermark
                or (is_active and segment.size_bytes == 0)
                or not is_due(segment)
            ):
                return
            self.deletions.append(Deletion(segment=segment, breach=breach))

    def is_below(self, log_start_offset: int) -> Callable[[SegmentFigures], bool]:
        """A test of whether all of a segment lies below the log's start. The active one stays."""
        return lambda segment: (
            segment is not self._segments[-1] and segment.offset_next <= log_start_offset
        )

    def exceeds(self, retention_bytes: int) -> Callable[[SegmentFigures], bool]:
        """A test of whether the log still has the limit's size without a segment.

        Call it once for each segment, in their order.
        """
        excess_bytes = sum(segment.size_bytes for segment in self._segments[len(self.deletions) :])
        excess_bytes -= retention_bytes

        def is_due(segment: SegmentFigures) -> bool:
            nonlocal excess_bytes
            if excess_bytes < segment.size_bytes:
                return False
            excess_bytes -= segment.size_bytes
            return True

        return is_due

    def is_older(self, segment: SegmentFigures) -> bool:
        """Returns whether a segment is older than the limit. An equal age is not older."""
        return self._now_ms - self._age_from_ms(segment) > self._config.retention_ms

    def _age_from_ms(self, segment: SegmentFigures) -> int:
        if segment.largest_timestamp_ms < 0:
            return segment.modified_ms
        if self._config.retention_age_from_roll and segment is not self._segments[-1]:
            return min(segment.largest_timestamp_ms, segment.modified_ms)
        return segment.largest_timestamp_ms

    def blocked(self) -> FutureTimestamp | None:
        """The block, if the oldest segment that stays does so because of a future timestamp."""
        staying = self._segments[len(self.deletions) :]
        if not staying or staying[0].largest_timestamp_ms <= self._now_ms:
            return None
        held = [segment for segment in staying if self._is_older_by_the_clock(segment)]
        if not held:
            return None
        return FutureTimestamp(
            base_offset=staying[0].base_offset,
            timestamp_ms=staying[0].largest_timestamp_ms,
            held_segments=len(held),
            held_bytes=sum(segment.size_bytes for segment in held),
            blocked_until_ms=self._age_from_ms(staying[0]) + self._config.retention_ms + 1,
        )

    def _is_older_by_the_clock(self, segment: SegmentFigures) -> bool:
        since_ms = segment.modified_ms
        if segment.largest_timestamp_ms >= 0:
            since_ms = min(since_ms, segment.largest_timestamp_ms)
        return segment.size_bytes > 0 and self._now_ms - since_ms > self._config.retention_ms
