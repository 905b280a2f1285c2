"""Reads, measures and writes fields of protobuf's wire format with keys of one byte.

A key is number << 3 | wire type. Only the wire types VARINT (numbers) and LENGTH (bytes) are known.
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
_LAST_SHIFT: Final = 63  # the shift of the tenth byte, which has one bit left


@inline_kernel
def load_field(message: Bytes, position: int, end: int) -> tuple[int, int, int]:
    """Returns (key, start, size) of the field at `position`, whose content is within bounds.

    For a number, `start` is its end and `size` its value. The key is -1 if the field is neither a
    number nor bytes, or is not within bounds.
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
    """Returns (the 64 bits of a varint, its end), or (0, -1) if there is no valid varint."""
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
    """Bytes of the field of a number. A number that is 0 is omitted."""
    return 0 if value == 0 else 1 + unsigned_varint_size(value)


@inline_kernel
def optional_size(value: int) -> int:
    """Bytes of the field of an optional number. A number below 0 is omitted."""
    return 0 if value < 0 else 1 + unsigned_varint_size(value)


@inline_kernel
def text_size(size: int) -> int:
    """Bytes of the field of a text of `size` bytes. An empty text is omitted."""
    return 0 if size == 0 else message_size(size)


@inline_kernel
def message_size(size: int) -> int:
    """Bytes of the field of a message of `size` bytes. An empty message is not omitted."""
    return 1 + unsigned_varint_size(size) + size


@inline_kernel
def put_number(out: Bytes, position: int, key: int, value: int) -> int:
    """Write the field of a number, see `number_size`. Returns its end."""
    return position if value == 0 else _put_varint(out, position, key, value)


@inline_kernel
def put_optional(out: Bytes, position: int, key: int, value: int) -> int:
    """Write the field of an optional number, see `optional_size`. Returns its end."""
    return position if value < 0 else _put_varint(out, position, key, value)


@inline_kernel
def put_text(out: Bytes, position: int, key: int, source: Bytes, start: int, size: int) -> int:
    """Write the field of a text, see `text_size`. Returns its end."""
    if size == 0:
        return position
    position = begin_message(out, position, key, size)
    copy_bytes(out, position, source, start, size)
    return position + size


@inline_kernel
def begin_message(out: Bytes, position: int, key: int, size: int) -> int:
    """Write the key and the length of a message of `size` bytes. Returns the message's start."""
    return _put_varint(out, position, key, size)


@inline_kernel
def _put_varint(out: Bytes, position: int, key: int, value: int) -> int:
    store_i8(out, position, key)
    return int(store_unsigned_varint(out, position + 1, value))
