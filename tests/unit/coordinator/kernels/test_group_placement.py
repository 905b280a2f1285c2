"""The kernels' rule for the log partition of a group against that in Python."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsetd_coordinator.kernels.table.group_placement import java_hash
from offsetd_storage.kernels import padded_copy
from offsetd_storage.offsets_topic import placement

pytestmark = pytest.mark.kernel


@given(st.text())
def test_the_hash_of_a_name_is_javas(text: str) -> None:
    encoded = text.encode()
    hashed = java_hash(padded_copy(encoded), 0, len(encoded))
    assert hashed == placement.java_hash(text)


@pytest.mark.parametrize("text", ["", "a", "polygenelubricants", "grüppe", "🚀", "\U0010ffff" * 9])
def test_known_names_hash_as_in_java(text: str) -> None:
    encoded = text.encode()
    hashed = java_hash(padded_copy(encoded), 0, len(encoded))
    assert hashed == placement.java_hash(text)
