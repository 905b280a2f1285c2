"""Segments are written late: nothing acknowledged rests on that, and nobody who reads notices."""

from __future__ import annotations

import errno
import threading
from random import Random
from typing import TYPE_CHECKING

import attrs
import pytest
from log_stores import P0, P1, P2, SMALL, SMALL_LOG, append, commit, contents, log_bytes, opened
from offsetd_storage.batch.record_batch import batch_header
from offsetd_storage.cleaner.cleaning_round import read_history
from offsetd_storage.clock import ManualClock
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.disk.simulated_faults import Fault, Operation, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import StorageFailed
from offsetd_storage.log_store import LogStoreConfig
from offsetd_storage.retention.retention_rules import plan_of_log
from partition_logs import NOW_MS, bases, batch_of, segment_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.log.segment_reader import SegmentReader
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.topic_partition import TopicPartition

LARGE = attrs.evolve(SMALL, journal_file_bytes=1 << 16)


def on_write_of_a_log(files: SimulatedFiles, step: Callable[[], object]) -> None:
    """Does this once, when a segment's file is about to be written."""

    def look(_: SimulatedFiles, operation: Operation) -> None:
        if operation.kind is OperationKind.WRITE and operation.path.suffix == ".log":
            files.before_operation = None
            step()

    files.before_operation = look


def durable(files: SimulatedFiles) -> dict[TopicPartition, bytes]:
    """What is served after a power cut now."""
    store = opened(files.power_cut(), LARGE)
    assert not store.quarantined
    held = contents(store)
    store.abandon()
    return held


def read_up_to(store: LogStore, topic_partition: TopicPartition) -> bytes:
    """What a watcher reads: all that is durable, and nothing else."""
    chunks = store.logs[topic_partition].read_chunks(
        1000, offset_limit=store.durable_end(topic_partition)
    )
    return b"".join(buffer[:end].tobytes() for buffer, end in chunks)


# After a crash ---------------------------------------------------------------------------------


def test_after_a_power_cut_the_journal_has_what_no_segment_was_given() -> None:
    files = SimulatedFiles()
    store = opened(files, LARGE)
    expected = dict.fromkeys((P0, P1, P2), b"")
    for number in range(60):
        topic_partition = (P0, P1)[number % 2]
        expected[topic_partition] += commit(store, topic_partition, size_bytes=120)
    assert [log.offset_next_written for log in store.logs.values()] == [0, 0, 0]
    assert len(bases(store.logs[P0])) > 3, "segments that were rolled, and never written"
    for disk in (files.power_cut(), files.kill()):
        again = opened(disk, LARGE)
        assert contents(again) == expected
        assert again.logs[P0].index_problems == ()
        assert contents(opened(disk.power_cut(), LARGE)) == expected
    assert durable(files) == expected


def test_a_log_rolled_at_its_end_and_never_written_comes_back() -> None:
    files = SimulatedFiles()
    store = opened(files, LARGE)
    batch = commit(store, P0)
    assert store.roll(P0)
    assert durable(files)[P0] == batch
    second = commit(store, P0)
    assert durable(files)[P0] == batch + second
    store.advance_recovery_points()
    assert store.recovery_point(P0).offset == 2
    assert durable(files)[P0] == batch + second


def test_recovery_points_move_only_once_the_segments_are_written_and_synced() -> None:
    files = SimulatedFiles()
    store = opened(files, LARGE)
    expected = b"".join(commit(store, P0, size_bytes=150) for _ in range(12))
    seen: list[tuple[OperationKind, str]] = []
    files.before_operation = lambda _, each: seen.append((each.kind, each.path.name))
    store.advance_recovery_points()
    files.before_operation = None
    frame = seen.index((OperationKind.WRITE, "offsetd-journal-0"))
    for segment in store.logs[P0].segments:
        written = seen.index((OperationKind.WRITE, segment.path.name))
        assert written < seen.index((OperationKind.SYNC, segment.path.name)) < frame
    assert store.recovery_point(P0).offset == 12
    assert durable(files)[P0] == expected


# Readers ---------------------------------------------------------------------------------------


def test_what_a_flush_made_durable_is_read_right_after_it() -> None:
    store = opened(SimulatedFiles(), LARGE)
    expected = b""
    for _ in range(20):
        expected += commit(store, P0, size_bytes=130)
        append(store, P1)
        assert read_up_to(store, P0) == expected
    assert read_up_to(store, P1) != b""


def test_a_reader_of_what_is_written_has_nothing_written() -> None:
    store = opened(SimulatedFiles(), LARGE)
    first = commit(store, P0)
    assert read_up_to(store, P0) == first
    commit(store, P0)
    log = store.logs[P0]
    chunks = log.read_chunks(1000, offset_limit=1)
    assert b"".join(buffer[:end].tobytes() for buffer, end in chunks) == first
    assert log.offset_next_written == 1


@pytest.mark.parametrize(
    "look",
    [
        lambda log: log.read(0, bytes_max=10_000),
        lambda log: [end for _, end in log.read_chunks(1000)],
        lambda log: log.offset_for_timestamp(NOW_MS),
        read_history,
        lambda log: plan_of_log(log._files, log, now_ms=NOW_MS),
    ],
    ids=["read", "all chunks", "a time", "producers", "retention"],
)
def test_whoever_looks_at_all_of_a_log_has_it_written(
    look: Callable[[PartitionLog], object],
) -> None:
    store = opened(SimulatedFiles(), LARGE)
    for _ in range(12):
        commit(store, P0, size_bytes=150)
    log = store.logs[P0]
    found = look(log)
    assert not log.has_unwritten
    assert look(log) == found


def test_a_sync_of_segments_writes_them_first() -> None:
    files = SimulatedFiles()
    store = opened(files, LARGE)
    batch = commit(store, P0)
    store.sync_segments(P0)
    path = store.logs[P0].segments[0].path
    assert files.power_cut().read_bytes(path) == batch


def test_a_segment_ages_from_its_first_append_written_or_not() -> None:
    clock = ManualClock(NOW_MS)
    hourly = attrs.evolve(SMALL, log=attrs.evolve(SMALL_LOG, segment_ms=3_600_000))
    store = opened(SimulatedFiles(clock=clock), hourly)
    store._clock = clock
    commit(store, P0)
    clock.advance(3_600_000)
    assert not store.roll(P0, only_if_due=True)
    clock.advance(1)
    assert store.roll(P0, only_if_due=True)


def test_a_read_leaves_nothing_out_that_another_thread_writes_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = opened(SimulatedFiles(), LARGE)
    log = store.logs[P0]
    commit(store, P0)
    readers_from = log._readers_from

    def slowly(offset: int) -> Iterator[tuple[SegmentReader, int]]:
        commit(store, P0)
        assert store.roll(P0)
        commit(store, P0)
        for found in readers_from(offset):
            yield found
            log.write()  # Another thread's, between one segment and the next.

    monkeypatch.setattr(log, "_readers_from", slowly)
    assert log.read(1, bytes_max=1000) == b"", "it had ended there, when the call was made"
    monkeypatch.undo()
    assert batch_header(log.read(1, bytes_max=1000)).base_offset == 1


# Memory ----------------------------------------------------------------------------------------


def test_what_waits_in_memory_is_bounded_and_written_behind_the_frame() -> None:
    files = SimulatedFiles()
    store = opened(files, attrs.evolve(LARGE, log=LogConfig(), unwritten_bytes_max=3 * 1000))
    seen: list[str] = []
    files.before_operation = lambda _, each: (
        seen.append(each.path.suffix) if each.kind is OperationKind.WRITE else None
    )
    most = 0
    for number in range(60):
        commit(store, (P0, P0, P1)[number % 3], size_bytes=200)
        waiting = [log.unwritten_bytes for log in store.logs.values()]
        assert max(waiting) <= 1000
        most = max(most, sum(waiting))
    assert 1000 < most <= 2000
    assert seen[0] == ""  # The journal, and then:
    assert 5 < seen.count(".log") < 15, "several batches are written at once"


def test_without_any_bound_to_spare_all_is_written_behind_each_flush() -> None:
    store = opened(SimulatedFiles(), attrs.evolve(LARGE, unwritten_bytes_max=0))
    commit(store, P0)
    assert not store.logs[P0].has_unwritten


# The disk ----------------------------------------------------------------------------------------


def test_what_was_appended_has_its_blocks_when_it_is_written_late() -> None:
    files = SimulatedFiles()
    store = opened(files, LARGE)
    expected = b"".join(commit(store, P0, size_bytes=150) for _ in range(12))
    files.capacity_bytes = 0  # Others have taken the rest.
    store.advance_recovery_points()
    assert store.failed is None
    assert store.recovery_point(P0).offset == 12
    assert durable(files)[P0] == expected


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_reader_whose_write_fails_ends_the_store(number: int) -> None:
    files = SimulatedFiles()
    store = opened(files, LARGE)
    first = commit(store, P0)
    fault = Fault(errno=number, kind=OperationKind.WRITE, path="*.log", nth=1, written_bytes=20)
    files.faults.append(fault)
    log = store.logs[P0]
    with pytest.raises(OSError, match=r"error|space"):
        log.read(0, bytes_max=1000)
    assert store.failed is not None
    append_later = batch_of(1)
    with pytest.raises(StorageFailed):
        store.append(P0, append_later, last_offset=1, max_timestamp_ms=NOW_MS)
    for call in (store.flush, store.advance_recovery_points, store.close):
        with pytest.raises(StorageFailed):
            call()
    assert durable(files)[P0] == first


def test_after_a_failed_write_a_log_is_not_written_any_more() -> None:
    files = SimulatedFiles()
    store = opened(files, LARGE)
    log = store.logs[P0]
    append(store, P0)
    files.faults.append(Fault(errno=errno.EIO, kind=OperationKind.WRITE, path="*.log", nth=1))
    with pytest.raises(OSError, match="error"):
        log.write()
    files.faults.clear()
    operations = files.operations
    for _ in range(2):
        with pytest.raises(StorageFailed, match="error"):
            log.write()
    assert files.operations == operations
    assert log.offset_next_written == 0


def test_whoever_still_reads_writes_nothing_once_a_failed_close_has_unlocked_the_folder() -> None:
    files = SimulatedFiles()
    store = opened(files, LARGE)
    batch = commit(store, P0)
    append(store, P0)
    files.faults.append(Fault(errno=errno.EIO, kind=OperationKind.SYNC, path="*journal*"))
    with pytest.raises(StorageFailed):
        store.close()
    files.faults.clear()
    next_one = opened(files, LARGE)  # As another process would.
    expected = contents(next_one)
    assert expected[P0].startswith(batch)
    operations = files.operations
    with pytest.raises(StorageFailed, match="closed"):
        store.logs[P0].read(0, bytes_max=1000)
    assert files.operations == operations
    assert contents(next_one) == expected


def test_a_log_is_not_closed_while_somebody_writes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(SimulatedFiles(), LARGE)
    log = store.logs[P0]
    batch = append(store, P0)
    other = threading.Thread(target=store.abandon)
    write = log._write

    def slowly() -> None:
        other.start()
        other.join(0.2)  # It cannot end yet.
        assert log.segments[0]._file is not None
        write()

    monkeypatch.setattr(log, "_write", slowly)
    log.write()
    other.join()
    assert segment_bytes(log.segments[0]) == batch


# Threads ---------------------------------------------------------------------------------------


def test_an_append_does_not_wait_for_the_disk_and_comes_behind() -> None:
    files = SimulatedFiles()
    store = opened(files, LARGE)
    log = store.logs[P0]
    batches = [append(store, P0)]
    on_write_of_a_log(files, lambda: batches.append(append(store, P0)))
    log.write()
    assert (log.offset_next_written, log.offset_next) == (1, 2)
    assert log.unwritten_bytes == len(batches[1])
    assert log_bytes(log) == b"".join(batches)


def test_of_two_threads_that_write_one_waits() -> None:
    files = SimulatedFiles()
    store = opened(files, LARGE)
    log = store.logs[P0]
    batches = [append(store, P0)]
    other = threading.Thread(target=log.write)

    def meanwhile() -> None:
        batches.append(append(store, P0))
        other.start()
        other.join(0.2)  # It cannot end yet.

    on_write_of_a_log(files, meanwhile)
    log.write()
    other.join()
    assert log.offset_next_written == 2
    assert log_bytes(log) == b"".join(batches)


@pytest.mark.slow
def test_readers_writers_syncs_and_appends_go_on_side_by_side(tmp_path: Path) -> None:
    config = LogStoreConfig(
        partitions=2,
        log=LogConfig(segment_bytes_max=4000, preallocate_step_bytes=4096),
        journal_file_bytes=32_768,
        journal_header_bytes=512,
        unwritten_bytes_max=2000,
        recovery_threads=1,
    )
    store = opened(OsFiles(), config, folder=tmp_path / "offsets", random=Random(3))
    done = threading.Event()
    errors: list[BaseException] = []
    expected = dict.fromkeys(store.logs, b"")

    def read(topic_partition: TopicPartition) -> None:
        size = len(read_up_to(store, topic_partition))
        assert size <= len(expected[topic_partition])

    def guarded(step: Callable[[], object]) -> None:
        try:
            while not done.is_set():
                step()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    steps: list[Callable[[], object]] = [
        store.flush,
        store.bound_unwritten,
        store.advance_recovery_points,
        lambda: read(P0),
        lambda: read(P1),
        store.logs[P0].write,
    ]
    threads = [threading.Thread(target=guarded, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for number in range(600):
        topic_partition = (P0, P1)[number % 2]
        # Before: a reader may see it as soon as it is there.
        offset = store.logs[topic_partition].offset_next
        expected[topic_partition] += batch_of(offset, size_bytes=100 + number % 60)
        assert append(store, topic_partition, size_bytes=100 + number % 60)
    done.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert contents(store) == expected
    store.close()
    again = opened(OsFiles(), config, folder=tmp_path / "offsets")
    assert contents(again) == expected
    again.close()
