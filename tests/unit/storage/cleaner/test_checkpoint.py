"""How far each log is clean, in the file that Kafka's cleaner keeps."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import NewerFormat, StorageFailed, StorageFull
from offsetd_storage.folder.checkpoint_files import read_offset_checkpoint
from offsetd_storage.folder.cleaner_checkpoint import (
    CHECKSUM_ENTRY,
    CLEANER_CHECKPOINT,
    CleanerCheckpoint,
)
from offsetd_storage.topic_partition import TopicPartition

FOLDER = Path("/offsets")
PATH = FOLDER / CLEANER_CHECKPOINT
P0, P1 = TopicPartition("__consumer_offsets", 0), TopicPartition("__consumer_offsets", 1)
THEIRS = TopicPartition("another-topic", 3)


def disk(content: bytes | None = None) -> SimulatedFiles:
    files = SimulatedFiles()
    files.put_durable(FOLDER / "x", b"")
    if content is not None:
        files.put_durable(PATH, content)
    return files


def test_a_log_that_was_never_cleaned_has_no_entry() -> None:
    checkpoint = CleanerCheckpoint(disk(), FOLDER)
    assert checkpoint.first_dirty(P0) is None
    assert checkpoint.warnings == ()


def test_an_entry_is_durable_in_kafkas_format_when_it_was_advanced() -> None:
    files = disk()
    checkpoint = CleanerCheckpoint(files, FOLDER)
    checkpoint.advance(P0, 17)
    assert checkpoint.first_dirty(P0) == 17
    after = files.power_cut()
    assert after.read_bytes(PATH) == (
        b"0\n2\n__consumer_offsets 0 17\n__offsetd_checksum 0 142285812\n"
    )
    assert CleanerCheckpoint(after, FOLDER).first_dirty(P0) == 17


def test_entries_of_other_topics_stay() -> None:
    files = disk(b"0\n2\nanother-topic 3 5\n__consumer_offsets 0 7\n")
    checkpoint = CleanerCheckpoint(files, FOLDER)
    checkpoint.advance(P1, 9)
    checkpoint.advance(P0, None)
    again = CleanerCheckpoint(files.power_cut(), FOLDER)
    assert [again.first_dirty(each) for each in (THEIRS, P0, P1)] == [5, None, 9]


def test_who_asks_does_not_wait_for_the_disk() -> None:
    files = disk(b"0\n1\n__consumer_offsets 0 7\n")
    checkpoint = CleanerCheckpoint(files, FOLDER)
    begun, go_on = threading.Event(), threading.Event()
    rename = files.rename

    def rename_slowly(source: Path, target: Path) -> None:
        begun.set()
        assert go_on.wait(60)
        rename(source, target)

    files.rename = rename_slowly  # type: ignore[method-assign]
    writing = threading.Thread(target=lambda: checkpoint.advance(P1, 9))
    writing.start()
    assert begun.wait(60)
    assert checkpoint.first_dirty(P0) == 7
    assert P0 in checkpoint.topic_partitions
    go_on.set()
    writing.join()
    assert checkpoint.first_dirty(P1) == 9


def test_unchanged_checkpoint_is_not_rewritten() -> None:
    files = disk(b"0\n1\n__consumer_offsets 0 7\n")
    checkpoint = CleanerCheckpoint(files, FOLDER)
    before = files.operations
    checkpoint.advance(P0, 7)
    checkpoint.advance(P1, None)
    assert files.operations == before


@pytest.mark.parametrize(
    "content", [b"x\n0\n", b"0\n1\n", b"0\n1\nt 0 x\n", b"0\n2\nt 0 1\nt 0 2\n", b"\xff"]
)
def test_a_damaged_file_counts_for_nothing_and_is_written_anew(content: bytes) -> None:
    files = disk(content)
    checkpoint = CleanerCheckpoint(files, FOLDER)
    assert checkpoint.first_dirty(P0) is None
    assert checkpoint.warnings
    checkpoint.advance(P0, 3)
    assert CleanerCheckpoint(files.power_cut(), FOLDER).first_dirty(P0) == 3


def test_a_file_that_the_disk_does_not_give_back_counts_for_nothing() -> None:
    files = disk(b"0\n1\n__consumer_offsets 0 7\n")
    files.faults.append(
        Fault(errno=errno.EIO, kind=OperationKind.READ, path=f"*{CLEANER_CHECKPOINT}")
    )
    checkpoint = CleanerCheckpoint(files, FOLDER)
    assert checkpoint.first_dirty(P0) is None
    assert checkpoint.warnings


@pytest.mark.parametrize(
    ("number", "error"),
    [(errno.ENOSPC, StorageFull), (errno.EMFILE, StorageFull), (errno.EIO, StorageFailed)],
)
def test_a_failure_leaves_the_old_file_and_what_is_known_counts(
    number: int, error: type[Exception]
) -> None:
    files = disk(b"0\n1\n__consumer_offsets 0 7\n")
    checkpoint = CleanerCheckpoint(files, FOLDER)
    files.faults.append(Fault(errno=number, kind=OperationKind.WRITE, nth=1))
    with pytest.raises(error):
        checkpoint.advance(P0, 9)
    assert checkpoint.first_dirty(P0) == 9
    assert CleanerCheckpoint(files.power_cut(), FOLDER).first_dirty(P0) == 7
    checkpoint.advance(P0, 9)  # It is behind, so it is written.
    assert CleanerCheckpoint(files.power_cut(), FOLDER).first_dirty(P0) == 9


def test_an_entry_in_which_any_byte_rots_is_never_taken_for_right() -> None:
    files = disk()
    checkpoint = CleanerCheckpoint(files, FOLDER)
    checkpoint.advance(P0, 17)
    checkpoint.advance(P1, 400)
    written = files.read_bytes(PATH)
    entries = written.index(b"__offsetd_checksum")
    for place in range(len(written)):
        for bit in range(8):
            rotten = bytearray(written)
            rotten[place] ^= 1 << bit
            if place == 0 and rotten[:1].isdigit():  # It looks like a newer version.
                with pytest.raises(NewerFormat):
                    CleanerCheckpoint(disk(bytes(rotten)), FOLDER)
                continue
            found = CleanerCheckpoint(disk(bytes(rotten)), FOLDER)
            # Rot in the checksum's own name leaves the entries as a broker would have written them.
            right = place >= entries and not found.warnings
            expected = (17, 400) if right else (None, None)
            assert (found.first_dirty(P0), found.first_dirty(P1)) == expected, (place, bit)


def test_the_word_of_a_broker_counts_and_gets_a_checksum() -> None:
    files = disk(b"0\n1\n__consumer_offsets 0 7\n")
    checkpoint = CleanerCheckpoint(files, FOLDER)
    assert checkpoint.first_dirty(P0) == 7
    assert CHECKSUM_ENTRY not in checkpoint.topic_partitions
    checkpoint.advance(P1, 9)
    assert CHECKSUM_ENTRY in read_offset_checkpoint(files, PATH)
    assert CleanerCheckpoint(files, FOLDER).topic_partitions == [P0, P1]
