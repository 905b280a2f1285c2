"""Recovery of a journal that is not open: its recovery points, its batches, and how it ended.

It only reads. The steps are those of `docs/formats/journal.md`.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

import attrs

from offsetd_storage.batch.batch_runs import split_run
from offsetd_storage.batch.record_batch import batch_header
from offsetd_storage.errors import CorruptBatch, JournalDamaged
from offsetd_storage.journal.journal import (
    FILE_BYTES_MIN,
    JOURNAL_NAMES,
    JournalEnd,
    nothing_needed_before,
)
from offsetd_storage.journal.journal_format import (
    FILE_BYTES_MAX,
    Frame,
    FrameKind,
    JournalHeader,
    RecoveryPoint,
    decode_batches,
    decode_points,
)
from offsetd_storage.journal.journal_reader import WINDOW_BYTES, JournalReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from offsetd_storage.disk.files import Files
    from offsetd_storage.folder.folder_format import FolderIdentity
    from offsetd_storage.topic_partition import TopicPartition

# This is small, because the pages after the last frame are not in the cache.
_CLOSED_WINDOW_BYTES: Final = 1 << 16


@attrs.frozen(kw_only=True)
class RecoveredJournal:
    """The contents of a journal, read to its end."""

    end: JournalEnd
    closed_clean: bool
    # The batches above the recovery points, in the order of the appends.
    batches: dict[TopicPartition, list[bytes]]
    bytes_cut: int = 0  # The least size of the last frame, if it is incomplete.

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the operator."""
        if not self.bytes_cut:
            return ()
        return (
            (
                f"{JOURNAL_NAMES[self.end.file_place]}: the last frame, number"
                f" {self.end.next_sequence} at byte {self.end.position}, is not whole, and was"
                f" dropped with its {self.bytes_cut} bytes: a crash tore it, and nothing in it was"
                " acknowledged; or it is damaged since, and what it held is lost"
            ),
        )


@attrs.frozen(kw_only=True)
class _JournalFile:
    """One of the two files, open. A missing file is empty."""

    place: int
    reader: JournalReader | None
    header: JournalHeader | None  # None if it is not valid, or of another folder.

    @property
    def name(self) -> str:
        """The file's name."""
        return JOURNAL_NAMES[self.place]

    @property
    def size(self) -> int:
        """The file's size."""
        return 0 if self.reader is None else self.reader.size


@attrs.frozen(kw_only=True)
class _Turn:
    """A file's header, and the frames that follow it without a gap."""

    place: int
    reader: JournalReader
    header: JournalHeader
    frames: list[Frame]

    @property
    def position(self) -> int:
        """The position of the next frame."""
        return self.frames[-1].end if self.frames else self.header.frames_start

    @property
    def next_sequence(self) -> int:
        """The sequence of the next frame."""
        return self.header.first_sequence + len(self.frames)

    @property
    def begun_frame_bytes(self) -> int:
        """The least size of an incomplete frame after the last one; 0 if there is none."""
        return self.reader.begun_frame_bytes(
            self.position,
            self.header.file_bytes,
            life=self.header.life,
            sequence=self.next_sequence,
        )

    @property
    def is_closed(self) -> bool:
        """Whether its life ended with a clean stop."""
        return bool(self.frames) and self.frames[-1].kind is FrameKind.CLOSED

    @property
    def is_turned(self) -> bool:
        """Whether the other file's turn followed."""
        return bool(self.frames) and self.frames[-1].kind is FrameKind.TURNED

    @property
    def begun_at(self) -> dict[TopicPartition, int]:
        """The end of each partition in the journal when this turn began."""
        return {
            point.topic_partition: point.journal_offset_next
            for point in self.header.points
            if not point.held
        }


def recover_journal(
    files: Files,
    folder: Path,
    identity: FolderIdentity,
    *,
    begun: bool,
    settle: bool = True,
    as_closed: bool = False,
) -> RecoveredJournal | None:
    """Reads the journal of a folder. Returns None if no life of the journal ever began.

    `begun`: the folder's properties say that a life began. With `settle`, the files are synced
    first; otherwise the call only reads. `as_closed`: the files are those that the last life
    closed, so they are durable, and nothing follows the last frame. If the frame that marks the
    close is not found, the call returns None. Raises JournalDamaged if durable bytes are damaged,
    and NewerFormat; then nothing was changed.
    """
    settle = settle and not as_closed
    window_bytes = _CLOSED_WINDOW_BYTES if as_closed else WINDOW_BYTES
    with _opened_files(
        files, folder, identity, settle=settle, window_bytes=window_bytes
    ) as journal_files:
        if begun:
            _refuse_missing_file(journal_files)
        current = _current_turn(journal_files)
        if as_closed:
            if current is None or not current.is_closed:
                return None
        else:
            sequence_min = 0 if current is None else current.next_sequence
            _refuse_lost_frames(journal_files, sequence_min=sequence_min)
        return _followed(current, journal_files, begun=begun)


def _followed(
    current: _Turn | None, journal_files: Sequence[_JournalFile], *, begun: bool
) -> RecoveredJournal | None:
    if current is None:
        if begun:
            raise JournalDamaged("neither file of the journal has a whole header")
        return None
    if current.is_turned:
        raise JournalDamaged(
            f"{JOURNAL_NAMES[1 - current.place]} had the turn after number"
            f" {current.header.file_number}, and has lost its header"
        )
    points = _points(current)
    batches: dict[TopicPartition, list[bytes]] = {}
    if not nothing_needed_before(current.begun_at, points):
        _collect(_turn_before(current, journal_files), points, batches)
    journal_ends = current.begun_at | _collect(current, points, batches)
    return RecoveredJournal(
        end=JournalEnd(
            life=current.header.life,
            file_place=current.place,
            file_number=current.header.file_number,
            file_bytes=current.header.file_bytes,
            position=current.position,
            next_sequence=current.next_sequence,
            begun_at=current.begun_at,
            points=points,
            journal_ends=journal_ends,
        ),
        closed_clean=current.is_closed,
        batches=batches,
        bytes_cut=0 if current.is_closed else current.begun_frame_bytes,
    )


@contextmanager
def _opened_files(
    files: Files, folder: Path, identity: FolderIdentity, *, settle: bool, window_bytes: int
) -> Iterator[list[_JournalFile]]:
    """Step 1: opens both files; they are closed at the end of the block.

    With `settle`, the files are synced first, and reads return what is on the disk. A process that
    died may have left pages that were never synced, or, after a failed sync, pages that no sync
    will ever write.
    """
    with ExitStack() as stack:
        opened = []
        for place, name in enumerate(JOURNAL_NAMES):
            reader = None
            if files.exists(folder / name):
                file = files.open(folder / name, read_only=not settle)
                stack.callback(file.close)
                if settle:
                    file.sync()
                    file.drop_cache()
                reader = JournalReader(file, mark=identity.frame_mark, window_bytes=window_bytes)
            header = None if reader is None else read_header(reader, identity, name)
            opened.append(_JournalFile(place=place, reader=reader, header=header))
        yield opened


def read_header(reader: JournalReader, identity: FolderIdentity, name: str) -> JournalHeader | None:
    """Step 2: the header, if it is valid and of this folder; else None.

    An incomplete header was being written when the power failed. Then the file holds nothing that
    is needed. If a header was damaged later, the frames in the file show it (step 4). Raises
    JournalDamaged, NewerFormat.
    """
    try:
        header = reader.header(name)
    except ValueError as error:
        raise JournalDamaged(f"{name} has an impossible header: {error}") from error
    if header is None or header.folder_id != identity.folder_id:
        header = None
        if reader.size > FILE_BYTES_MAX:
            raise JournalDamaged(f"{name} is larger than any journal")
    elif reader.size < header.file_bytes:
        raise JournalDamaged(f"{name} is shorter than it was made")
    return header


def _current_turn(journal_files: Sequence[_JournalFile]) -> _Turn | None:
    """Steps 2 and 3: the newest of the valid headers, and its frames."""
    turns = [_turn(file) for file in journal_files]
    return max(
        (turn for turn in turns if turn is not None),
        key=lambda turn: turn.header.file_number,
        default=None,
    )


def _turn(file: _JournalFile) -> _Turn | None:
    if file.reader is None or file.header is None:
        return None
    frames = list(_follow(file.reader, file.header))
    return _Turn(place=file.place, reader=file.reader, header=file.header, frames=frames)


def _follow(reader: JournalReader, header: JournalHeader) -> Iterator[Frame]:
    """The frames at the file's start, as long as life and sequence continue."""
    position, sequence = header.frames_start, header.first_sequence
    while True:
        frame = reader.frame_at(position, header.file_bytes)
        if frame is None or frame.life != header.life or frame.sequence != sequence:
            return
        yield frame
        position, sequence = frame.end, sequence + 1


def _refuse_missing_file(journal_files: Sequence[_JournalFile]) -> None:
    """Raises JournalDamaged if a file is missing or short.

    Both files get their names when they are complete, and keep them.
    """
    for file in journal_files:
        if file.size < FILE_BYTES_MIN:
            raise JournalDamaged(f"{file.name} is missing, or cut short")


def _refuse_lost_frames(journal_files: Sequence[_JournalFile], *, sequence_min: int) -> None:
    """Step 4: raises JournalDamaged if any valid frame was written after the break.

    Then the broken frame was durable, because only one frame is in flight at a time. No two valid
    frames have the same sequence, in any life: frames of earlier turns have smaller ones.
    """
    for file in journal_files:
        if file.reader is None:
            continue
        limit = file.size if file.header is None else file.header.file_bytes
        frame = file.reader.find_frame(0, limit, sequence_min=sequence_min)
        if frame is not None:
            raise JournalDamaged(
                f"{file.name} holds frame {frame.sequence} at byte {frame.position}, but frame"
                f" {sequence_min}, durable before it, is missing"
            )


def _turn_before(current: _Turn, journal_files: Sequence[_JournalFile]) -> _Turn:
    """Step 5: the previous turn, which is needed if the recovery points have not passed it yet."""
    before = _turn(journal_files[1 - current.place])
    if (
        before is None
        or before.header.life != current.header.life
        or before.header.file_number != current.header.file_number - 1
        # The frame that ends a turn is written after the header of the next one.
        or current.header.first_sequence - before.next_sequence not in (0, 1)
    ):
        raise JournalDamaged(
            f"{JOURNAL_NAMES[1 - current.place]} does not hold the frames before frame"
            f" {current.header.first_sequence}, which are still needed"
        )
    return before


def _points(turn: _Turn) -> dict[TopicPartition, RecoveryPoint]:
    """The last recovery points of a turn. Each frame of points holds all partitions."""
    points = turn.header.points
    for frame in reversed(turn.frames):
        if frame.kind in (FrameKind.RECOVERY_POINTS, FrameKind.CLOSED):
            try:
                points = decode_points(turn.reader.payload(frame))
            except ValueError as error:
                raise _damaged_frame(turn, frame, error) from error
            break
    return {point.topic_partition: point for point in points}


def _collect(
    turn: _Turn,
    points: Mapping[TopicPartition, RecoveryPoint],
    batches: dict[TopicPartition, list[bytes]],
) -> dict[TopicPartition, int]:
    """Adds a turn's batches above the recovery points. Returns the turn's end of each partition."""
    ends = {}
    for frame in turn.frames:
        if frame.kind is not FrameKind.BATCHES:
            continue
        try:
            for topic_partition, run in decode_batches(turn.reader.payload(frame)):
                for batch in split_run(run):
                    last_offset = batch_header(batch).last_offset
                    ends[topic_partition] = last_offset + 1
                    if last_offset >= points[topic_partition].offset:
                        batches.setdefault(topic_partition, []).append(batch)
        except (ValueError, CorruptBatch, KeyError) as error:
            raise _damaged_frame(turn, frame, error) from error
    return ends


def _damaged_frame(turn: _Turn, frame: Frame, error: Exception) -> JournalDamaged:
    return JournalDamaged(
        f"{JOURNAL_NAMES[turn.place]} holds a frame at byte {frame.position} with a valid checksum,"
        f" but impossible contents: {error}"
    )
