"""Cleaned segments take the place of others: in memory, under readers, in the folder."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import numpy as np
import pytest
from cleaned_logs import (
    clean_group,
    flaws_of,
    keyed_log,
    last_offsets,
    names_of,
    offsets_of,
    recovered,
    replayed,
)
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.cleaner.cleaned_segment import CleanedSegmentWriter
from offsetd_storage.cleaner.cleaned_transactions import AbortedTransaction
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import CorruptBatch, SegmentRetired, StorageFailed, StorageFull
from offsetd_storage.log.segment_files import segment_path
from offsetd_storage.log.segment_swap import delete_oldest, install, unlink_cleaned
from partition_logs import FOLDER, bases, contents, everything, segment_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from offsetd_storage.disk.files import Files
    from offsetd_storage.disk.simulated_faults import Operation
    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.log.segment import Segment

WORDS = ["aab", "abc", "ca", "b"]  # The last one is active; its offset is 8.


def swap(
    files: Files, log: PartitionLog, start: int, end: int, kept: Sequence[int] | None = None
) -> None:
    """Cleans some neighbours into one; what is kept is the last of each key, unless told."""
    group = log.segments[start:end]
    if kept is None:
        kept = sorted(last_offsets(log, log.segments[-1].base_offset))
    cleaned = clean_group(files, group, kept)
    install(files, log, [] if cleaned is None else [cleaned], group)


def chunks(log: PartitionLog, *, chunk_bytes: int = 100, offset: int = 0) -> bytes:
    read = log.read_chunks(chunk_bytes, offset=offset)
    return b"".join(buffer[:end].tobytes() for buffer, end in read)


def test_several_segments_become_one() -> None:
    files = SimulatedFiles()
    log = keyed_log(files, WORDS)
    before = replayed(everything(log))
    assert bases(log) == [0, 3, 6, 8]
    swap(files, log, 0, 3)
    assert bases(log) == [0, 8]
    assert offsets_of(everything(log)) == [4, 6, 7, 8]
    assert replayed(everything(log)) == before
    expected = [f"{base:020d}{suffix}" for base in (0, 8) for suffix in (".index", ".log")]
    expected += [f"{base:020d}.timeindex" for base in (0, 8)]
    assert names_of(contents(files)) == sorted(expected)


def test_what_was_swapped_is_durable_and_is_found_by_a_start_as_it_is() -> None:
    files = SimulatedFiles()
    log = keyed_log(files, WORDS)
    swap(files, log, 0, 3)
    again = recovered(files.power_cut())
    assert everything(again) == everything(log)
    assert not again.index_problems
    assert not again.has_unsynced or again.segments[0].needs_mending is False
    for mine, found in zip(log.segments, again.segments, strict=True):
        assert bytes(mine.offset_index.entries) == bytes(found.offset_index.entries)
        assert mine.largest_timestamp_ms == found.largest_timestamp_ms
        assert (mine.offset_next, mine.first_timestamp_ms) == (
            found.offset_next,
            found.first_timestamp_ms,
        )


def test_several_segments_become_none() -> None:
    files = SimulatedFiles()
    log = keyed_log(files, ["aa", "bb", "ab", "ab"])
    swap(files, log, 0, 2)
    assert bases(log) == [4, 6]
    assert bases(recovered(files.power_cut())) == [4, 6]
    assert offsets_of(log.read(0, bytes_max=1)) == [4]


def test_an_old_segment_can_become_two() -> None:
    files = SimulatedFiles()
    log = keyed_log(files, ["abcd", "a"])
    before = everything(log)
    group = log.segments[:1]
    high = CleanedSegmentWriter(files, FOLDER, 2, log.config)
    position = group[0].offset_index.lookup(1)
    assert position.offset <= 1
    low_kept, high_kept = clean_group(files, group, [0, 1]), []
    for offset in (2, 3):
        raw = log.read(offset, bytes_max=1)
        high.write(np.frombuffer(raw, np.uint8))
        high_kept.append(raw)
    cleaned = [low_kept, high.finish(modified_ms=5)]
    install(files, log, [each for each in cleaned if each is not None], group)
    assert bases(log) == [0, 2, 4]
    assert everything(recovered(files.power_cut())) == everything(log) == before


def test_the_time_of_a_segment_is_that_of_its_last_source() -> None:
    files = SimulatedFiles()
    log = keyed_log(files, WORDS)
    for place, segment in enumerate(log.segments):
        files.set_modified_ms(segment.path, 1000 + place)
    swap(files, log, 0, 3)
    assert files.modified_ms(log.segments[0].path) == 1002


def test_aborted_transactions_get_an_index_and_lose_the_old_one() -> None:
    files = SimulatedFiles()
    log = keyed_log(files, WORDS)
    old = segment_path(FOLDER, 0, ".txnindex")
    files.put_durable(old, b"old")
    files.put_durable(segment_path(FOLDER, 3, ".txnindex"), b"old")
    group = log.segments[:3]
    writer = CleanedSegmentWriter(files, FOLDER, 0, log.config)
    writer.write(np.frombuffer(segment_bytes(group[2]), np.uint8))
    aborted = AbortedTransaction(producer_id=7, first_offset=1, last_offset=6, last_stable_offset=7)
    cleaned = writer.finish(modified_ms=5, aborted=[aborted])
    assert cleaned is not None
    install(files, log, [cleaned], group)
    expected = b"\0\0" + b"".join(each.to_bytes(8, "big") for each in (7, 1, 6, 7))
    after = files.power_cut()
    assert after.read_bytes(old) == expected
    assert [name for name in after.list_folder(FOLDER) if name.endswith("txnindex")] == [old.name]


# Readers


def test_a_reader_finishes_the_old_segment_that_it_has_open_and_goes_on_in_the_new_one() -> None:
    files = SimulatedFiles()
    log = keyed_log(files, ["aabcd", "aabc", "cac", "b"])
    old = everything(log)
    read = log.read_chunks(60)
    buffer, end = next(read)
    seen = buffer[:end].tobytes()
    swap(files, log, 0, 3)
    for buffer, end in read:
        seen += buffer[:end].tobytes()
    # All of the first segment as it was; then what stays of the others.
    kept = [offset for offset in offsets_of(everything(log)) if offset >= 5]
    assert offsets_of(seen) == [0, 1, 2, 3, 4, *kept]
    assert replayed(seen) == replayed(old)


@pytest.mark.parametrize("offset", range(9))
def test_whoever_looked_up_a_segment_before_the_swap_reads_the_right_offset_behind_it(
    offset: int,
) -> None:
    files = SimulatedFiles()
    log = keyed_log(files, WORDS)
    stale = log.segments_from(offset)
    swap(files, log, 0, 3)
    for segment in stale[:-1]:
        with pytest.raises(SegmentRetired), segment.reader():
            pass
    expected = next(each for each in (4, 6, 7, 8) if each >= offset)
    assert offsets_of(log.read(offset, bytes_max=1)) == [expected]
    assert offsets_of(chunks(log, offset=offset)) == [
        each for each in (4, 6, 7, 8) if each >= offset
    ]


def test_readers_read_the_same_at_every_operation_of_a_swap() -> None:
    files = SimulatedFiles()
    log = keyed_log(files, WORDS)
    before = replayed(everything(log))
    seen: list[dict[bytes, bytes]] = []

    def look(running: SimulatedFiles, _: object) -> None:
        if any(segment._name_lock.locked() for segment in log.segments):
            return  # A reader would wait for that one rename.
        running.before_operation = None
        seen.append(replayed(chunks(log)))
        assert offsets_of(log.read(8, bytes_max=1)) == [8]
        assert log.offset_for_timestamp(0) in (0, 4)
        running.before_operation = look

    files.before_operation = look
    swap(files, log, 0, 3)
    assert len(seen) > 20
    assert all(each == before for each in seen)


def test_a_reader_by_time_looks_again_where_its_segment_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = SimulatedFiles()
    log = keyed_log(files, WORDS)
    look_into = log._first_record_since
    looked: list[int] = []

    def swapped_first(segment: Segment, start: int, timestamp_ms: int) -> int | None:
        if not looked:
            swap(files, log, 0, 3)
        looked.append(len(log.segments))
        return look_into(segment, start, timestamp_ms)

    monkeypatch.setattr(log, "_first_record_since", swapped_first)
    assert log.offset_for_timestamp(0) == 4
    assert looked == [2, 2]


# Failures


@pytest.mark.parametrize("nth", [1, 2])  # Of the list of segments, of the cleaned one.
@pytest.mark.parametrize("kind", [OperationKind.RENAME, OperationKind.SYNC_FOLDER])
def test_no_room_for_names_leaves_the_log_as_it_was(kind: OperationKind, nth: int) -> None:
    files = SimulatedFiles()
    log = keyed_log(files, WORDS)
    before = everything(log)
    group = log.segments[:3]
    cleaned = clean_group(files, group, last_offsets(log, 8))
    assert cleaned is not None
    names = [name for name in files.list_folder(FOLDER) if not name.endswith(".cleaned")]
    files.faults.append(Fault(errno=errno.ENOSPC, kind=kind, nth=nth))
    with pytest.raises(StorageFull):
        install(files, log, [cleaned], group)
    assert bases(log) == [0, 3, 6, 8]
    assert everything(log) == before
    assert names_of(files.power_cut().list_folder(FOLDER)) == names_of(names)
    assert not flaws_of(files.power_cut(), log)
    swap(files, log, 0, 3)
    assert bases(log) == [0, 8]


def test_no_room_for_the_names_of_deleted_files_lets_them_go_at_once() -> None:
    files = SimulatedFiles()
    log = keyed_log(files, WORDS)
    before = replayed(everything(log))
    group = log.segments[:3]
    cleaned = clean_group(files, group, last_offsets(log, 8))
    assert cleaned is not None
    files.faults.append(Fault(errno=errno.ENOSPC, kind=OperationKind.RENAME, path="*[gx]"))
    install(files, log, [cleaned], group)
    assert bases(log) == [0, 8]
    assert not [name for name in files.list_folder(FOLDER) if name.endswith(".deleted")]
    assert replayed(everything(recovered(files.power_cut()))) == before


def test_a_failure_behind_the_point_of_no_return_ends_the_process_and_a_start_heals_it() -> None:
    rehearsal = SimulatedFiles()
    rehearsed = keyed_log(rehearsal, WORDS)
    before = rehearsal.operations
    swap(rehearsal, rehearsed, 0, 3)
    failed = 0
    for nth in range(1, rehearsal.operations - before + 1):
        files = SimulatedFiles()
        log = keyed_log(files, WORDS)
        said = replayed(everything(log))
        files.faults.append(Fault(errno=errno.EIO, nth=nth))
        with pytest.raises((StorageFailed, StorageFull)) as raised:
            swap(files, log, 0, 3)
        failed += isinstance(raised.value, StorageFailed)
        files.faults.clear()
        assert replayed(everything(log)) == said
        log.abandon()
        assert replayed(everything(recovered(files.power_cut()))) == said
        assert replayed(everything(recovered(files.kill()))) == said
    assert failed > 5


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("a defect")])
def test_whatever_ends_a_swap_half_done_is_a_failure_of_the_storage(error: Exception) -> None:
    class Ending:
        def __init__(self, operations: int) -> None:
            self.left = operations

        def __call__(self, _: SimulatedFiles, operation: Operation) -> None:
            if operation.kind in (OperationKind.RENAME, OperationKind.SYNC_FOLDER):
                self.left -= 1
                if self.left == 0:
                    raise error

    failed = 0
    for nth in range(1, 100):
        files = SimulatedFiles()
        log = keyed_log(files, WORDS)
        group = log.segments[:3]
        cleaned = clean_group(files, group, last_offsets(log, 8))
        assert cleaned is not None
        files.before_operation = Ending(nth)
        try:
            install(files, log, [cleaned], group)
        except StorageFailed:
            failed += 1
        else:
            break
    assert failed == nth - 1 > 10


def test_a_full_disk_refuses_a_write_and_what_was_begun_can_be_discarded() -> None:
    files = SimulatedFiles()
    log = keyed_log(files, WORDS)
    writer = CleanedSegmentWriter(files, FOLDER, 0, log.config)
    raw = segment_bytes(log.segments[0])
    writer.write(np.frombuffer(raw, np.uint8))
    files.faults.append(Fault(errno=errno.ENOSPC, nth=1))
    with pytest.raises(StorageFull):
        writer.write(np.frombuffer(raw * 20_000, np.uint8))
    writer.discard()
    assert not [name for name in files.list_folder(FOLDER) if name.endswith(".cleaned")]


def test_a_cleaned_segment_that_does_not_check_out_never_gets_a_name() -> None:
    files = SimulatedFiles()
    log = keyed_log(files, WORDS)
    writer = CleanedSegmentWriter(files, FOLDER, 0, log.config)
    raw = bytearray(segment_bytes(log.segments[0]))
    raw[70] ^= 1
    writer.write(np.frombuffer(bytes(raw), np.uint8))
    with pytest.raises(CorruptBatch):
        writer.finish(modified_ms=0)
    writer.discard()
    assert not [name for name in files.list_folder(FOLDER) if name.endswith(".cleaned")]


def test_a_file_that_a_failed_round_left_is_removed_and_none_may_be_there_in_a_swap() -> None:
    files = SimulatedFiles()
    log = keyed_log(files, WORDS)
    files.put_durable(segment_path(FOLDER, 3, ".log.cleaned"), b"left")
    group = log.segments[:1]
    cleaned = clean_group(files, group, [2])
    assert cleaned is not None
    with pytest.raises(AssertionError):
        install(files, log, [cleaned], group)
    unlink_cleaned(files, FOLDER)
    assert not [name for name in files.list_folder(FOLDER) if name.endswith(".cleaned")]


# Delayed and oldest


def test_files_of_replaced_segments_can_be_kept_for_a_while() -> None:
    files = SimulatedFiles()
    log = keyed_log(files, WORDS)
    kept: list[Path] = []
    group = log.segments[:3]
    cleaned = clean_group(files, group, last_offsets(log, 8))
    assert cleaned is not None
    install(files, log, [cleaned], group, discard=kept.extend)
    assert sorted(path.name for path in kept) == sorted(
        name for name in files.list_folder(FOLDER) if name.endswith(".deleted")
    )
    assert len(kept) == 9
    assert bases(recovered(files.power_cut())) == [0, 8]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_oldest_segments_go(count: int) -> None:
    files = SimulatedFiles()
    log = keyed_log(files, WORDS)
    log.raise_log_start_offset(8)
    delete_oldest(files, log, count)
    assert bases(log) == [0, 3, 6, 8][count:]
    assert bases(recovered(files.power_cut())) == bases(log)
    assert offsets_of(chunks(log)) == [8]


def test_what_is_not_below_the_log_start_is_not_taken() -> None:
    files = SimulatedFiles()
    log = keyed_log(files, WORDS)
    log.raise_log_start_offset(5)
    with pytest.raises(AssertionError):
        delete_oldest(files, log, 2)
    assert bases(log) == [0, 3, 6, 8]


def test_headers_and_tombstones_pass_through_as_they_are() -> None:
    record = Record(
        key=b"k", value=None, offset=3, timestamp_ms=9, headers=(("h", b"v"), ("n", None))
    )
    raw = encode_batch([record], base_offset=3)
    files = SimulatedFiles()
    log = keyed_log(files, WORDS)
    writer = CleanedSegmentWriter(files, FOLDER, 3, log.config)
    writer.write(np.frombuffer(raw, np.uint8))
    cleaned = writer.finish(modified_ms=1)
    assert cleaned is not None
    assert segment_bytes(cleaned) == raw
