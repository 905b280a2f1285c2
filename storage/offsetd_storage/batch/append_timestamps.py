"""Timestamps of appended batches: the writer's are checked, or the clock's replace them.

`message.timestamp.type` decides which. `prepared_batch` reads every record. If all records of a
batch have the same timestamp, `prepared_at_append` is enough and costs almost nothing. A timestamp
beyond `message.timestamp.after.max.ms` would block retention
(`offsetd_storage.retention.retention_rules`); the time of the append never does.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from offsetd_storage.batch.record_batch import (
    BATCH_HEADER,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    batch_header,
    computed_crc,
    decode_batch,
)
from offsetd_storage.errors import InvalidTimestamp
from offsetd_storage.timestamp_type import TimestampType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from offsetd_storage.configuration.log_config import LogConfig

# Places in `BATCH_HEADER`.
_CRC: Final = 4
_ATTRIBUTES: Final = 5
_MAX_TIMESTAMP: Final = 8


def prepared_batch(batch: bytes, config: LogConfig, *, now_ms: int) -> bytes:
    """A writer's batch in its form in the log. Raises InvalidTimestamp, CorruptBatch."""
    if config.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return with_append_time(batch, now_ms)
    timestamps_ms = (record.timestamp_ms for record in decode_batch(batch).records)
    check_timestamps(timestamps_ms, config, now_ms=now_ms)
    return batch


def prepared_at_append(
    batch: bytes, config: LogConfig, *, max_timestamp_ms: int, now_ms: int
) -> tuple[bytes, int]:
    """Prepares a batch whose records all have the timestamp `max_timestamp_ms`.

    Returns the batch in its form in the log, and its largest timestamp. Raises InvalidTimestamp.
    """
    if config.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return with_append_time(batch, now_ms), now_ms
    ahead_ms = max_timestamp_ms - now_ms
    if not -config.timestamp_before_ms_max <= ahead_ms <= config.timestamp_after_ms_max:
        check_timestamps((max_timestamp_ms,), config, now_ms=now_ms)
    return batch, max_timestamp_ms


def unchanged_timestamps_ms(config: LogConfig, *, now_ms: int) -> tuple[int, int]:
    """The first and last timestamp that is accepted unchanged; none if the log sets timestamps."""
    if config.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return sys.maxsize, -1
    return now_ms - config.timestamp_before_ms_max, now_ms + config.timestamp_after_ms_max


def with_append_time(batch: bytes, now_ms: int) -> bytes:
    """The whole batch `batch`, with `now_ms` as the timestamp of all its records.

    As in Kafka, only the header's type and max timestamp change; the records stay as they are,
    compressed or not. Raises CorruptBatch.
    """
    batch_header(batch)
    fields = list(BATCH_HEADER.unpack_from(batch))
    fields[_ATTRIBUTES] |= LOG_APPEND_TIME
    fields[_MAX_TIMESTAMP] = now_ms
    body = batch[BATCH_HEADER.size :]
    fields[_CRC] = computed_crc(BATCH_HEADER.pack(*fields) + body)
    return BATCH_HEADER.pack(*fields) + body


def check_timestamps(timestamps_ms: Iterable[int], config: LogConfig, *, now_ms: int) -> None:
    """Raises InvalidTimestamp for the first record that is too far from the clock.

    A record at exactly the limit is allowed, and so is one without a timestamp (Kafka's
    `LogValidator`).
    """
    before_ms, after_ms = config.timestamp_before_ms_max, config.timestamp_after_ms_max
    for record, timestamp_ms in enumerate(timestamps_ms):
        if timestamp_ms == NO_TIMESTAMP or -before_ms <= timestamp_ms - now_ms <= after_ms:
            continue
        if timestamp_ms > now_ms:
            far = f"{timestamp_ms - now_ms} ms after the clock"
            bound = f"message.timestamp.after.max.ms allows {after_ms}"
        else:
            far = f"{now_ms - timestamp_ms} ms before the clock"
            bound = f"message.timestamp.before.max.ms allows {before_ms}"
        raise InvalidTimestamp(
            f"timestamp {timestamp_ms} is {far}; {bound}", timestamp_ms=timestamp_ms, record=record
        )
