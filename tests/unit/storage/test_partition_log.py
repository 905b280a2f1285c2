"""The log of one partition: rolling, refusing, syncing, cutting and reading."""

from __future__ import annotations

import contextlib
import errno
import shutil
import threading
from random import Random
from typing import TYPE_CHECKING

import attrs
import pytest
from offsetd_storage.errors import (
    CorruptBatch,
    FolderMismatch,
    RecordTooLarge,
    StorageFailed,
    StorageFull,
)
from offsetd_storage.files import OsFiles
from offsetd_storage.kernels import PADDING_BYTES
from offsetd_storage.log_config import OFFSETS_TOPIC_LOG_CONFIG, LogConfig
from offsetd_storage.record_batch import Record, batch_header, decode_batches, encode_batch
from offsetd_storage.segment import segment_path
from offsetd_storage.simulated_faults import Fault, Operation, OperationKind
from offsetd_storage.simulated_files import SimulatedFiles
from partition_logs import (
    FOLDER,
    GOLDEN,
    GOLDEN_PARTITIONS,
    NOW_MS,
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

    from offsetd_storage.partition_log import PartitionLog

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


def test_opening_read_only_changes_nothing() -> None:
    files = SimulatedFiles()
    log_of(files, 25).abandon()
    assert not files.exists(EPOCHS)
    seen = operations_of(files)
    log = opened(files, config=CONFIG, read_only=True)
    assert len(everything(log)) == 2500
    assert log.read(24, bytes_max=1) != b""
    log.abandon()
    assert seen == []


# Leader epochs


def put_epochs(files: SimulatedFiles, text: bytes | None) -> None:
    if text is None:
        files.unlink(EPOCHS)
    else:
        files.put_durable(EPOCHS, text)


@pytest.mark.parametrize(
    ("text", "epoch", "mended"),
    [
        (b"0\n2\n0 0\n3 4\n", 3, None),
        (b"0\n3\n0 0\n3 4\n7 6\n", 7, None),  # A broker took over and wrote nothing.
        (b"0\n3\n0 0\n3 4\n7 9\n", 3, b"0\n2\n0 0\n3 4\n"),  # Begins behind the log's end.
        (b"0\n1\n0 0\n", 3, b"0\n2\n0 0\n3 4\n"),
        (b"rubbish", 3, b"0\n2\n0 0\n3 4\n"),
        (b"", 3, b"0\n2\n0 0\n3 4\n"),
        (None, 3, b"0\n2\n0 0\n3 4\n"),
    ],
)
def test_the_leader_epoch_is_the_checkpoints_unless_the_batches_know_better(
    text: bytes | None, epoch: int, mended: bytes | None
) -> None:
    files = SimulatedFiles()
    log = created(files)
    for offset in range(6):
        batch = batch_of(offset, leader_epoch=3 if offset >= 4 else 0)
        log.append(batch, last_offset=offset, max_timestamp_ms=NOW_MS, now_ms=NOW_MS)
    log.close()
    put_epochs(files, text)
    log = opened(files, synced=True)
    assert log.leader_epoch == epoch
    assert log.has_unsynced == (mended is not None)
    log.close()
    assert files.read_bytes(EPOCHS) == (mended or text)


def test_an_empty_log_without_a_checkpoint_is_of_epoch_zero() -> None:
    files = SimulatedFiles()
    created(files).close()
    put_epochs(files, None)
    log = opened(files)
    assert log.leader_epoch == 0
    log.close()
    assert files.read_bytes(EPOCHS) == b"0\n1\n0 0\n"


# Appending and rolling


def test_a_batch_is_read_once_it_is_written() -> None:
    log = created(SimulatedFiles())
    batches = [append(log, count=3), append(log, count=2)]
    assert (log.offset_next, log.offset_next_written) == (5, 0)
    assert log.has_unwritten
    assert log.read(0, bytes_max=1000) == b""
    log.write()
    assert (log.offset_next, log.offset_next_written) == (5, 5)
    assert not log.has_unwritten
    assert log.read(0, bytes_max=1000) == b"".join(batches)


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
    with pytest.raises(RecordTooLarge):
        append(log, size_bytes=301)
    log.config = LogConfig(message_bytes_max=200)
    append(log, size_bytes=200)
    append(log, size_bytes=200)
    assert bases(log) == [0, 5]


# Refusing


@pytest.mark.parametrize(
    "config", [LogConfig(message_bytes_max=500), LogConfig(segment_bytes_max=500)]
)
def test_a_batch_above_the_bound_is_refused(config: LogConfig) -> None:
    log = created(SimulatedFiles(), config=config)
    append(log, size_bytes=500)
    with pytest.raises(RecordTooLarge, match="501 bytes"):
        append(log, size_bytes=501)
    assert log.offset_next == 1
    assert log.size_bytes == 500


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


# Cutting


@pytest.mark.parametrize(
    ("offset_next", "bases_left", "batches_left"),
    [
        (0, [0], 0),
        (1, [0], 1),
        (9, [0], 9),
        (10, [0, 10], 10),  # A segment that begins at the end stays, empty.
        (11, [0, 10], 11),
        (34, [0, 10, 20, 30], 34),
        (35, [0, 10, 20, 30], 35),
        (50, [0, 10, 20, 30], 35),  # The end may lie behind the last batch.
    ],
)
def test_a_log_is_cut_at_an_offset(
    offset_next: int, bases_left: list[int], batches_left: int
) -> None:
    files = SimulatedFiles()
    log_of(files, 35).close()
    log = opened(files, config=CONFIG)
    whole = everything(log)
    log.truncate(offset_next)
    assert bases(log) == bases_left
    assert (log.offset_next, log.offset_next_written) == (offset_next, offset_next)
    assert everything(log) == whole[: batches_left * 100]
    log.sync()
    names = {path for path in files.power_cut().list_folder(FOLDER) if path.endswith(".log")}
    assert names == {segment_path(FOLDER, base).name for base in bases_left}
    batch = append(log, size_bytes=100)
    log.close()
    again = opened(files.power_cut(), config=CONFIG)
    assert everything(again) == whole[: batches_left * 100] + batch
    assert again.offset_next == offset_next + 1


def test_a_batch_that_reaches_over_the_cut_goes() -> None:
    log = created(SimulatedFiles())
    kept = append(log, count=3)
    append(log, count=5)
    log.write()
    log.truncate(6)
    assert everything(log) == kept
    assert log.offset_next == 6
    append(log)
    log.write()
    assert [batch.base_offset for batch in decode_batches(everything(log))] == [0, 6]


def test_a_log_cut_before_its_first_segment_begins_anew() -> None:
    files = SimulatedFiles()
    log = created(files, base_offset=100)
    append(log)
    log.write()
    log.truncate(40)
    assert bases(log) == [40]
    assert (log.offset_next, log.log_start_offset, log.leader_epoch) == (40, 40, 0)
    append(log)
    log.close()
    assert bases(opened(files.power_cut())) == [40]
    assert files.read_bytes(EPOCHS) == b"0\n1\n0 40\n"


def test_a_cut_forgets_the_epochs_behind_it() -> None:
    files = SimulatedFiles()
    log_of(files, 5).close()
    files.put_durable(EPOCHS, b"0\n3\n0 0\n2 3\n5 5\n")
    log = opened(files)
    log.truncate(4)
    assert log.leader_epoch == 2
    log.close()
    assert files.read_bytes(EPOCHS) == b"0\n2\n0 0\n2 3\n"


# Reading


def test_a_read_gives_whole_batches_within_the_bound_but_one_at_least() -> None:
    log = created(SimulatedFiles(), config=attrs.evolve(CONFIG, segment_bytes_max=10**6))
    batches = [append(log, count=2, size_bytes=100 + number) for number in range(40)]
    log.write()
    for offset in range(80):
        first = offset // 2
        for bytes_max in (0, 99, 250, 1000, 10**6):
            expected = batches[first]
            for batch in batches[first + 1 :]:
                if len(expected) + len(batch) > bytes_max:
                    break
                expected += batch
            assert log.read(offset, bytes_max=bytes_max) == expected
    assert log.read(80, bytes_max=100) == b""


def test_a_read_goes_on_with_the_next_segment() -> None:
    log = log_of(SimulatedFiles(), 35)
    read, offset = b"", 0
    while batches := log.read(offset, bytes_max=450):
        read += batches
        offset = list(decode_batches(batches))[-1].last_offset + 1
    assert read == everything(log)


def test_a_read_in_a_gap_begins_behind_it() -> None:
    log = created(SimulatedFiles(), config=CONFIG)
    for offset in (3, 9, 50):
        batch = batch_of(offset, size_bytes=600)
        log.append(batch, last_offset=offset, max_timestamp_ms=0, now_ms=0)
    log.write()
    firsts = [
        next(decode_batches(log.read(offset, bytes_max=1))).base_offset
        for offset in (0, 3, 4, 9, 10, 50)
    ]
    assert firsts == [3, 3, 9, 9, 50, 50]


def test_nothing_below_the_log_start_is_read() -> None:
    files = SimulatedFiles()
    log_of(files, 20).close()
    log = opened(files, config=CONFIG, log_start_offset=13)
    assert next(decode_batches(log.read(0, bytes_max=1))).base_offset == 13
    buffer, end = next(log.read_chunks(10_000))
    assert next(decode_batches(buffer[:end].tobytes())).base_offset == 13


@pytest.mark.parametrize("chunk_bytes", [1, 99, 100, 350, 5000])
@pytest.mark.parametrize(("offset", "limit"), [(0, None), (17, None), (0, 23), (9, 10), (5, 5)])
def test_chunks_hold_the_whole_batches_between_two_offsets(
    chunk_bytes: int, offset: int, limit: int | None
) -> None:
    log = log_of(SimulatedFiles(), 35)
    whole = everything(log)
    read = b""
    for buffer, end in log.read_chunks(chunk_bytes, offset=offset, offset_limit=limit):
        assert buffer.size >= end + PADDING_BYTES
        assert 0 < end <= max(chunk_bytes, 300)
        read += buffer[:end].tobytes()
    assert read == whole[offset * 100 : (35 if limit is None else limit) * 100]


def test_chunks_leave_out_a_batch_that_reaches_over_the_limit() -> None:
    log = created(SimulatedFiles())
    kept = append(log, count=3)
    append(log, count=5)
    log.write()
    chunks = [buffer[:end].tobytes() for buffer, end in log.read_chunks(10_000, offset_limit=5)]
    assert chunks == [kept]


def test_a_file_that_ends_early_raises() -> None:
    log = log_of(SimulatedFiles(), 8)
    log.segments[0].file.truncate(750)
    with pytest.raises(CorruptBatch):
        list(log.read_chunks(10_000))
    with pytest.raises(CorruptBatch):
        log.read(7, bytes_max=1)


def test_the_first_record_at_or_after_a_time_is_found() -> None:
    random = Random(11)
    log = created(SimulatedFiles(), config=attrs.evolve(CONFIG, segment_ms=10**6))
    records: list[Record] = []
    for _ in range(60):
        batch = [
            Record(
                key=b"k" * random.randrange(1, 60),
                value=None,
                offset=log.offset_next + number,
                timestamp_ms=len(records) * 10 + random.randrange(100),
            )
            for number in range(3)
        ]
        records += batch
        log.append(
            encode_batch(batch, base_offset=log.offset_next),
            last_offset=batch[-1].offset,
            max_timestamp_ms=max(each.timestamp_ms for each in batch),
            now_ms=0,
        )
    log.write()
    assert len(log.segments) > 3
    for timestamp_ms in range(-1, 2000, 7):
        later = [each.offset for each in records if each.timestamp_ms >= timestamp_ms]
        assert log.offset_for_timestamp(timestamp_ms) == min(later, default=None)


def test_segments_are_found_by_offset() -> None:
    log = log_of(SimulatedFiles(), 35)
    found = {offset: log.segments_from(offset)[0].base_offset for offset in (0, 9, 10, 34, 99)}
    assert found == {0: 0, 9: 0, 10: 10, 34: 30, 99: 30}


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


# A broker's folder


def golden_copy(tmp_path: Path, partition: str) -> Path:
    folder = tmp_path / partition
    shutil.copytree(GOLDEN / partition, folder)
    return folder


@pytest.mark.parametrize("partition", GOLDEN_PARTITIONS)
def test_the_index_bytes_are_those_a_broker_wrote(partition: str, tmp_path: Path) -> None:
    folder = golden_copy(tmp_path, partition)
    log = opened(OsFiles(), folder, config=OFFSETS_TOPIC_LOG_CONFIG, synced=True)
    (segment,) = log.segments
    assert segment.offset_index.entries == (folder / f"{0:020d}.index").read_bytes()
    assert segment.time_index.entries == (folder / f"{0:020d}.timeindex").read_bytes()
    assert not log.has_unsynced
    log.close()
    assert contents(OsFiles(), folder) == contents(OsFiles(), GOLDEN / partition)


@pytest.mark.parametrize("partition", GOLDEN_PARTITIONS)
def test_appends_go_on_behind_a_brokers_last_offset(partition: str, tmp_path: Path) -> None:
    folder = golden_copy(tmp_path, partition)
    before = contents(OsFiles(), folder)
    log = opened(OsFiles(), folder, config=OFFSETS_TOPIC_LOG_CONFIG)
    timestamp_ms = log.segments[-1].largest_timestamp_ms + 1
    batches = [append(log, timestamp_ms=timestamp_ms, size_bytes=5000) for _ in range(3)]
    log.close()
    after = contents(OsFiles(), folder)
    name = f"{0:020d}.log"
    assert after.pop(name) == before.pop(name) + b"".join(batches)
    assert after.pop(f"{0:020d}.index").startswith(before.pop(f"{0:020d}.index"))
    del after[f"{0:020d}.timeindex"], before[f"{0:020d}.timeindex"]
    assert after == before
    again = opened(OsFiles(), folder, config=OFFSETS_TOPIC_LOG_CONFIG, synced=True)
    assert not again.has_unsynced
    assert everything(again)[-15_000:] == b"".join(batches)


def test_a_killed_brokers_preallocated_indexes_are_trimmed(tmp_path: Path) -> None:
    folder = golden_copy(tmp_path, "__consumer_offsets-33")
    before = contents(OsFiles(), folder)
    for suffix, size in ((".index", 10_485_760), (".timeindex", 10_485_756)):
        with segment_path(folder, 0, suffix).open("r+b") as file:
            file.truncate(24 if suffix == ".timeindex" else 16)  # No last time entry yet.
            file.truncate(size)
    log = opened(OsFiles(), folder, config=OFFSETS_TOPIC_LOG_CONFIG)
    assert log.index_problems == ()
    log.close()
    assert contents(OsFiles(), folder) == before


KAFKA_SEGMENTS = GOLDEN.parent.parent / "kafka-4.1.1-segments"
SEGMENT_CASES = sorted(path.name for path in KAFKA_SEGMENTS.iterdir() if path.is_dir())


def kafka_config(path: Path) -> LogConfig:
    """The settings of a properties file, by Kafka's names."""
    settings = dict(line.split("=") for line in path.read_text().split())
    names = {each.metadata["kafka_name"]: each.name for each in attrs.fields(LogConfig)}
    return LogConfig(
        **{names[key.removeprefix("internal.")]: int(value) for key, value in settings.items()}
    )


@pytest.mark.parametrize("case", SEGMENT_CASES)
def test_segments_and_indexes_are_byte_for_byte_what_kafkas_own_class_writes(case: str) -> None:
    expected = contents(OsFiles(), KAFKA_SEGMENTS / case)
    del expected["config.properties"]
    written = b"".join(raw for name, raw in sorted(expected.items()) if name.endswith(".log"))
    files = SimulatedFiles()
    log = created(
        files,
        config=kafka_config(KAFKA_SEGMENTS / case / "config.properties"),
        base_offset=batch_header(written).base_offset,
    )
    for place, batch in enumerate(decode_batches(written)):
        raw, written = written[: batch.size_bytes], written[batch.size_bytes :]
        log.append(
            raw,
            last_offset=batch.last_offset,
            max_timestamp_ms=batch.max_timestamp_ms,
            now_ms=NOW_MS,
        )
        if place % 7 == 0:
            log.write()
        if place % 11 == 0:
            log.sync()
    log.close()
    found = contents(files)
    del found["leader-epoch-checkpoint"]
    assert found == expected
