"""The results of the administrative calls: plain values, no protobuf."""

from datetime import datetime, timedelta
from enum import StrEnum

import attrs

from offsetd_clients.values import Revision


class ConfigSource(StrEnum):
    """The source of a setting's value. The sources listed first take precedence."""

    UNKNOWN = "unknown"
    FLOOR = "floor"  # The value that was set is below what the server needs.
    DYNAMIC_TOPIC = "dynamic-topic"
    STATIC_TOPIC = "static-topic"
    TOPIC_DEFAULT = "topic-default"
    DYNAMIC_SERVER = "dynamic-server"
    STATIC_SERVER = "static-server"
    DEFAULT = "default"


@attrs.frozen(kw_only=True)
class ConfigSetting:
    """A setting of the server or of a topic.

    `is_dynamic`: it can be changed while the server runs.
    `problem`: the reason why a stored value is not used; else empty.
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
    """The settings that the call named, with their present values.

    `revision` is a position in `__offsetd_config`. It is None if nothing changed.
    """

    settings: tuple[ConfigSetting, ...]
    revision: Revision | None


class CleaningState(StrEnum):
    """The state of cleaning a partition. ABORTED: a request to stop has not yet taken effect."""

    UNKNOWN = "unknown"
    IDLE = "idle"
    IN_PROGRESS = "in-progress"
    ABORTED = "aborted"
    PAUSED = "paused"


@attrs.frozen(kw_only=True)
class CleaningRound:
    """Figures of one cleaning round. `is_partial`: another round must continue at `end_offset`."""

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
    """The reason why a partition was not cleaned. A damaged partition deletes nothing either."""

    reason: str
    is_damaged: bool
    failures_in_row: int
    first_failure_time: datetime
    last_failure_time: datetime
    next_retry_time: datetime


@attrs.frozen(kw_only=True)
class LogCleaning:
    """The cleaner's progress in a partition.

    `dirty_ratio`: the bytes of the cleanable part, divided by the bytes of the clean and the
    cleanable part (0 to 1).
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
    """A timestamp in the future blocks the deletion of segments that are due by the clock."""

    base_offset: int
    timestamp: datetime
    blocked_until_time: datetime
    held_segments: int
    held_bytes: int


@attrs.frozen(kw_only=True)
class LogSegment:
    """A segment. `largest_time` is None if none of its records has a timestamp."""

    base_offset: int
    size_bytes: int
    largest_time: datetime | None


@attrs.frozen(kw_only=True)
class LogPartition:
    """A partition of a topic's log. `cleaning` is None if its topic is not compacted.

    If it has a `quarantine_reason`, the partition is damaged, and nothing else is known about it.
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
    """The outcome for one partition.

    If it has neither a round nor a failure, there was nothing to clean.
    """

    partition: int
    round: CleaningRound | None
    failure: str


@attrs.frozen(kw_only=True)
class CompactedLog:
    """The compacted partitions.

    `revision` is the revision of the audit record of this change. The audit record is in the topic
    `__offsetd_audit`. `revision` is None if the call only validated.
    """

    partitions: tuple[CompactedPartition, ...]
    revision: Revision | None


@attrs.frozen(kw_only=True)
class RetriedPartition:
    """A partition that the cleaner will retry. `uncleanable` is None if it had no problem."""

    uncleanable: UncleanablePartition | None
    revision: Revision | None


@attrs.frozen(kw_only=True)
class DeletedRecords:
    """The new start of the log.

    `revision` is the revision of the audit record of this change. The audit record is in the topic
    `__offsetd_audit`. `revision` is None if nothing was deleted.
    """

    log_start_offset: int
    deleted_bytes: int
    revision: Revision | None
