"""What the log cleaner says of itself: its threads, their rounds, and each log's state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from offsetd_storage.cleaner.clean import CleanReport
    from offsetd_storage.cleaner.failures import UncleanablePartition
    from offsetd_storage.cleaner.states import CleaningState
    from offsetd_storage.supervision import RunStatus
    from offsetd_storage.topic_partition import TopicPartition


@attrs.frozen(kw_only=True)
class FinishedRound:
    """A round that went well, and what it was chosen for."""

    thread: int
    report: CleanReport
    ended_ms: int  # By the wall clock.
    overdue_ms: int  # Its oldest dirty batch waited so much longer than `max.compaction.lag.ms`.
    dirty_ratio: float  # Before it; 0 to 1.
    map_slots: int
    requested: bool  # By an operator.


@attrs.frozen(kw_only=True)
class CleanerThreadStatus:
    """One of the cleaner's threads."""

    run: RunStatus
    is_alive: bool  # False from a failure of the thread, not of a log, until a step succeeds.
    replaced: int  # How often it has died.
    cleans: TopicPartition | None
    last_progress_ms: int  # By the monotonic clock: a chunk read, or a look for work.
    last: FinishedRound | None


@attrs.frozen(kw_only=True)
class CleanerStatus:
    """The log cleaner as it is now."""

    is_enabled: bool
    threads: tuple[CleanerThreadStatus, ...]
    # When it last looked for what to clean, by the wall clock, and what it found then.
    last_looked_ms: int | None
    max_dirty_ratio: float
    max_overdue_ms: int
    uncleanable: tuple[UncleanablePartition, ...]

    @property
    def dead_threads(self) -> int:
        """How many do not do their work."""
        return sum(not each.is_alive for each in self.threads)

    @property
    def replaced_threads(self) -> int:
        """How many have died since the threads were set up."""
        return sum(each.replaced for each in self.threads)

    @property
    def is_alive(self) -> bool:
        """Whether every thread does its work; also where there are none, by the settings."""
        return self.dead_threads == 0


@attrs.frozen(kw_only=True)
class LogCleaningStatus:
    """Where cleaning stands with one log."""

    topic_partition: TopicPartition
    state: CleaningState
    first_dirty: int
    first_uncleanable: int
    last_stable_offset: int
    clean_bytes: int  # Of the segments that begin below `first_dirty`.
    cleanable_bytes: int  # Of those from there to `first_uncleanable`.
    dirty_bytes: int  # Of all from there on, the active one too.
    dirty_ratio: float
    oldest_dirty_age_ms: int | None  # None: nothing is dirty, or has no time.
    overdue_ms: int
    delete_horizon_ms: int | None
    uncleanable: UncleanablePartition | None
    last: FinishedRound | None  # Of this process.
