"""The status of the log cleaner: its threads, their rounds, and the state of each log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from offsetd_storage.cleaner.candidates import oldest_ms

if TYPE_CHECKING:
    from offsetd_storage.cleaner.candidates import Candidates
    from offsetd_storage.cleaner.cleaning_round import CleanReport
    from offsetd_storage.cleaner.uncleanable_logs import UncleanablePartition
    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.retention.log_claims import CleaningState
    from offsetd_storage.tasks.supervision import RunStatus
    from offsetd_storage.topic_partition import TopicPartition


@attrs.frozen(kw_only=True)
class FinishedRound:
    """A round that succeeded, and the reason why its log was chosen."""

    thread: int
    report: CleanReport
    ended_ms: int  # By the wall clock.
    overdue_ms: int  # The age of its oldest dirty batch above `max.compaction.lag.ms`.
    dirty_ratio: float  # Before the round; 0 to 1.
    map_slots: int
    requested: bool  # Whether an operator requested it.


@attrs.frozen(kw_only=True)
class CleanerThreadStatus:
    """One of the cleaner's threads."""

    run: RunStatus
    is_alive: bool  # False after a failure of the thread (not of a log) until a step succeeds.
    replaced: int  # The number of times that it died.
    cleans: TopicPartition | None
    # The time of the last chunk read, or of the last check for work, by the monotonic clock.
    last_progress_ms: int
    last: FinishedRound | None


@attrs.frozen(kw_only=True)
class LastLook:
    """The figures of the last check for work."""

    at_ms: int | None = None  # By the wall clock.
    max_dirty_ratio: float = 0.0
    max_overdue_ms: int = 0


@attrs.frozen(kw_only=True)
class CleanerStatus:
    """The present state of the log cleaner."""

    is_enabled: bool
    # The reason why nothing may be cleaned, even if the settings allow it; None if there is none.
    held: str | None = None
    threads: tuple[CleanerThreadStatus, ...]
    last_look: LastLook
    uncleanable: tuple[UncleanablePartition, ...]

    @property
    def last_looked_ms(self) -> int | None:
        """The time of the last check for work, by the wall clock."""
        return self.last_look.at_ms

    @property
    def max_dirty_ratio(self) -> float:
        """The largest dirty ratio of all logs at the last check."""
        return self.last_look.max_dirty_ratio

    @property
    def max_overdue_ms(self) -> int:
        """The longest time that a log was overdue at the last check."""
        return self.last_look.max_overdue_ms

    @property
    def dead_threads(self) -> int:
        """The number of cleaner threads that are dead now."""
        return sum(not each.is_alive for each in self.threads)

    @property
    def replaced_threads(self) -> int:
        """The number of times that a cleaner thread died and was replaced."""
        return sum(each.replaced for each in self.threads)

    @property
    def is_alive(self) -> bool:
        """Whether every thread works. True if the settings say that there are none."""
        return self.dead_threads == 0


@attrs.frozen(kw_only=True)
class LogCleaningStatus:
    """The state of the cleaning of one log."""

    topic_partition: TopicPartition
    state: CleaningState
    first_dirty: int
    first_uncleanable: int
    last_stable_offset: int
    clean_bytes: int  # The size of the segments that begin below `first_dirty`.
    cleanable_bytes: int  # The size of the segments up to `first_uncleanable`.
    dirty_bytes: int  # All segments since `first_dirty`, the active one included.
    dirty_ratio: float
    oldest_dirty_age_ms: int | None  # None if nothing is dirty, or it has no timestamp.
    overdue_ms: int
    delete_horizon_ms: int | None
    uncleanable: UncleanablePartition | None
    last: FinishedRound | None  # The last round in this process.


def log_cleaning_status(
    log: PartitionLog,
    candidates: Candidates,
    *,
    now_ms: int,
    state: CleaningState,
    uncleanable: UncleanablePartition | None,
    last: FinishedRound | None,
) -> LogCleaningStatus:
    """The present state of the cleaning of a log."""
    topic_partition = log.topic_partition
    found = candidates.find(log, now_ms=now_ms)
    dirty = log.segments_from(found.first_dirty)
    since_ms = oldest_ms(dirty)
    history = candidates.history(topic_partition)
    return LogCleaningStatus(
        topic_partition=topic_partition,
        state=state,
        first_dirty=found.first_dirty,
        first_uncleanable=found.first_uncleanable,
        last_stable_offset=history.last_stable_offset(log.offset_next),
        clean_bytes=found.clean_bytes,
        cleanable_bytes=found.cleanable_bytes,
        dirty_bytes=sum(each.size_bytes for each in dirty),
        dirty_ratio=found.cleanable_ratio,
        oldest_dirty_age_ms=None if since_ms is None else max(0, now_ms - since_ms),
        overdue_ms=found.overdue_ms,
        delete_horizon_ms=candidates.delete_horizon_ms(topic_partition),
        uncleanable=uncleanable,
        last=last,
    )
