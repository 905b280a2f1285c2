"""Compression and decompression with Kafka's codecs; the decompressed size is limited.

Formats, as Kafka's clients write them: gzip; snappy in the framing of xerial's snappy-java (Java
clients) or bare (others); LZ4 frames; zstd. Each may be several streams, one after the other.
"""

from __future__ import annotations

import contextlib
import enum
import struct
from typing import TYPE_CHECKING, Any, Final

import cramjam
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

# Far above the size that a broker accepts, and small enough that a hostile batch does no harm.
DECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024

_ROOM_BYTES: Final = 32 * 1024
_ROOM_GROWTH: Final = 8

_XERIAL_HEADER: Final = struct.Struct(">8sii")  # magic, version, lowest compatible version
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_CHUNK: Final = struct.Struct(">i")
_XERIAL_CHUNK_BYTES: Final = 32 * 1024  # The size of the pieces that snappy-java compresses.
assert _XERIAL_HEADER.size == 16, "xerial's header is 16 bytes"


class Compression(enum.IntEnum):
    """The codec of a batch, by its number in the attributes. Kafka's dump uses these names."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class DecompressionFailed(ValueError):
    """Bytes that the codec did not write, or whose content is larger than the limit."""


def compress(compression: Compression, content: bytes) -> bytes:
    """`content` in the format that Kafka's Java clients write."""
    match compression:
        case Compression.NONE:
            return content
        case Compression.GZIP:
            return bytes(cramjam.gzip.compress(content))
        case Compression.SNAPPY:
            return _compress_xerial(content)
        case Compression.LZ4:
            return _compress_lz4(content)
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(content))


def decompress(
    compression: Compression, content: bytes, *, size_max: int = DECOMPRESSED_BYTES_MAX
) -> bytes:
    """The content of a compressed batch.

    Raises DecompressionFailed for damaged bytes and for more than `size_max` bytes of content.
    """
    match compression:
        case Compression.NONE:
            return content
        case Compression.GZIP:
            return _decompress_into(cramjam.gzip.decompress_into, content, size_max)
        case Compression.SNAPPY:
            return _decompress_snappy(content, size_max)
        case Compression.LZ4:
            return _decompress_into(cramjam.lz4.decompress_into, content, size_max)
        case Compression.ZSTD:
            return _decompress_into(cramjam.zstd.decompress_into, content, size_max)


def _decompress_into(into: Callable[[bytes, Any], int], content: bytes, size_max: int) -> bytes:
    small = min(size_max, max(_ROOM_BYTES, _ROOM_GROWTH * len(content)))
    if small < size_max:  # This is nearly always enough, and far cheaper than the largest size.
        room = np.empty(small, dtype=np.uint8)
        with contextlib.suppress(cramjam.DecompressionError):
            size = into(content, room)
            if size < small:
                return room[:size].tobytes()
    # The system allocates pages only as they are written.
    room = np.empty(size_max, dtype=np.uint8)
    try:
        size = into(content, room)
    except cramjam.DecompressionError as error:
        raise DecompressionFailed(f"{error} (of at most {size_max} bytes)") from error
    return room[:size].tobytes()


def _compress_lz4(content: bytes) -> bytes:
    compressor = cramjam.lz4.Compressor(block_linked=False)  # Kafka reads independent blocks only.
    compressor.compress(content)
    return bytes(compressor.finish())


def _compress_xerial(content: bytes) -> bytes:
    parts = [_XERIAL_HEADER.pack(_XERIAL_MAGIC, 1, 1)]
    for start in range(0, len(content), _XERIAL_CHUNK_BYTES):
        chunk = bytes(cramjam.snappy.compress_raw(content[start : start + _XERIAL_CHUNK_BYTES]))
        parts += [_XERIAL_CHUNK.pack(len(chunk)), chunk]
    return b"".join(parts)


def _decompress_snappy(content: bytes, size_max: int) -> bytes:
    if not content.startswith(_XERIAL_MAGIC):
        return _decompress_raw_snappy(content, size_max)
    parts: list[bytes] = []
    left = size_max
    position = 0
    while position < len(content):
        if content.startswith(_XERIAL_MAGIC, position):
            position += _XERIAL_HEADER.size
            if position > len(content):
                raise DecompressionFailed("snappy: the header is cut short")
            continue
        if position + _XERIAL_CHUNK.size > len(content):
            raise DecompressionFailed("snappy: the length of a chunk is cut short")
        (size,) = _XERIAL_CHUNK.unpack_from(content, position)
        position += _XERIAL_CHUNK.size
        if not 0 <= size <= len(content) - position:
            raise DecompressionFailed("snappy: a chunk is cut short")
        part = _decompress_raw_snappy(content[position : position + size], left)
        left -= len(part)
        parts.append(part)
        position += size
    return b"".join(parts)


def _decompress_raw_snappy(content: bytes, size_max: int) -> bytes:
    try:
        if cramjam.snappy.decompress_raw_len(content) > size_max:
            raise DecompressionFailed(f"snappy: grows beyond {size_max} bytes")
        return bytes(cramjam.snappy.decompress_raw(content))
    except cramjam.DecompressionError as error:
        raise DecompressionFailed(str(error)) from error
