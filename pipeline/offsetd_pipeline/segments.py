"""Reads segment files, checks each batch, and returns rows with the fields of records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Self, TypeVar

import attrs
import numpy as np
from offsetd_storage.batch.compression import decompress
from offsetd_storage.batch.record_batch import batch_header
from offsetd_storage.errors import CorruptBatch, StorageError
from offsetd_storage.kernels import PADDING_BYTES, padded_buffer, padded_copy, scan
from offsetd_storage.kernels.encode import (
    BATCH_HEADER_BYTES,
    BATCH_LENGTH_AT,
    COUNT_AT,
    LENGTH_EXCLUDES_BYTES,
)
from offsetd_storage.log.segment_scan import BATCH_BYTES_MAX, StopReason
from offsetd_storage.recovery.tail_search import valid_batch_after

from offsetd_pipeline.compile_notice import say_if_kernels_compile
from offsetd_pipeline.kernels import records
from offsetd_pipeline.kernels.fields import FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    import numpy.typing as npt
    from offsetd_storage.disk.files import File, Files

    Bytes = npt.NDArray[np.uint8]
    Numbers = npt.NDArray[np.int64]

_Found = TypeVar("_Found")

CHUNK_BYTES: Final = 2 << 20
NO_TIMESTAMP_MIN: Final = -(1 << 62)
_ROWS: Final = 8_192
_NO_LEADER_EPOCH: Final = -1
_WORDS: Final = {
    records.BAD_RECORD: "a record is malformed",
    **{int(reason): f"a batch is damaged ({reason.name})" for reason in StopReason},
}


class Rows(NamedTuple):
    """Records: `fields` has a row for each, whose spans point into `buffer`. Both are reused.

    `marked` is the number of records of transactions and of control records.
    """

    buffer: Bytes
    fields: Numbers
    marked: int


@attrs.frozen(kw_only=True)
class Segment:
    """A segment's log file. Its first `size_bytes` must be read.

    `start_bytes` is the position to start at: there the batch of `start_offset` begins.
    """

    path: str
    base_offset: int
    size_bytes: int
    start_bytes: int = 0
    start_offset: int = 0


@attrs.frozen(kw_only=True)
class Damage:
    """Bytes of a segment's file, starting at `position`, without a valid batch."""

    path: str
    position: int
    size_bytes: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason} at byte {self.position}, {self.size_bytes} bytes"


class DamagedSegment(StorageError):
    """A segment has bytes that are not a valid batch."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(f"{damage}; `on_damage=skip` reads what is behind, and reports it")
        self.damage = damage

    def __reduce__(self) -> tuple[type[DamagedSegment], tuple[Damage]]:
        return DamagedSegment, (self.damage,)


class SegmentFiles:
    """Opens files of segments: each when it is read, or all at once.

    Files opened by `hold` are held until `release`. They stay readable, even if a server renames or
    deletes them. Use it in a `with` statement.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._held: dict[str, File] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Closes the held files."""
        for file in self._held.values():
            file.close()
        self._held.clear()

    def hold(self, segments: Iterable[Segment]) -> None:
        """Opens all of these. Raises OSError; files already opened are closed in the end."""
        for segment in segments:
            self._held[segment.path] = self._files.open(Path(segment.path), read_only=True)

    @contextmanager
    def opened(self, segment: Segment) -> Iterator[File]:
        """A segment's file, open within the `with` block."""
        held = self._held.get(segment.path)
        if held is not None:
            yield held
            return
        file = self._files.open(Path(segment.path), read_only=True)
        try:
            yield file
        finally:
            file.close()


def read_segment(
    files: SegmentFiles,
    segment: Segment,
    *,
    damaged: Callable[[Damage], object],
    timestamp_min: int = NO_TIMESTAMP_MIN,
    chunk_bytes: int = CHUNK_BYTES,
) -> Generator[Rows, None, int]:
    """Yields the records of a segment's batches, after checking each batch.

    `damaged` is called with each damage, which is then skipped unless `damaged` raises. Batches
    with only records before `timestamp_min` (ms) are left out. Returns the smallest log offset
    after all batches, which may have lost their records. Raises OSError.
    """
    with files.opened(segment) as file:
        return (yield from _Reading(file, segment, damaged, timestamp_min, chunk_bytes).found())


class SegmentPass(ABC, Generic[_Found]):
    """One pass over a segment's batches. Subclasses decide what to yield for each chunk.

    All subclasses use the slots of the kernel's state that are named here.
    """

    def __init__(
        self,
        file: File,
        segment: Segment,
        damaged: Callable[[Damage], object],
        *,
        chunk_bytes: int,
        state_slots: int,
    ) -> None:
        self._file = file
        self._segment = segment
        self._damaged = damaged
        self._state = np.zeros(state_slots, np.int64)
        self._state[records.SEGMENT_BASE_OFFSET] = segment.base_offset
        self._state[records.OFFSET_NEXT] = max(segment.base_offset, segment.start_offset)
        self._state[records.LEADER_EPOCH_LAST] = _NO_LEADER_EPOCH
        self._buffer = padded_buffer(chunk_bytes)
        self._size = segment.size_bytes

    def found(self) -> Generator[_Found, None, int]:
        """Yields the findings of the whole range; returns the log offset after it."""
        say_if_kernels_compile()
        position = self._segment.start_bytes
        while position < self._size:
            wanted = min(self._buffer.size - PADDING_BYTES, self._size - position)
            end = self._file.pread_into(self._buffer, wanted, position)
            if end < wanted:
                self._tell(position + end, self._size, "the file ends early")
                self._size = position + end
            done = yield from self._chunk(position, end)
            position += done
        return int(self._state[records.OFFSET_NEXT])

    @abstractmethod
    def _chunk(self, position: int, end: int) -> Generator[_Found, None, int]:
        """Yields the whole batches of the chunk at `position`; returns their end."""

    def _batch_bytes(self, at: int) -> int:
        length = self._buffer[at + BATCH_LENGTH_AT : at + BATCH_LENGTH_AT + 4].tobytes()
        return int.from_bytes(length, "big", signed=True) + LENGTH_EXCLUDES_BYTES

    def _grow(self, position: int, end: int) -> bool:
        """Makes room for the batch at the start of the buffer. Returns False if there is none."""
        if end < BATCH_HEADER_BYTES:
            return False
        size = self._batch_bytes(0)
        if size > min(self._size - position, BATCH_BYTES_MAX):
            return False
        self._buffer = padded_buffer(size)
        return True

    def _behind_flaw(self, position: int, start: int, end: int, reason: int) -> int:
        """The position in the chunk after a batch that is invalid or incomplete."""
        if reason == scan.INCOMPLETE and position + end < self._size and start > 0:
            return start
        if reason == scan.INCOMPLETE and self._grow(position, end):
            return 0
        return self._behind_damage(position, start, reason)

    def _behind_damage(self, position: int, start: int, reason: int) -> int:
        """The position of the next valid batch after the chunk's `position`, or the end."""
        begin = position + start
        # The checksum is right, so the batch's length can be trusted.
        if reason == records.BAD_RECORD:
            found: int | None = begin + self._batch_bytes(start)
        else:
            found = valid_batch_after(
                self._file,
                begin,
                size=self._size,
                offset_min=int(self._state[records.OFFSET_NEXT]),
            )
        end = self._size if found is None else found
        self._tell(begin, end, _WORDS[reason])
        return end - position

    def _tell(self, begin: int, end: int, reason: str) -> None:
        self._damaged(
            Damage(path=self._segment.path, position=begin, size_bytes=end - begin, reason=reason)
        )


class _Reading(SegmentPass[Rows]):
    """Yields a row for each record."""

    def __init__(
        self,
        file: File,
        segment: Segment,
        damaged: Callable[[Damage], object],
        timestamp_min: int,
        chunk_bytes: int,
    ) -> None:
        super().__init__(
            file, segment, damaged, chunk_bytes=chunk_bytes, state_slots=records.STATE_SLOTS
        )
        self._state[records.TIMESTAMP_MIN] = timestamp_min
        self._fields = np.empty((_ROWS, FIELDS), np.int64)

    def _chunk(self, position: int, end: int) -> Generator[Rows, None, int]:
        state = self._state
        start = 0
        while True:
            state[records.FILE_POSITION] = position
            start = records.read_batches(self._buffer, start, end, state, self._fields)
            reason = int(state[records.REASON])
            if state[records.RECORDS]:
                yield self._rows(self._buffer)
            if reason == scan.END:
                return end
            if reason == records.FULL:
                if state[records.ROOM_NEEDED] > len(self._fields):
                    self._make_room(int(state[records.ROOM_NEEDED]), start, end)
            elif reason == records.COMPRESSED:
                size = self._batch_bytes(start)
                yield from self._compressed(position, start, size)
                start += size
            else:
                return self._behind_flaw(position, start, end, reason)

    def _rows(self, buffer: Bytes) -> Rows:
        state = self._state
        return Rows(buffer, self._fields[: state[records.RECORDS]], int(state[records.MARKED]))

    def _make_room(self, count: int, start: int, end: int) -> None:
        # If the count exceeds the bytes of the batch, reading its records will show it.
        self._fields = np.empty((min(count, end - start), FIELDS), np.int64)

    def _compressed(self, position: int, start: int, size: int) -> Iterator[Rows]:
        """The records of a compressed batch with a valid checksum."""
        encoded = self._buffer[start : start + size].tobytes()
        count = int.from_bytes(encoded[COUNT_AT : COUNT_AT + 4], "big")
        reason = ""
        try:
            content = decompress(batch_header(encoded).compression, encoded[BATCH_HEADER_BYTES:])
        except (ValueError, CorruptBatch) as error:
            reason = str(error)
        else:
            batch = padded_copy(encoded[:BATCH_HEADER_BYTES] + content)
            end = batch.size - PADDING_BYTES
            if count > len(self._fields):
                self._make_room(count, 0, end)
            self._state[records.FILE_POSITION] = position + start
            if count <= len(self._fields) and records.read_decompressed(
                batch, end, self._state, self._fields
            ):
                yield self._rows(batch)
                return
            reason = _WORDS[records.BAD_RECORD]
        self._tell(position + start, position + start + size, reason)
