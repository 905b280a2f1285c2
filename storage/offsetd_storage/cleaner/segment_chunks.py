"""A segment as the cleaner reads it: in chunks; a kernel takes the whole batches of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

import attrs

from offsetd_storage.batch.compression import decompress
from offsetd_storage.batch.record_batch import batch_header, decode_batch
from offsetd_storage.errors import CorruptBatch, OldMessageFormat
from offsetd_storage.kernels import PADDING_BYTES, padded_buffer, padded_copy, scan
from offsetd_storage.kernels.crc32c import crc32c
from offsetd_storage.kernels.encode import (
    ATTRIBUTES_AT,
    BATCH_HEADER_BYTES,
    BATCH_LENGTH_AT,
    LENGTH_EXCLUDES_BYTES,
    MAGIC,
    MAGIC_AT,
)
from offsetd_storage.log.segment_scan import BATCH_BYTES_MAX, StopReason

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

    from offsetd_storage.batch.record_batch import BatchHeader, RecordBatch
    from offsetd_storage.disk.files import File

# A chunk is so small that it stays in the processor's cache while kernels work on it.
CHUNK_BYTES: Final = 1024 * 1024


@attrs.frozen(kw_only=True, eq=False)
class SegmentChunks:
    """The written batches of one segment. Its maker opens the file and closes it.

    `offset_next` is the base offset of the next segment that is cleaned, or, without one, the first
    uncleanable offset. `start_position`: reading may begin there, with a whole batch, because
    everything before it is below the first dirty offset.
    """

    file: File
    size_bytes: int
    base_offset: int
    offset_next: int
    start_position: int = 0


class SegmentChunk:
    """A chunk of a segment: `buffer[:end]` starts with the batch at `position` in the file.

    It is empty before the first `read_on`.
    """

    def __init__(self, source: SegmentChunks, *, chunk_bytes: int) -> None:
        self.source = source
        self.buffer: npt.NDArray[np.uint8] = padded_buffer(max(chunk_bytes, BATCH_HEADER_BYTES))
        self.position = source.start_position
        self.limit = source.size_bytes  # Bytes at or after this position are not read.
        self.end = 0

    def read_on(self, taken: int, throttle: Callable[[int], None]) -> bool:
        """Continues after the first `taken` bytes; returns False at the end or at `limit`.

        If nothing was taken, the first batch is larger than the buffer, which grows then. Raises
        CorruptBatch if no batch can be so large, or the file is short.
        """
        if taken == 0 and self.end > 0:
            self._grow()
        self.position += taken
        wanted = min(self.buffer.size - PADDING_BYTES, self.limit - self.position)
        if wanted <= 0:
            return False
        self.end = self.source.file.pread_into(self.buffer, wanted, self.position)
        if self.end < wanted:
            raise CorruptBatch("the segment's file ends early", position=self.position + self.end)
        throttle(wanted)
        return True

    def skip_to(self, position: int) -> None:
        """Continues after a stretch that need not be read."""
        self.position = position
        self.end = 0

    def _grow(self) -> None:
        if self.end < BATCH_HEADER_BYTES:
            self.fail(scan.INCOMPLETE, 0)
        length = self.buffer[BATCH_LENGTH_AT : BATCH_LENGTH_AT + 4].tobytes()
        batch_bytes = int.from_bytes(length, "big", signed=True) + LENGTH_EXCLUDES_BYTES
        if batch_bytes > self.limit - self.position:
            self.fail(scan.INCOMPLETE, 0)
        if batch_bytes > BATCH_BYTES_MAX:
            self.fail(scan.TOO_LARGE, 0)
        self.buffer = padded_buffer(batch_bytes)

    def header(self, at: int) -> BatchHeader:
        """The header of the batch at `at`."""
        return batch_header(self.buffer.data[at : at + BATCH_HEADER_BYTES])

    def decoded(self, at: int) -> RecordBatch:
        """The whole batch at `at`, after a check."""
        size_bytes = self.header(at).size_bytes
        try:
            return decode_batch(self.buffer.data[at : at + size_bytes])
        except CorruptBatch as error:
            raise CorruptBatch(error.reason, position=self.position + at) from error

    def check(self, at: int, header: BatchHeader) -> None:
        """Raises CorruptBatch if the checksum of the batch at `at` is wrong."""
        computed = crc32c(self.buffer, at + ATTRIBUTES_AT, at + header.size_bytes)
        if computed != header.crc:
            self.fail(scan.BAD_CHECKSUM, at)

    def decompressed(self, at: int, header: BatchHeader) -> npt.NDArray[np.uint8]:
        """The records of the compressed batch at `at`, padded."""
        compressed = self.buffer[at + BATCH_HEADER_BYTES : at + header.size_bytes].tobytes()
        try:
            return padded_copy(decompress(header.compression, compressed))
        except ValueError as error:  # DecompressionFailed, or a codec that Kafka does not have.
            raise CorruptBatch(str(error), position=self.position + at) from error

    def fail(self, reason: int, at: int) -> NoReturn:
        """Raises the error that a kernel found in the batch at `at`."""
        position = self.position + at
        if at + MAGIC_AT < self.end and self.buffer[at + MAGIC_AT] < MAGIC:
            raise OldMessageFormat(
                f"messages of format v{self.buffer[at + MAGIC_AT]} at byte {position} cannot be"
                " cleaned: the topic must be rewritten"
            )
        try:
            words = StopReason(reason).name.lower().replace("_", " ")
        except ValueError:
            words = "malformed record"
        raise CorruptBatch(words, position=position)
