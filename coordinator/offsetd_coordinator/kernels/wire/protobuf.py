"""Fields of protobuf's wire format, with keys of one byte: read, measured and written.

A key is number << 3 | wire type. Of the wire types only those of numbers and of bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import (
    copy_bytes,
    load_u8,
    store_i8,
    store_unsigned_varint,
    unsigned_varint_size,
)
from offsetd_storage.kernels.registry import inline_kernel

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes

VARINT: Final = 0
LENGTH: Final = 2

_VARINT_BYTES_MAX: Final = 10
_LAST_SHIFT: Final = 63  # of the tenth byte, which has one bit left


@inline_kernel
def load_field(message: Bytes, position: int, end: int) -> tuple[int, int, int]:
    """(key, start, size) of the field at `position`, its content within bounds.

    For a number, `start` is where it ends and `size` its value. The key is -1 for anything else
    than a number or bytes.
    """
    key = load_u8(message, position)
    if key >= 128:
        return -1, 0, 0  # All of our fields have a key of one byte.
    value, position = _load_varint(message, position + 1, end)
    if position < 0:
        return -1, 0, 0
    if key & 7 == VARINT:
        return key, position, value
    if key & 7 == LENGTH and 0 <= value <= end - position:
        return key, position, value
    return -1, 0, 0


@inline_kernel
def _load_varint(message: Bytes, position: int, end: int) -> tuple[int, int]:
    """(the 64 bits of a varint, where it ends), or (0, -1)."""
    value = 0
    shift = 0
    limit = min(end, position + _VARINT_BYTES_MAX)
    while position < limit:
        byte = load_u8(message, position)
        position += 1
        if shift == _LAST_SHIFT and byte > 1:
            break  # More than 64 bits.
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    return 0, -1


@inline_kernel
def number_size(value: int) -> int:
    """Bytes of the field of a number; one that is 0 is left out."""
    return 0 if value == 0 else 1 + unsigned_varint_size(value)


@inline_kernel
def optional_size(value: int) -> int:
    """Bytes of the field of an optional number; one below 0 is not there."""
    return 0 if value < 0 else 1 + unsigned_varint_size(value)


@inline_kernel
def text_size(size: int) -> int:
    """Bytes of the field of a text of `size` bytes; an empty one is left out."""
    return 0 if size == 0 else message_size(size)


@inline_kernel
def message_size(size: int) -> int:
    """Bytes of the field of a message of `size` bytes, be it empty."""
    return 1 + unsigned_varint_size(size) + size


@inline_kernel
def put_number(out: Bytes, position: int, key: int, value: int) -> int:
    """Write what `number_size` measures; returns where it ends."""
    return position if value == 0 else _put_varint(out, position, key, value)


@inline_kernel
def put_optional(out: Bytes, position: int, key: int, value: int) -> int:
    """Write what `optional_size` measures; returns where it ends."""
    return position if value < 0 else _put_varint(out, position, key, value)


@inline_kernel
def put_text(out: Bytes, position: int, key: int, source: Bytes, start: int, size: int) -> int:
    """Write what `text_size` measures; returns where it ends."""
    if size == 0:
        return position
    position = begin_message(out, position, key, size)
    copy_bytes(out, position, source, start, size)
    return position + size


@inline_kernel
def begin_message(out: Bytes, position: int, key: int, size: int) -> int:
    """Write what stands before a message of `size` bytes; returns where that begins."""
    return _put_varint(out, position, key, size)


@inline_kernel
def _put_varint(out: Bytes, position: int, key: int, value: int) -> int:
    store_i8(out, position, key)
    return int(store_unsigned_varint(out, position + 1, value))
