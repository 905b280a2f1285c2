"""Pending offsets: who has what until their transactions end."""

from __future__ import annotations

from offsetd_coordinator.pending import PendingOffset, PendingOffsets

FIRST = (b"g", b"orders", 0)
SECOND = (b"g", b"orders", 1)
OTHER = (b"h", b"orders", 0)


def pending(revision: int) -> PendingOffset:
    return PendingOffset(revision=revision, value=None)


def test_the_end_of_a_transaction_takes_what_its_producer_had_and_no_more() -> None:
    offsets = PendingOffsets()
    offsets.add(7, FIRST, pending(1))
    offsets.add(7, OTHER, pending(2))
    offsets.add(8, FIRST, pending(3))
    assert offsets.end(7) == {FIRST: pending(1), OTHER: pending(2)}
    assert offsets.partitions(b"g") == {(b"orders", 0)}
    assert set(offsets.group_ids()) == {b"g"}
    assert offsets.end(7) == {}
    assert offsets.end(8) == {FIRST: pending(3)}
    assert len(offsets) == 0
    assert not set(offsets.group_ids())


def test_a_later_record_of_a_transaction_replaces_an_earlier_one() -> None:
    offsets = PendingOffsets()
    offsets.add(7, FIRST, pending(1))
    offsets.add(7, FIRST, pending(5))
    assert len(offsets) == 1
    assert offsets.end(7) == {FIRST: pending(5)}


def test_a_dropped_offset_is_dropped_for_every_producer() -> None:
    offsets = PendingOffsets()
    offsets.add(7, FIRST, pending(1))
    offsets.add(8, FIRST, pending(2))
    offsets.add(8, SECOND, pending(3))
    offsets.drop(FIRST)
    offsets.drop(OTHER)
    assert offsets.partitions(b"g") == {(b"orders", 1)}
    assert offsets.end(7) == {}
    assert offsets.end(8) == {SECOND: pending(3)}
