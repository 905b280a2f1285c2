"""Messages of protobuf with a few bytes put in, changed or taken out, drawn by Hypothesis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from google.protobuf.message import Message


@st.composite
def damaged(draw: st.DrawFn, messages: st.SearchStrategy[Message]) -> bytes:
    """The bytes of a message, damaged in up to three places."""
    encoded = bytearray(draw(messages).SerializeToString())
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(encoded)))
        encoded[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=3))
    return bytes(encoded)
