"""The open journal of a data folder: two files that are written in turn.

One frame is in flight at a time: it is written and synced before the call returns. So a whole frame
after a broken one proves that the broken one was durable. Every call that touches the disk may
raise OSError; after that nothing may be written any more.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import attrs

from offsetd_storage.duration_histogram import Durations
from offsetd_storage.errors import FolderMismatch, is_no_room
from offsetd_storage.journal.journal_files import JOURNAL_NAMES, JournalFiles
from offsetd_storage.journal.journal_format import (
    COUNT,
    FRAME,
    FrameKind,
    FramePayload,
    JournalHeader,
    RecoveryPoint,
    batch_entry_bytes,
    encode_header,
    encode_points,
    frame_bytes,
    header_bytes,
    sealed_frame,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from offsetd_storage.disk.files import Files
    from offsetd_storage.folder.folder_format import FolderIdentity
    from offsetd_storage.folder.folder_lock import FolderLock
    from offsetd_storage.journal.batches_frame import BatchesFrame
    from offsetd_storage.journal.journal_format import LogEnd
    from offsetd_storage.topic_partition import TopicPartition

__all__ = [
    "FILE_BYTES_MIN",
    "JOURNAL_NAMES",
    "SECTOR_BYTES",
    "Journal",
    "JournalEnd",
    "JournalSizes",
]

SECTOR_BYTES: Final = 512
FILE_BYTES_MIN: Final = 1024


@attrs.frozen(kw_only=True)
class JournalSizes:
    """The sizes of files and frames, in bytes."""

    file_bytes: int = attrs.field(validator=attrs.validators.ge(FILE_BYTES_MIN))
    header_bytes: int
    frame_bytes_max: int
    # The size of the largest batch. A smaller file that was made while nothing was written stays if
    # it can take this batch. If this is None, every file has `file_bytes`.
    batch_bytes_max: int | None = None


@attrs.frozen(kw_only=True)
class JournalEnd:
    """The end of a journal, which its next frame continues."""

    life: int
    file_place: int  # Index into JOURNAL_NAMES.
    file_number: int
    file_bytes: int
    position: int
    next_sequence: int
    # The end of each partition in the journal when the current file began. Once all recovery
    # points have reached these ends, the other file has nothing that is needed.
    begun_at: Mapping[TopicPartition, int]
    points: Mapping[TopicPartition, RecoveryPoint]  # The durable points.
    journal_ends: Mapping[TopicPartition, int]


def nothing_needed_before(
    begun_at: Mapping[TopicPartition, int], points: Mapping[TopicPartition, RecoveryPoint]
) -> bool:
    """Whether the journal file before the current one may be overwritten.

    The recovery points must be durable in the current file.
    """
    return all(
        points[topic_partition].held or points[topic_partition].offset >= end
        for topic_partition, end in begun_at.items()
    )


def _in_sectors(size_bytes: int) -> int:
    """A size, rounded up to whole sectors."""
    return -(-size_bytes // SECTOR_BYTES) * SECTOR_BYTES


class Journal:
    """Appends frames to the current file, and turns to the other file when it is full.

    The last part of a file is kept free for two frames of recovery points: one that frees the other
    file when this one is full, and one for the close, or for the recovery after a crash.
    """

    def __init__(
        self, files: Files, folder: Path, identity: FolderIdentity, sizes: JournalSizes
    ) -> None:
        self._files = JournalFiles(files, folder)
        self._identity = identity
        self._sizes = sizes
        self._bytes = [sizes.file_bytes, sizes.file_bytes]  # The files' sizes, by place.
        self._end: JournalEnd | None = None
        self._life = 0
        self._place = 1  # The first turn changes to the other file, which is file 0.
        self._file_number = 0
        self._file_bytes = 0
        self._position = 0
        self._next_sequence = 1
        self._begun_at: dict[TopicPartition, int] = {}
        self._points: dict[TopicPartition, RecoveryPoint] = {}
        # The ends before the frames of this life.
        self._ends_before: dict[TopicPartition, int] = {}
        # The end of each log that became durable in the journal in this life.
        self.journaled: dict[TopicPartition, LogEnd] = {}
        self._points_frame_bytes = 0
        self._kept_bytes = 0  # The part of a file that batches may not use.
        self.capacity_bytes = 0  # The space in each file for frames of batches.
        self.sync_durations = Durations()  # The duration of each frame's fdatasync.

    # Contents
    # ---------------------------------------------------------------------------------------

    @property
    def points(self) -> Mapping[TopicPartition, RecoveryPoint]:
        """The durable recovery points."""
        return self._points

    @property
    def journal_ends(self) -> dict[TopicPartition, int]:
        """The offset up to which each partition is durable, in segments and journal together."""
        journaled = {each: end.offset_next for each, end in self.journaled.items()}
        return self._ends_before | journaled

    @property
    def other_file_is_free(self) -> bool:
        """Whether nothing in the other file is needed any more."""
        return nothing_needed_before(self._begun_at, self._points)

    @property
    def frame_payload_bytes_max(self) -> int:
        """The largest payload of a BATCHES frame."""
        return self.frame_payload_bytes_of(min(self._bytes))

    @property
    def batch_bytes_max(self) -> int:
        """The largest batch that a frame can take, of any partition."""
        return self.batch_bytes_of(self.frame_payload_bytes_max)

    def frame_payload_bytes_of(self, file_bytes: int) -> int:
        """The largest payload of a BATCHES frame if both files have this size."""
        return min(file_bytes - self._kept_bytes, self._sizes.frame_bytes_max) - FRAME.size

    def batch_bytes_of(self, payload_bytes: int) -> int:
        """The largest batch, of any partition, that fits into a payload of this size."""
        return payload_bytes - self._entry_bytes()

    def _entry_bytes(self) -> int:
        """The most bytes that a frame of one batch adds to the batch."""
        names = [batch_entry_bytes(topic_partition, 0) for topic_partition in self._points]
        return COUNT.size + max(names, default=0)

    def _frames_start(self, points: Iterable[RecoveryPoint]) -> int:
        return _in_sectors(max(self._sizes.header_bytes, header_bytes(points)))

    # Lives and turns -------------------------------------------------------------------------

    def refuse_if_too_small(self, partitions: Iterable[TopicPartition]) -> None:
        """Raises FolderMismatch if a file is too small for these partitions' recovery points."""
        self._set_points(RecoveryPoint.of_held(each) for each in partitions)
        self._set_capacity()

    def resume(self, end: JournalEnd) -> None:
        """Continues a journal that was recovered, in order to end its life."""
        self._life = end.life
        self._place = end.file_place
        self._file_number = end.file_number
        self._file_bytes = end.file_bytes
        self._position = end.position
        self._next_sequence = end.next_sequence
        self._begun_at = dict(end.begun_at)
        self._ends_before, self.journaled = dict(end.journal_ends), {}
        self._set_points(end.points.values())

    def begin_life(self, life: int, points: Sequence[RecoveryPoint]) -> None:
        """Starts a new life in the other file with these recovery points, ready for appends.

        When it returns, nothing of an earlier life counts any more.
        """
        assert life > 0, "zeros on the disk are not a life"
        assert self.other_file_is_free, "the other file still holds what recovery needs"
        assert all(point.held or point.offset == point.journal_offset_next for point in points)
        old_life, self._life = self._life, life
        self.journaled = {}
        self._ends_before = {
            point.topic_partition: point.journal_offset_next for point in points if not point.held
        }
        self._set_points(points)
        self._set_capacity()
        self._prepare(1 - self._place)
        self._turn_over(points, old_life)
        self._prepare(1 - self._place)
        self._set_capacity()

    def _set_points(self, points: Iterable[RecoveryPoint]) -> None:
        self._points = {point.topic_partition: point for point in points}
        self._points_frame_bytes = frame_bytes(len(encode_points(self._points.values())))
        frames_start = self._frames_start(self._points.values())
        self._kept_bytes = frames_start + 2 * self._points_frame_bytes + frame_bytes(0)

    def _set_capacity(self) -> None:
        """Computes the limits: batches that fit in the smaller file fit in both."""
        file_bytes = min(self._bytes)
        self.capacity_bytes = file_bytes - self._kept_bytes
        if self.batch_bytes_max < SECTOR_BYTES:
            raise FolderMismatch(
                f"a journal file of {file_bytes} bytes is too small for the recovery points"
                f" of {len(self._points)} partitions"
            )

    def _prepare(self, place: int) -> None:
        """Puts a file of zeros in a place, unless the file there is large enough."""
        size = self._files.size(place)
        if size is not None and self._will_do(size):
            self._files.reserve(place)
            self._bytes[place] = size
            return
        full, least = self._sizes.file_bytes, self._least_file_bytes()
        try:
            self._files.make_spare(full)
            made = full
        except OSError as error:
            if not (is_no_room(error) and least < full):
                raise
            self._files.drop_spare()
            self._files.make_spare(least)
            made = least
        self._put_spare(place, made)

    def _will_do(self, size: int) -> bool:
        return self._least_file_bytes() <= size <= self._sizes.file_bytes

    def _least_file_bytes(self) -> int:
        """The least size of a file that takes every batch that is allowed."""
        batch_bytes, full = self._sizes.batch_bytes_max, self._sizes.file_bytes
        return full if batch_bytes is None else min(self.least_file_bytes(batch_bytes), full)

    def _turn_over(self, points: Iterable[RecoveryPoint], old_life: int) -> None:
        """Begins the other file, and ends the turn of this one.

        The header is durable before the frame that ends this turn, and that frame is durable before
        the first frame after the header. So if the header is lost later, its loss is noticed.
        """
        assert self.other_file_is_free, "the other file still holds what recovery needs"
        header = JournalHeader(
            folder_id=self._identity.folder_id,
            life=self._life,
            file_number=self._file_number + 1,
            # The frame that ends this turn has the next sequence number. The new file starts with
            # the number after that.
            first_sequence=self._next_sequence + 1,
            file_bytes=self._bytes[1 - self._place],
            frames_start=self._frames_start(points),
            points=self._up_to_date(points),
        )
        file = self._files[1 - self._place]
        file.pwrite([encode_header(header)], 0)
        file.datasync()
        if self._file_number > 0:
            self._put_frame(FrameKind.TURNED, FramePayload.of(b""), old_life)
        self._next_sequence = header.first_sequence
        self._place = 1 - self._place
        self._file_number = header.file_number
        self._file_bytes = header.file_bytes
        self._position = header.frames_start
        self._begun_at = self.journal_ends
        self._set_points(header.points)

    # Sizes of the files
    # ------------------------------------------------------------------------------

    @property
    def full_file_bytes(self) -> int:
        """The size of each file under load."""
        return self._sizes.file_bytes

    @property
    def sizes_bytes(self) -> tuple[int, int]:
        """The sizes of the current file and of the other one."""
        return self._bytes[self._place], self._bytes[1 - self._place]

    @property
    def is_settled(self) -> bool:
        """Whether the recovery points have reached the end, so that neither file is needed."""
        return nothing_needed_before(self.journal_ends, self._points)

    def least_file_bytes(self, batch_bytes_max: int) -> int:
        """The least size of a file that takes any batch of up to `batch_bytes_max`."""
        payload_bytes = self._entry_bytes() + max(batch_bytes_max, SECTOR_BYTES)
        return _in_sectors(self._kept_bytes + frame_bytes(payload_bytes))

    def rest_file_bytes(self, batch_bytes_max: int) -> int:
        """The least file size with room for more partitions: a later start can use the file."""
        more_bytes = 2 * self._points_frame_bytes
        return _in_sectors(self.least_file_bytes(batch_bytes_max) + more_bytes)

    def make_spare(self, size_bytes: int) -> None:
        """Makes a file for `exchange_other`. Appends may continue during the call."""
        self._files.make_spare(size_bytes)

    def drop_spare(self) -> bool:
        """Removes the spare, also that of a dead process. Returns whether there was one."""
        return self._files.drop_spare()

    def exchange_other(self, size_bytes: int) -> None:
        """Puts the spare of this size in the place of the other file, which is free."""
        assert self.other_file_is_free, "the other file still holds what recovery needs"
        self._put_spare(1 - self._place, size_bytes)
        self._set_capacity()

    def _put_spare(self, place: int, size_bytes: int) -> None:
        """Puts the spare of this size in the place of a file that is not needed.

        The frames in the old file are lost. The new file holds one frame with the last sequence
        number: if the current file is replaced by an older copy of itself, the missing sequence
        numbers show it.
        """
        turned = self._sealed(
            FrameKind.TURNED,
            FramePayload.of(b""),
            life=self._life,
            sequence=self._next_sequence - 1,
        )
        # Before the first turn no frame was written, so the file needs no frame that proves one.
        is_first = self._file_number == 0
        position = self._frames_start(self._points.values())
        self._files.put_spare(place, b"" if is_first else turned, position)
        self._bytes[place] = size_bytes

    def turn(self) -> None:
        """Turns to the other file, which is free."""
        self._turn_over(self._points.values(), self._life)

    # Frames ----------------------------------------------------------------------------------

    def make_room(self, payload_bytes: int) -> bool:
        """Turns to the other file if a BATCHES frame with this payload needs it.

        Returns False if the frame needs the other file and that file is not free. Then the recovery
        points must move first.
        """
        assert payload_bytes <= self.frame_payload_bytes_max, "a frame larger than a file"
        if self._fits(frame_bytes(payload_bytes), keep=2):
            return True
        if not self.other_file_is_free:
            return False
        self._turn_over(self._points.values(), self._life)
        return True

    def append_batches(self, frame: BatchesFrame) -> None:
        """Makes batches durable. First, `make_room` must have returned True."""
        self._append(FrameKind.BATCHES, frame.payload, keep=2)
        self.journaled.update(frame.ends)

    def append_recovery_points(self, points: Mapping[TopicPartition, RecoveryPoint]) -> bool:
        """Moves the recovery points; they are durable when it returns True.

        The segments and folders of these partitions were synced up to the points before. Returns
        False if the file is full and these points would not free the other file: then call it with
        newer points.
        """
        moved = {**self._points, **points}
        if not self._fits(self._points_frame_bytes, keep=2):
            if self.other_file_is_free:
                self._turn_over(moved.values(), self._life)
                return True
            if not nothing_needed_before(self._begun_at, moved):
                return False
        self._append_points(FrameKind.RECOVERY_POINTS, moved, keep=1)
        return True

    def append_last_recovery_points(self, points: Mapping[TopicPartition, RecoveryPoint]) -> None:
        """Ends a life that crashed, so that its frames are not needed any more."""
        moved = {known: points[known] for known in self._points}
        self._append_points(FrameKind.RECOVERY_POINTS, moved, keep=0)

    def append_closed(self, points: Mapping[TopicPartition, RecoveryPoint]) -> None:
        """Ends the life: records that all partitions are synced up to their ends."""
        moved, ends = {**self._points, **points}, self.journal_ends
        assert all(
            point.held or point.offset == ends[point.topic_partition] for point in moved.values()
        )
        self._append_points(FrameKind.CLOSED, moved, keep=0)

    def append_closed_late(self) -> None:
        """Ends a crashed life like `append_closed`. No batch is above its recovery points."""
        if not self._fits(self._points_frame_bytes, keep=0):
            self._prepare(1 - self._place)
            self._turn_over(self._points.values(), self._life)
        self.append_closed({})

    def lost_files(self, lock: FolderLock) -> list[Path]:
        """The paths of its files that were removed or replaced since they were opened."""
        return self._files.lost_files(lock)

    def close(self) -> None:
        """Closes the files; writes nothing."""
        self._files.close()

    def _append_points(
        self, kind: FrameKind, points: Mapping[TopicPartition, RecoveryPoint], *, keep: int
    ) -> None:
        current = self._up_to_date(points.values())
        self._append(kind, FramePayload.of(encode_points(current)), keep=keep)
        self._set_points(current)

    def _up_to_date(self, points: Iterable[RecoveryPoint]) -> tuple[RecoveryPoint, ...]:
        """The points, with the present end of the journal in each."""
        ends = self.journal_ends
        return tuple(
            point
            if point.held
            else attrs.evolve(point, journal_offset_next=ends[point.topic_partition])
            for point in points
        )

    def _append(self, kind: FrameKind, payload: FramePayload, *, keep: int) -> None:
        assert self._fits(frame_bytes(payload.size_bytes), keep=keep), "a frame without room"
        self._position += self._put_frame(kind, payload, self._life)
        self._next_sequence += 1

    def _put_frame(self, kind: FrameKind, payload: FramePayload, life: int) -> int:
        """Writes a frame at the end of the last one; returns its size."""
        frame = self._sealed(kind, payload, life=life, sequence=self._next_sequence)
        file = self._files[self._place]
        file.pwrite([frame], self._position)
        begun_seconds = time.perf_counter()
        file.datasync()
        self.sync_durations.note(time.perf_counter() - begun_seconds)
        return len(frame)

    def _sealed(
        self, kind: FrameKind, payload: FramePayload, *, life: int, sequence: int
    ) -> npt.NDArray[np.uint8]:
        mark = self._identity.frame_mark
        return sealed_frame(payload, mark=mark, kind=kind, life=life, sequence=sequence)

    def _fits(self, size: int, *, keep: int) -> bool:
        """Whether a frame fits, with `keep` frames of recovery points after it.

        Room for the frame that ends the turn is always kept.
        """
        kept_bytes = keep * self._points_frame_bytes + frame_bytes(0)
        return self._position + size + kept_bytes <= self._file_bytes
