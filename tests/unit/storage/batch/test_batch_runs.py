"""Runs are read as the batches that they are, and leave a log as those would one by one."""

from __future__ import annotations

import struct
from itertools import accumulate
from random import Random

import attrs
import numpy as np
import pytest
from changed_configs import with_settings
from log_stores import FOLDER, P0, P1, SMALL, append_run, contents, seeded, tree
from offsetd_storage.batch.batch_runs import Run, read_runs, split_run
from offsetd_storage.batch.record_batch import batch_header
from offsetd_storage.clock import ManualClock
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.disk.simulated_disk import BLOCK_BYTES
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import (
    CorruptBatch,
    InvalidTimestamp,
    PartitionQuarantined,
    RecordTooLarge,
    StorageFailed,
    StorageFull,
)
from offsetd_storage.kernels import padded_copy
from offsetd_storage.log_store import LogStore, LogStoreConfig
from offsetd_storage.timestamp_type import TimestampType
from offsetd_storage.topic_partition import TopicPartition
from partition_logs import NOW_MS, batch_of, scans_of

BATCHES = [
    batch_of(7),
    batch_of(8, count=3, timestamp_ms=NOW_MS + 5, leader_epoch=2),
    batch_of(11, leader_epoch=1),
]
RUN = b"".join(BATCHES)
ROOMY = LogStoreConfig(partitions=2, log=LogConfig(), journal_file_bytes=1 << 17)


def opened(files: SimulatedFiles, config: LogStoreConfig = SMALL) -> LogStore:
    clock = ManualClock(NOW_MS)
    files.clock = clock
    return LogStore.open(files, FOLDER, config, clock=clock, random=Random(1))


def batches_from(offset: int, random: Random, count: int) -> list[bytes]:
    """Batches of any size, each with any number of records; times go back and forth."""
    batches = []
    for _ in range(count):
        records = random.randint(1, 4)
        timestamp_ms = NOW_MS + random.randint(-50, 50)
        size_bytes = random.randint(75, 260)
        batches.append(
            batch_of(offset, count=records, timestamp_ms=timestamp_ms, size_bytes=size_bytes)
        )
        offset += records
    return batches


def with_room(settings: dict[str, str] | None = None) -> LogStore:
    """A store of which P0, which ends at 7, takes more without another look."""
    store = opened(SimulatedFiles(), ROOMY)
    log = store.logs[P0]
    log.config = with_settings(log.config, settings or {})
    assert append_run(store, P0, batch_of(0, count=7)) == (1, None)
    store.flush()
    log.write()
    return store


# Reading ---------------------------------------------------------------------------------------


def test_runs_are_read_as_their_batches() -> None:
    content = padded_copy(b"12345" + RUN + BATCHES[1])
    run, other = read_runs(
        content, np.array([[5, 5 + len(RUN)], [5 + len(RUN), content.size - 16]])
    )
    assert run == Run(
        content=RUN,
        batch_count=3,
        batch_bytes_max=max(map(len, BATCHES)),
        base_offset=7,
        last_offset=11,
        leader_epoch_max=2,
        timestamp_ms_min=NOW_MS,
        timestamp_ms_max=NOW_MS + 5,
        timestamp_ms_max_offset=10,
    )
    assert (other.content, other.batch_count) == (BATCHES[1], 1)
    assert (other.base_offset, other.last_offset, other.leader_epoch_max) == (8, 10, 2)
    assert list(split_run(RUN)) == BATCHES


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "without a batch"),
        (RUN[:-1], "cut short"),
        (RUN + b"x", "cut short"),
        (RUN + bytes(61), "not a batch"),
        (RUN[:8] + struct.pack(">i", 48) + RUN[12:], "not a batch"),
        (RUN[:8] + struct.pack(">i", -1) + RUN[12:], "not a batch"),
        (RUN[:16] + b"\1" + RUN[17:], "not a batch"),
        (RUN[:23] + struct.pack(">i", -1) + RUN[27:], "not a batch"),
        (BATCHES[0] + BATCHES[2], "leave a gap"),
        (BATCHES[1] + BATCHES[0], "leave a gap"),
    ],
)
def test_what_is_not_whole_batches_is_no_run(content: bytes, reason: str) -> None:
    spans = np.array([[0, len(RUN)], [len(RUN), len(RUN) + len(content)]])
    with pytest.raises(CorruptBatch, match=reason):
        read_runs(padded_copy(RUN + content), spans)


@pytest.mark.parametrize("content", [b"", RUN[:-1], RUN + b"x", RUN + bytes(61)])
def test_nor_can_it_be_split(content: bytes) -> None:
    with pytest.raises(CorruptBatch, match="cut short"):
        list(split_run(content))


# Appending -------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [SMALL, ROOMY], ids=["small segments", "large ones"])
def test_a_log_is_the_same_by_runs_and_by_batches(config: LogStoreConfig) -> None:
    """Its bytes, where segments roll, both indexes, and what a scan would make of them."""
    random = seeded()
    log = attrs.evolve(config.log, index_interval_bytes=random.choice([100, 400, 4096]))
    config = attrs.evolve(config, log=log)
    by_runs, by_batches = SimulatedFiles(), SimulatedFiles()
    stores = opened(by_runs, config), opened(by_batches, config)
    for _ in range(60):
        topic_partition = random.choice((P0, P1))
        offset = stores[1].logs[topic_partition].offset_next
        batches = batches_from(offset, random, random.randint(1, 6))
        assert append_run(stores[0], topic_partition, b"".join(batches)) == (len(batches), None)
        for batch in batches:
            header = batch_header(batch)
            stores[1].append(
                topic_partition,
                batch,
                last_offset=header.last_offset,
                max_timestamp_ms=header.max_timestamp_ms,
            )
        for store in stores:
            store.flush()
        # Both at once: this also writes the lists of segments.
        if max(store.journal_used_ratio for store in stores) > 0.5:
            for store in stores:
                store.advance_recovery_points()
    assert contents(stores[0]) == contents(stores[1])
    for store in stores:
        for each in store.logs.values():
            each.sync()
    for topic_partition in (P0, P1):
        folder = FOLDER / topic_partition.folder_name
        mine, theirs = (
            {str(path): raw for path, raw in tree(files, folder).items()}
            for files in (by_runs, by_batches)
        )
        assert mine == theirs
        scans = scans_of(by_runs, folder, config.log)
        for segment in stores[0].logs[topic_partition].segments:
            scan = scans[segment.base_offset]
            assert segment.offset_index.entries == scan.offset_index.tobytes()
            assert segment.largest_timestamp_ms == scan.largest_timestamp_ms
            assert segment.largest_timestamp_offset == scan.largest_timestamp_offset


def test_a_run_stops_where_the_index_is_full() -> None:
    """A segment of which the index is full takes no batch more, also within a run."""
    log = attrs.evolve(ROOMY.log, index_interval_bytes=1, segment_index_bytes_max=80)
    store = opened(SimulatedFiles(), attrs.evolve(ROOMY, log=log))
    content = b""
    for offset in range(0, 42, 3):
        run = b"".join(batch_of(offset + number) for number in range(3))
        assert append_run(store, P0, run) == (3, None)
        content += run
    segments = store.logs[P0].segments
    store.logs[P0].write()
    # Entries of eight bytes; the first batch of a segment has none.
    assert [len(each.offset_index) for each in segments] == [10, 10, 10, 8]
    assert contents(store)[P0] == content


def test_runs_come_back_from_the_journal_batch_by_batch() -> None:
    random = seeded()
    files = SimulatedFiles()
    store = opened(files, ROOMY)
    for _ in range(20):
        append_run(store, P0, b"".join(batches_from(store.logs[P0].offset_next, random, 5)))
        store.flush()
    expected = contents(store)
    seen = files.power_cut()
    again = opened(seen, attrs.evolve(SMALL, partitions=2))  # It rolls elsewhere now.
    assert contents(again) == expected
    report = {each.topic_partition: each for each in again.report.partitions}
    assert report[P0].batches_appended_again == 100
    assert len(again.logs[P0].segments) > 5


def test_a_run_that_fits_no_frame_goes_in_one_by_one() -> None:
    random = seeded()
    files = SimulatedFiles()
    store = opened(files)
    content = b"".join(batches_from(0, random, 30))
    assert len(content) > store._journal.frame_payload_bytes_max
    assert append_run(store, P0, content) == (30, None)
    store.flush()
    assert contents(opened(files.power_cut()))[P0] == content


@pytest.mark.parametrize(
    ("settings", "content", "taken", "error"),
    [
        ({"max.message.bytes": "300"}, [{}, {"size_bytes": 301}, {}], 1, RecordTooLarge),
        ({}, [{}, {}, {"timestamp_ms": NOW_MS + 3_600_001}], 2, InvalidTimestamp),
        (
            {"message.timestamp.before.max.ms": "10"},
            [{"timestamp_ms": NOW_MS - 11}, {}],
            0,
            InvalidTimestamp,
        ),
    ],
)
def test_a_run_goes_in_up_to_a_batch_that_is_refused(
    settings: dict[str, str], content: list[dict[str, int]], taken: int, error: type[Exception]
) -> None:
    store = with_room(settings)
    batches = [batch_of(7 + place, **each) for place, each in enumerate(content)]
    count, refusal = append_run(store, P0, b"".join(batches))
    assert count == taken
    assert isinstance(refusal, error)
    log, has_taken = store.logs[P0], taken > 0
    assert (log.offset_next, log.has_unwritten, bool(store._pending_frames)) == (
        7 + taken,
        has_taken,
        has_taken,
    )
    assert append_run(store, P0, batch_of(7 + taken)) == (1, None)


def test_a_segment_knows_the_first_batch_of_a_run_that_has_the_largest_timestamp() -> None:
    store = with_room()
    times_ms = (NOW_MS + 1, NOW_MS + 5, NOW_MS + 5, NOW_MS + 2)
    run = [batch_of(7 + place, timestamp_ms=each) for place, each in enumerate(times_ms)]
    assert append_run(store, P0, b"".join(run)) == (4, None)
    segment = store.logs[P0].segments[-1]
    assert (segment.largest_timestamp_ms, segment.largest_timestamp_offset) == (NOW_MS + 5, 8)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (batch_of(6), "continue the offsets"),
        (batch_of(8), "continue the offsets"),
        (batch_of(7, leader_epoch=1), "leader epochs"),
        (batch_of(7) + batch_of(8, leader_epoch=1), "leader epochs"),
    ],
)
def test_a_run_continues_its_log(content: bytes, reason: str) -> None:
    store = with_room()
    with pytest.raises(ValueError, match=reason):
        append_run(store, P0, content)
    assert (store.logs[P0].offset_next, bool(store._pending_frames)) == (7, False)


def test_runs_of_several_logs_go_in_at_once_each_by_itself() -> None:
    store = opened(SimulatedFiles(), ROOMY)
    store.logs[P0].config = with_settings(store.logs[P0].config, {"max.message.bytes": "99"})
    batches = [batch_of(0, size_bytes=100), batch_of(0, size_bytes=90), batch_of(1)]
    ends = list(accumulate(map(len, batches)))
    spans = np.array([[0, ends[0]], [ends[0], ends[2]]])
    appended = store.append_runs([P0, P1], padded_copy(b"".join(batches)), spans)
    assert appended.batch_counts == [0, 2]
    assert {place: type(error) for place, error in appended.refusals.items()} == {0: RecordTooLarge}
    assert contents(store) == {P0: b"", P1: b"".join(batches[1:])}


def test_the_time_of_the_append_is_in_each_batch() -> None:
    store = opened(SimulatedFiles())
    log = store.logs[P0]
    log.config = attrs.evolve(log.config, timestamp_type=TimestampType.LOG_APPEND_TIME)
    content = batch_of(0, timestamp_ms=5) + batch_of(1, timestamp_ms=9)
    assert append_run(store, P0, content) == (2, None)
    headers = [batch_header(each) for each in split_run(contents(store)[P0])]
    assert [each.max_timestamp_ms for each in headers] == [NOW_MS, NOW_MS]


def test_where_there_is_no_room_the_first_few_batches_go_in() -> None:
    files = SimulatedFiles()
    store = opened(files)
    batches = [batch_of(offset, size_bytes=200) for offset in range(10)]
    files.capacity_bytes = files._used_bytes() + 5 * BLOCK_BYTES  # A segment has three files.
    count, refusal = append_run(store, P0, b"".join(batches))
    assert isinstance(refusal, StorageFull)
    assert 0 < count < 10
    assert store.logs[P0].offset_next == count
    assert append_run(store, P0, batches[count])[0] == 0
    store.flush()
    assert contents(store)[P0] == b"".join(batches[:count])


def test_a_run_for_a_log_that_is_not_there_or_a_disk_that_failed_is_refused() -> None:
    store = opened(SimulatedFiles())
    with pytest.raises(PartitionQuarantined):
        append_run(store, TopicPartition("other", 0), batch_of(0))
    store._latch.latch(OSError("gone"))
    with pytest.raises(StorageFailed, match="gone"):
        append_run(store, P0, batch_of(0))
