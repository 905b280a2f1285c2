"""Numbers as protobuf writes them."""

import pytest
from google.protobuf.internal import encoder
from hypothesis import given
from hypothesis import strategies as st
from offsetd_coordinator.varints import decode_varints, encode_varint


@given(st.lists(st.integers(0, 2**63 - 1)))
def test_numbers_are_protobufs_and_come_back(numbers: list[int]) -> None:
    encoded = b"".join(map(encode_varint, numbers))
    assert encoded == b"".join(encoder._VarintBytes(number) for number in numbers)  # type: ignore[attr-defined]
    assert list(decode_varints(encoded)) == numbers


@pytest.mark.parametrize(
    ("raw", "problem"), [(b"\x80", "cut short"), (b"\x01\xff", "cut short"), (b"\xff" * 10, "long")]
)
def test_what_is_no_number_is_told(raw: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        list(decode_varints(raw))
