"""offsetd_clients.sync.consumer, with a server that is in memory."""

from __future__ import annotations

from typing import Any

from offsetd_clients import (
    Bounds,
    Consumer,
    ConsumerSettings,
    Item,
    LeaseTerms,
    Source,
    TopicPartition,
)
from offsets_in_memory import OffsetsInMemory

A0 = TopicPartition("a", 0)
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
