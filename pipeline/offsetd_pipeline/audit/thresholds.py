"""The thresholds of an audit's findings, all in one place."""

from enum import StrEnum
from typing import Final

import attrs

_S: Final = 1000
_MIN: Final = 60 * _S
_HOUR: Final = 60 * _MIN
_DAY: Final = 24 * _HOUR


class ExpiryBase(StrEnum):
    """The start of retention in an empty group that had members, as for `offsets.expiry.base`."""

    LATEST = "latest"  # The later of the commit and the time at which the group became empty.
    KAFKA = "kafka"  # The time at which the group became empty, also for later commits.


@attrs.frozen(kw_only=True)
class Thresholds:
    """The thresholds. `docs/guides/spark-audit.md` says how each question uses its own."""

    # Expiry. If `expiry_base` is None, it is KAFKA for a broker's folder, and LATEST for offsetd's.
    retention_ms: int = 7 * _DAY
    expiry_base: ExpiryBase | None = None
    expiry_warning_ms: int = _DAY

    # Repeated offsets: a group with at least this number of commits, and at least this share of
    # repeats.
    repeats_min: int = 100
    repeat_ratio_min: float = 0.5

    # The smallest rewind; the smallest skip; the factor by which a skip must be faster than every
    # earlier step; and the least number of earlier steps.
    rewind_min: int = 1
    skip_min: int = 10_000
    skip_factor: float = 10.0
    skip_steps_min: int = 5

    future_ms: int = _HOUR  # Kafka's `message.timestamp.after.max.ms`.

    # The cleaner: a log is due above `min.cleanable.dirty.ratio`. If `compaction_lag_ms` is None,
    # it is an hour (the default of `history.ms`) for offsetd's folder, and 0 for a broker's.
    compaction_lag_ms: int | None = None
    dirty_ratio_max: float = 0.5
    saving_ratio_min: float = 0.5

    hot_group_ratio_min: float = 0.2  # A share of the log's bytes.
    hot_partition_factor: float = 3.0  # A multiple of the mean of all log partitions with records.

    # Limits for a stopped or slow consumer.
    stopped_ms: int = 10 * _MIN
    stalled_commits_min: int = 5
    time_lag_max_ms: int = 10 * _MIN


HISTORY_MS: Final = _HOUR
SPEED_GAP_MS_MIN: Final = _S
"""The least time between two steps. If it is shorter, speeds are computed with this value."""
