"""A search for valid batches after the first bad one, which separates a torn tail from damage."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from offsetd_storage.errors import CorruptBatch
from offsetd_storage.kernels import PADDING_BYTES, padded_buffer, scan
from offsetd_storage.kernels.crc32c import continued_crc32c
from offsetd_storage.kernels.encode import (
    ATTRIBUTES_AT,
    BATCH_HEADER_BYTES,
    BATCH_LENGTH_AT,
    CRC_AT,
    LENGTH_EXCLUDES_BYTES,
    MAGIC,
    MAGIC_AT,
)
from offsetd_storage.log.segment_scan import BUFFER_BYTES

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from offsetd_storage.disk.files import File

# The most bytes that are read to verify checksums: this many, or a few times the tail's size. Each
# candidate counts at least `_CHECKED_BYTES_LEAST`. A torn tail has few bytes that match a header.
_CHECKED_BYTES_MAX: Final = 1 << 30
_CHECKED_TAILS_MAX: Final = 4
_CHECKED_BYTES_LEAST: Final = 4096


def valid_batch_after(file: File, position: int, *, size: int, offset_min: int) -> int | None:
    """The first position after `position` of a valid batch at or above `offset_min`, or None.

    After a torn tail, there is none; after damage in the middle of a log, there is one. The search
    tries every position, because a length may be damaged. Messages of Kafka's older formats count,
    too: the rest of the engine cannot read them, but they are data. (The bytes of a record may have
    the form of a batch. Then a torn tail counts as damage, which loses nothing.)

    Raises CorruptBatch if too many bytes have the form of a batch, so the search would be too slow.
    """
    window, piece = padded_buffer(BUFFER_BYTES), padded_buffer(BUFFER_BYTES)
    at = position + 1
    bytes_left = max(_CHECKED_BYTES_MAX, _CHECKED_TAILS_MAX * (size - at))
    while size - at >= scan.OLD_MESSAGE_BYTES_MIN:
        wanted = min(BUFFER_BYTES, size - at)
        end = file.pread_into(window, wanted, at)
        found = scan.find_batch_header(window, 0, end, size - at, offset_min)
        while found >= 0:
            bytes_left -= max(_batch_size(window[found:]), _CHECKED_BYTES_LEAST)
            if bytes_left < 0:
                raise CorruptBatch(
                    "too many bytes look like a batch to check them all", position=at + found
                )
            if _has_valid_checksum(file, at + found, window[found:], piece):
                return at + found
            found = scan.find_batch_header(window, found + 1, end, size - at, offset_min)
        if end < wanted or at + end == size:
            return None
        at += end - BATCH_HEADER_BYTES + 1
    return None


def is_valid_batch_at(file: File, position: int, *, size: int) -> bool:
    """Returns whether a batch at `position` is whole and has its checksum. Ignores its offset.

    The checksum covers neither offset nor leader epoch. So a bad batch with a valid checksum comes
    from damage, not from a crash.
    """
    header = padded_buffer(BATCH_HEADER_BYTES)
    if file.pread_into(header, BATCH_HEADER_BYTES, position) < BATCH_HEADER_BYTES:
        return False
    return (
        int(header[MAGIC_AT]) == MAGIC
        and BATCH_HEADER_BYTES <= _batch_size(header) <= size - position
        and _has_valid_checksum(file, position, header, padded_buffer(BUFFER_BYTES))
    )


def _has_valid_checksum(
    file: File, position: int, header: npt.NDArray[np.uint8], piece: npt.NDArray[np.uint8]
) -> bool:
    """Returns whether a batch or old message at `position` has its checksum. Reads in pieces."""
    is_old = int(header[MAGIC_AT]) < MAGIC
    crc_at, covered_at = (scan.OLD_CRC_AT, MAGIC_AT) if is_old else (CRC_AT, ATTRIBUTES_AT)
    crc = 0
    at, end = position + covered_at, position + _batch_size(header)
    while at < end:
        read = file.pread_into(piece, min(piece.size - PADDING_BYTES, end - at), at)
        if read == 0:
            return False
        crc = (
            zlib.crc32(piece.data[:read], crc) if is_old else continued_crc32c(crc, piece, 0, read)
        )
        at += read
    return crc == int.from_bytes(header[crc_at : crc_at + 4].tobytes(), "big")


def _batch_size(header: npt.NDArray[np.uint8]) -> int:
    length = header[BATCH_LENGTH_AT : BATCH_LENGTH_AT + 4].tobytes()
    return int.from_bytes(length, "big", signed=True) + LENGTH_EXCLUDES_BYTES
