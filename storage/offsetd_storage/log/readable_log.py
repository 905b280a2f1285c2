"""The reading half of a partition's log: any thread reads, while others append and clean.

Appended batches reach the segment files late (`docs/adr/0040`). So a reader that reads up to the
end of the log first writes them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from typing import TYPE_CHECKING

from offsetd_storage.batch.record_batch import decode_batch
from offsetd_storage.errors import CorruptBatch, SegmentRetired
from offsetd_storage.kernels import PADDING_BYTES, padded_buffer

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from offsetd_storage.log.segment import Segment
    from offsetd_storage.log.segment_reader import SegmentReader


class ReadableLog(ABC):
    """The reads of a log. A read first writes the batches that are appended but not yet written.

    At any moment, a segment may leave the list, and another segment may get its name. So a reader
    looks positions up only in the segment whose file it has opened. If a segment leaves before a
    reader has opened it, the reader looks the offset up again in the new list.
    """

    # By base offset; the last is active. The list is replaced as a whole, so a reader can keep the
    # old one.
    segments: list[Segment]
    log_start_offset: int
    offset_next_written: int  # The end of what is in the files.
    # Each record that was cleaned away has a later record of its key below this.
    superseders_end: int
    _gapless_floor: int
    _lock: threading.Lock

    @abstractmethod
    def write(self) -> None:
        """Writes all appended batches into the files. Raises OSError, StorageFailed."""

    @property
    def gapless_from(self) -> int:
        """Each offset at or above this one has its record, outside of transactions.

        It rises when the log is cleaned, or segments are deleted. Read it again after a read: then
        the records that were read at or above this offset are complete.
        """
        floor = max(self.log_start_offset, self._gapless_floor)
        segments = self.segments
        for place in range(len(segments) - 1, -1, -1):
            segment = segments[place]
            if segment.gapless_from > segment.base_offset:
                return max(floor, segment.gapless_from)
            if place and segments[place - 1].offset_next < segment.base_offset:
                return max(floor, segment.base_offset)
        return max(floor, segments[0].base_offset)

    def segments_from(self, offset: int) -> list[Segment]:
        """The segments that hold `offset` and what follows it."""
        segments = self.segments
        slot = bisect_right(segments, offset, key=lambda segment: segment.base_offset)
        return segments[max(slot - 1, 0) :]

    def _readers_from(self, offset: int) -> Iterator[tuple[SegmentReader, int]]:
        """Opens one segment after the other. Yields (reader, offset from which to read)."""
        while True:
            for segment in self.segments_from(offset):
                offset = max(offset, segment.base_offset)
                try:
                    with segment.reader() as reader:
                        yield reader, offset
                except SegmentRetired:
                    break
            else:
                return

    def read(self, offset: int, *, bytes_max: int) -> bytes:
        """Whole batches. The first one holds `offset`, or is the next one after it.

        Returns at most `bytes_max` bytes, but at least one batch; empty at the log's end. Starts at
        `log_start_offset` if `offset` is below it. Raises CorruptBatch, OSError, StorageFailed.
        """
        # Another thread may write at the same time, to this segment or to the next one.
        limit = self._written_up_to(None)
        for reader, start, limit_at in self._parts(max(offset, self.log_start_offset), limit):
            end = min(limit_at, reader.batches_end(start, bytes_max))
            if end > start:
                return reader.file.pread(end - start, start)
        return b""

    def read_chunks(
        self, chunk_bytes: int, *, offset: int = 0, offset_limit: int | None = None
    ) -> Iterator[tuple[npt.NDArray[np.uint8], int]]:
        """Yields (buffer, end): `buffer[:end]` holds whole batches. The first has `offset`.

        With `offset_limit`, yields only batches that end below it. Without it, yields all appended
        batches, also those that are appended during the read: so the later record of a key, for
        which an earlier one was cleaned away, is yielded too. A chunk has about `chunk_bytes`, or
        more if one batch is larger. The buffer is padded for the kernels and is used again for the
        next chunk. Raises CorruptBatch if a file ends early, OSError, StorageFailed.
        """
        buffer = padded_buffer(chunk_bytes)
        offset = max(offset, self.log_start_offset)
        limit = self._written_up_to(offset_limit)
        while offset < limit:
            for reader, start, end in self._parts(offset, limit):
                position = start
                while position < end:
                    chunk_end = reader.chunk_end(position, end, chunk_bytes)
                    size = chunk_end - position
                    if buffer.size < size + PADDING_BYTES:
                        buffer = padded_buffer(size)
                    if reader.file.pread_into(buffer, size, position) < size:
                        raise CorruptBatch(f"{reader.file_name} ends early", position=position)
                    yield buffer, size
                    position = chunk_end
            offset = limit
            if offset_limit is None:
                limit = self._written_up_to(None)

    def _written_up_to(self, offset_limit: int | None) -> int:
        """Writes all batches below the limit. Returns it, or the log's end if it is None."""
        if offset_limit is None or offset_limit > self.offset_next_written:
            self.write()
        return self.offset_next_written if offset_limit is None else offset_limit

    def _parts(self, offset: int, limit: int) -> Iterator[tuple[SegmentReader, int, int]]:
        """Yields (reader, start, end): the positions of the batches between two offsets."""
        for reader, start_offset in self._readers_from(offset):
            if start_offset >= limit:
                return
            yield reader, reader.position_of(start_offset), reader.position_of(limit)

    def offset_for_timestamp(self, timestamp_ms: int) -> int | None:
        """The offset of the first record in the log with this timestamp or a later one, if any."""
        self.write()
        while True:
            try:
                return self._offset_for_timestamp(timestamp_ms)
            except SegmentRetired:
                continue

    def _offset_for_timestamp(self, timestamp_ms: int) -> int | None:
        for segment in self.segments:
            if segment.largest_timestamp_ms < timestamp_ms:
                continue
            with self._lock:  # The last entry is removed when the segment takes appends again.
                offset = segment.time_index.lookup(timestamp_ms).offset
            start = segment.offset_index.lookup(offset).position
            found = self._first_record_since(segment, start, timestamp_ms)
            if found is not None:
                return found
        return None

    def _first_record_since(self, segment: Segment, start: int, timestamp_ms: int) -> int | None:
        """The offset of the first such record in a segment, starting at the batch at `start`."""
        with segment.reader() as reader:
            for position, header in reader.headers(start, segment.written_bytes):
                if header.max_timestamp_ms < timestamp_ms:
                    continue
                batch = decode_batch(reader.file.pread(header.size_bytes, position))
                for record in batch.records:
                    if (
                        record.timestamp_ms >= timestamp_ms
                        and record.offset >= self.log_start_offset
                    ):
                        return record.offset
        return None
