"""What is followed of a journal: everything durable, or a refusal; never less in silence."""

from __future__ import annotations

import errno

import attrs
import pytest
from journals import FOLDER, IDENTITY, PATHS, SIZES, A, B, Writer, followed
from log_stores import seeded
from offsetd_storage.disk.checksums import checksum
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import JournalDamaged, NewerFormat
from offsetd_storage.folder.folder_format import FolderIdentity
from offsetd_storage.journal.batches_frame import BatchesFrame
from offsetd_storage.journal.journal import JOURNAL_NAMES, Journal
from offsetd_storage.journal.journal_format import FORMAT_VERSION
from offsetd_storage.journal.journal_recovery import (
    RecoveredJournal,
    recover_journal,
)
from offsetd_storage.views.recovery_point_reader import DurablePoints


def overwrite(files: SimulatedFiles, place: int, position: int, content: bytes) -> None:
    file = files.open(PATHS[place])
    file.pwrite([content], position)
    file.sync()
    file.close()


def said(recovered: RecoveredJournal) -> tuple[object, ...]:
    """What recovery acts on."""
    return (recovered.batches, recovered.end.points, recovered.closed_clean)


def spanning() -> Writer:
    """A journal whose both files are needed."""
    writer = Writer(SimulatedFiles())
    writer.fill()
    return writer


def settled() -> Writer:
    """A journal that has turned over, and of whose files only the newer one is needed."""
    writer = spanning()
    writer.journal.append_recovery_points(writer.points())
    for _ in range(3):
        writer.append()
    return writer


# Following -----------------------------------------------------------------------------------


def test_a_journal_over_both_files_is_followed_from_the_older_one() -> None:
    writer = spanning()
    recovered = followed(writer.files.power_cut())
    assert recovered.batches == writer.batches
    assert recovered.end.file_number == 2
    assert recovered.end.journal_ends == writer.ends
    assert recovered.end.points[A].offset == 0
    assert not recovered.closed_clean


def test_only_the_newer_file_is_followed_once_recovery_points_have_passed_the_older() -> None:
    writer = settled()
    recovered = followed(writer.files.power_cut())
    assert recovered.end.points[A].offset + 3 == writer.ends[A]
    assert recovered.batches[A][-3:] == writer.batches[A][-3:]
    assert recovered.end.journal_ends == writer.ends


def test_a_closed_journal_says_so_until_the_next_life() -> None:
    writer = spanning()
    writer.journal.append_recovery_points(writer.points())
    writer.journal.append_closed({})
    recovered = followed(writer.files.power_cut())
    assert recovered.closed_clean
    journal = Journal(writer.files, FOLDER, IDENTITY, SIZES)
    journal.resume(recovered.end)
    journal.begin_life(5, list(writer.points().values()))
    assert not followed(writer.files.power_cut()).closed_clean


@pytest.mark.parametrize("begun", [False, True])
def test_without_a_header_there_is_a_journal_only_if_a_life_had_begun(begun: bool) -> None:
    files = SimulatedFiles()
    files.make_folder(FOLDER)
    for content in (None, b"", bytes(4096)):
        if content is not None:
            files.put_durable(PATHS[0], content)
        if begun:
            with pytest.raises(JournalDamaged):
                recover_journal(files, FOLDER, IDENTITY, begun=begun)
        else:
            assert recover_journal(files, FOLDER, IDENTITY, begun=begun) is None


# Tears ---------------------------------------------------------------------------------------


def test_a_torn_last_frame_is_as_if_it_had_never_been() -> None:
    writer = spanning()
    before = said(followed(writer.files))
    position = followed(writer.files).end.position
    writer.journal.append_recovery_points(writer.points())
    for size in range(8, 80, 8):
        torn = writer.files.kill()
        overwrite(torn, 1, position + size, b"\xaa" * 300)
        assert said(followed(torn)) == before, size


def test_a_header_torn_at_a_turn_leaves_the_turn_before() -> None:
    writer = spanning()
    writer.journal.append_recovery_points(writer.points())
    before = said(followed(writer.files))
    whole = writer.files.kill()
    assert writer.has_room()  # Turns over to file 0.
    header = writer.files.read_bytes(PATHS[0])[:512]
    for size in (1, 16, 60, 100, 200):
        torn = whole.kill()
        overwrite(torn, 0, 0, header[:size])
        assert said(followed(torn)) == before, size


def test_stale_frames_that_line_up_by_size_are_not_followed() -> None:
    writer = Writer(SimulatedFiles())
    for _ in range(4):  # All frames of one size: those of each turn lie over those before.
        while writer.has_room() and writer.journal._fits(300, keep=2):
            writer.append(A)
        writer.journal.append_recovery_points(writer.points())
    for more in range(1, 4):
        writer.append(A)
        recovered = followed(writer.files.power_cut())
        assert recovered.end.journal_ends[A] == writer.ends[A], more
        assert recovered.batches[A][-more:] == writer.batches[A][-more:]


def test_stale_frames_of_an_earlier_life_that_line_up_are_not_followed() -> None:
    files = SimulatedFiles()
    writer = Writer(files, life=1)
    for _ in range(3):
        writer.append(A)
    end = followed(files).end
    for life in (2, 3):  # Back in file 0.
        journal = Journal(files, FOLDER, IDENTITY, SIZES)
        journal.resume(end)
        journal.begin_life(life, list(writer.points().values()))
        end = followed(files).end
    assert (end.file_place, end.file_number, end.next_sequence) == (0, 3, 7)
    assert followed(files).batches == {}


# Rot -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("journal", [spanning, settled])
def test_rot_anywhere_is_refused_or_changes_nothing(journal: object) -> None:
    """But for the very last frame: nothing tells its rot from a tear."""
    assert callable(journal)
    writer = journal()
    files = writer.files.power_cut()
    sound = said(followed(files))
    end = followed(files).end
    last_frame = range(writer.last_frame_start, end.position)
    random = seeded()
    refused = 0
    for place, path in enumerate(PATHS):
        content = files.read_bytes(path)
        for position in range(len(content)):
            if place == end.file_place and position in last_frame:
                continue
            flipped = bytes([content[position] ^ 1 << random.randrange(8)])
            rotten = files.kill()
            overwrite(rotten, place, position, flipped)
            try:
                assert said(followed(rotten)) == sound, (place, position)
            except JournalDamaged:
                refused += 1
    assert refused > 500


def test_rot_in_the_very_last_frame_looks_like_a_tear() -> None:
    writer = settled()
    files = writer.files.power_cut()
    end = followed(files).end
    overwrite(files, end.file_place, end.position - 100, b"rot")
    assert followed(files).end.journal_ends[A] == writer.ends[A] - 1


def test_rot_in_the_newest_lifes_header_is_given_away_by_its_frames() -> None:
    writer = settled()
    end = followed(writer.files).end
    journal = Journal(writer.files, FOLDER, IDENTITY, SIZES)
    journal.resume(end)
    journal.append_last_recovery_points(writer.points())
    journal.begin_life(4, list(writer.points().values()))
    files = writer.files.kill()
    overwrite(files, 1 - end.file_place, 30, b"rot")
    with pytest.raises(JournalDamaged, match="lost its header"):
        followed(files)
    frame = BatchesFrame()
    writer.add_batch(frame, A)
    journal.append_batches(frame)
    files = writer.files.kill()
    overwrite(files, 1 - end.file_place, 30, b"rot")
    with pytest.raises(JournalDamaged, match="frame"):
        followed(files)


def test_a_file_that_lost_its_end_is_refused() -> None:
    writer = spanning()
    for place in (0, 1):
        files = writer.files.kill()
        file = files.open(PATHS[place])
        file.truncate(4000)
        file.close()
        with pytest.raises(JournalDamaged, match=JOURNAL_NAMES[place]):
            followed(files)


@pytest.mark.parametrize("journal", [spanning, settled])
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("size", [None, 0, 100])
def test_a_file_that_is_missing_or_cut_away_is_refused(
    journal: object, place: int, size: int | None
) -> None:
    assert callable(journal)
    files = journal().files
    if size is None:
        files.unlink(PATHS[place])
    else:
        files.put_durable(PATHS[place], files.read_bytes(PATHS[place])[:size])
    with pytest.raises(JournalDamaged, match=JOURNAL_NAMES[place]):
        followed(files)


@pytest.mark.parametrize("journal", [spanning, settled])
def test_a_newest_file_that_is_replaced_by_zeros_or_by_itself_of_before_is_missed(
    journal: object,
) -> None:
    assert callable(journal)
    writer = journal()
    end = followed(writer.files).end
    before = writer.files.read_bytes(PATHS[end.file_place])
    for _ in range(2):
        if not writer.has_room():
            writer.journal.append_recovery_points(writer.points())
        while followed(writer.files).end.file_number == end.file_number:
            writer.append()
            assert writer.has_room() or writer.journal.append_recovery_points(writer.points())
        end = followed(writer.files).end
    for content in (before, bytes(SIZES.file_bytes)):
        files = writer.files.kill()
        files.put_durable(PATHS[end.file_place], content)
        with pytest.raises(JournalDamaged, match="lost its header"):
            followed(files)


def test_another_folders_journal_is_none() -> None:
    stranger = FolderIdentity(folder_id=b"g" * 16, frame_mark=b"theirs!!")
    with pytest.raises(JournalDamaged):
        recover_journal(spanning().files, FOLDER, stranger, begun=True)


def test_frames_without_any_header_are_refused_even_before_a_life_is_known() -> None:
    files = spanning().files
    for place in (0, 1):
        overwrite(files, place, 0, bytes(512))
    with pytest.raises(JournalDamaged, match="frame"):
        recover_journal(files, FOLDER, IDENTITY, begun=False)


def test_a_newer_journal_is_refused() -> None:
    files = spanning().files
    prefix = b"offsetdJ" + (FORMAT_VERSION + 1).to_bytes(4)
    overwrite(files, 0, 0, prefix + checksum(prefix).to_bytes(4))
    with pytest.raises(NewerFormat):
        followed(files)


# The page cache ------------------------------------------------------------------------------


def test_a_frame_whose_sync_failed_is_not_followed_by_the_next_process() -> None:
    writer = settled()
    before = said(followed(writer.files.kill()))
    writer.files.faults.append(Fault(errno=errno.EIO, kind=OperationKind.SYNC))
    with pytest.raises(OSError, match="Input/output"):
        writer.append()
    assert said(followed(writer.files.kill())) == before


def test_a_frame_that_was_never_synced_is_made_durable_before_it_is_followed() -> None:
    writer = settled()

    def stop(disk: SimulatedFiles, operation: object) -> None:
        if operation.kind is OperationKind.SYNC:  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    writer.files.before_operation = stop
    with pytest.raises(KeyboardInterrupt):
        writer.append()
    killed = writer.files.kill()
    recovered = followed(killed)
    assert recovered.end.journal_ends == writer.ends
    assert said(followed(killed.power_cut())) == said(recovered)


# Beside a server -----------------------------------------------------------------------------


def test_a_reader_sees_durable_points_and_changes_nothing() -> None:
    writer = settled()
    operations = writer.files.operations
    points = DurablePoints(writer.files, FOLDER, IDENTITY).read(begun=True)
    assert points == writer.journal.points
    assert recover_journal(writer.files, FOLDER, IDENTITY, begun=True, settle=False) is not None
    assert writer.files.operations == operations


def test_held_partitions_pin_nothing() -> None:
    writer = spanning()
    recovered = followed(writer.files)
    journal = Journal(writer.files, FOLDER, IDENTITY, SIZES)
    journal.resume(recovered.end)
    points = writer.points() | {B: attrs.evolve(writer.points()[B], held=True)}
    journal.append_last_recovery_points(points)
    assert journal.other_file_is_free
    assert followed(writer.files.power_cut()).end.points[B].held
