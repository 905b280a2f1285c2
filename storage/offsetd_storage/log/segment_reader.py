"""A reader of the written part of a segment, while other threads append to its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.batch.record_batch import batch_header
from offsetd_storage.errors import CorruptBatch
from offsetd_storage.kernels.encode import BATCH_HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_storage.batch.record_batch import BatchHeader
    from offsetd_storage.disk.files import File
    from offsetd_storage.log.segment import Segment

_WALK_BYTES: Final = 16_384  # Read at once when batch headers are walked.


class SegmentReader:
    """One reader of one segment, with a descriptor of its own; made by `Segment.reader`."""

    __slots__ = ("_segment", "file")

    def __init__(self, segment: Segment, file: File) -> None:
        self._segment = segment
        self.file = file

    @property
    def file_name(self) -> str:
        """What the segment's log file is called."""
        return self._segment.path.name

    def headers(self, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
        """Walks the batches between two of their boundaries; yields (position, header).

        Raises CorruptBatch where there is no batch.
        """
        position = start
        block_start, block = position, b""
        while position < end:
            if position + BATCH_HEADER_BYTES > block_start + len(block):
                block_start = position
                block = self.file.pread(min(_WALK_BYTES, end - position), position)
            header = batch_header(block, position - block_start)
            if header.size_bytes > end - position:
                raise CorruptBatch("a batch reaches beyond its segment", position=position)
            yield position, header
            position += header.size_bytes

    def position_of(self, offset: int) -> int:
        """Where the first batch begins that ends at or above `offset`; the file's end if none."""
        end = self._segment.written_bytes  # Once: another thread may write meanwhile.
        for position, header in self.headers(
            self._segment.offset_index.lookup(offset).position, end
        ):
            if header.last_offset >= offset:
                return position
        return end

    def batches_end(self, position: int, bytes_max: int) -> int:
        """Where whole batches from `position` end within `bytes_max` bytes, but after one batch."""
        limit, end = position + bytes_max, self._segment.written_bytes
        if limit >= end:
            return end
        start = max(position, self._segment.offset_index.last_position_up_to(limit))
        for batch_start, header in self.headers(start, end):
            if batch_start + header.size_bytes > limit and batch_start > position:
                return batch_start
        return end

    def chunk_end(self, position: int, end: int, chunk_bytes: int) -> int:
        """A boundary of batches about `chunk_bytes` behind `position`, found without a walk."""
        limit = position + chunk_bytes
        if limit >= end:
            return end
        offset_index = self._segment.offset_index
        below = offset_index.last_position_up_to(limit)
        if below > position:
            return below
        above = offset_index.first_position_above(limit)
        return end if above is None else min(above, end)
