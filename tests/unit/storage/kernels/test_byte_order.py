from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from offsetd_storage.kernels import PADDING_BYTES, byte_order, padded_buffer, padded_copy
from offsetd_storage.kernels.registry import kernel

pytestmark = pytest.mark.kernel

LOADS = ">b", ">B", ">h", ">H", ">i", ">I", ">q"
STORES = ">b", ">h", ">i", ">q"

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)


@kernel("void(uint8[::1], int64, int64[::1])")
def load_all(buffer, position, out):
    out[0] = byte_order.load_i8(buffer, position)
    out[1] = byte_order.load_u8(buffer, position)
    out[2] = byte_order.load_i16(buffer, position)
    out[3] = byte_order.load_u16(buffer, position)
    out[4] = byte_order.load_i32(buffer, position)
    out[5] = byte_order.load_u32(buffer, position)
    out[6] = byte_order.load_i64(buffer, position)


@kernel("void(uint8[::1], int64, int64, int64)")
def store_one(buffer, position, size, value):
    if size == 1:
        byte_order.store_i8(buffer, position, value)
    elif size == 2:
        byte_order.store_i16(buffer, position, value)
    elif size == 4:
        byte_order.store_i32(buffer, position, value)
    else:
        byte_order.store_i64(buffer, position, value)


@kernel("void(uint8[::1], int64, int64, int64[:, ::1])")
def load_varints(buffer, position, end, out):
    out[0, 0], out[0, 1] = byte_order.load_unsigned_varint(buffer, position, end)
    out[1, 0], out[1, 1] = byte_order.load_varint(buffer, position, end)
    out[2, 0], out[2, 1] = byte_order.load_varlong(buffer, position, end)


@kernel("void(uint8[::1], int64, int64[::1])")
def store_varints(buffer, value, out):
    out[0] = byte_order.store_varint(buffer, 0, value)
    out[1] = byte_order.varint_size(value)
    out[2] = byte_order.store_unsigned_varint(buffer, 16, value)
    out[3] = byte_order.unsigned_varint_size(value)
    out[4] = byte_order.unzigzag(byte_order.zigzag(value))
    out[5] = byte_order.leading_zeros(value)


@kernel("boolean(uint8[::1], int64, uint8[::1], int64, int64)")
def equal(first, position, second, start, size):
    return byte_order.equal_bytes(first, position, second, start, size)


@kernel("void(uint8[::1], int64, uint8[::1], int64, int64)")
def copy(target, position, source, start, size):
    byte_order.copy_bytes(target, position, source, start, size)


def varint_of(pattern: int) -> bytes:
    """An unsigned varint, by the definition: seven bits a byte, the lowest first."""
    groups = [pattern >> shift & 127 for shift in range(0, max(pattern.bit_length(), 1), 7)]
    return bytes([*(group | 128 for group in groups[:-1]), groups[-1]])


def zigzag_of(value: int) -> int:
    return value * 2 if value >= 0 else -value * 2 - 1


@given(st.binary(min_size=8, max_size=24), st.data())
def test_loads_read_big_endian_numbers_at_any_byte(content, data):
    position = data.draw(st.integers(0, len(content) - 8))
    out = np.zeros(len(LOADS), dtype=np.int64)
    load_all(padded_copy(content), position, out)
    assert out.tolist() == [struct.unpack_from(form, content, position)[0] for form in LOADS]


@pytest.mark.parametrize("form", STORES)
@given(value=int64s, position=st.integers(0, 9))
def test_stores_write_the_low_bytes_and_nothing_else(form, value, position):
    size = struct.calcsize(form)
    buffer = np.full(32, 0xAA, dtype=np.uint8)
    store_one(buffer, position, size, value)
    low = (value & (1 << 8 * size) - 1).to_bytes(size, "big")
    assert bytes(buffer) == b"\xaa" * position + low + b"\xaa" * (32 - position - size)


@example(0)
@example(-1)
@example(2**63 - 1)
@example(-(2**63))
@given(int64s)
def test_varlongs_are_written_and_read_as_zigzag_with_seven_bits_a_byte(value):
    buffer = padded_buffer(32)
    written = np.zeros(6, dtype=np.int64)
    store_varints(buffer, value, written)
    expected = varint_of(zigzag_of(value))
    unsigned = varint_of(value % 2**64)
    assert bytes(buffer[: written[0]]) == expected
    assert bytes(buffer[16 : written[2]]) == unsigned
    assert written.tolist() == [
        len(expected),
        len(expected),
        16 + len(unsigned),
        len(unsigned),
        value,
        64 - (value % 2**64).bit_length(),
    ]
    read = np.zeros((3, 2), dtype=np.int64)
    load_varints(buffer, 0, len(expected), read)
    assert read[2].tolist() == [value, len(expected)]


@example(-(2**31))
@example(2**31 - 1)
@given(int32s)
def test_varints_of_int32_take_up_to_five_bytes(value):
    content = varint_of(zigzag_of(value))
    read = np.zeros((3, 2), dtype=np.int64)
    load_varints(padded_copy(b"\xff\xff" + content), 2, 2 + len(content), read)
    assert read[1].tolist() == [value, 2 + len(content)]
    assert read[0].tolist() == [zigzag_of(value), 2 + len(content)]


@pytest.mark.parametrize(
    ("content", "results"),
    [
        (b"", [(0, -1), (0, -1), (0, -1)]),
        (b"\x80", [(0, -1), (0, -1), (0, -1)]),
        (b"\xff\xff\xff\xff", [(0, -1), (0, -1), (0, -1)]),
        # What overflows 32 bits in the fifth byte is dropped, as in Java.
        (b"\xff\xff\xff\xff\x7f", [(2**32 - 1, 5), (-(2**31), 5), (-(2**34), 5)]),
        (b"\x80\x80\x80\x80\x80\x00", [(0, -1), (0, -1), (0, 6)]),
        (b"\xff" * 9 + b"\x01", [(0, -1), (0, -1), (-(2**63), 10)]),
        (b"\xff" * 10 + b"\x00", [(0, -1), (0, -1), (0, -1)]),
        (b"\x81\x00", [(1, 2), (-1, 2), (-1, 2)]),
    ],
)
def test_a_varint_that_does_not_end_in_time_is_not_read(content, results):
    read = np.zeros((3, 2), dtype=np.int64)
    # A varint must end before `end`, whatever lies behind.
    load_varints(padded_copy(content + b"\x00"), 0, len(content), read)
    assert [tuple(row) for row in read.tolist()] == results


@given(st.binary(max_size=40), st.binary(max_size=9), st.data())
def test_ranges_are_equal_if_their_bytes_are_whatever_lies_around(content, before, data):
    other = bytearray(content)
    if content and data.draw(st.booleans()):
        other[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    first = padded_copy(before + content + b"\x00" * 8)
    second = padded_copy(bytes(other) + b"\xff" * 8)
    assert equal(first, len(before), second, 0, len(content)) == (content == other)


@given(st.binary(min_size=0, max_size=200), st.integers(0, 20))
def test_a_copy_changes_only_its_target_range(content, position):
    target = np.full(256, 0x55, dtype=np.uint8)
    copy(target, position, padded_copy(b"xy" + content), 2, len(content))
    rest = 256 - position - len(content)
    assert bytes(target) == b"\x55" * position + content + b"\x55" * rest


def test_a_padded_copy_has_zeros_behind_its_content():
    buffer = padded_copy(memoryview(b"abc"))
    assert bytes(buffer) == b"abc" + bytes(PADDING_BYTES)
    assert buffer.flags.writeable
