"""A batch that anybody may have made is taken as a broker takes one from a client, or refused."""

from __future__ import annotations

from typing import Any

import pytest
from offsetd_storage.batch.batch_validation import produced_batch
from offsetd_storage.batch.compression import Compression
from offsetd_storage.batch.record_batch import Record, decode_batch, encode_batch
from offsetd_storage.configuration.log_config import COMPACT, LogConfig
from offsetd_storage.errors import CorruptBatch, InvalidRecord, InvalidTimestamp
from offsetd_storage.timestamp_type import TimestampType

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
COMPACTED = LogConfig(cleanup_policy=COMPACT)
STAMPED = LogConfig(timestamp_type=TimestampType.LOG_APPEND_TIME)


def batch(*keys: bytes | None, timestamps_ms: tuple[int, ...] = (), **options: Any) -> bytes:
    times = timestamps_ms or (NOW_MS,) * len(keys)
    records = [
        Record(key=key, value=b"v", offset=offset, timestamp_ms=times[offset])
        for offset, key in enumerate(keys)
    ]
    return encode_batch(records, base_offset=0, **options)


def produced(content: bytes, config: LogConfig = LogConfig()) -> bytes:  # noqa: B008
    return produced_batch(content, config, base_offset=70, leader_epoch=3, now_ms=NOW_MS)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_it_gets_the_logs_next_offset_and_leader_epoch(compression: Compression) -> None:
    decoded = decode_batch(produced(batch(b"a", None, b"c", compression=compression)))
    assert (decoded.base_offset, decoded.last_offset) == (70, 72)
    assert decoded.partition_leader_epoch == 3
    assert [(each.offset, each.key) for each in decoded.records] == [
        (70, b"a"),
        (71, None),
        (72, b"c"),
    ]
    assert [each.timestamp_ms for each in decoded.records] == [NOW_MS] * 3


def test_it_gets_the_time_of_the_append_where_the_log_says_so() -> None:
    content = batch(b"a", b"b", timestamps_ms=(0, NOW_MS + 9 * HOUR_MS))
    decoded = decode_batch(produced(content, STAMPED))
    assert decoded.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [each.timestamp_ms for each in decoded.records] == [NOW_MS] * 2


@pytest.mark.parametrize("timestamps_ms", [(NOW_MS + HOUR_MS + 1, 0), (0, NOW_MS + HOUR_MS + 1)])
def test_one_record_from_the_future_refuses_it(timestamps_ms: tuple[int, ...]) -> None:
    with pytest.raises(InvalidTimestamp):
        produced(batch(b"a", b"b", timestamps_ms=timestamps_ms))


def test_one_record_that_is_too_old_refuses_it() -> None:
    content = batch(b"a", b"b", timestamps_ms=(NOW_MS - 11, NOW_MS))
    with pytest.raises(InvalidTimestamp, match="record 0"):
        produced(content, LogConfig(timestamp_before_ms_max=10))


def test_a_compacted_log_takes_no_record_without_a_key() -> None:
    assert produced(batch(b"a", b""), COMPACTED)
    with pytest.raises(InvalidRecord, match="record 1 of the batch has no key"):
        produced(batch(b"a", None), COMPACTED)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (batch(b"a", is_control=True), "transactions"),
        (batch(b"a", is_transactional=True), "transactions"),
        (batch(b"a", producer_id=5), "idempotent"),
        (batch(b"a", delete_horizon_ms=NOW_MS), "delete horizon"),
        (batch(b"a", timestamp_type=TimestampType.LOG_APPEND_TIME), "time of the append"),
        (batch(b"a", last_offset=1), "do not fill"),
        (batch(), "do not fill"),
        (batch(b"a", max_timestamp_ms=NOW_MS + 1), "largest timestamp"),
    ],
)
def test_what_only_a_broker_writes_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(InvalidRecord, match=why):
        produced(content)


@pytest.mark.parametrize("config", [LogConfig(), COMPACTED, STAMPED])
@pytest.mark.parametrize(
    "content", [b"", batch(b"a")[:-1], batch(b"a") + b"x", batch(b"a")[:-1] + b"\xff"]
)
def test_bytes_that_are_no_whole_batch_are_refused(content: bytes, config: LogConfig) -> None:
    with pytest.raises(CorruptBatch):
        produced(content, config)
