"""Claims: what a node writes of itself, and what it makes of the claims that it reads."""

from __future__ import annotations

import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsetd_coordinator.cluster.claims import CLAIM_KEY, Claim, MalformedClaim
from offsetd_coordinator.cluster.copy_checkpoint import CopyCheckpoint
from offsetd_storage.offsets_topic.schemas.keys import UnknownKey, decode_key

CLAIM = Claim(epoch=4, node_id="n1", address="a:1", producers=8, first_offset=70, shift=3)
CLAIMS = st.builds(
    Claim,
    epoch=st.integers(1, 2**40),
    node_id=st.text(),
    address=st.text(),
    producers=st.integers(1, 64),
    first_offset=st.integers(0, 2**62),
    shift=st.integers(0, 2**62),
    read_lease_ms=st.integers(0, 2**31),
    is_released=st.booleans(),
)


@given(CLAIMS)
def test_a_claim_is_read_as_it_was_written(claim: Claim) -> None:
    assert Claim.decode(claim.encode()) == claim


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff",
        b"null",
        b"7",
        b"[]",
        b"{}",
        b'{"version":1}',
        b'{"version":2}',
        json.dumps({**attrs.asdict(CLAIM), "version": 2}).encode(),
    ],
)
def test_a_value_that_is_no_claim_is_refused(value: bytes) -> None:
    with pytest.raises(MalformedClaim):
        Claim.decode(value)


def test_a_field_of_a_newer_node_is_left_out() -> None:
    newer = json.dumps({**attrs.asdict(CLAIM), "version": 1, "more": 1}).encode()
    assert Claim.decode(newer) == CLAIM


def test_no_record_of_a_group_has_the_key_of_a_claim() -> None:
    assert isinstance(decode_key(CLAIM_KEY), UnknownKey)


def test_the_newest_claim_is_kept_in_whatever_order_claims_are_read() -> None:
    released = attrs.evolve(CLAIM, is_released=True)
    later = attrs.evolve(CLAIM, epoch=5)
    for order in ((CLAIM, released), (released, CLAIM), (released, CLAIM, released)):
        copies = CopyCheckpoint(topic_id="t", cluster_id="c")
        for claim in order:
            copies.note_claim(0, claim)
        assert copies.claims[0] == released
    for order in ((CLAIM, released, later), (later, released, CLAIM)):
        copies = CopyCheckpoint(topic_id="t", cluster_id="c")
        for claim in order:
            copies.note_claim(0, claim)
        assert copies.claims[0] == later
