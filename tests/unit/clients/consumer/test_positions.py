"""Positions move by being acknowledged; what is processed and not committed is sent, once."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from offsetd_clients import Bounds, CommittedOffset, OffsetToCommit, TopicPartition
from offsetd_clients.consumer.errors import NotAssigned
from offsetd_clients.consumer.positions import Backlog, Position, Positions
from offsetd_clients.consumer.source import Item

A, B = TopicPartition("a", 0), TopicPartition("b", 1)


def committed(offset: int, leader_epoch: int | None = None) -> CommittedOffset:
    return CommittedOffset(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata="",
        commit_time=datetime(2026, 1, 1, tzinfo=UTC),
        expire_time=None,
        revision=1,
        end_offset=None,
    )


def item(topic_partition: TopicPartition, offset: int, size: int = 1) -> Item[str]:
    return Item(topic_partition, offset, offset + size, "value")


def begun() -> Positions:
    """At what is committed: nothing is to be sent."""
    positions = Positions()
    positions.assign({A: 10, B: 20}, {A: committed(10), B: committed(20)})
    return positions


def sent(positions: Positions) -> dict[TopicPartition, int]:
    """What is to be committed, and then is."""
    batch = positions.to_commit()
    positions.note_committed(batch)
    return {each: offset.offset for each, offset in batch.items()}


def test_what_is_given_out_is_not_processed() -> None:
    positions = begun()
    positions.give(item(A, 10))
    assert positions.to_commit() == {}
    positions.acknowledge_all()
    assert sent(positions) == {A: 11}


def test_what_is_unchanged_is_not_sent_again() -> None:
    positions = begun()
    for offset in (10, 11):
        positions.give(item(A, offset))
    positions.acknowledge_all()
    assert sent(positions) == {A: 12}
    assert positions.to_commit() == {}
    positions.acknowledge_all()
    assert positions.to_commit() == {}
    positions.seek(A, 12)
    assert positions.to_commit() == {}


def test_a_commit_in_doubt_is_sent_again() -> None:
    positions = begun()
    positions.give(item(A, 10))
    positions.acknowledge_all()
    positions.note_in_doubt(positions.to_commit())
    assert sent(positions) == {A: 11}
    assert positions.to_commit() == {}


def test_after_a_commit_in_doubt_going_back_is_sent() -> None:
    positions = begun()
    positions.give(item(A, 10))
    positions.acknowledge_all()
    positions.note_in_doubt(positions.to_commit())
    positions.seek(A, 10)  # What may be stored is 11.
    assert sent(positions) == {A: 10}


def test_what_was_processed_during_a_commit_is_sent_by_the_next() -> None:
    positions = begun()
    positions.give(item(A, 10))
    positions.acknowledge_all()
    batch = positions.to_commit()
    positions.give(item(A, 11))
    positions.acknowledge_all()
    positions.note_committed(batch)
    assert sent(positions) == {A: 12}


def test_a_start_that_is_not_committed_is_to_be() -> None:
    positions = Positions()
    positions.assign({A: 7, B: 3}, {B: committed(5)})
    assert sent(positions) == {A: 7, B: 3}


def test_an_acknowledged_item_takes_along_what_its_partition_gave_before() -> None:
    positions = begun()
    for each in (item(A, 10), item(A, 11), item(A, 12), item(B, 20)):
        positions.give(each)
    positions.acknowledge(item(A, 11))
    assert sent(positions) == {A: 12}
    positions.acknowledge(item(A, 10))  # Said again, or late: nothing goes back.
    assert positions.to_commit() == {}
    positions.acknowledge(item(B, 20))
    assert sent(positions) == {B: 21}


@pytest.mark.parametrize(
    "stale",
    [item(A, 10), item(TopicPartition("c", 0), 0)],
    ids=["not given out", "another's partition"],
)
def test_what_was_not_given_out_cannot_be_acknowledged(stale: Item[str]) -> None:
    positions = begun()
    with pytest.raises(NotAssigned):
        positions.acknowledge(stale)


def test_what_was_given_out_before_the_partition_was_lost_cannot_be_acknowledged() -> None:
    positions = begun()
    positions.give(item(A, 10))
    positions.clear()
    with pytest.raises(NotAssigned):
        positions.acknowledge(item(A, 10))
    positions.assign({A: 10}, {A: committed(10)})
    with pytest.raises(NotAssigned):
        positions.acknowledge(item(A, 10))


def test_a_seek_forgets_what_was_given_out() -> None:
    positions = begun()
    positions.give(item(A, 10))
    positions.seek(A, 3)
    positions.acknowledge_all()
    assert sent(positions) == {A: 3}
    with pytest.raises(NotAssigned):
        positions.seek(TopicPartition("c", 0), 1)


def given_two() -> Positions:
    """Of A, the items 10 and 11 are given out and not processed."""
    positions = begun()
    positions.give(item(A, 10))
    positions.give(item(A, 11))
    return positions


def test_going_on_elsewhere_waits_for_what_was_given_out() -> None:
    positions = given_two()
    positions.go_on(A, 50)
    assert positions.to_commit() == {}
    positions.acknowledge(item(A, 10))
    assert sent(positions) == {A: 11}
    positions.go_on(A, 70)  # From 50, where it is gone, too.
    positions.acknowledge(item(A, 11))
    assert sent(positions) == {A: 70}
    positions.go_on(A, 80)  # Nothing is given out.
    assert sent(positions) == {A: 80}


def test_what_is_given_out_behind_what_is_missing_takes_it_along() -> None:
    positions = given_two()
    positions.go_on(A, 50)
    positions.give(item(A, 50))
    positions.give(item(A, 51))
    positions.acknowledge(item(A, 11))
    assert sent(positions) == {A: 12}
    positions.acknowledge(item(A, 51))
    assert sent(positions) == {A: 52}
    positions.go_on(A, 60)
    positions.seek(A, 5)
    positions.give(item(A, 5))
    positions.acknowledge(item(A, 5))
    assert sent(positions) == {A: 6}


@pytest.mark.parametrize(("offset", "processed"), [(0, 0), (11, 10)])
def test_where_it_goes_back_what_was_given_out_is_not_processed(
    offset: int, processed: int
) -> None:
    positions = given_two()
    positions.go_on(A, offset)
    assert positions.of(A) == Position(processed)
    with pytest.raises(NotAssigned):
        positions.acknowledge(item(A, 11))
    positions.give(item(A, offset))
    positions.acknowledge_all()
    assert sent(positions) == {A: offset + 1}


def test_a_commit_brings_the_leader_epoch_of_the_last_item_and_the_end() -> None:
    positions = Positions()
    positions.assign({A: 10, B: 20}, {A: committed(10, 4), B: committed(19, 4)})
    assert positions.of(A) == Position(10, 4)
    assert positions.of(B) == Position(20)  # Not where the epoch was committed.
    positions.give(Item(A, 10, 11, "value", leader_epoch=5))
    positions.acknowledge_all()
    positions.note_end(A, Bounds(0, 100))
    positions.note_end(B, Bounds(0, 15))  # An end that is behind already.
    assert positions.to_commit() == {
        A: OffsetToCommit(11, leader_epoch=5, end_offset=100),
        B: OffsetToCommit(20, end_offset=20),
    }
    assert positions.lag() == {A: 89, B: 0}


def test_a_backlog_gives_each_partition_its_turn_and_knows_when_there_is_nothing() -> None:
    backlog = Backlog()
    assert backlog.is_idle
    backlog.assign({B: 5, A: 0})
    assert backlog.next_read() == (A, 0)
    assert not backlog.has_items
    backlog.add(A, [item(A, 0), item(A, 1)])
    assert backlog.has_items
    assert backlog.next_read() == (B, 5)
    backlog.add(B, [])
    assert not backlog.is_idle
    assert [each.offset for each in backlog.take(1) + backlog.take(9)] == [0, 1]
    assert backlog.next_read() == (A, 2)
    backlog.add(A, [])
    assert backlog.is_idle
    backlog.look_again()
    assert not backlog.is_idle


def test_a_seek_drops_what_was_read_of_the_partition() -> None:
    backlog = Backlog()
    backlog.assign({A: 0, B: 0})
    backlog.add(A, [item(A, 0), item(A, 1)])
    backlog.add(B, [item(B, 0)])
    backlog.seek(A, 7)
    assert backlog.take(9) == [item(B, 0)]
    assert backlog.next_read() == (A, 7)
