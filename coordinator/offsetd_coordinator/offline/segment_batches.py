"""A walk over the batches of a segment file by their lengths, for work that may be slow."""

from collections.abc import Iterator
from typing import Final

from offsetd_storage.batch.record_batch import BATCH_HEADER
from offsetd_storage.disk.files import File
from offsetd_storage.kernels.encode import BATCH_LENGTH_AT, LENGTH_EXCLUDES_BYTES

READ_BYTES: Final = 1 << 20


def whole_batches(file: File, size: int, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yields the position and the bytes of each batch from byte `start` to byte `size`.

    Each batch's length field gives the start of the next one; nothing else in it is checked. Stops
    when the bytes that are left are fewer than a header or than the batch needs.
    """
    position = start
    window, window_at = b"", start
    while size - position >= BATCH_HEADER.size:
        if position - window_at + BATCH_HEADER.size > len(window):
            window, window_at = file.pread(READ_BYTES, position), position
        length_at = position - window_at + BATCH_LENGTH_AT
        length = int.from_bytes(window[length_at : length_at + 4], "big", signed=True)
        batch_bytes = length + LENGTH_EXCLUDES_BYTES
        if batch_bytes < BATCH_HEADER.size or batch_bytes > size - position:
            return
        if position - window_at + batch_bytes > len(window):
            window, window_at = file.pread(max(READ_BYTES, batch_bytes), position), position
        batch = window[position - window_at : position - window_at + batch_bytes]
        if len(batch) < batch_bytes:
            return  # The file was cut while it was read.
        yield position, batch
        position += batch_bytes
