"""Loops that run per record over whole segments, compiled by Numba.

Kernels read from reused `uint8` buffers that are padded, so that an unaligned 8-byte load at the
last byte stays inside them. Every number is an `int64`: the compiler refuses other types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

PADDING_BYTES: Final = 16
_PADDING: Final = bytes(PADDING_BYTES)
_SMALL_BYTES: Final = 16 * 1024


def padded_buffer(size: int) -> npt.NDArray[np.uint8]:
    """An uninitialised buffer for `size` bytes and the padding that kernels may read past them."""
    return np.empty(size + PADDING_BYTES, dtype=np.uint8)


def padded_copy(content: bytes | bytearray | memoryview) -> npt.NDArray[np.uint8]:
    """A padded, writable copy of `content`; its length is `buffer.size - PADDING_BYTES`."""
    if isinstance(content, bytes) and len(content) <= _SMALL_BYTES:
        # Three times as fast for a message of a call; numpy copies large ones without the lock.
        padded = bytearray(content)
        padded += _PADDING
        return np.frombuffer(padded, np.uint8)
    source = np.frombuffer(content, dtype=np.uint8)
    buffer = padded_buffer(source.size)
    buffer[: source.size] = source
    buffer[source.size :] = 0
    return buffer
