"""Timestamps are checked at the append as Kafka 4.1.1 does, or set as it sets them."""

from __future__ import annotations

import attrs
import pytest
from offsetd_storage.batch.append_timestamps import (
    check_timestamps,
    prepared_batch,
    with_append_time,
)
from offsetd_storage.batch.compression import Compression
from offsetd_storage.batch.record_batch import Record, decode_batch, encode_batch
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.errors import CorruptBatch, InvalidTimestamp
from offsetd_storage.timestamp_type import TimestampType

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
BEFORE = LogConfig(timestamp_before_ms_max=1000)
APPEND_TIME = LogConfig(timestamp_type=TimestampType.LOG_APPEND_TIME)
# Records (k0, v0, 1000), (k1, v1, 3000), (k2, v2, 2000) as Kafka encodes them, and what its
# `MutableRecordBatch.setMaxTimestamp(LOG_APPEND_TIME, 1700000000000)` makes of that.
KAFKA_BATCHES = {
    "none": (
        (
            "0000000000000005000000540000000702544309c600000000000200000000000003e80000000000"
            "000bb8ffffffffffffffffffffffffffff0000000314000000046b30047630001600a01f02046b31"
            "047631001600d00f04046b3204763200"
        ),
        (
            "000000000000000500000054000000070275c3bc9700080000000200000000000003e80000018bcf"
            "e56800ffffffffffffffffffffffffffff0000000314000000046b30047630001600a01f02046b31"
            "047631001600d00f04046b3204763200"
        ),
    ),
    "gzip": (
        (
            "00000000000000050000006700000007021fa8c25300010000000200000000000003e80000000000"
            "000bb8ffffffffffffffffffffffffffff000000031f8b08000000000000ff1361606060c9366029"
            "336010635820cfc4926dc8526608645fe06761c936622933620000ea16972923000000"
        ),
        (
            "0000000000000005000000670000000702f2f41e9f00090000000200000000000003e80000018bcf"
            "e56800ffffffffffffffffffffffffffff000000031f8b08000000000000ff1361606060c9366029"
            "336010635820cfc4926dc8526608645fe06761c936622933620000ea16972923000000"
        ),
    ),
}


def batch_with(*timestamps_ms: int, compression: Compression = Compression.NONE) -> bytes:
    records = [
        Record(key=b"k", value=b"v", offset=offset, timestamp_ms=timestamp_ms)
        for offset, timestamp_ms in enumerate(timestamps_ms)
    ]
    return encode_batch(records, base_offset=0, compression=compression)


@pytest.mark.parametrize(
    ("config", "timestamp_ms", "is_taken"),
    [
        (LogConfig(), NOW_MS, True),
        (LogConfig(), NOW_MS + HOUR_MS, True),
        (LogConfig(), NOW_MS + HOUR_MS + 1, False),
        (LogConfig(), 0, True),
        (LogConfig(), -1, True),  # No timestamp.
        (BEFORE, -1, True),
        (BEFORE, NOW_MS - 1000, True),
        (BEFORE, NOW_MS - 1001, False),
        (LogConfig(timestamp_after_ms_max=0), NOW_MS, True),
        (LogConfig(timestamp_after_ms_max=0), NOW_MS + 1, False),
        (LogConfig(timestamp_after_ms_max=2**63 - 1), 2**63 - 1, True),
    ],
)
def test_a_timestamp_is_taken_up_to_its_bound_exactly(
    config: LogConfig, timestamp_ms: int, is_taken: bool
) -> None:
    timestamps_ms = [NOW_MS, timestamp_ms]
    if is_taken:
        check_timestamps(timestamps_ms, config, now_ms=NOW_MS)
        return
    with pytest.raises(InvalidTimestamp) as refused:
        check_timestamps(timestamps_ms, config, now_ms=NOW_MS)
    assert (refused.value.timestamp_ms, refused.value.record) == (timestamp_ms, 1)
    assert not refused.value.retriable


@pytest.mark.parametrize(
    ("config", "timestamp_ms", "message"),
    [
        (
            LogConfig(),
            NOW_MS + HOUR_MS + 1,
            (
                "record 0 of the batch: timestamp 1700003600001 is 3600001 ms after the clock;"
                " message.timestamp.after.max.ms allows 3600000"
            ),
        ),
        (
            BEFORE,
            NOW_MS - 1001,
            (
                "record 0 of the batch: timestamp 1699999998999 is 1001 ms before the clock;"
                " message.timestamp.before.max.ms allows 1000"
            ),
        ),
    ],
)
def test_a_refusal_says_which_bound_was_passed(
    config: LogConfig, timestamp_ms: int, message: str
) -> None:
    with pytest.raises(InvalidTimestamp) as refused:
        check_timestamps([timestamp_ms], config, now_ms=NOW_MS)
    assert str(refused.value) == message


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_every_record_of_a_batch_is_looked_at(compression: Compression) -> None:
    good = batch_with(NOW_MS, NOW_MS + 5, compression=compression)
    assert prepared_batch(good, LogConfig(), now_ms=NOW_MS) == good
    bad = batch_with(NOW_MS, NOW_MS + HOUR_MS + 1, NOW_MS, compression=compression)
    with pytest.raises(InvalidTimestamp, match="record 1 of the batch"):
        prepared_batch(bad, LogConfig(), now_ms=NOW_MS)


@pytest.mark.parametrize("codec", sorted(KAFKA_BATCHES))
def test_the_time_of_the_append_is_put_in_as_kafka_does(codec: str) -> None:
    sent, stamped = map(bytes.fromhex, KAFKA_BATCHES[codec])
    assert with_append_time(sent, NOW_MS) == stamped
    assert with_append_time(stamped, NOW_MS) == stamped


def test_with_log_append_time_no_timestamp_is_refused_and_all_are_the_clocks() -> None:
    sent = batch_with(NOW_MS + 10 * HOUR_MS, -1, 5)
    batch = decode_batch(prepared_batch(sent, APPEND_TIME, now_ms=NOW_MS))
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert batch.max_timestamp_ms == NOW_MS
    before = decode_batch(sent)
    assert batch.records == tuple(
        attrs.evolve(record, timestamp_ms=NOW_MS) for record in before.records
    )


def test_what_is_no_batch_is_not_stamped() -> None:
    with pytest.raises(CorruptBatch):
        with_append_time(b"x" * 60, NOW_MS)
