"""A journal while it is written: what is durable when, and when a file is used again."""

from __future__ import annotations

import pytest
from journals import FOLDER, IDENTITY, PATHS, SIZES, A, B, Writer, followed, point_at
from offsetd_storage.disk.simulated_faults import Operation, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import FolderMismatch
from offsetd_storage.journal.batches_frame import BatchesFrame
from offsetd_storage.journal.journal import JOURNAL_NAMES, Journal, JournalSizes
from offsetd_storage.journal.journal_format import decode_header
from offsetd_storage.kernels import padded_copy


def header_number(files: SimulatedFiles, place: int) -> int | None:
    content = files.read_bytes(PATHS[place])
    header = decode_header(padded_copy(content), len(content))
    return None if header is None else header.file_number


def test_a_new_life_has_two_files_of_full_size_and_one_header() -> None:
    files = SimulatedFiles()
    Writer(files)
    files = files.power_cut()
    assert [files.size(path) for path in PATHS] == [SIZES.file_bytes] * 2
    assert header_number(files, 0) == 1
    assert not any(files.read_bytes(PATHS[1])[: SIZES.header_bytes])


def test_a_turn_begins_with_its_header_and_only_then_ends_the_one_before() -> None:
    files = SimulatedFiles()
    writer = Writer(files)
    while writer.journal._fits(300, keep=2):
        writer.append()
    seen: list[tuple[OperationKind, str, int]] = []
    files.before_operation = lambda _, operation: seen.append(
        (operation.kind, operation.path.name, operation.position)
    )
    end = writer.journal._position
    writer.append()
    old, new = JOURNAL_NAMES
    assert seen == [
        (OperationKind.WRITE, new, 0),
        (OperationKind.SYNC, new, 0),
        (OperationKind.WRITE, old, end),
        (OperationKind.SYNC, old, 0),
        (OperationKind.WRITE, new, SIZES.header_bytes),
        (OperationKind.SYNC, new, 0),
    ]


def test_what_was_appended_survives_a_power_cut() -> None:
    files = SimulatedFiles()
    writer = Writer(files)
    batches = [writer.append(A), writer.append(A, 300)]
    other = writer.append(B)
    assert followed(files.power_cut()).batches == {A: batches, B: [other]}


def test_several_batches_in_one_frame_come_back_together_or_not_at_all() -> None:
    files = SimulatedFiles()
    writer = Writer(files)
    frame = BatchesFrame()
    first, second = writer.add_batch(frame, A), writer.add_batch(frame, B)

    def cut(disk: SimulatedFiles, operation: Operation) -> None:
        if operation.kind is OperationKind.SYNC:
            disks.append(disk.power_cut())

    disks: list[SimulatedFiles] = []
    files.before_operation = cut
    writer.journal.append_batches(frame)
    assert followed(disks[0]).batches == {}
    assert followed(files.power_cut()).batches == {A: [first], B: [second]}


def test_the_other_file_is_used_only_when_recovery_points_have_passed_it() -> None:
    files = SimulatedFiles()
    writer = Writer(files)
    assert writer.fill() > 5
    assert header_number(files, 1) == 2, "the other file was free: it held nothing"
    assert not writer.has_room(), "now both hold batches above the recovery points"
    assert [header_number(files, place) for place in (0, 1)] == [1, 2]
    assert writer.journal.append_recovery_points(writer.points())
    assert writer.has_room()
    assert [header_number(files, place) for place in (0, 1)] == [3, 2]


def test_recovery_points_of_before_the_turn_do_not_free_the_file_before() -> None:
    writer = Writer(SimulatedFiles())
    writer.append()
    early = writer.points()
    writer.fill()
    while writer.has_room(75):  # Until a frame of points does not fit, either.
        writer.append(size_bytes=75)
    assert not writer.journal.append_recovery_points(early)
    assert not writer.journal.other_file_is_free
    assert writer.journal.points[A].offset == 0, "points that were refused do not count"
    assert writer.journal.append_recovery_points(writer.points())
    assert writer.journal.other_file_is_free


def test_a_full_journal_still_has_room_for_points_and_for_the_close() -> None:
    writer = Writer(SimulatedFiles())
    writer.fill()
    assert writer.journal.append_recovery_points(writer.points())
    writer.journal.append_closed({})


def test_points_in_a_full_file_go_into_the_header_of_the_next_where_that_is_free() -> None:
    files = SimulatedFiles()
    writer = Writer(files)
    writer.fill()
    writer.journal.append_recovery_points(writer.points())
    writer.append()
    while header_number(files, 0) == 3 and writer.journal._fits(300, keep=2):
        writer.append()
    writer.journal.append_recovery_points(writer.points())
    while writer.journal._fits(writer.journal._points_frame_bytes, keep=2):
        writer.journal.append_recovery_points(writer.points())
    assert writer.journal.append_recovery_points(writer.points())
    assert header_number(files, 1) == 4
    assert followed(files.power_cut()).end.points[A].offset == writer.ends[A]


def test_sequences_and_file_numbers_go_on_over_turns_and_lives() -> None:
    files = SimulatedFiles()
    writer = Writer(files, life=1)
    frames = writer.fill()
    end = followed(files).end
    # The end of a turn takes one, too; of the first, which nothing came before, it is not used.
    assert (end.life, end.file_number, end.next_sequence) == (1, 2, frames + 3)
    journal = Journal(files, FOLDER, IDENTITY, SIZES)
    journal.resume(end)
    journal.append_last_recovery_points(writer.points())
    journal.begin_life(2, list(writer.points().values()))
    end = followed(files.power_cut()).end
    assert (end.life, end.file_number, end.next_sequence) == (2, 3, frames + 5)


def test_a_new_life_is_not_begun_over_a_file_that_is_needed() -> None:
    files = SimulatedFiles()
    writer = Writer(files)
    writer.fill()
    journal = Journal(files, FOLDER, IDENTITY, SIZES)
    journal.resume(followed(files).end)
    with pytest.raises(AssertionError):
        journal.begin_life(2, list(writer.points().values()))


@pytest.mark.parametrize("file_bytes", [2048, 8192])
def test_a_new_size_holds_for_both_files_from_the_next_life_on(file_bytes: int) -> None:
    files = SimulatedFiles()
    writer = Writer(files)
    writer.append()
    writer.journal.append_recovery_points(writer.points())
    sizes = JournalSizes(file_bytes=file_bytes, header_bytes=512, frame_bytes_max=4096)
    journal = Journal(files, FOLDER, IDENTITY, sizes)
    journal.resume(followed(files).end)
    journal.begin_life(2, list(writer.points().values()))
    files = files.power_cut()
    assert [files.size(path) for path in PATHS] == [file_bytes] * 2
    assert followed(files).end.file_bytes == file_bytes


def test_a_file_too_small_for_its_recovery_points_is_refused() -> None:
    sizes = JournalSizes(file_bytes=1024, header_bytes=512, frame_bytes_max=4096)
    with pytest.raises(FolderMismatch, match="too small"):
        Writer(SimulatedFiles(), sizes)


def test_the_largest_batch_fits_into_a_file() -> None:
    writer = Writer(SimulatedFiles())
    batch_bytes_max = writer.journal.batch_bytes_max
    batch = writer.append(A, batch_bytes_max - 1)
    assert batch_bytes_max - 1 <= len(batch) <= batch_bytes_max
    assert followed(writer.files.power_cut()).batches == {A: [batch]}


def test_a_header_grows_with_the_partitions_it_names() -> None:
    sizes = JournalSizes(file_bytes=1 << 16, header_bytes=512, frame_bytes_max=4096)
    journal = Journal(SimulatedFilesWithFolder(), FOLDER, IDENTITY, sizes)
    points = [point_at(type(A)(A.topic, partition), 5) for partition in range(200)]
    journal.begin_life(3, points)
    assert len(journal.points) == 200


class SimulatedFilesWithFolder(SimulatedFiles):
    def __init__(self) -> None:
        super().__init__()
        self.make_folder(FOLDER)
