"""Protobuf varints of any size: seven bits a byte, the lowest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_VARINT_BYTES_MAX: Final = 9


def encode_varint(number: int) -> bytes:
    """The bytes of a number that is not negative."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def decode_varints(raw: bytes) -> Iterator[int]:
    """The numbers in `raw`, one after the other.

    Raises ValueError if the last one is cut short, or one has more than 63 bits.
    """
    number = size = 0
    for byte in raw:
        number |= (byte & 0x7F) << 7 * size
        size += 1
        if size > _VARINT_BYTES_MAX:
            raise ValueError("a number is too long")
        if byte < 0x80:
            yield number
            number = size = 0
    if size:
        raise ValueError("a number is cut short")
