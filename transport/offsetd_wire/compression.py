"""Messages that a client has compressed."""

from __future__ import annotations

import zlib
from typing import Final

import grpc

_ZLIB_WINDOW_BITS: Final = 15
_WINDOW_BITS: Final = {"gzip": 16 + _ZLIB_WINDOW_BITS, "deflate": _ZLIB_WINDOW_BITS}


class RefusedMessage(Exception):
    """A message that cannot be given to a handler."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code = code
        self.details = details


def decompressed(content: bytes, encoding: str | None, *, bytes_max: int) -> bytes:
    """The message. Raises RefusedMessage if it is damaged, or larger than `bytes_max`."""
    if encoding in (None, "identity"):
        raise RefusedMessage(
            grpc.StatusCode.INTERNAL, "a message is compressed, and no grpc-encoding says how"
        )
    window_bits = _WINDOW_BITS.get(encoding or "")
    if window_bits is None:
        raise RefusedMessage(
            grpc.StatusCode.UNIMPLEMENTED, f"grpc-encoding {encoding} is not supported"
        )
    decoder = zlib.decompressobj(window_bits)
    try:
        message = decoder.decompress(content, bytes_max + 1)
    except zlib.error:
        raise RefusedMessage(
            grpc.StatusCode.INTERNAL, f"a message cannot be decompressed as {encoding}"
        ) from None
    if len(message) > bytes_max:
        raise too_large(len(message), bytes_max)
    if not decoder.eof:
        raise RefusedMessage(grpc.StatusCode.INTERNAL, f"the end of a message in {encoding} lacks")
    return message


def too_large(size: int, bytes_max: int) -> RefusedMessage:
    """The refusal of a message above the limit."""
    return RefusedMessage(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        f"Received message larger than max ({size} vs. {bytes_max})",
    )
