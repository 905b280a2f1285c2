"""The settings of one topic's log: Kafka's topic-level names, bounds and defaults."""

from __future__ import annotations

import enum
from typing import Final

import attrs

from offsetd_storage.configuration.setting_kinds import INT32_MAX, INT64_MAX
from offsetd_storage.configuration.settings import choice, choices, flag, milliseconds, real, whole
from offsetd_storage.errors import InvalidSetting
from offsetd_storage.timestamp_type import TimestampType


class CleanupPolicy(enum.Enum):
    """The way old records are removed. A log has both policies, one, or none (removes nothing)."""

    DELETE = "delete"  # Removes whole segments, by age and by size.
    COMPACT = "compact"  # Removes records whose key has a later one.


DELETE: Final = frozenset((CleanupPolicy.DELETE,))
COMPACT: Final = frozenset((CleanupPolicy.COMPACT,))

_POLICIES: Final = {each.value: each for each in (CleanupPolicy.COMPACT, CleanupPolicy.DELETE)}
_TIMESTAMP_TYPES: Final = {
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
}


@attrs.frozen(kw_only=True)
class LogConfig:
    """The settings by which a log rolls, indexes, limits its batches and deletes.

    A value out of bounds raises `InvalidSetting`. Defaults and bounds are those of Kafka 4.1.1,
    unless a comment says otherwise. A limit that can be switched off is off below 0.
    """

    # Segments.
    segment_bytes_max: int = whole(
        2**30,
        "segment.bytes",
        unit="bytes",
        least=61,  # Small, for tests.
        operator_least=1_048_576,
        most=INT32_MAX,
        server_name="log.segment.bytes",
        reason="A segment is closed at this size; only closed segments are cleaned.",
    )
    segment_ms: int = milliseconds(
        604_800_000,
        "segment.ms",
        least=1,
        reason="A segment is closed at this age.",
    )
    segment_jitter_ms: int = milliseconds(
        0,
        "segment.jitter.ms",
        reason="Spreads the closing of segments over time.",
    )
    segment_idle_ms: int = milliseconds(
        30_000,
        "segment.idle.ms",
        least=-1,
        is_ours=True,
        reason="After this long without appends, a segment of a compacted log is closed, and the"
        " log is cleaned, if its dirty ratio is at least half of min.cleanable.dirty.ratio and all"
        " of it is older than min.compaction.lag.ms. -1: not before segment.ms.",
    )
    segment_index_bytes_max: int = whole(
        10_485_760,
        "segment.index.bytes",
        unit="bytes",
        least=24,  # Kafka allows 4, which holds no entry, so each batch gets its own segment.
        most=INT32_MAX,
        server_name="log.index.size.max.bytes",
        reason="A segment is closed when one of its indexes is this large.",
    )
    index_interval_bytes: int = whole(
        4096,
        "index.interval.bytes",
        unit="bytes",
        least=0,
        most=INT32_MAX,
        server_name="log.index.interval.bytes",
        reason="Each index entry covers about this many bytes of the log.",
    )
    message_bytes_max: int = whole(
        1_048_588,
        "max.message.bytes",
        unit="bytes",
        least=0,
        most=INT32_MAX,
        server_name="message.max.bytes",
        reason="The largest record batch.",
    )
    preallocate_step_bytes: int = whole(
        65_536,
        "preallocate.step.bytes",
        unit="bytes",
        least=1,
        operator_least=4096,
        most=2**30,
        is_ours=True,
        reason="Blocks are reserved this far ahead of the log's end, for a large segment up to 16"
        " times as far. So a full disk shows when a batch is accepted, not when it is written."
        " Small, because each of 50 partitions holds that much.",
    )

    # Deletion.
    cleanup_policy: frozenset[CleanupPolicy] = choices(
        DELETE,
        "cleanup.policy",
        _POLICIES,
        server_name="log.cleanup.policy",
        reason="delete: old segments are removed. compact: the last record of each key is kept.",
    )
    retention_ms: int = milliseconds(
        604_800_000,
        "retention.ms",
        least=-1,
        reason="A segment is deleted when its newest record is older (policy delete). -1: never.",
    )
    retention_bytes: int = whole(
        -1,
        "retention.bytes",
        unit="bytes",
        least=None,
        reason="The oldest segments are deleted while at least this much is left"
        " (policy delete). -1: never.",
    )
    retention_age_from_roll: bool = flag(
        True,
        "retention.age.from.roll",
        is_ours=True,
        reason="A segment's age counts from its last write at the latest, so that a timestamp"
        " in the future does not delay deletion. false: by timestamps alone, as in Kafka.",
    )
    file_delete_delay_ms: int = milliseconds(
        0,  # Kafka: 60,000.
        "file.delete.delay.ms",
        server_name="log.segment.delete.delay.ms",
        reason="How long files that are no longer needed wait for removal. 0, because our"
        " readers hold descriptors, and a fast cleaner could otherwise fill the disk.",
    )

    # Compaction.
    dirty_ratio_min: float = real(
        0.5,
        "min.cleanable.dirty.ratio",
        unit="",
        least=0,
        most=1,
        server_name="log.cleaner.min.cleanable.ratio",
        reason="A log is cleaned when more than this share of it is new since the last cleaning.",
    )
    compaction_lag_ms_min: int = milliseconds(
        0,
        "min.compaction.lag.ms",
        server_name="log.cleaner.min.compaction.lag.ms",
        reason="Younger records are not cleaned.",
    )
    compaction_lag_ms_max: int = milliseconds(
        INT64_MAX,
        "max.compaction.lag.ms",
        least=1,
        server_name="log.cleaner.max.compaction.lag.ms",
        reason="A log with an older record that was not cleaned yet is cleaned at any ratio.",
    )
    delete_retention_ms: int = milliseconds(
        86_400_000,
        "delete.retention.ms",
        server_name="log.cleaner.delete.retention.ms",
        reason="How long tombstones stay after their first cleaning, for readers from the start.",
    )

    # Timestamps.
    timestamp_type: TimestampType = choice(  # noqa: RUF009  It is an attrs field, like the others.
        TimestampType.CREATE_TIME,
        "message.timestamp.type",
        _TIMESTAMP_TYPES,
        server_name="log.message.timestamp.type",
        reason="CreateTime: the writer's time. LogAppendTime: the server's time at the append.",
    )
    timestamp_before_ms_max: int = milliseconds(
        INT64_MAX,
        "message.timestamp.before.max.ms",
        server_name="log.message.timestamp.before.max.ms",
        reason="Records that are older at the append are refused (CreateTime).",
    )
    timestamp_after_ms_max: int = milliseconds(
        3_600_000,
        "message.timestamp.after.max.ms",
        server_name="log.message.timestamp.after.max.ms",
        reason="Records from further in the future are refused (CreateTime).",
    )

    def __attrs_post_init__(self) -> None:
        if self.compaction_lag_ms_min > self.compaction_lag_ms_max:
            raise InvalidSetting(
                "min.compaction.lag.ms",
                f"{self.compaction_lag_ms_min} ms is above max.compaction.lag.ms,"
                f" {self.compaction_lag_ms_max} ms",
            )

    @property
    def roll_ms(self) -> int:
        """The age at which a segment is closed; only closed segments can be cleaned in time."""
        if self.is_compacted:
            return min(self.segment_ms, self.compaction_lag_ms_max)
        return self.segment_ms

    @property
    def batch_bytes_max(self) -> int:
        """The largest size of a new batch, in bytes."""
        return min(self.message_bytes_max, self.segment_bytes_max)

    @property
    def is_compacted(self) -> bool:
        """Returns whether the cleaner compacts the log. Then it does the log's retention, too."""
        return CleanupPolicy.COMPACT in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Returns whether segments are deleted by age and by size."""
        return CleanupPolicy.DELETE in self.cleanup_policy


OFFSETS_TOPIC: Final = "__consumer_offsets"
OFFSETS_TOPIC_LOG_CONFIG: Final = LogConfig(segment_bytes_max=104_857_600, cleanup_policy=COMPACT)
