"""Protobuf's varints."""

from collections.abc import Iterator


def varint(number: int) -> bytes:
    """A number, at least 0, as protobuf's varint: seven bits a byte, the lowest first."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def varints(encoded: bytes) -> Iterator[int]:
    """Yields the numbers of varints that follow each other."""
    number = shift = 0
    for byte in encoded:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield number
            number = shift = 0
