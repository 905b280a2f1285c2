"""Strict checks of UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import load_i64, load_u8
from offsetd_storage.kernels.registry import inline_kernel, kernel

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]

_NON_ASCII_BITS: Final = -0x7F7F7F7F7F7F7F80  # 0x8080808080808080 as an int64


@inline_kernel
def code_point(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """(code point, its end), or (0, -1) if the bytes at `position` are not UTF-8."""
    first = load_u8(buffer, position)
    if first < 0x80:
        return first, position + 1
    if first < 0xC2 or first > 0xF4:
        return 0, -1
    more = 1 + (first >= 0xE0) + (first >= 0xF0)
    if position + more >= end:
        return 0, -1
    point = first & (0x3F >> more)
    for _ in range(more):
        position += 1
        byte = load_u8(buffer, position)
        if byte & 0xC0 != 0x80:
            return 0, -1
        point = (point << 6) | (byte & 0x3F)
    overlong = (more == 2 and point < 0x800) or (more == 3 and point < 0x10000)
    if overlong or 0xD800 <= point <= 0xDFFF or point > 0x10FFFF:
        return 0, -1
    return point, position + 1


@kernel("int64(uint8[::1], int64, int64)")
def utf16_length(buffer: Bytes, start: int, size: int) -> int:
    """The number of UTF-16 units of the text, or -1 if it is not UTF-8. The buffer is padded."""
    position = start
    end = start + size
    while position + 8 <= end and load_i64(buffer, position) & _NON_ASCII_BITS == 0:
        position += 8
    length = position - start
    while position < end:
        point, position = code_point(buffer, position, end)
        if position < 0:
            return -1
        length += 1 + (point > 0xFFFF)
    return length
