"""Pending offsets: who has what until their transactions end."""

from __future__ import annotations

from typing import Any, NoReturn

from offsetd_coordinator.state.pending_transactions import PendingOffset, PendingOffsets
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from shards import NOW_MS, batch_of, offset_key, offset_value

FIRST = (b"g", b"orders", 0)
SECOND = (b"g", b"orders", 1)
OTHER = (b"h", b"orders", 0)


def pending(revision: int) -> PendingOffset:
    return PendingOffset(revision=revision, value=None)


def readable(revision: int, offset: int) -> PendingOffset:
    value = OffsetCommitValue(offset=offset, commit_timestamp_ms=NOW_MS)
    return PendingOffset(revision=revision, value=value)


def batch(base_offset: int, *offset_ids: tuple[bytes, bytes, int]) -> bytes:
    """A batch with offset 100 for each."""
    return batch_of(
        base_offset,
        *(
            (offset_key(group.decode(), topic.decode(), partition), offset_value(100))
            for group, topic, partition in offset_ids
        ),
    )


def test_the_end_of_a_transaction_takes_what_its_producer_had_and_no_more() -> None:
    offsets = PendingOffsets()
    offsets.add(7, FIRST, pending(1))
    offsets.add(7, OTHER, pending(2))
    offsets.add(8, FIRST, pending(3))
    assert offsets.end(7) == ((), {FIRST: pending(1), OTHER: pending(2)})
    assert offsets.partitions(b"g") == {(b"orders", 0)}
    assert offsets.group_ids() == {b"g"}
    assert offsets.end(7) == ((), {})
    assert offsets.end(8) == ((), {FIRST: pending(3)})
    assert (len(offsets), offsets.producer_count, offsets.group_ids()) == (0, 0, set())


def test_of_the_records_of_a_transaction_for_one_offset_the_newest_counts() -> None:
    offsets = PendingOffsets()
    offsets.add(7, FIRST, pending(5))
    offsets.add(7, FIRST, pending(1))
    offsets.add_batch(7, batch(9, FIRST))
    assert len(offsets) == 1
    assert offsets.end(7) == ((), {FIRST: readable(9, 100)})


def test_a_dropped_offset_is_dropped_for_every_producer() -> None:
    offsets = PendingOffsets()
    offsets.add(7, FIRST, pending(1))
    offsets.add_batch(8, batch(2, FIRST, SECOND))
    offsets.drop(FIRST)
    offsets.drop(OTHER)
    assert offsets.partitions(b"g") == {(b"orders", 1)}
    assert offsets.producer_count == 1
    assert offsets.end(7) == ((), {})
    assert offsets.end(8) == ((), {SECOND: readable(3, 100)})


def test_batches_that_nobody_asks_about_come_back_as_they_were() -> None:
    offsets = PendingOffsets()
    first, second = batch(1, FIRST), batch(2, FIRST, OTHER)
    offsets.add_batch(7, first)
    offsets.add_batch(7, second)
    offsets.add_batch(8, first)
    assert offsets.producer_count == 2
    assert offsets.end(7) == ([first, second], {})
    assert offsets.producer_count == 1


def test_batches_are_read_when_somebody_asks() -> None:
    offsets = PendingOffsets()
    offsets.add_batch(7, batch(1, FIRST))
    offsets.add_batch(7, batch(2, SECOND, OTHER))
    assert len(offsets) == 3
    assert offsets.group_ids() == {b"g", b"h"}
    assert offsets.partitions(b"g") == {(b"orders", 0), (b"orders", 1)}
    assert offsets.partitions(b"nobody") == set()
    everything = {FIRST: readable(1, 100), SECOND: readable(2, 100), OTHER: readable(3, 100)}
    assert offsets.end(7) == ((), everything)


class NeverWalked(dict[int, Any]):
    """Transactions that may be looked up, but not gone through."""

    def __iter__(self) -> NoReturn:
        raise AssertionError("walks all producers")

    keys = values = items = __iter__  # type: ignore[assignment]


def test_nobody_walks_all_producers_for_one_offset() -> None:
    offsets = PendingOffsets()
    for producer_id in range(5):
        offsets.add_batch(producer_id, batch(producer_id, FIRST, OTHER))
    offsets.add(5, SECOND, pending(9))
    assert offsets.group_ids() == {b"g", b"h"}
    offsets._transactions = NeverWalked(offsets._transactions)
    offsets.drop(SECOND)
    offsets.drop(FIRST)
    offsets.end(4)
    assert offsets.partitions(b"g") == set()
    assert offsets.partitions(b"h") == {(b"orders", 0)}
    assert (offsets.group_ids(), offsets.producer_count) == ({b"h"}, 4)
    for producer_id in range(4):
        assert offsets.end(producer_id).offsets == {OTHER: readable(producer_id + 1, 100)}
    assert offsets.group_ids() == set()
