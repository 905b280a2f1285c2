"""Kafka's primitive types, read from and written to bytes.

Fixed-width integers are big-endian. A plain string has an int16 length; plain bytes and arrays have
an int32 length. A length of -1 is null. The compact forms of flexible versions have an unsigned
varint of the length plus one, and 0 is null.
"""

import struct
from collections.abc import Callable
from typing import Final

_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_UINT16: Final = struct.Struct(">H")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")

UUID_BYTES: Final = 16
UNSIGNED_VARINT_BYTES_MAX: Final = 5
STRING_BYTES_MAX: Final = 32767


class UndecodableRecord(ValueError):
    """A record of a known type whose bytes do not decode.

    `entry` is the decoded key, if that could still be read.
    """

    def __init__(self, reason: str, *, entry: str | None = None) -> None:
        super().__init__(reason if entry is None else f"{entry}: {reason}")
        self.reason = reason
        self.entry = entry

    def about(self, entry: str) -> "UndecodableRecord":
        """Returns the error with the decoded key."""
        return UndecodableRecord(self.reason, entry=entry)


class UnknownValueVersion(UndecodableRecord):
    """A value in a version that no Kafka up to 4.1.1 writes for its record type."""


def strict_text(raw: bytes) -> str:
    """The text of UTF-8. Raises `UndecodableRecord`, so that two names never become one."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UndecodableRecord(f"text is not UTF-8 ({error.reason})") from None


class Reader:
    """Reads values from `buffer`, in order. Raises `UndecodableRecord` at the end of the buffer.

    `text` turns the bytes of a string into a str; its errors are raised unchanged.
    """

    __slots__ = ("_buffer", "_position", "_text")

    def __init__(self, buffer: bytes, *, text: Callable[[bytes], str] = strict_text) -> None:
        self._buffer = buffer
        self._position = 0
        self._text = text

    @property
    def remaining(self) -> int:
        """The number of bytes left."""
        return len(self._buffer) - self._position

    def _fixed(self, layout: struct.Struct) -> int:
        if self.remaining < layout.size:
            raise UndecodableRecord(f"{layout.size} bytes needed, {self.remaining} left")
        (value,) = layout.unpack_from(self._buffer, self._position)
        self._position += layout.size
        return int(value)

    def nested(self, buffer: bytes) -> "Reader":
        """A reader of another buffer that decodes text in the same way."""
        return Reader(buffer, text=self._text)

    def int8(self) -> int:
        """One signed byte."""
        return self._fixed(_INT8)

    def int16(self) -> int:
        """Two bytes, signed."""
        return self._fixed(_INT16)

    def uint16(self) -> int:
        """Two bytes, unsigned."""
        return self._fixed(_UINT16)

    def int32(self) -> int:
        """Four bytes, signed."""
        return self._fixed(_INT32)

    def int64(self) -> int:
        """Eight bytes, signed."""
        return self._fixed(_INT64)

    def unsigned_varint(self) -> int:
        """Seven bits in each byte, lowest first; at most five bytes, as in Kafka."""
        value = 0
        for index in range(UNSIGNED_VARINT_BYTES_MAX):
            byte = self.raw(1)[0]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value & 0xFFFF_FFFF
        raise UndecodableRecord(f"varint longer than {UNSIGNED_VARINT_BYTES_MAX} bytes")

    def raw(self, size: int) -> bytes:
        """The next `size` bytes."""
        if size < 0 or size > self.remaining:
            raise UndecodableRecord(f"{size} bytes needed, {self.remaining} left")
        start = self._position
        self._position += size
        return self._buffer[start : self._position]

    def uuid(self) -> bytes:
        """Sixteen bytes."""
        return self.raw(UUID_BYTES)

    def _length(self, *, compact: bool, wide: bool) -> int:
        """A length; negative means null."""
        if compact:
            return self.unsigned_varint() - 1
        return self.int32() if wide else self.int16()

    def string(self, *, compact: bool = False) -> str | None:
        """Text, or None for null."""
        length = self._length(compact=compact, wide=False)
        if length > STRING_BYTES_MAX:
            raise UndecodableRecord(f"text of {length} bytes")
        return None if length < 0 else self._text(self.raw(length))

    def byte_string(self, *, compact: bool = False) -> bytes | None:
        """A byte string, or None for null."""
        length = self._length(compact=compact, wide=True)
        return None if length < 0 else self.raw(length)

    def array_length(self, *, compact: bool = False) -> int | None:
        """The number of elements, or None for a null array.

        Refuses more elements than there are bytes left, as Kafka does, so that a damaged length
        does not allocate much memory.
        """
        length = self._length(compact=compact, wide=True)
        if length > self.remaining:
            raise UndecodableRecord(f"{length} elements in {self.remaining} bytes")
        return None if length < 0 else length

    def tagged_fields(self) -> dict[int, bytes]:
        """The tag section at the end of a flexible struct: tag -> its bytes."""
        fields: dict[int, bytes] = {}
        for _ in range(self.unsigned_varint()):
            tag = self.unsigned_varint()
            fields[tag] = self.raw(self.unsigned_varint())
        return fields


class Writer:
    """Appends values; `result()` returns all of them."""

    __slots__ = ("_out",)

    def __init__(self) -> None:
        self._out = bytearray()

    def result(self) -> bytes:
        """Everything written so far."""
        return bytes(self._out)

    def int8(self, value: int) -> None:
        """One signed byte."""
        self._out += _INT8.pack(value)

    def int16(self, value: int) -> None:
        """Two bytes, signed."""
        self._out += _INT16.pack(value)

    def uint16(self, value: int) -> None:
        """Two bytes, unsigned."""
        self._out += _UINT16.pack(value)

    def int32(self, value: int) -> None:
        """Four bytes, signed."""
        self._out += _INT32.pack(value)

    def int64(self, value: int) -> None:
        """Eight bytes, signed."""
        self._out += _INT64.pack(value)

    def unsigned_varint(self, value: int) -> None:
        """Seven bits in each byte, lowest first."""
        assert 0 <= value <= 0xFFFF_FFFF, "an unsigned varint holds 32 bits"
        while value >= 0x80:
            self._out.append(value & 0x7F | 0x80)
            value >>= 7
        self._out.append(value)

    def raw(self, value: bytes) -> None:
        """The bytes as they are."""
        self._out += value

    def _length(self, length: int, *, compact: bool, wide: bool) -> None:
        if compact:
            self.unsigned_varint(length + 1)
        elif wide:
            self.int32(length)
        else:
            self.int16(length)

    def string(self, value: str | None, *, compact: bool = False) -> None:
        """Text, or null."""
        encoded = b"" if value is None else value.encode()
        assert len(encoded) <= STRING_BYTES_MAX, "text fits its length field"
        self._length(-1 if value is None else len(encoded), compact=compact, wide=False)
        self._out += encoded

    def byte_string(self, value: bytes | None, *, compact: bool = False) -> None:
        """A byte string, or null."""
        self._length(-1 if value is None else len(value), compact=compact, wide=True)
        self._out += value or b""

    def array_length(self, length: int | None, *, compact: bool = False) -> None:
        """The number of elements that follow, None for a null array."""
        self._length(-1 if length is None else length, compact=compact, wide=True)

    def tagged_fields(self, fields: dict[int, bytes]) -> None:
        """The tag section that ends a flexible struct, in the order of the tags."""
        self.unsigned_varint(len(fields))
        for tag in sorted(fields):
            self.unsigned_varint(tag)
            self.unsigned_varint(len(fields[tag]))
            self._out += fields[tag]
