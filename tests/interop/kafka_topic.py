"""A topic of a running broker, for tests that read it: written to, cut, widened, made anew."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from confluent_kafka import Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewPartitions,
    NewTopic,
)
from offsetd_clients import TopicPartition
from patience import PATIENCE_SECONDS
from server_process import poll

if TYPE_CHECKING:
    from collections.abc import Iterable

_NUMBERS: Final = count(1)


class KafkaTopic:
    """A new topic, named unlike all others of this run; or one that is there."""

    def __init__(
        self, address: str, partitions: int = 1, *, name: str = "", is_new: bool = True
    ) -> None:
        self.name = name or f"topic-{next(_NUMBERS)}"
        self.address = address
        self._admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        self._producer = Producer({"bootstrap.servers": address, "log_level": 0})
        if is_new:
            self._create(partitions)

    def at(self, partition: int) -> TopicPartition:
        return TopicPartition(self.name, partition)

    def produce(self, partition: int, values: Iterable[object]) -> None:
        """Returns when the broker has them."""
        for value in values:
            self._producer.produce(self.name, str(value), partition=partition)
        assert self._producer.flush(PATIENCE_SECONDS) == 0

    def delete_before(self, partition: int, offset: int) -> None:
        """As retention does."""
        at = KafkaTopicPartition(self.name, partition, offset)
        for future in self._admin.delete_records([at]).values():
            assert future.result(PATIENCE_SECONDS).low_watermark == offset

    def widen(self, partitions: int) -> None:
        """Makes it have so many partitions."""
        self._admin.create_partitions([NewPartitions(self.name, partitions)])[self.name].result(
            PATIENCE_SECONDS
        )
        self._wait_for(partitions)

    def make_anew(self, partitions: int) -> None:
        """Deletes it, and makes another one of its name."""
        self.delete()
        self._create(partitions)

    def delete(self) -> None:
        """Returns when the broker knows it no more."""
        self._admin.delete_topics([self.name])[self.name].result(PATIENCE_SECONDS)
        poll(lambda: self.name not in self._admin.list_topics().topics, PATIENCE_SECONDS)

    def _create(self, partitions: int) -> None:
        topic = NewTopic(self.name, partitions, 1)
        self._admin.create_topics([topic])[self.name].result(PATIENCE_SECONDS)
        self._wait_for(partitions)

    def _wait_for(self, partitions: int) -> None:
        """Until they can be written to."""

        def has_leaders() -> bool:
            found = self._producer.list_topics(self.name).topics[self.name].partitions
            return len(found) == partitions and all(each.leader >= 0 for each in found.values())

        poll(has_leaders, PATIENCE_SECONDS)
