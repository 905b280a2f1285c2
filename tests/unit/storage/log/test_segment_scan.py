from __future__ import annotations

import re
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsetd_storage.batch.record_batch import Record, decode_batches, encode_batch
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.kernels import padded_buffer
from offsetd_storage.log import segment_scan
from offsetd_storage.log.segment_scan import (
    ScanStop,
    StopReason,
    scan_segment,
)

pytestmark = pytest.mark.kernel

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka-4.1.1" / "data"
LOGS = sorted(GOLDEN.glob("*/*.log"))


class MemoryFile:
    """A file of which `pread_into` counts how often it is called."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.reads = 0

    def pread_into(self, buffer, size, position):
        self.reads += 1
        part = self.content[position : position + size]
        buffer[: len(part)] = np.frombuffer(part, dtype=np.uint8)
        return len(part)


def batch(base_offset: int, *, last_offset=None, timestamp_ms=1000, size=5, **fields) -> bytes:
    record = Record(key=b"k", value=b"v" * size, offset=base_offset, timestamp_ms=timestamp_ms)
    return encode_batch([record], base_offset=base_offset, last_offset=last_offset, **fields)


def scan_bytes(content: bytes, **options):
    options = {"size": len(content), "base_offset": 0, "offset_min": 0} | options
    return scan_segment(MemoryFile(content), **options)


def as_kafka_recovers(content: bytes, base_offset: int, interval: int) -> tuple[bytes, bytes]:
    """`.index` and `.timeindex`, step by step as `LogSegment.recover` of Kafka makes them."""
    offset_index, time_index = [], []
    position = indexed = 0
    largest = (-1, base_offset)
    for each in decode_batches(content):
        if each.max_timestamp_ms > largest[0]:
            largest = (each.max_timestamp_ms, each.last_offset)
        if position - indexed > interval:
            offset_index.append((each.last_offset - base_offset, position))
            if largest[0] > (time_index[-1][0] if time_index else -1):
                time_index.append((largest[0], largest[1] - base_offset))
            indexed = position
        position += each.size_bytes
    return (
        np.array(offset_index, dtype=">i4").tobytes(),
        b"".join(t.to_bytes(8, "big", signed=True) + o.to_bytes(4, "big") for t, o in time_index),
    )


@pytest.mark.parametrize("log", LOGS, ids=[log.parent.name for log in LOGS])
def test_a_brokers_segment_is_valid_and_its_indexes_are_the_ones_the_broker_wrote(log):
    file = OsFiles().open(log, read_only=True)
    scan = scan_segment(file, size=file.size(), base_offset=0, offset_min=0)
    file.close()
    batches = list(decode_batches(log.read_bytes()))
    assert scan.stop is None
    assert scan.valid_bytes == log.stat().st_size
    assert scan.batches == len(batches)
    assert scan.records == sum(each.count for each in batches)
    assert scan.offset_next == batches[-1].last_offset + 1
    assert scan.leader_epoch_last == 0
    assert scan.first_timestamp_ms == batches[0].max_timestamp_ms
    assert scan.largest_timestamp_ms == max(each.max_timestamp_ms for each in batches)
    assert scan.offset_index.tobytes() == log.with_suffix(".index").read_bytes()
    # When it closes a segment, a broker adds an entry for its end.
    last = scan.largest_timestamp_ms.to_bytes(8, "big") + scan.largest_timestamp_offset.to_bytes(
        4, "big"
    )
    derived = scan.time_index.tobytes()
    written = log.with_suffix(".timeindex").read_bytes()
    assert written == (derived if derived[-12:-4] == last[:8] else derived + last)


def test_the_golden_folder_has_index_entries():
    sizes = [log.with_suffix(".index").stat().st_size for log in LOGS]
    assert sum(size > 0 for size in sizes) >= 10


@given(
    drawn=st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 50), st.integers(0, 300)),
        max_size=40,
    ),
    base_offset=st.integers(0, 2**40),
    interval=st.integers(0, 1500),
    buffer_bytes=st.integers(0, 700),
)
def test_a_scan_says_the_same_whatever_the_buffer_and_indexes_as_kafka_does(
    drawn, base_offset, interval, buffer_bytes
):
    content, offset, records = bytearray(), base_offset, 0
    for gap, span, timestamp_ms, size in drawn:
        fields = {"timestamp_ms": timestamp_ms, "size": size, "leader_epoch": records // 5}
        content += batch(offset + gap, last_offset=offset + gap + span, **fields)
        offset += gap + span + 1
        records += 1
    scan = scan_bytes(
        bytes(content),
        base_offset=base_offset,
        index_interval_bytes=interval,
        buffer=padded_buffer(buffer_bytes),
    )
    batches = list(decode_batches(bytes(content)))
    assert scan.stop is None
    assert (scan.valid_bytes, scan.offset_next) == (len(content), offset)
    assert (scan.batches, scan.records) == (len(batches), records)
    assert scan.leader_epoch_last == (-1 if not drawn else (records - 1) // 5)
    assert scan.first_timestamp_ms == (drawn[0][2] if drawn else -1)
    largest = max((each.max_timestamp_ms for each in batches), default=-1)
    assert scan.largest_timestamp_ms == largest
    assert scan.largest_timestamp_offset == next(
        (each.last_offset for each in batches if each.max_timestamp_ms == largest), base_offset
    )
    indexes = as_kafka_recovers(bytes(content), base_offset, interval)
    assert (scan.offset_index.tobytes(), scan.time_index.tobytes()) == indexes


def test_an_empty_segment_begins_at_its_base_offset():
    scan = scan_bytes(b"", base_offset=70, offset_min=60, leader_epoch_min=4)
    assert (scan.valid_bytes, scan.offset_next, scan.batches, scan.records) == (0, 70, 0, 0)
    assert (scan.first_timestamp_ms, scan.largest_timestamp_ms) == (-1, -1)
    assert (scan.largest_timestamp_offset, scan.leader_epoch_last) == (70, 4)
    assert (len(scan.offset_index), len(scan.time_index), scan.stop) == (0, 0, None)


GOOD = b"".join(batch(offset, leader_epoch=1, size=offset * 10) for offset in range(20))


@pytest.mark.parametrize("buffer_bytes", [0, 150, 1000, 100_000])
@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (batch(20, leader_epoch=1)[:40], StopReason.INCOMPLETE),
        (batch(20, leader_epoch=1, size=900)[:-1], StopReason.INCOMPLETE),
        (bytes(500), StopReason.BAD_LENGTH),
        (
            batch(20, leader_epoch=1)[:-1] + b"!" + batch(21, leader_epoch=1),
            StopReason.BAD_CHECKSUM,
        ),
        (batch(19, leader_epoch=1) + batch(21, leader_epoch=1), StopReason.BAD_OFFSET),
        (batch(20, leader_epoch=0) + batch(21, leader_epoch=1), StopReason.BAD_LEADER_EPOCH),
    ],
)
def test_a_scan_says_where_it_stopped_and_why(bad, reason, buffer_bytes):
    scan = scan_bytes(GOOD + bad, buffer=padded_buffer(buffer_bytes))
    assert scan.stop == ScanStop(position=len(GOOD), reason=reason)
    assert (scan.valid_bytes, scan.offset_next, scan.batches) == (len(GOOD), 20, 20)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"base_offset": 6}, StopReason.BAD_OFFSET),
        ({"offset_min": 6}, StopReason.BAD_OFFSET),
        ({"leader_epoch_min": 2}, StopReason.BAD_LEADER_EPOCH),
    ],
)
def test_the_first_batch_has_to_follow_what_the_caller_knows(options, reason):
    content = batch(5, leader_epoch=1)
    assert scan_bytes(content, offset_min=5, base_offset=5, leader_epoch_min=1).stop is None
    stop = scan_bytes(content, **options).stop
    assert stop == ScanStop(position=0, reason=reason)


def test_a_length_beyond_the_end_of_the_file_makes_no_room():
    content = bytearray(batch(0))
    content[8:12] = (2**31 - 1).to_bytes(4, "big")
    file = MemoryFile(bytes(content))
    scan = scan_segment(
        file, size=len(content), base_offset=0, offset_min=0, buffer=padded_buffer(61)
    )
    assert scan.stop == ScanStop(position=0, reason=StopReason.INCOMPLETE)
    assert file.reads == 1


def test_a_batch_larger_than_any_that_is_read_ends_the_scan(monkeypatch):
    content = GOOD + batch(20, leader_epoch=1, size=5000)
    monkeypatch.setattr(segment_scan, "BATCH_BYTES_MAX", 4999)
    scan = scan_bytes(content, buffer=padded_buffer(1000))
    assert scan.stop == ScanStop(position=len(GOOD), reason=StopReason.TOO_LARGE)


def test_only_the_first_bytes_of_the_file_are_looked_at():
    scan = scan_bytes(GOOD + b"something else", size=len(GOOD))
    assert (scan.valid_bytes, scan.stop) == (len(GOOD), None)


def test_a_file_that_is_shorter_than_was_said_ends_where_it_ends():
    scan = scan_bytes(GOOD, size=len(GOOD) + 1000)
    assert (scan.valid_bytes, scan.stop) == (len(GOOD), None)
    scan = scan_bytes(GOOD[:-1], size=len(GOOD) + 1000)
    assert scan.stop is not None
    assert scan.stop.reason is StopReason.INCOMPLETE


def test_many_batches_have_many_index_entries():
    count = 10_000
    content = b"".join(batch(offset) for offset in range(count))
    scan = scan_bytes(content, index_interval_bytes=0)
    assert len(scan.offset_index) == count - 1
    assert scan.offset_index["relative_offset"].tolist() == list(range(1, count))
    assert len(scan.time_index) == 1


def test_scans_on_several_threads_say_the_same():
    content = b"".join(batch(offset, size=200) for offset in range(5000))
    results = []

    def run():
        results.append(scan_bytes(content).offset_index.tobytes())

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [results[0]] * 4
    assert results[0]


def test_stop_reasons_are_told_in_words():
    assert all(re.fullmatch(r"[A-Z_]+", reason.name) for reason in StopReason)
