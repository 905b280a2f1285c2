"""The kernels' UTF-8 against Python's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsetd_storage.kernels import padded_copy
from offsetd_storage.kernels.utf8 import utf16_length

pytestmark = pytest.mark.kernel


def length(encoded: bytes) -> int:
    return utf16_length(padded_copy(b"x" + encoded), 1, len(encoded))


def expected_length(encoded: bytes) -> int:
    try:
        return len(encoded.decode().encode("utf-16-le")) // 2
    except UnicodeDecodeError:
        return -1


@given(st.text().map(str.encode) | st.binary() | st.binary(min_size=9).map(b"12345678".__add__))
def test_the_length_in_utf16_units_is_pythons_and_what_is_not_utf8_has_none(encoded: bytes) -> None:
    assert length(encoded) == expected_length(encoded)


@pytest.mark.parametrize("before", [b"", b"1234567", b"12345678"])
@pytest.mark.parametrize(
    "encoded",
    [
        "\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff".encode(),
        b"\xc0\x80",  # overlong
        b"\xc1\xbf",
        b"\xe0\x9f\xbf",
        b"\xf0\x8f\xbf\xbf",
        b"\xed\xa0\x80",  # surrogates
        b"\xed\xbf\xbf",
        b"\xf4\x90\x80\x80",  # beyond U+10FFFF
        b"\xf5\x80\x80\x80",
        b"\x80",
        b"\xc3",
        b"\xe2\x82",
        b"\xf0\x9f\x9a",
        b"\xc3\x28",
        b"\xff",
    ],
)
def test_the_edges_of_utf8_are_where_python_has_them(before: bytes, encoded: bytes) -> None:
    assert length(before + encoded) == expected_length(before + encoded)
