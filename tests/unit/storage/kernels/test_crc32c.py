from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsetd_storage.kernels import crc32c, padded_copy
from offsetd_storage.kernels.registry import kernel

pytestmark = pytest.mark.kernel


@kernel("int64(uint8[::1], int64, int64)")
def checksum_by_tables(buffer, start, end):
    return crc32c.extend_tables(0xFFFFFFFF, buffer, start, end) ^ 0xFFFFFFFF


@kernel("int64(uint8[::1], int64, int64, int64)")
def checksum_in_two_steps(buffer, start, middle, end):
    state = crc32c.extend(0xFFFFFFFF, buffer, start, middle)
    return crc32c.extend(state, buffer, middle, end) ^ 0xFFFFFFFF


BOTH = pytest.mark.parametrize("function", [crc32c.crc32c, checksum_by_tables])


def checksum_bit_by_bit(content: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in content:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


@BOTH
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        # RFC 3720, B.4.
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_known_values(function, content, expected):
    assert function(padded_copy(content), 0, len(content)) == expected


@BOTH
@given(st.binary(max_size=100), st.binary(max_size=9), st.binary(max_size=9))
def test_any_bytes_at_any_place(function, content, before, behind):
    buffer = padded_copy(before + content + behind)
    checksum = function(buffer, len(before), len(before) + len(content))
    assert checksum == checksum_bit_by_bit(content)


@given(st.binary(max_size=100), st.integers(0, 100))
def test_a_checksum_can_be_continued(content, middle):
    middle = min(middle, len(content))
    buffer = padded_copy(content)
    in_two_steps = checksum_in_two_steps(buffer, 0, middle, len(content))
    assert in_two_steps == checksum_bit_by_bit(content)


@given(content=st.binary(max_size=100), middle=st.integers(0, 100))
def test_a_checksum_can_be_continued_from_its_value(content, middle):
    middle = min(middle, len(content))
    buffer = padded_copy(content)
    crc = crc32c.continued_crc32c(0, buffer, 0, middle)
    assert crc == crc32c.crc32c(buffer, 0, middle)
    whole = crc32c.continued_crc32c(crc, buffer, middle, len(content))
    assert whole == crc32c.crc32c(buffer, 0, len(content))
