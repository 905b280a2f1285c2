"""What a journal says once its writer is gone: recovery points, batches, and how it ended.

Reads only; the steps are those of `docs/formats/journal.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from offsetd_storage.errors import JournalDamaged
from offsetd_storage.journal import (
    FILE_BYTES_MIN,
    JOURNAL_NAMES,
    JournalEnd,
    nothing_needed_before,
)
from offsetd_storage.journal_format import (
    Frame,
    FrameKind,
    JournalHeader,
    RecoveryPoint,
    decode_batches,
    decode_header,
    decode_points,
    find_frame,
    read_frame,
)
from offsetd_storage.kernels import padded_buffer
from offsetd_storage.record_batch import batch_header

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from offsetd_storage.files import Files
    from offsetd_storage.folder_format import FolderIdentity
    from offsetd_storage.topic_partition import TopicPartition


@attrs.frozen(kw_only=True)
class RecoveredJournal:
    """A journal, followed to its end."""

    end: JournalEnd
    closed_clean: bool
    # In the order in which they were appended; some may lie below the recovery points.
    batches: dict[TopicPartition, list[bytes]]


@attrs.frozen(kw_only=True)
class _JournalFile:
    """One of the two files, in memory."""

    place: int
    buffer: npt.NDArray[np.uint8]  # Padded for the kernels.
    size: int


@attrs.frozen(kw_only=True)
class _Turn:
    """A file's header, and the frames that follow it without a break."""

    file: _JournalFile
    header: JournalHeader
    frames: list[Frame]

    @property
    def position(self) -> int:
        """Where the next frame goes."""
        return self.frames[-1].end if self.frames else self.header.frames_start

    @property
    def next_sequence(self) -> int:
        """What the next frame carries."""
        return self.header.first_sequence + len(self.frames)

    @property
    def is_closed(self) -> bool:
        """Whether its life ended by a clean stop."""
        return bool(self.frames) and self.frames[-1].kind is FrameKind.CLOSED

    @property
    def is_turned(self) -> bool:
        """Whether the other file's turn came after it."""
        return bool(self.frames) and self.frames[-1].kind is FrameKind.TURNED

    @property
    def begun_at(self) -> dict[TopicPartition, int]:
        """Where each partition ended in the journal when this turn began."""
        return {
            point.topic_partition: point.journal_offset_next
            for point in self.header.points
            if not point.held
        }

    def payload(self, frame: Frame) -> bytes:
        """What a frame holds."""
        return self.file.buffer[frame.payload_start : frame.payload_end].tobytes()


def recover_journal(
    files: Files, folder: Path, identity: FolderIdentity, *, begun: bool, settle: bool = True
) -> RecoveredJournal | None:
    """Follows the journal of a folder; None if its first life never began.

    `begun` says that it did; a mere reader does not `settle` the files first. Raises JournalDamaged
    where something that was durable is broken, and NewerFormat; then nothing was changed.
    """
    journal_files = read_journal_files(files, folder, settle=settle)
    if begun:
        _refuse_missing_file(journal_files)
    current = _current_turn(journal_files, identity)
    sequence_min = 0 if current is None else current.next_sequence
    _refuse_lost_frames(journal_files, identity, sequence_min=sequence_min)
    if current is None:
        if begun:
            raise JournalDamaged("neither file of the journal has a whole header")
        return None
    if current.is_turned:
        raise JournalDamaged(
            f"{JOURNAL_NAMES[1 - current.file.place]} had the turn after number"
            f" {current.header.file_number}, and has lost its header"
        )
    points = _points(current)
    batches = _batches(current)
    journal_ends = _journal_ends(current, batches)
    if not nothing_needed_before(current.begun_at, points):
        before = _batches(_turn_before(current, journal_files, identity))
        for topic_partition, appended in batches.items():
            before.setdefault(topic_partition, []).extend(appended)
        batches = before
    return RecoveredJournal(
        end=JournalEnd(
            life=current.header.life,
            file_place=current.file.place,
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
    )


def read_durable_points(
    files: Files, folder: Path, identity: FolderIdentity
) -> dict[TopicPartition, RecoveryPoint] | None:
    """The recovery points of a journal that may be in use; None if no life began or it was closed.

    They may be older than the newest, which is what a reader beside a server has to expect anyway.
    """
    current = _current_turn(read_journal_files(files, folder, settle=False), identity)
    return None if current is None or current.is_closed else _points(current)


def read_journal_files(files: Files, folder: Path, *, settle: bool) -> list[_JournalFile]:
    """Step 1: both files, in memory; a missing one is empty.

    With `settle`, what is read is on the disk: a process that died may have left pages that were
    never synced, or, after a failed sync, pages that no sync will ever write.
    """
    return [
        _read_file(files, folder / name, place, settle=settle)
        for place, name in enumerate(JOURNAL_NAMES)
    ]


def _read_file(files: Files, path: Path, place: int, *, settle: bool) -> _JournalFile:
    if not files.exists(path):
        return _JournalFile(place=place, buffer=padded_buffer(0), size=0)
    file = files.open(path, read_only=not settle)
    try:
        if settle:
            file.sync()
            file.drop_cache()
        buffer = padded_buffer(file.size())
        size = file.pread_into(buffer, file.size(), 0)
        return _JournalFile(place=place, buffer=buffer, size=size)
    finally:
        file.close()


def _current_turn(journal_files: Sequence[_JournalFile], identity: FolderIdentity) -> _Turn | None:
    """Steps 2 and 3: of the whole headers of this folder the newest, and its frames.

    A header that is not whole is one that was being written when the power went: its file holds
    nothing that is needed. If it was damaged later, its frames give that away.
    """
    turns = [_turn(file, identity) for file in journal_files]
    return max(
        (turn for turn in turns if turn is not None),
        key=lambda turn: turn.header.file_number,
        default=None,
    )


def _turn(file: _JournalFile, identity: FolderIdentity) -> _Turn | None:
    header = decode_header(file.buffer, file.size)
    if header is None or header.folder_id != identity.folder_id:
        return None
    if file.size < header.file_bytes:
        raise JournalDamaged(f"{JOURNAL_NAMES[file.place]} is shorter than it was made")
    return _Turn(file=file, header=header, frames=list(_follow(file, header, identity)))


def _follow(file: _JournalFile, header: JournalHeader, identity: FolderIdentity) -> Iterator[Frame]:
    """The frames from the file's start on, while life and sequence continue."""
    position, sequence = header.frames_start, header.first_sequence
    while True:
        frame = read_frame(file.buffer, position, header.file_bytes, mark=identity.frame_mark)
        if frame is None or frame.life != header.life or frame.sequence != sequence:
            return
        yield frame
        position, sequence = frame.end, sequence + 1


def _refuse_missing_file(journal_files: Sequence[_JournalFile]) -> None:
    """Both files get their names when they are whole, and keep them."""
    for file in journal_files:
        if file.size < FILE_BYTES_MIN:
            raise JournalDamaged(f"{JOURNAL_NAMES[file.place]} is missing, or cut short")


def _refuse_lost_frames(
    journal_files: Sequence[_JournalFile], identity: FolderIdentity, *, sequence_min: int
) -> None:
    """Step 4: a whole frame anywhere that was written after the break says that it was durable.

    Only one frame is ever in flight, and no sequence is used twice for a whole frame, in whatever
    life: what earlier turns left behind has smaller ones.
    """
    for file in journal_files:
        frame = find_frame(
            file.buffer, 0, file.size, mark=identity.frame_mark, sequence_min=sequence_min
        )
        if frame is not None:
            raise JournalDamaged(
                f"{JOURNAL_NAMES[file.place]} holds frame {frame.sequence} at byte"
                f" {frame.position}, but frame {sequence_min}, durable before it, is missing"
            )


def _turn_before(
    current: _Turn, journal_files: Sequence[_JournalFile], identity: FolderIdentity
) -> _Turn:
    """Step 5: the turn before, where recovery points have not passed it yet."""
    before = _turn(journal_files[1 - current.file.place], identity)
    if (
        before is None
        or before.header.life != current.header.life
        or before.header.file_number != current.header.file_number - 1
        # The frame that ends a turn is written after the header of the next.
        or current.header.first_sequence - before.next_sequence not in (0, 1)
    ):
        raise JournalDamaged(
            f"{JOURNAL_NAMES[1 - current.file.place]} does not lead up to frame"
            f" {current.header.first_sequence}, and is still needed"
        )
    return before


def _points(turn: _Turn) -> dict[TopicPartition, RecoveryPoint]:
    """The last recovery points of a turn; each frame of them has all partitions."""
    points = turn.header.points
    for frame in reversed(turn.frames):
        if frame.kind in (FrameKind.RECOVERY_POINTS, FrameKind.CLOSED):
            points = decode_points(turn.payload(frame))
            break
    return {point.topic_partition: point for point in points}


def _batches(turn: _Turn) -> dict[TopicPartition, list[bytes]]:
    batches: dict[TopicPartition, list[bytes]] = {}
    for frame in turn.frames:
        if frame.kind is FrameKind.BATCHES:
            for topic_partition, batch in decode_batches(turn.payload(frame)):
                batches.setdefault(topic_partition, []).append(batch)
    return batches


def _journal_ends(
    turn: _Turn, batches: Mapping[TopicPartition, Sequence[bytes]]
) -> dict[TopicPartition, int]:
    ends = turn.begun_at
    for topic_partition, appended in batches.items():
        ends[topic_partition] = batch_header(appended[-1], 0).last_offset + 1
    return ends
