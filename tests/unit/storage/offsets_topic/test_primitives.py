"""Primitives: what is written reads back, and bad bytes raise."""

from collections.abc import Callable

import pytest
from offsetd_storage.offsets_topic.schemas.primitives import Reader, UndecodableRecord, Writer


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16384, "808001"),
        (0xFFFF_FFFF, "ffffffff0f"),
    ],
)
def test_an_unsigned_varint_has_seven_bits_a_byte_lowest_first(value: int, encoded: str) -> None:
    writer = Writer()
    writer.unsigned_varint(value)
    assert writer.result().hex() == encoded
    assert Reader(bytes.fromhex(encoded)).unsigned_varint() == value


@pytest.mark.parametrize(
    ("text", "compact", "encoded"),
    [
        ("", False, "0000"),
        ("ü", False, "0002c3bc"),
        (None, False, "ffff"),
        ("", True, "01"),
        ("ü", True, "03c3bc"),
        (None, True, "00"),
    ],
)
def test_text_has_its_length_in_bytes_in_front(
    text: str | None, compact: bool, encoded: str
) -> None:
    writer = Writer()
    writer.string(text, compact=compact)
    assert writer.result().hex() == encoded
    assert Reader(bytes.fromhex(encoded)).string(compact=compact) == text


@pytest.mark.parametrize(
    ("value", "compact", "encoded"),
    [
        (b"", False, "00000000"),
        (None, False, "ffffffff"),
        (b"\x07", True, "0207"),
        (None, True, "00"),
    ],
)
def test_byte_strings_have_their_length_in_front(
    value: bytes | None, compact: bool, encoded: str
) -> None:
    writer = Writer()
    writer.byte_string(value, compact=compact)
    assert writer.result().hex() == encoded
    assert Reader(bytes.fromhex(encoded)).byte_string(compact=compact) == value


def test_a_tag_section_reads_back_in_any_order() -> None:
    writer = Writer()
    writer.tagged_fields({7: b"seven", 0: b""})
    assert writer.result().hex() == "0200000705" + b"seven".hex()
    assert Reader(writer.result()).tagged_fields() == {0: b"", 7: b"seven"}


@pytest.mark.parametrize(
    ("encoded", "read"),
    [
        ("", Reader.int8),
        ("00", Reader.int16),
        ("00", Reader.uint16),
        ("000000", Reader.int32),
        ("00000000000000", Reader.int64),
        ("00" * 15, Reader.uuid),
        ("0002c3", Reader.string),
        ("0001ff", Reader.string),
        ("0003eda080", Reader.string),
        ("ffffffffff01", Reader.unsigned_varint),
        ("80", Reader.unsigned_varint),
        ("0000000501", Reader.byte_string),
        ("7fffffff", Reader.array_length),
        ("000000020000", lambda reader: reader.array_length() if reader.raw(3) else None),
        ("01000501", Reader.tagged_fields),
        ("ffffffff0f", Reader.tagged_fields),
        ("8180020101", lambda reader: reader.string(compact=True)),
    ],
)
def test_bytes_that_end_too_early_or_make_no_sense_raise(
    encoded: str, read: Callable[[Reader], object]
) -> None:
    with pytest.raises(UndecodableRecord):
        read(Reader(bytes.fromhex(encoded)))


def test_an_undecodable_record_can_tell_what_it_is_about() -> None:
    error = UndecodableRecord("8 bytes needed, 2 left").about("offset of g for t-0")
    assert str(error) == "offset of g for t-0: 8 bytes needed, 2 left"
    assert error.entry == "offset of g for t-0"
