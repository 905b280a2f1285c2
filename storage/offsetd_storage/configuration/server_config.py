"""Settings of the background work, under the names of Kafka's broker settings."""

from __future__ import annotations

import sys
from typing import Final

import attrs

from offsetd_storage.configuration.setting_kinds import INT32_MAX
from offsetd_storage.configuration.settings import flag, milliseconds, real, whole
from offsetd_storage.errors import InvalidSetting

DEDUPE_BYTES_PER_THREAD_MIN: Final = 1_048_576  # Kafka requires more than this.
_DEDUPE_SLOT_BYTES: Final = 24  # The memory for one key.

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000


@attrs.frozen(kw_only=True)
class CleanerConfig:
    """The threads that compact. Buffer sizes are totals, which the threads share equally."""

    is_enabled: bool = flag(
        True, "log.cleaner.enable", reason="false: nothing is compacted, and disks fill up."
    )
    threads: int = whole(
        1,
        "log.cleaner.threads",
        unit="threads",
        least=1,  # Kafka allows 0, and then fails.
        most=1024,
        reason="Each cleans one partition at a time.",
    )
    backoff_ms: int = milliseconds(
        15_000,
        "log.cleaner.backoff.ms",
        reason="How long a thread rests when it has found nothing to clean.",
    )
    dedupe_buffer_bytes: int = whole(
        134_217_728,
        "log.cleaner.dedupe.buffer.size",
        unit="bytes",
        least=1,
        reason="Memory for the keys of a round, 24 bytes each. Too small: a log takes more rounds.",
    )
    dedupe_load_factor: float = real(
        0.9,
        "log.cleaner.io.buffer.load.factor",
        unit="",
        least=0,
        excludes_least=True,
        most=1,  # Kafka has no bounds here; its map fails above 1.
        reason="How full that memory gets. Fuller: more keys, and slower.",
    )
    io_buffer_bytes: int = whole(
        524_288,
        "log.cleaner.io.buffer.size",
        unit="bytes",
        least=0,
        most=INT32_MAX,
        reason="Memory for reading and writing. A larger batch gets more.",
    )
    io_bytes_per_second_max: float = real(
        sys.float_info.max,
        "log.cleaner.io.max.bytes.per.second",
        unit="bytes per second",
        least=0,
        excludes_least=True,  # Kafka allows 0, and then its cleaner stops.
        most=sys.float_info.max,
        reason="The rate at which all threads together read and write. The default is no limit.",
    )

    def __attrs_post_init__(self) -> None:
        if self.dedupe_buffer_bytes // self.threads <= DEDUPE_BYTES_PER_THREAD_MIN:
            raise InvalidSetting(
                "log.cleaner.dedupe.buffer.size",
                f"{self.dedupe_buffer_bytes} bytes for {self.threads} threads are not more than"
                f" {DEDUPE_BYTES_PER_THREAD_MIN} bytes for each",
            )
        slots = self.dedupe_buffer_bytes // self.threads // _DEDUPE_SLOT_BYTES
        if int(slots * self.dedupe_load_factor) < 1:
            raise InvalidSetting(
                "log.cleaner.io.buffer.load.factor",
                f"{self.dedupe_load_factor} of a buffer for {slots} keys is too small for one",
            )


@attrs.frozen(kw_only=True)
class RetentionConfig:
    """Retention of topics that do not set it themselves, and the interval of its checks."""

    retention_hours: int = whole(
        168,
        "log.retention.hours",
        unit="hours",
        least=None,
        most=INT32_MAX,
        reason="The default of retention.ms, unless minutes or milliseconds are set.",
    )
    retention_minutes: int | None = whole(
        None,
        "log.retention.minutes",
        unit="minutes",
        least=None,
        most=INT32_MAX,
        reason="Takes precedence over log.retention.hours.",
    )
    retention_ms: int | None = milliseconds(
        None,
        "log.retention.ms",
        least=None,
        reason="Takes precedence over log.retention.minutes and log.retention.hours."
        " Below 0: never.",
    )
    retention_bytes: int = whole(
        -1,
        "log.retention.bytes",
        unit="bytes",
        least=None,
        reason="The default of retention.bytes. -1: no limit.",
    )
    check_interval_ms: int = milliseconds(
        300_000,
        "log.retention.check.interval.ms",
        least=1,
        reason="How often kafka-log-retention looks for segments that are due.",
    )

    def __attrs_post_init__(self) -> None:
        name, value_ms = self._counting()
        if value_ms == 0:
            raise InvalidSetting(name, "0 is neither -1, for never, nor 1 or more")

    def _counting(self) -> tuple[str, int]:
        """The setting that has precedence, and its value in milliseconds."""
        if self.retention_ms is not None:
            return "log.retention.ms", self.retention_ms
        if self.retention_minutes is not None:
            return "log.retention.minutes", self.retention_minutes * _MINUTE_MS
        return "log.retention.hours", self.retention_hours * _HOUR_MS

    def topic_defaults(self) -> dict[str, tuple[str, int]]:
        """By topic setting: the setting here that is its default, and the value."""
        name, value_ms = self._counting()
        return {
            "retention.ms": (name, max(value_ms, -1)),
            "retention.bytes": ("log.retention.bytes", self.retention_bytes),
        }


@attrs.frozen(kw_only=True)
class RollConfig:
    """The age at which segments are closed, for topics that do not set it themselves."""

    roll_hours: int = whole(
        168,
        "log.roll.hours",
        unit="hours",
        least=1,
        most=INT32_MAX,
        reason="The default of segment.ms, unless milliseconds are set.",
    )
    roll_ms: int | None = milliseconds(
        None, "log.roll.ms", least=1, reason="Takes precedence over log.roll.hours."
    )
    jitter_hours: int = whole(
        0,
        "log.roll.jitter.hours",
        unit="hours",
        least=0,
        most=INT32_MAX,
        reason="The default of segment.jitter.ms, unless milliseconds are set.",
    )
    jitter_ms: int | None = milliseconds(
        None, "log.roll.jitter.ms", reason="Takes precedence over log.roll.jitter.hours."
    )

    def topic_defaults(self) -> dict[str, tuple[str, int]]:
        """By topic setting: the setting here that is its default, and the value."""
        return {
            "segment.ms": (
                ("log.roll.hours", self.roll_hours * _HOUR_MS)
                if self.roll_ms is None
                else ("log.roll.ms", self.roll_ms)
            ),
            "segment.jitter.ms": (
                ("log.roll.jitter.hours", self.jitter_hours * _HOUR_MS)
                if self.jitter_ms is None
                else ("log.roll.jitter.ms", self.jitter_ms)
            ),
        }


@attrs.frozen(kw_only=True)
class BackgroundConfig:
    """The periodic tasks."""

    threads: int = whole(
        10,
        "background.threads",
        unit="threads",
        least=1,
        most=1024,
        reason="For the periodic tasks; there are never more than tasks.",
    )
    initial_delay_ms: int = milliseconds(
        30_000,
        "log.initial.task.delay.ms",
        reason="From the start to the first run of each task.",
    )
    flush_interval_ms: int = milliseconds(
        9_223_372_036_854_775_807,
        "log.flush.scheduler.interval.ms",
        least=1,
        reason="How often kafka-log-flusher looks. Never: the journal makes commits durable.",
    )
    recovery_point_interval_ms: int = milliseconds(
        60_000,
        "log.flush.offset.checkpoint.interval.ms",
        least=1,
        most=INT32_MAX,
        reason="How often segments are synced and recovery points move.",
    )
    log_start_interval_ms: int = milliseconds(
        60_000,
        "log.flush.start.offset.checkpoint.interval.ms",
        least=1,
        most=INT32_MAX,
        reason="How often log-start-offset-checkpoint is written.",
    )


@attrs.frozen(kw_only=True)
class DiskConfig:
    """Space that is kept free, so that a full disk can recover."""

    reserve_bytes: int | None = whole(
        None,
        "disk.reserve.bytes",
        unit="bytes",
        least=0,
        is_ours=True,
        reason="Space held back for cleaning and deletions when the disk is full; at most a"
        " sixteenth of the file system. 0: none. If it is not set: the offsets topic's"
        " segment.bytes, or the largest segment if that is more, plus the largest of 28 % of"
        " that, 20 KiB for each log, and 1 MiB.",
    )
    free_bytes_min: int = whole(
        # This is more than commits write between two checks.
        67_108_864,
        "disk.free.bytes.min",
        unit="bytes",
        least=0,
        is_ours=True,
        reason="If less is free, commits are refused, the reserve is used and all logs are"
        " cleaned; at most a thirty-second of the file system. 0: only if no space is left at all.",
    )
    check_interval_ms: int = milliseconds(
        1000,
        "disk.check.interval.ms",
        least=1,
        most=INT32_MAX,
        is_ours=True,
        reason="How often offsetd-disk-space checks the free space.",
    )
