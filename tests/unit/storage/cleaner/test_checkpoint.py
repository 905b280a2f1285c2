"""How far each log is clean, in the file that Kafka's cleaner keeps."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from offsetd_storage.cleaner.checkpoint import CLEANER_CHECKPOINT, CleanerCheckpoint
from offsetd_storage.errors import StorageFailed, StorageFull
from offsetd_storage.simulated_faults import Fault, OperationKind
from offsetd_storage.simulated_files import SimulatedFiles
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
    assert checkpoint.warning is None


def test_an_entry_is_durable_in_kafkas_format_when_it_was_advanced() -> None:
    files = disk()
    checkpoint = CleanerCheckpoint(files, FOLDER)
    checkpoint.advance(P0, 17)
    assert checkpoint.first_dirty(P0) == 17
    after = files.power_cut()
    assert after.read_bytes(PATH) == b"0\n1\n__consumer_offsets 0 17\n"
    assert CleanerCheckpoint(after, FOLDER).first_dirty(P0) == 17


def test_entries_of_other_topics_stay() -> None:
    files = disk(b"0\n2\nanother-topic 3 5\n__consumer_offsets 0 7\n")
    checkpoint = CleanerCheckpoint(files, FOLDER)
    checkpoint.advance(P1, 9)
    checkpoint.advance(P0, None)
    again = CleanerCheckpoint(files.power_cut(), FOLDER)
    assert [again.first_dirty(each) for each in (THEIRS, P0, P1)] == [5, None, 9]


def test_what_does_not_change_is_not_written() -> None:
    files = disk(b"0\n1\n__consumer_offsets 0 7\n")
    checkpoint = CleanerCheckpoint(files, FOLDER)
    before = files.operations
    checkpoint.advance(P0, 7)
    checkpoint.advance(P1, None)
    assert files.operations == before


@pytest.mark.parametrize(
    "content", [b"1\n0\n", b"0\n1\n", b"0\n1\nt 0 x\n", b"0\n2\nt 0 1\nt 0 2\n", b"\xff"]
)
def test_a_damaged_file_counts_for_nothing_and_is_written_anew(content: bytes) -> None:
    files = disk(content)
    checkpoint = CleanerCheckpoint(files, FOLDER)
    assert checkpoint.first_dirty(P0) is None
    assert checkpoint.warning is not None
    checkpoint.advance(P0, 3)
    assert files.power_cut().read_bytes(PATH) == b"0\n1\n__consumer_offsets 0 3\n"


def test_a_file_that_the_disk_does_not_give_back_counts_for_nothing() -> None:
    files = disk(b"0\n1\n__consumer_offsets 0 7\n")
    files.faults.append(
        Fault(errno=errno.EIO, kind=OperationKind.READ, path=f"*{CLEANER_CHECKPOINT}")
    )
    checkpoint = CleanerCheckpoint(files, FOLDER)
    assert checkpoint.first_dirty(P0) is None
    assert checkpoint.warning is not None


@pytest.mark.parametrize(
    ("number", "error"), [(errno.ENOSPC, StorageFull), (errno.EIO, StorageFailed)]
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
