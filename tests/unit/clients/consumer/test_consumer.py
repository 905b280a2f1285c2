"""offsetd_clients.sync.consumer, with a server that is in memory."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from offsetd_clients import (
    Bounds,
    Consumer,
    ConsumerSettings,
    Item,
    LeaseTerms,
    NotAssigned,
    Source,
    StartUnknown,
    TopicPartition,
)
from offsets_in_memory import OffsetsInMemory

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
SETTINGS = ConsumerSettings(
    lease=LeaseTerms(holder="me", ttl_s=60), auto_commit_interval_s=None, idle_wait_s=0.001
)


class Clock:
    """Stands, unless it is moved."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class SlowToLook(Source[str]):
    """Ten items; to be asked for a partition's end takes a second."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.reads: list[int] = []

    def partition_counts(self) -> dict[str, int]:
        return {"a": 1}

    def bounds(self, topic_partition: TopicPartition) -> Bounds:
        self.clock.now_s += 1
        return Bounds(0, 10)

    def read(self, topic_partition: TopicPartition, offset: int, items_max: int) -> list[Item[str]]:
        self.reads.append(offset)
        return [Item(topic_partition, each, each + 1, "") for each in range(offset, 10)]


def test_nothing_is_read_while_there_are_items_to_hand_out() -> None:
    clock = Clock()
    source = SlowToLook(clock)
    client: Any = OffsetsInMemory()
    with Consumer(client, "g", source, SETTINGS, monotonic_s=clock) as consumer:
        assert next(consumer).offset == 0
        clock.now_s += 2 * SETTINGS.source_interval_s  # The source is to be looked at.
        assert next(consumer).offset == 1
    assert source.reads == [0]


class Missing(Source[str]):
    """Begins at 10, and says so of what is committed before that."""

    def partition_counts(self) -> dict[str, int]:
        return {"a": 2}

    def assign(self, committed: Any) -> dict[TopicPartition, int]:
        gone = [each for each, stored in committed.items() if stored and stored.offset < 10]
        if gone:
            raise LookupError(gone)
        return {}

    def read(self, topic_partition: TopicPartition, offset: int, items_max: int) -> list[Item[str]]:
        return [Item(topic_partition, offset, offset + 1, "")]


def test_what_cannot_begin_where_it_is_committed_begins_where_it_is_sought() -> None:
    client: Any = OffsetsInMemory({A0: 3, A1: 4})
    with Consumer(client, "g", Missing(), SETTINGS) as consumer:
        for each in (A0, A1):
            with pytest.raises(LookupError):
                consumer.poll()
            with pytest.raises(NotAssigned):
                consumer.seek(TopicPartition("b", 0), 0)
            consumer.seek(each, 11)
        assert consumer.assignment == set()
        assert next(consumer).offset == 11
        assert consumer.positions == {A0: 11, A1: 11}
        consumer.commit()
    assert client.stored == {A0: 11, A1: 11}


def test_what_start_does_not_know_begins_where_it_is_sought() -> None:
    client: Any = OffsetsInMemory({A0: 30})
    settings = attrs.evolve(SETTINGS, start="error")
    with Consumer(client, "g", Missing(), settings) as consumer:
        with pytest.raises(StartUnknown):
            consumer.poll()
        consumer.seek(A1, 5)
        with pytest.raises(ValueError, match="-1"):
            consumer.seek(A0, -1)
        assert next(consumer).offset == 30
        assert consumer.positions == {A0: 30, A1: 5}


def test_what_is_sought_while_partitions_are_taken_holds() -> None:
    client: Any = OffsetsInMemory()

    def start(topic_partition: TopicPartition) -> int:
        consumer.seek(topic_partition, 20)
        return 15

    consumer = Consumer(client, "g", Missing(), attrs.evolve(SETTINGS, start=start))
    with consumer:
        assert next(consumer).offset == 20
