"""What the administrative calls answer: plain values, no protobuf."""

from datetime import datetime, timedelta
from enum import StrEnum

import attrs

from offsetd_clients.values import Revision


class ConfigSource(StrEnum):
    """Where a setting's value is from; what is named first goes before the others."""

    UNKNOWN = "unknown"
    FLOOR = "floor"  # It was set to less than what the server needs.
    DYNAMIC_TOPIC = "dynamic-topic"
    STATIC_TOPIC = "static-topic"
    TOPIC_DEFAULT = "topic-default"
    DYNAMIC_SERVER = "dynamic-server"
    STATIC_SERVER = "static-server"
    DEFAULT = "default"


@attrs.frozen(kw_only=True)
class ConfigSetting:
    """A setting of the server or of a topic.

    `is_dynamic`: it can be changed while the server runs. `problem`: a value is kept that is not
    used, and why; empty: none is.
    """

    name: str
    value: str
    default_value: str
    source: ConfigSource
    unit: str
    description: str
    allowed_values: str
    is_dynamic: bool
    problem: str


@attrs.frozen(kw_only=True)
class UpdatedConfig:
    """What was named, as it is now; `revision`, in `__offsetd_config`, None: nothing changed."""

    settings: tuple[ConfigSetting, ...]
    revision: Revision | None


class CleaningState(StrEnum):
    """ABORTED: told to stop, and not there yet."""

    UNKNOWN = "unknown"
    IDLE = "idle"
    IN_PROGRESS = "in-progress"
    ABORTED = "aborted"
    PAUSED = "paused"


@attrs.frozen(kw_only=True)
class CleaningRound:
    """Figures of one round; `is_partial`: another one is needed from `end_offset` on."""

    start_time: datetime
    duration: timedelta
    first_dirty_offset: int
    end_offset: int
    bytes_before: int
    bytes_after: int
    records_before: int
    records_after: int
    segments_before: int
    segments_after: int
    map_utilization: float
    is_partial: bool


@attrs.frozen(kw_only=True)
class UncleanablePartition:
    """Why a partition could not be cleaned; one that is damaged deletes nothing either."""

    reason: str
    is_damaged: bool
    failures_in_row: int
    first_failure_time: datetime
    last_failure_time: datetime
    next_retry_time: datetime


@attrs.frozen(kw_only=True)
class LogCleaning:
    """How far the cleaner is with a partition.

    `dirty_ratio`: what may be cleaned, as a share of all that is clean or may be; 0 to 1.
    """

    state: CleaningState
    first_dirty_offset: int
    first_uncleanable_offset: int
    last_stable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    dirty_ratio: float
    oldest_dirty_age: timedelta | None
    overdue: timedelta | None
    delete_horizon_time: datetime | None
    uncleanable: UncleanablePartition | None
    last_round: CleaningRound | None


@attrs.frozen(kw_only=True)
class BlockedRetention:
    """A timestamp in the future holds back segments that are due by the clock."""

    base_offset: int
    timestamp: datetime
    blocked_until_time: datetime
    held_segments: int
    held_bytes: int


@attrs.frozen(kw_only=True)
class LogSegment:
    """A segment; `largest_time` None: no record has a time."""

    base_offset: int
    size_bytes: int
    largest_time: datetime | None


@attrs.frozen(kw_only=True)
class LogPartition:
    """A partition of a topic's log. `quarantine_reason`: it is damaged, and nothing else is known.

    `cleaning` None: its topic is not compacted.
    """

    partition: int
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    size_bytes: int
    segments: tuple[LogSegment, ...]
    quarantine_reason: str
    cleaning: LogCleaning | None
    blocked_retention: BlockedRetention | None


@attrs.frozen(kw_only=True)
class CompactedPartition:
    """What became of a partition; without a round and a failure, nothing may be cleaned."""

    partition: int
    round: CleaningRound | None
    failure: str


@attrs.frozen(kw_only=True)
class CompactedLog:
    """`revision` is in `__offsetd_audit`; None: it was only looked at."""

    partitions: tuple[CompactedPartition, ...]
    revision: Revision | None


@attrs.frozen(kw_only=True)
class RetriedPartition:
    """`uncleanable` None: nothing was wrong, and nothing was done."""

    uncleanable: UncleanablePartition | None
    revision: Revision | None


@attrs.frozen(kw_only=True)
class DeletedRecords:
    """Where the log starts then; `revision`, in `__offsetd_audit`, None: nothing was done."""

    log_start_offset: int
    deleted_bytes: int
    revision: Revision | None
