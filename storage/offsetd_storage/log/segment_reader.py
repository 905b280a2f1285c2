"""Reads of the written part of a segment, while other threads append to its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.batch.record_batch import batch_header
from offsetd_storage.errors import CorruptBatch
from offsetd_storage.kernels.encode import BATCH_HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_storage.batch.record_batch import BatchHeader
    from offsetd_storage.disk.files import File
    from offsetd_storage.log.indexes import OffsetIndex

_WALK_BYTES: Final = 16_384  # Bytes of one read while headers are walked.


class SegmentReader:
    """Reads what a segment's file holds when the reader is made; see `Segment.reader`.

    `file` is the segment's log file, through a descriptor of this reader. All positions are in
    bytes from its start. The index may continue to grow, beyond what this reader reads.
    """

    __slots__ = ("_offset_index", "_written_bytes", "file", "file_name")

    def __init__(
        self, file: File, file_name: str, offset_index: OffsetIndex, *, written_bytes: int
    ) -> None:
        self.file = file
        self.file_name = file_name
        self._offset_index = offset_index
        self._written_bytes = written_bytes

    def headers(self, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yields (position, header) of each batch from `start` to `end`, which are boundaries.

        Raises CorruptBatch if no batch begins there, or one reaches beyond `end`.
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
        """The start of the first batch that ends at or above `offset`; the file's end if none."""
        end = self._written_bytes
        for position, header in self.headers(self._offset_index.lookup(offset).position, end):
            if header.last_offset >= offset:
                return position
        return end

    def batches_end(self, position: int, bytes_max: int) -> int:
        """The end of the whole batches after `position` that fit into `bytes_max` bytes.

        At least one batch counts, even if it is larger.
        """
        limit, end = position + bytes_max, self._written_bytes
        if limit >= end:
            return end
        start = max(position, self._offset_index.last_position_up_to(limit))
        for batch_start, header in self.headers(start, end):
            if batch_start + header.size_bytes > limit and batch_start > position:
                return batch_start
        return end

    def chunk_end(self, position: int, end: int, chunk_bytes: int) -> int:
        """A batch boundary about `chunk_bytes` after `position`, from the index alone."""
        limit = position + chunk_bytes
        if limit >= end:
            return end
        below = self._offset_index.last_position_up_to(limit)
        if below > position:
            return below
        above = self._offset_index.first_position_above(limit)
        return end if above is None else min(above, end)
