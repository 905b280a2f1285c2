"""Counts the records of a log above an offset, and notes positions of batches, and transactions.

Each call of `advance` reads only the new parts.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs
import numpy as np
from offsetd_storage.batch.record_batch import decode_batch
from offsetd_storage.kernels import scan
from offsetd_storage.kernels.encode import BATCH_HEADER_BYTES
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord
from offsetd_storage.offsets_topic.schemas.transaction_marker import decode_transaction_marker

from offsetd_pipeline.kernels import records, walk
from offsetd_pipeline.kernels.fields import LOG_OFFSET
from offsetd_pipeline.segments import (
    CHUNK_BYTES,
    SegmentFiles,
    SegmentPass,
    read_segment,
)
from offsetd_pipeline.streams.log_range import LogRange, base_offset_at, is_as_known

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    import numpy.typing as npt
    from offsetd_storage.disk.files import File, Files

    from offsetd_pipeline.segments import Damage, Segment

    Bytes = npt.NDArray[np.uint8]
    Numbers = npt.NDArray[np.int64]

_MARK_RECORDS: Final = 1024
_LOOK_BYTES: Final = 64 << 10
_MARKS: Final = 1024
_TRANSACTIONS: Final = 4096


class PlacesMoved(Exception):
    """Segments were cleaned: the known places of batches are no longer valid."""


class _Mark(NamedTuple):
    """A batch: its base offset, the number of records before it, its segment, and its position."""

    offset: int
    records: int
    base_offset: int
    position: int


class LogTail:
    """One log from offset `floor` up to `offset_next`, the end of the part that was read.

    `log_end` is the end of its batches, which may be below `floor`. Records that are cleaned away
    later still count.
    """

    def __init__(self, floor: int, *, damaged: Callable[[Damage], object]) -> None:
        self.floor = floor
        self._counted_from = floor
        self.offset_next = floor
        self.log_end = 0
        self.records = 0
        self.last_segment: Segment | None = None
        self._damaged = damaged
        self._position = 0  # The position in the last segment.
        self._segments: dict[int, Segment] = {}
        self._marks: list[_Mark] = []
        self._open: dict[int, int] = {}  # The start of the open transaction of each producer.
        self._has_transactions = False

    @property
    def stable_end(self) -> int:
        """The end of the records whose transactions all have a known outcome."""
        return min(self._open.values(), default=self.offset_next)

    def advance(self, opened: SegmentFiles, segments: Sequence[Segment]) -> None:
        """Reads the new parts of `segments`: all segments of the log, in order.

        Raises PlacesMoved if a segment that was read is now another one, OSError, and errors of
        damage. The findings up to the error are kept.
        """
        listed = {each.base_offset: each.size_bytes for each in segments}
        self._segments = {
            base: each
            for base, each in self._segments.items()
            if each is self.last_segment or listed.get(base) == each.size_bytes
        }
        self._advance(opened, segments, self._damaged)

    def _advance(
        self,
        opened: SegmentFiles,
        segments: Sequence[Segment],
        damaged: Callable[[Damage], object],
    ) -> None:
        place = bisect_right(segments, self.offset_next, key=lambda each: each.base_offset) - 1
        for segment in segments[max(place, 0) :]:
            with opened.opened(segment) as file:
                start = self._known_position(file, segment)
                self._read(file, segment, start, damaged)

    def advance_last(self, files: Files, base_offset: int, size_bytes: int) -> bool:
        """Reads the new part of the last segment, which now has `size_bytes`.

        Returns False if it detects that the file is another segment, or was cleaned. Raises
        OSError.
        """
        last = self.last_segment
        if last is None or last.base_offset != base_offset:
            return False
        with SegmentFiles(files) as opened:
            try:
                opened.hold([last])
                self._advance(opened, [attrs.evolve(last, size_bytes=size_bytes)], _doubted)
            except (FileNotFoundError, PlacesMoved):
                return False
        return True

    def _known_position(self, file: File, segment: Segment) -> int:
        """The position of a segment's new part; 0 if it is another segment, or was cleaned."""
        last = self.last_segment
        if last is None or segment.base_offset != last.base_offset:
            return 0
        if self._position == segment.size_bytes:
            return self._position
        if self._position > segment.size_bytes:
            return 0
        begins = base_offset_at(file, self._position)
        return self._position if begins == self.offset_next else 0

    def _read(
        self, file: File, segment: Segment, start: int, damaged: Callable[[Damage], object]
    ) -> None:
        if not start and any(mark.base_offset == segment.base_offset for mark in self._marks):
            raise PlacesMoved  # The segment was cleaned: the marks belong to its old content.
        self.last_segment = self._segments[segment.base_offset] = segment
        self._position = start
        reading = _Walk(
            file,
            attrs.evolve(segment, start_bytes=start, start_offset=self.offset_next if start else 0),
            damaged,
            floor=self.offset_next,
            counted=self.records,
        )
        for found in reading.found():
            for offset, before, position in found.marks.tolist():
                self._marks.append(_Mark(offset, before, segment.base_offset, position))
            for row in found.transactions.tolist():
                self._note_transaction(found.buffer, row)
            self.records, self._position = found.records, found.position
            self.log_end = max(self.log_end, found.offset_next)
            self.offset_next = max(self.offset_next, found.offset_next)
        self._position = segment.size_bytes

    def _note_transaction(self, buffer: Bytes, row: list[int]) -> None:
        base_offset, producer, is_control, start = row
        self._has_transactions = True
        if not is_control:
            self._open.setdefault(producer, max(base_offset, self.floor))
            return
        size = scan.batch_size(buffer, start)
        for record in decode_batch(buffer[start : start + size].tobytes()).records:
            try:
                marker = decode_transaction_marker(record.key or b"", record.value)
            except UndecodableRecord:
                continue  # A server that loads the log does the same: the transaction stays open.
            if marker is not None:
                self._open.pop(producer, None)

    def reach(self, end: int) -> None:
        """Notes that everything below `end` was read: no batch follows the last known one."""
        self.offset_next = max(self.offset_next, end)

    # Counts and places

    def records_before(self, files: Files, offset: int) -> int:
        """The number of records from the first known one to `offset` (exclusive).

        Raises PlacesMoved.
        """
        if offset >= self.offset_next:
            return self.records
        place = self._place(offset)
        if place < 0:
            return 0
        mark = self._marks[place]
        if mark.offset == offset:
            return mark.records
        count = mark.records
        for offsets in self._offsets_from(files, mark):
            count += int(np.count_nonzero((offsets >= self._counted_from) & (offsets < offset)))
            if offsets[-1] >= offset:
                break
        return count

    def gaps(self, files: Files, start: int, end: int) -> int:
        """The number of offsets from `start` to `end` without a record. Raises PlacesMoved."""
        return end - start - self.count(files, start, end)

    def count(self, files: Files, start: int, end: int) -> int:
        """The number of records from `start` to `end`. Raises PlacesMoved."""
        if start >= end:
            return 0
        return self.records_before(files, end) - self.records_before(files, start)

    def offset_behind(self, files: Files, start: int, count: int) -> int:
        """The offset after the first `count` records at or above `start`. Raises PlacesMoved."""
        wanted = self.records_before(files, start) + count
        place = bisect_right(self._marks, wanted, key=lambda mark: mark.records) - 1
        mark = self._marks[place]
        before = mark.records
        if before == wanted:
            return mark.offset
        for offsets in self._offsets_from(files, mark):
            counted = offsets[offsets >= self._counted_from]
            if before + len(counted) >= wanted:
                return int(counted[wanted - before - 1]) + 1
            before += len(counted)
        raise PlacesMoved

    def first_offset(self, files: Files, start: int) -> int:
        """The first offset of a record at or above `start`; else the end. Raises PlacesMoved."""
        for mark in self._marks[max(self._place(start), 0) :]:
            for offsets in self._offsets_from(files, mark):
                if offsets[-1] >= start:
                    return int(offsets[np.searchsorted(offsets, start)])
        return self.offset_next

    def bytes_behind(self, start: int) -> int:
        """The approximate number of bytes from `start` to the end."""
        begun: dict[int, int] = {}
        for mark in self._marks[max(self._place(start), 0) :]:
            begun.setdefault(mark.base_offset, mark.position)
        return sum(self._segment(base).size_bytes - at for base, at in begun.items())

    def forget(self, offset: int) -> None:
        """Forgets everything below `offset`: no later call needs it."""
        offset = min(offset, self.offset_next)
        if offset <= self.floor:
            return
        del self._marks[: max(self._place(offset), 0)]
        kept = self._marks[0].base_offset if self._marks else self.offset_next
        self._segments = {
            base: each
            for base, each in self._segments.items()
            if base >= kept or each is self.last_segment
        }
        self.floor = offset

    def ranges(
        self,
        files: Files,
        start: int,
        end: int,
        *,
        folder: str,
        log_partition: int,
        range_bytes: int,
    ) -> Iterator[LogRange]:
        """Yields ranges from `start` to `end`, divided at segments, of about `range_bytes` each.

        Raises PlacesMoved.
        """
        first, last = max(self._place(start), 0), self._place(end - 1)
        begun: dict[int, _Mark] = {}
        for mark in self._marks[first : last + 1]:
            begun.setdefault(mark.base_offset, mark)
        if not begun:
            return
        known = sorted(self._segments)
        groups = list(self._grouped(begun.values(), range_bytes))
        cuts = [start, *(group[0].offset for group in groups[1:]), end]
        for group, begin, until in zip(groups, cuts[:-1], cuts[1:], strict=True):
            segments = [self._segment(mark.base_offset) for mark in group]
            segments[0] = attrs.evolve(
                segments[0], start_bytes=group[0].position, start_offset=group[0].offset
            )
            behind = known[bisect_right(known, group[-1].base_offset) :]
            yield LogRange(
                folder=folder,
                log_partition=log_partition,
                start=begin,
                end=until,
                record_count=self.count(files, begin, until),
                segments=tuple(segments),
                behind=tuple(self._segments[base] for base in behind)
                if self._has_transactions
                else (),
                last_base_offset=known[-1],
                offset_next=self.offset_next,
            )

    def _grouped(self, marks: Iterable[_Mark], range_bytes: int) -> Iterator[list[_Mark]]:
        """Yields the marks of segments in groups of about `range_bytes`."""
        group: list[_Mark] = []
        size = 0
        for mark in marks:
            segment_bytes = self._segment(mark.base_offset).size_bytes - mark.position
            if group and size + segment_bytes > range_bytes:
                yield group
                group, size = [], 0
            group.append(mark)
            size += segment_bytes
        if group:
            yield group

    def _place(self, offset: int) -> int:
        """The index of the last mark at or below an offset; -1 if there is none."""
        return bisect_right(self._marks, offset, key=lambda mark: mark.offset) - 1

    def _segment(self, base_offset: int) -> Segment:
        if base_offset not in self._segments:
            raise PlacesMoved
        return self._segments[base_offset]

    def _offsets_from(self, files: Files, mark: _Mark) -> Iterator[Numbers]:
        segment = self._segment(mark.base_offset)
        with SegmentFiles(files) as opened:
            try:
                opened.hold([segment])
            except FileNotFoundError:
                raise PlacesMoved from None
            offset_next = self.offset_next if segment is self.last_segment else None
            with opened.opened(segment) as file:
                if not is_as_known(file, segment, offset_next):
                    raise PlacesMoved
                if base_offset_at(file, mark.position) != mark.offset:
                    raise PlacesMoved
            from_mark = attrs.evolve(segment, start_bytes=mark.position, start_offset=mark.offset)
            for rows in read_segment(
                opened, from_mark, damaged=self._damaged, chunk_bytes=_LOOK_BYTES
            ):
                if len(rows.fields):
                    yield rows.fields[:, LOG_OFFSET]


def _doubted(_: Damage) -> None:
    raise PlacesMoved


class _Walked(NamedTuple):
    """The findings of one call of the kernel, and its end position. The arrays are reused."""

    buffer: Bytes
    marks: Numbers
    transactions: Numbers
    records: int
    offset_next: int
    position: int


class _Walk(SegmentPass[_Walked]):
    """Counts the records of a segment's batches at or above an offset."""

    def __init__(
        self,
        file: File,
        segment: Segment,
        damaged: Callable[[Damage], object],
        *,
        floor: int,
        counted: int,
    ) -> None:
        size = segment.size_bytes - segment.start_bytes
        super().__init__(
            file,
            segment,
            damaged,
            chunk_bytes=min(CHUNK_BYTES, max(size, BATCH_HEADER_BYTES)),
            state_slots=walk.STATE_SLOTS,
        )
        self._state[walk.FLOOR] = floor
        self._state[walk.MARK_RECORDS] = _MARK_RECORDS
        self._state[records.RECORDS] = self._state[walk.MARK_DUE] = counted
        self._marks = np.empty((_MARKS, walk.MARK_COLUMNS), np.int64)
        self._transactions = np.empty((_TRANSACTIONS, walk.TRANSACTION_COLUMNS), np.int64)

    def _chunk(self, position: int, end: int) -> Generator[_Walked, None, int]:
        state = self._state
        start = 0
        while True:
            state[records.FILE_POSITION] = position
            state[walk.STRADDLING] = -1
            start = walk.walk_batches(
                self._buffer, start, end, state, self._marks, self._transactions
            )
            yield self._walked(position + start)
            reason = int(state[records.REASON])
            if reason == walk.STRADDLES:
                # `walk_batches` needs the number of records of this batch that are at or above the
                # floor. The slot is for this batch only.
                size = scan.batch_size(self._buffer, start)
                state[walk.STRADDLING] = self._count_above_floor(start, size)
                start = walk.walk_batches(
                    self._buffer, start, start + size, state, self._marks, self._transactions
                )
                yield self._walked(position + start)
                reason = int(state[records.REASON])
            if reason == scan.END and start == end:
                return end
            if reason not in (scan.END, walk.FULL):
                return self._behind_flaw(position, start, end, reason)

    def _walked(self, position: int) -> _Walked:
        state = self._state
        return _Walked(
            self._buffer,
            self._marks[: state[walk.MARKS]],
            self._transactions[: state[walk.TRANSACTIONS]],
            int(state[records.RECORDS]),
            int(state[records.OFFSET_NEXT]),
            position,
        )

    def _count_above_floor(self, start: int, size: int) -> int:
        batch = decode_batch(self._buffer[start : start + size].tobytes())
        floor = int(self._state[walk.FLOOR])
        return sum(record.offset >= floor for record in batch.records)
