"""The journal of a data folder, being written: two files that take turns.

One frame is in flight at a time: it is written and synced before the call returns, so that a
whole frame behind a broken one proves that the broken one was durable. Every call that touches
the disk may raise OSError, after which nothing may be written any more.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import attrs

from offsetd_storage.durations import Durations
from offsetd_storage.errors import FolderMismatch
from offsetd_storage.journal_format import (
    COUNT,
    FRAME,
    FrameKind,
    JournalHeader,
    RecoveryPoint,
    batch_entry_bytes,
    batches_chunks,
    encode_header,
    encode_points,
    frame_bytes,
    header_bytes,
    put_frame,
)
from offsetd_storage.kernels import padded_buffer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from offsetd_storage.files import File, Files
    from offsetd_storage.folder_format import FolderIdentity
    from offsetd_storage.journal_format import JournaledRun
    from offsetd_storage.topic_partition import TopicPartition

JOURNAL_NAMES: Final = ("offsetd-journal-0", "offsetd-journal-1")
SECTOR_BYTES: Final = 512
FILE_BYTES_MIN: Final = 1024
_ZERO_CHUNK_BYTES: Final = 1 << 20


@attrs.frozen(kw_only=True)
class JournalSizes:
    """How large the files of a new life are, in bytes."""

    file_bytes: int = attrs.field(validator=attrs.validators.ge(FILE_BYTES_MIN))
    header_bytes: int
    frame_bytes_max: int


@attrs.frozen(kw_only=True)
class JournalEnd:
    """Where a journal stands: what its next frame has to continue."""

    life: int
    file_place: int  # Index into JOURNAL_NAMES.
    file_number: int
    file_bytes: int
    position: int
    next_sequence: int
    # The end of each partition in the journal when the current file began: once R has reached it
    # for all of them, the other file holds nothing that is needed.
    begun_at: Mapping[TopicPartition, int]
    points: Mapping[TopicPartition, RecoveryPoint]  # Durable.
    journal_ends: Mapping[TopicPartition, int]


def nothing_needed_before(
    begun_at: Mapping[TopicPartition, int], points: Mapping[TopicPartition, RecoveryPoint]
) -> bool:
    """Whether the journal file before the current one may be overwritten.

    The recovery points have to be durable in the current file itself.
    """
    return all(
        points[topic_partition].held or points[topic_partition].offset >= end
        for topic_partition, end in begun_at.items()
    )


class Journal:
    """Appends frames to the current file, and turns over to the other one when it is full.

    The last part of a file is kept for two frames of recovery points: one to free the other file
    when this one is full, one for the close, or for the recovery after a crash.
    """

    def __init__(
        self, files: Files, folder: Path, identity: FolderIdentity, sizes: JournalSizes
    ) -> None:
        self._files = files
        self._paths = tuple(folder / name for name in JOURNAL_NAMES)
        self._folder = folder
        self._identity = identity
        self._sizes = sizes
        self._open_files: dict[int, File] = {}
        self._end: JournalEnd | None = None
        self._life = 0
        self._place = 1  # So that the very first turn is file 0's.
        self._file_number = 0
        self._file_bytes = 0
        self._position = 0
        self._next_sequence = 1
        self._begun_at: dict[TopicPartition, int] = {}
        self._points: dict[TopicPartition, RecoveryPoint] = {}
        self._journal_ends: dict[TopicPartition, int] = {}
        self._points_frame_bytes = 0
        self.capacity_bytes = 0  # Of one file, for frames of batches.
        self.sync_durations = Durations()  # Of each frame's fdatasync.
        self._buffer = padded_buffer(1 << 16)

    # What it holds ---------------------------------------------------------------------------

    @property
    def points(self) -> Mapping[TopicPartition, RecoveryPoint]:
        """The recovery points that are durable."""
        return self._points

    @property
    def journal_ends(self) -> Mapping[TopicPartition, int]:
        """How far each partition is durable in segments and journal together."""
        return self._journal_ends

    @property
    def other_file_is_free(self) -> bool:
        """Whether nothing in the other file is needed any more."""
        return nothing_needed_before(self._begun_at, self._points)

    @property
    def frame_payload_bytes_max(self) -> int:
        """The largest payload of a BATCHES frame."""
        return min(self.capacity_bytes, self._sizes.frame_bytes_max) - FRAME.size

    @property
    def batch_bytes_max(self) -> int:
        """The largest batch that a frame can take, of any partition."""
        names = [batch_entry_bytes(topic_partition, 0) for topic_partition in self._points]
        return self.frame_payload_bytes_max - COUNT.size - max(names, default=0)

    def _frames_start(self, points: Iterable[RecoveryPoint]) -> int:
        wanted = max(self._sizes.header_bytes, header_bytes(points))
        return -(-wanted // SECTOR_BYTES) * SECTOR_BYTES

    # Lives and turns -------------------------------------------------------------------------

    def refuse_if_too_small(self, partitions: Iterable[TopicPartition]) -> None:
        """Raises FolderMismatch if a file cannot hold the recovery points of these, and batches."""
        self._set_points(RecoveryPoint.of_held(each) for each in partitions)
        self._set_sizes()

    def resume(self, end: JournalEnd) -> None:
        """Continues a journal that was recovered, so as to put an end to it."""
        self._life = end.life
        self._place = end.file_place
        self._file_number = end.file_number
        self._file_bytes = end.file_bytes
        self._position = end.position
        self._next_sequence = end.next_sequence
        self._begun_at = dict(end.begun_at)
        self._journal_ends = dict(end.journal_ends)
        self._set_points(end.points.values())

    def begin_life(self, life: int, points: Sequence[RecoveryPoint]) -> None:
        """Starts a new life in the other file, from these recovery points, and is ready to serve.

        When it returns, nothing that an earlier life left behind counts any more.
        """
        assert life > 0, "zeros on the disk are no life"
        assert self.other_file_is_free, "the other file still holds what recovery needs"
        assert all(point.held or point.offset == point.journal_offset_next for point in points)
        old_life, self._life = self._life, life
        self._journal_ends = {
            point.topic_partition: point.journal_offset_next for point in points if not point.held
        }
        self._set_points(points)
        self._set_sizes()
        self._prepare(1 - self._place)
        self._turn_over(points, old_life)
        self._prepare(1 - self._place)

    def _set_points(self, points: Iterable[RecoveryPoint]) -> None:
        self._points = {point.topic_partition: point for point in points}
        self._points_frame_bytes = frame_bytes(len(encode_points(self._points.values())))

    def _set_sizes(self) -> None:
        self._file_bytes = self._sizes.file_bytes
        frames_start = self._frames_start(self._points.values())
        kept_bytes = 2 * self._points_frame_bytes + frame_bytes(0)
        self.capacity_bytes = self._file_bytes - frames_start - kept_bytes
        if self.batch_bytes_max < SECTOR_BYTES:
            raise FolderMismatch(
                f"a journal file of {self._file_bytes} bytes is too small for the recovery points"
                f" of {len(self._points)} partitions"
            )

    def _prepare(self, place: int) -> None:
        """Puts a file of zeros there, unless there is one of the right size.

        Its blocks are written, not just reserved: later writes then change no metadata, cannot
        find the disk full, and need only an fdatasync. It gets its name when it is whole, so that
        a journal file that is missing or short has been damaged.
        """
        path = self._paths[place]
        if self._files.exists(path) and self._file(place).size() == self._sizes.file_bytes:
            # A copy of a folder may have lost the blocks of zeros.
            self._file(place).allocate(0, self._sizes.file_bytes)
            return
        if place in self._open_files:
            self._open_files.pop(place).close()
        temporary = path.with_name(path.name + ".tmp")
        file = self._files.open(temporary, create=True)
        try:
            file.truncate(0)
            zeros = bytes(_ZERO_CHUNK_BYTES)
            for position in range(0, self._sizes.file_bytes, _ZERO_CHUNK_BYTES):
                file.pwrite([zeros[: self._sizes.file_bytes - position]], position)
            file.sync()
        finally:
            file.close()
        self._files.rename(temporary, path)
        self._files.sync_folder(self._folder)

    def _turn_over(self, points: Iterable[RecoveryPoint], old_life: int) -> None:
        """Begins the other file, and ends the turn of this one.

        The header is on disk before the frame that says so, and that before the first frame behind
        the header: so a header that is lost later is missed.
        """
        assert self.other_file_is_free, "the other file still holds what recovery needs"
        header = JournalHeader(
            folder_id=self._identity.folder_id,
            life=self._life,
            file_number=self._file_number + 1,
            first_sequence=self._next_sequence + 1,  # One is for the end of this turn.
            file_bytes=self._sizes.file_bytes,
            frames_start=self._frames_start(points),
            points=tuple(
                point
                if point.held
                else attrs.evolve(
                    point, journal_offset_next=self._journal_ends[point.topic_partition]
                )
                for point in points
            ),
        )
        file = self._file(1 - self._place)
        file.pwrite([encode_header(header)], 0)
        file.datasync()
        if self._file_number > 0:
            self._put_frame(FrameKind.TURNED, [], old_life)
        self._next_sequence = header.first_sequence
        self._place = 1 - self._place
        self._file_number = header.file_number
        self._file_bytes = header.file_bytes
        self._position = header.frames_start
        self._begun_at = dict(self._journal_ends)
        self._set_points(header.points)

    # Frames ----------------------------------------------------------------------------------

    def make_room(self, payload_bytes: int) -> bool:
        """Turns over if a BATCHES frame of that payload needs it.

        False if it needs the other file and that is not free: recovery points have to move first.
        """
        assert payload_bytes <= self.frame_payload_bytes_max, "a frame larger than a file"
        if self._fits(frame_bytes(payload_bytes), keep=2):
            return True
        if not self.other_file_is_free:
            return False
        self._turn_over(self._points.values(), self._life)
        return True

    def append_batches(self, runs: Sequence[JournaledRun]) -> None:
        """Makes batches durable in one frame; `make_room` has said that there is room."""
        chunks = batches_chunks((each.topic_partition, each.batches) for each in runs)
        self._append(FrameKind.BATCHES, chunks, keep=2)
        for each in runs:
            self._journal_ends[each.topic_partition] = each.end.offset_next

    def append_recovery_points(self, points: Mapping[TopicPartition, RecoveryPoint]) -> bool:
        """Moves the recovery points, and returns once that is durable.

        The files of these partitions, and their folders, were synced up to the points before.
        False if the file is full and these points would not free the other one: then newer points
        are wanted.
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
        """Puts an end to a life that crashed, so that its frames are not needed any more."""
        moved = {known: points[known] for known in self._points}
        self._append_points(FrameKind.RECOVERY_POINTS, moved, keep=0)

    def append_closed(self, points: Mapping[TopicPartition, RecoveryPoint]) -> None:
        """Ends the life: all partitions are synced to their end, and the journal says so."""
        moved = {**self._points, **points}
        assert all(
            point.held or point.offset == self._journal_ends[point.topic_partition]
            for point in moved.values()
        )
        self._append_points(FrameKind.CLOSED, moved, keep=0)

    def append_closed_late(self) -> None:
        """Ends a life that crashed as `append_closed` would have: nothing is above its points."""
        if not self._fits(self._points_frame_bytes, keep=0):
            self._prepare(1 - self._place)
            self._turn_over(self._points.values(), self._life)
        self.append_closed({})

    def close(self) -> None:
        """Closes the files; writes nothing."""
        for file in self._open_files.values():
            file.close()
        self._open_files.clear()

    def _append_points(
        self, kind: FrameKind, points: Mapping[TopicPartition, RecoveryPoint], *, keep: int
    ) -> None:
        current = [
            point
            if point.held
            else attrs.evolve(point, journal_offset_next=self._journal_ends[point.topic_partition])
            for point in points.values()
        ]
        self._append(kind, [encode_points(current)], keep=keep)
        self._set_points(current)

    def _append(self, kind: FrameKind, chunks: Sequence[bytes], *, keep: int) -> None:
        size = frame_bytes(sum(map(len, chunks)))
        assert self._fits(size, keep=keep), "a frame without room"
        self._put_frame(kind, chunks, self._life)
        self._position += size
        self._next_sequence += 1

    def _put_frame(self, kind: FrameKind, chunks: Sequence[bytes], life: int) -> None:
        size = frame_bytes(sum(map(len, chunks)))
        if len(self._buffer) < size:
            self._buffer = padded_buffer(2 * size)
        put_frame(
            self._buffer,
            mark=self._identity.frame_mark,
            kind=kind,
            life=life,
            sequence=self._next_sequence,
            chunks=chunks,
        )
        file = self._file(self._place)
        file.pwrite([self._buffer[:size]], self._position)
        begun_seconds = time.perf_counter()
        file.datasync()
        self.sync_durations.note(time.perf_counter() - begun_seconds)

    def _fits(self, size: int, *, keep: int) -> bool:
        """Whether a frame fits in front of room for `keep` frames of recovery points.

        There is always room for the frame that ends the turn.
        """
        kept_bytes = keep * self._points_frame_bytes + frame_bytes(0)
        return self._position + size + kept_bytes <= self._file_bytes

    def _file(self, place: int) -> File:
        if place not in self._open_files:
            self._open_files[place] = self._files.open(self._paths[place])
        return self._open_files[place]
