"""offsetd_clients.kafka.consumer: what is committed of a partition that goes on elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pytest
from offsetd_clients import ConsumerSettings, Item, LeaseTerms, Source, TopicPartition
from offsetd_clients.kafka import consumer as module
from offsetd_clients.kafka.consumer import KafkaConsumer
from offsetd_clients.kafka.source import GoesOn
from offsets_in_memory import OffsetsInMemory

if TYPE_CHECKING:
    from collections.abc import Callable

P0 = TopicPartition("t", 0)


class Messages(Source[str]):
    """At offsets 0 to 2, and from 50 up to `end`; what lies between is gone."""

    def __init__(self) -> None:
        self.end = 53

    def partition_counts(self) -> dict[str, int]:
        return {"t": 1}

    def read(self, topic_partition: TopicPartition, offset: int, items_max: int) -> list[Item[str]]:
        if offset == 3:
            raise GoesOn(topic_partition, 50)
        end = 3 if offset < 3 else self.end
        return [Item(topic_partition, each, each + 1, "") for each in range(offset, end)]

    def close(self) -> None:
        pass


@pytest.fixture
def messages() -> Messages:
    return Messages()


@pytest.fixture
def consumer(messages: Messages, monkeypatch: pytest.MonkeyPatch) -> Callable[..., KafkaConsumer]:
    """Makes one that reads `messages`, and commits when it is told to."""
    monkeypatch.setattr(module, "KafkaSource", lambda *_arguments, **_options: messages)

    def make(acknowledgement: Literal["implicit", "explicit"]) -> KafkaConsumer:
        settings = ConsumerSettings(
            acknowledgement=acknowledgement,
            auto_commit_interval_s=None,
            idle_wait_s=0.001,
            lease=LeaseTerms(holder="me"),
        )
        client: Any = OffsetsInMemory()
        return KafkaConsumer(client, "g", ["t"], {}, settings)

    return make


def test_what_is_not_acknowledged_is_not_passed_by_going_on_elsewhere(
    consumer: Callable[..., KafkaConsumer],
) -> None:
    with consumer("explicit") as reader:
        items = [next(reader) for _ in range(4)]
        assert [each.offset for each in items] == [0, 1, 2, 50]
        reader.commit()
        assert reader.committed == {P0: 0}
        reader.commit(items[0])
        assert reader.committed == {P0: 1}
        reader.commit(items[3])
        assert reader.committed == {P0: 51}


def test_what_is_missing_is_passed_when_what_came_before_is_acknowledged(
    consumer: Callable[..., KafkaConsumer], messages: Messages
) -> None:
    messages.end = 50
    with consumer("explicit") as reader:
        items = reader.poll()
        assert [each.offset for each in items] == [0, 1, 2]
        reader.ack(items[1])
        assert reader.poll(timeout_s=0) == []
        assert reader.positions == {P0: 2}
        reader.commit(items[2])
        assert reader.committed == {P0: 50}


def test_without_acknowledgement_it_is_passed_at_once(
    consumer: Callable[..., KafkaConsumer],
) -> None:
    with consumer("implicit") as reader:
        assert [next(reader).offset for _ in range(4)] == [0, 1, 2, 50]
        assert reader.positions == {P0: 50}
