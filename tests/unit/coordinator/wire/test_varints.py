"""Numbers as protobuf writes them."""

import pytest
from google.protobuf.wrappers_pb2 import UInt64Value
from hypothesis import given
from hypothesis import strategies as st
from offsetd_coordinator.wire.varints import decode_varints, encode_varint


@given(st.integers(1, 2**63 - 1))
def test_a_number_is_protobufs(number: int) -> None:
    tag = b"\x08"
    assert tag + encode_varint(number) == UInt64Value(value=number).SerializeToString()


@given(st.lists(st.integers(0, 2**63 - 1)))
def test_numbers_come_back(numbers: list[int]) -> None:
    assert list(decode_varints(b"".join(map(encode_varint, numbers)))) == numbers


@pytest.mark.parametrize(
    ("raw", "problem"), [(b"\x80", "cut short"), (b"\x01\xff", "cut short"), (b"\xff" * 10, "long")]
)
def test_what_is_no_number_is_told(raw: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        list(decode_varints(raw))
