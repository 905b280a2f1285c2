"""The log of one partition: what is cut off, and what is read."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import attrs
import pytest
from offsetd_storage.batch.record_batch import Record, decode_batches, encode_batch
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import (
    CorruptBatch,
)
from offsetd_storage.kernels import PADDING_BYTES
from offsetd_storage.log.segment_files import segment_path
from partition_logs import (
    FOLDER,
    append,
    bases,
    batch_of,
    created,
    everything,
    opened,
)

if TYPE_CHECKING:
    from offsetd_storage.log.partition_log import PartitionLog

CONFIG = LogConfig(
    segment_bytes_max=1000, segment_ms=1000, index_interval_bytes=150, preallocate_step_bytes=512
)
EPOCHS = FOLDER / "leader-epoch-checkpoint"


def log_of(files: SimulatedFiles, count: int, config: LogConfig = CONFIG) -> PartitionLog:
    """A log with batches of one record and 100 bytes, ten to a segment, written."""
    log = created(files, config=config)
    for _ in range(count):
        append(log, size_bytes=100)
    log.write()
    return log


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
