"""The log of one partition: rolling, refusing, syncing, cutting and reading."""

from __future__ import annotations

import contextlib
import errno
import threading
from random import Random
from typing import TYPE_CHECKING

import attrs
import pytest
from offsetd_storage.batch.record_batch import decode_batches
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.disk.simulated_faults import Fault, Operation, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import (
    FolderMismatch,
    StorageFailed,
    StorageFull,
)
from offsetd_storage.log.segment_files import segment_path
from partition_logs import (
    FOLDER,
    append,
    bases,
    batch_of,
    contents,
    created,
    everything,
    opened,
)

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.log.partition_log import PartitionLog

CONFIG = LogConfig(
    segment_bytes_max=1000, segment_ms=1000, index_interval_bytes=150, preallocate_step_bytes=512
)
EPOCHS = FOLDER / "leader-epoch-checkpoint"
ENDLESS_MS = 10**15


def log_of(files: SimulatedFiles, count: int, config: LogConfig = CONFIG) -> PartitionLog:
    """A log with batches of one record and 100 bytes, ten to a segment, written."""
    log = created(files, config=config)
    for _ in range(count):
        append(log, size_bytes=100)
    log.write()
    return log


def operations_of(files: SimulatedFiles) -> list[Operation]:
    """All changes of the disk from now on."""
    seen: list[Operation] = []
    files.before_operation = lambda _, operation: seen.append(operation)
    return seen


# Making and opening


def test_a_new_log_is_durable_after_its_first_sync() -> None:
    files = SimulatedFiles()
    log = created(files, base_offset=42)
    assert not files.power_cut().exists(FOLDER)
    assert log.sync() == log.offset_next == log.log_start_offset == 42
    assert contents(files.power_cut()) == {
        "00000000000000000042.index": b"",
        "00000000000000000042.log": b"",
        "00000000000000000042.timeindex": b"",
        "leader-epoch-checkpoint": b"0\n1\n0 42\n",
    }


def test_a_half_made_folder_is_finished() -> None:
    files = SimulatedFiles()
    created(files)
    log = created(files)
    append(log)
    log.close()
    assert opened(files).offset_next == 1


def test_a_segment_with_bytes_is_never_taken_for_a_new_one() -> None:
    files = SimulatedFiles()
    log_of(files, 1).close()
    with pytest.raises(FolderMismatch, match="not empty"):
        created(files)


def test_a_log_that_was_closed_opens_with_nothing_to_mend() -> None:
    files = SimulatedFiles()
    log_of(files, 35).close()
    before = contents(files)
    log = opened(files, config=CONFIG, synced=True)
    assert bases(log) == [0, 10, 20, 30]
    assert (log.offset_next, log.offset_next_written, log.size_bytes) == (35, 35, 3500)
    assert log.index_problems == ()
    assert not log.has_unsynced
    seen = operations_of(files)
    log.close()
    assert seen == []
    assert contents(files) == before


def test_a_log_that_may_not_be_durable_is_synced_whole() -> None:
    files = SimulatedFiles()
    log_of(files, 35).abandon()
    killed = files.kill()
    assert opened(killed, config=CONFIG).sync() == 35
    assert opened(killed.power_cut(), config=CONFIG).size_bytes == 3500


def test_the_first_segments_base_bounds_the_log_start() -> None:
    files = SimulatedFiles()
    log_of(files, 5).close()
    assert opened(files, log_start_offset=3).log_start_offset == 3
    assert opened(files).log_start_offset == 0


def test_a_log_start_behind_the_last_batch_is_the_logs_end() -> None:
    files = SimulatedFiles()
    log_of(files, 5).close()
    assert opened(files, log_start_offset=9).offset_next == 9


def test_opening_and_reading_change_nothing() -> None:
    files = SimulatedFiles()
    log_of(files, 25).abandon()
    assert not files.exists(EPOCHS)
    seen = operations_of(files)
    log = opened(files, config=CONFIG)
    assert len(everything(log)) == 2500
    assert log.read(24, bytes_max=1) != b""
    log.abandon()
    assert seen == []


# Appending and rolling


def test_a_batch_waits_in_memory_until_it_is_written() -> None:
    log = created(SimulatedFiles())
    batches = [append(log, count=3), append(log, count=2)]
    assert (log.offset_next, log.offset_next_written) == (5, 0)
    assert log.has_unwritten
    assert log.unwritten_bytes == len(b"".join(batches))
    assert everything(log) == b""
    log.write()
    assert (log.offset_next, log.offset_next_written) == (5, 5)
    assert not log.has_unwritten
    assert log.unwritten_bytes == 0
    assert everything(log) == b"".join(batches)


def test_queued_batches_are_written_with_one_call_for_each_segment() -> None:
    files = SimulatedFiles()
    log = created(files, config=CONFIG)
    batches = [append(log, size_bytes=100) for _ in range(25)]
    seen = operations_of(files)
    log.write()
    assert [(each.kind, each.size) for each in seen] == [
        (OperationKind.WRITE, 1000),
        (OperationKind.WRITE, 1000),
        (OperationKind.WRITE, 500),
    ]
    log.write()
    assert len(seen) == 3
    assert everything(log) == b"".join(batches)


def test_a_new_segment_begins_with_the_batch_that_did_not_fit() -> None:
    log = created(SimulatedFiles(), config=CONFIG)
    sizes = [400, 400, 201, 700, 100, 1000, 80]
    for size in sizes:
        append(log, count=2, size_bytes=size)
    assert bases(log) == [0, 4, 8, 10, 12]
    assert [segment.size_bytes for segment in log.segments] == [800, 901, 100, 1000, 80]


def test_a_segment_rolls_by_the_time_of_its_records() -> None:
    log = created(SimulatedFiles(), config=CONFIG)
    for timestamp_ms in (5000, 6000, 6001, 4000, 7001, 7002):
        append(log, timestamp_ms=timestamp_ms, now_ms=ENDLESS_MS)
    assert bases(log) == [0, 2, 5]


def test_a_segment_without_timestamps_rolls_by_the_clock() -> None:
    log = created(SimulatedFiles(), config=CONFIG)
    for now_ms in (5000, 6000, 6001, 7001, 7002):
        append(log, timestamp_ms=-1, now_ms=now_ms)
    assert bases(log) == [0, 2, 4]


def test_a_segment_rolls_before_an_offset_that_its_indexes_cannot_hold() -> None:
    log = created(SimulatedFiles())
    for offset in (0, 2**31 - 1, 2**31, 2**32):
        log.append(batch_of(offset), last_offset=offset, max_timestamp_ms=0, now_ms=0)
    assert bases(log) == [0, 2**31, 2**32]
    log.write()
    assert [batch.base_offset for batch in decode_batches(everything(log))] == [
        0,
        2**31 - 1,
        2**31,
        2**32,
    ]


def test_a_segment_rolls_when_an_index_is_full() -> None:
    config = LogConfig(index_interval_bytes=150, segment_index_bytes_max=12 * 4)
    log = created(SimulatedFiles(), config=config)
    for number in range(25):
        append(log, size_bytes=100, timestamp_ms=number)
    assert bases(log) == [0, 7, 14, 21]  # After three entries in the time index, one slot spare.


def test_the_time_entry_of_a_log_at_rest_does_not_fill_its_index() -> None:
    files = SimulatedFiles()
    config = LogConfig(index_interval_bytes=150, segment_index_bytes_max=12 * 2)
    for number in range(3):
        log = created(files, config=config) if number == 0 else opened(files, config=config)
        append(log, size_bytes=100, timestamp_ms=number)
        assert bases(log) == [0]
        log.close()


@pytest.mark.parametrize("jitter_ms", [0, 900])
def test_jitter_lets_segments_roll_at_different_times(jitter_ms: int) -> None:
    def rolls(seed: int) -> list[int]:
        config = LogConfig(segment_ms=1000, segment_jitter_ms=jitter_ms)
        log = created(SimulatedFiles(), config=config, random=Random(seed))
        for number in range(100):
            append(log, timestamp_ms=number * 50)
        return bases(log)

    assert rolls(1) == rolls(1)
    assert len({tuple(rolls(seed)) for seed in range(8)}) > 1 or not jitter_ms
    assert (rolls(1) == [0, 21, 42, 63, 84]) == (not jitter_ms)


def test_a_replaced_config_holds_for_the_next_batch() -> None:
    log = created(SimulatedFiles(), config=LogConfig())
    for _ in range(5):
        append(log, size_bytes=100)
    log.config = attrs.evolve(log.config, segment_bytes_max=300)
    append(log, size_bytes=100)
    assert bases(log) == [0, 5]
    assert log.batch_bytes_max == 300
    log.config = LogConfig(message_bytes_max=200)
    assert log.batch_bytes_max == 200
    append(log, size_bytes=200)
    append(log, size_bytes=200)
    assert bases(log) == [0, 5]


# Refusing


@pytest.mark.parametrize(
    "config", [LogConfig(message_bytes_max=500), LogConfig(segment_bytes_max=500)]
)
def test_the_bound_on_batches_is_told_and_does_not_keep_out_what_was_acknowledged(
    config: LogConfig,
) -> None:
    log = created(SimulatedFiles(), config=config)
    assert log.batch_bytes_max == 500
    sizes = [len(append(log, size_bytes=size)) for size in (100, 900, 100)]
    log.write()
    assert (log.offset_next, log.size_bytes) == (3, sum(sizes))
    assert bases(log) == ([0] if config.segment_bytes_max > 500 else [0, 1, 2])


ROLL = 1000  # Bytes that fill the first segment, so that the next batch rolls.


@pytest.mark.parametrize("before_bytes", [0, 400, ROLL])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_batch_without_blocks_is_refused_and_fits_later(before_bytes: int, code: int) -> None:
    files = SimulatedFiles()
    log = created(files, config=CONFIG)
    batches = [append(log, size_bytes=before_bytes)] if before_bytes else []
    offset, size = log.offset_next, log.size_bytes
    files.faults.append(Fault(errno=code, kind=OperationKind.ALLOCATE))
    for _ in range(3):
        with pytest.raises(StorageFull) as refused:
            append(log, size_bytes=600)
    assert refused.value.retriable
    assert (log.offset_next, log.size_bytes) == (offset, size)
    files.faults.clear()
    batches.append(append(log, size_bytes=600))
    log.close()
    again = opened(files)
    assert everything(again) == b"".join(batches)
    assert bases(again) == ([0, 1] if before_bytes == ROLL else [0])


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_a_roll_without_a_new_file_is_refused_and_done_later(code: int) -> None:
    files = SimulatedFiles()
    log = created(files, config=CONFIG)
    append(log, size_bytes=ROLL)
    files.faults.append(Fault(errno=code, kind=OperationKind.CREATE))
    with pytest.raises(StorageFull):
        append(log)
    assert bases(log) == [0]
    files.faults.clear()
    append(log)
    assert bases(log) == [0, 1]


@pytest.mark.parametrize("kind", [OperationKind.ALLOCATE, OperationKind.CREATE])
def test_a_broken_disk_is_no_full_one(kind: OperationKind) -> None:
    files = SimulatedFiles()
    log = created(files, config=CONFIG)
    append(log, size_bytes=ROLL)
    files.faults.append(Fault(errno=errno.EIO, kind=kind))
    with pytest.raises(StorageFailed):
        append(log)


def test_reserved_blocks_take_the_batches_of_a_full_disk() -> None:
    files = SimulatedFiles()
    log = created(files, config=attrs.evolve(CONFIG, segment_bytes_max=10**6))
    append(log, size_bytes=100)
    log.sync()
    files.capacity_bytes = 0
    taken = 1
    for _ in range(100):
        with contextlib.suppress(StorageFull):
            append(log, size_bytes=100)
            taken += 1
    assert taken == 40, "one block was reserved"
    log.close()
    assert opened(files).size_bytes == taken * 100


# Syncing


@pytest.mark.slow
def test_what_sync_returned_survives_every_power_cut() -> None:
    random = Random(7)
    files = SimulatedFiles()
    log = created(files, config=CONFIG)
    everything_appended = b""
    durable = durable_bytes = states = 0
    for _ in range(60):
        for _ in range(random.randrange(5)):
            everything_appended += append(log, size_bytes=random.randrange(80, 300))
        if random.random() < 0.7:
            log.write()
        if random.random() < 0.2:
            durable = log.sync()
            durable_bytes = sum(
                batch.size_bytes
                for batch in decode_batches(everything_appended)
                if batch.last_offset < durable
            )
        if durable:
            for disk in files.crash_states(samples=4, random=random):
                states += 1
                found = opened(disk, config=CONFIG)
                assert found.offset_next >= durable
                assert everything(found).startswith(everything_appended[:durable_bytes])
                found.truncate(durable)
                assert everything(found) == everything_appended[:durable_bytes]
    assert states > 100, "seed 7 crashes often"


def test_sync_answers_for_what_was_written_only() -> None:
    log = log_of(SimulatedFiles(), 12)
    append(log)
    assert log.sync() == 12
    assert log.has_unwritten
    log.write()
    assert log.has_unsynced
    assert log.sync() == 13
    assert not log.has_unsynced


def test_a_sync_without_news_does_nothing() -> None:
    files = SimulatedFiles()
    log = log_of(files, 12)
    log.sync()
    seen = operations_of(files)
    assert log.sync() == 12
    assert seen == []


def test_a_rolled_segment_is_finished_by_the_next_sync() -> None:
    files = SimulatedFiles()
    log = created(files, config=CONFIG)
    for number in range(11):
        append(log, size_bytes=97, timestamp_ms=number)
        if number == 5:
            log.sync()
    seen = operations_of(files)
    log.write()
    log.sync()
    first = segment_path(FOLDER, 0)
    cuts = [each for each in seen if each.kind is OperationKind.TRUNCATE and each.path == first]
    assert [each.size for each in cuts] == [970]
    assert list(log.segments[0].time_index)[-1] == (9, 9)
    on_disk = files.read_bytes(segment_path(FOLDER, 0, ".timeindex"))
    assert on_disk == log.segments[0].time_index.entries
    assert (seen[-1].kind, seen[-1].path) == (OperationKind.SYNC_FOLDER, FOLDER)


def test_a_segment_that_rolled_before_it_was_written_is_finished_later() -> None:
    files = SimulatedFiles()
    log = created(files, config=CONFIG)
    batches = [append(log, size_bytes=97, timestamp_ms=number) for number in range(11)]
    assert log.sync() == 0
    assert files.read_bytes(segment_path(FOLDER, 0, ".timeindex")) == b""
    log.write()
    assert log.sync() == 11
    again = opened(files.power_cut(), config=CONFIG, synced=True)
    assert everything(again) == b"".join(batches)
    assert not again.segments[0].needs_mending


def test_a_failed_write_or_sync_raises() -> None:
    for kind in (OperationKind.WRITE, OperationKind.SYNC, OperationKind.SYNC_FOLDER):
        files = SimulatedFiles()
        log = created(files)
        append(log)
        files.faults.append(Fault(errno=errno.EIO, kind=kind))
        with pytest.raises(OSError, match=str(errno.EIO)):
            log.close()


# Threads


def test_appending_writing_syncing_and_reading_go_side_by_side(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes_max=20_000, index_interval_bytes=300)
    log = created(OsFiles(), tmp_path / "t-0", config=config)
    batches = [batch_of(each, size_bytes=100, timestamp_ms=each) for each in range(3000)]
    done = threading.Event()
    failures: list[BaseException] = []

    def until_done(step: object) -> threading.Thread:
        def run() -> None:
            try:
                while not done.is_set():
                    assert callable(step)
                    step()
            except BaseException as error:  # noqa: BLE001 (shown by the assertion below)
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def read() -> None:
        end = log.offset_next_written
        read = b"".join(
            buffer[:size].tobytes() for buffer, size in log.read_chunks(4096, offset_limit=end)
        )
        assert read == b"".join(batches[:end])

    threads = [until_done(step) for step in (log.write, log.sync, read)]
    for offset, batch in enumerate(batches):
        log.append(batch, last_offset=offset, max_timestamp_ms=offset, now_ms=0)
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []
    log.close()
    again = opened(OsFiles(), tmp_path / "t-0", config=config, synced=True)
    assert everything(again) == b"".join(batches)
    assert not again.has_unsynced
