"""A topic as a client of Kafka has it: written with acks=all, read from its beginning."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

if TYPE_CHECKING:
    from collections.abc import Iterator

CALL_S_MAX = 60


def create_topic(addresses: str, name: str, partitions: int = 1) -> None:
    """With three replicas. Returns when each broker knows a leader of each partition.

    A broker may just be down: tries until it is there.
    """
    admin = AdminClient({"bootstrap.servers": addresses, "log_level": 0})
    deadline_s = time.monotonic() + CALL_S_MAX
    while True:
        future = admin.create_topics([NewTopic(name, partitions, 3)])[name]
        try:
            future.result(CALL_S_MAX)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                break
            if time.monotonic() > deadline_s:
                raise
        else:
            break
    for address in addresses.split(","):
        while not _has_leaders(address, name, partitions):
            assert time.monotonic() < deadline_s, f"{address} does not know {name}"
            time.sleep(0.05)


def _has_leaders(address: str, name: str, partitions: int) -> bool:
    """Whether the broker knows the topic, or is down."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    try:
        metadata = admin.list_topics(timeout=5)
    except KafkaException:
        return True
    topic = metadata.topics.get(name)
    known = {} if topic is None else topic.partitions
    return len(known) == partitions and all(each.leader >= 0 for each in known.values())


def append(addresses: str, topic: str, values: list[str]) -> None:
    """Returns when all are acknowledged by the replicas in sync."""
    with appending(addresses, topic, values):
        pass


@contextmanager
def appending(addresses: str, topic: str, values: list[str]) -> Iterator[Producer]:
    """Sends them; at its end all have to be acknowledged by the replicas in sync."""
    settings = {"bootstrap.servers": addresses, "log_level": 0, "enable.idempotence": True}
    # A broker that is cut off answers nothing: another one is asked after some seconds.
    settings |= {"delivery.timeout.ms": CALL_S_MAX * 1000, "request.timeout.ms": 5000}
    producer = Producer(settings)
    errors: list[object] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    yield producer
    assert producer.flush(CALL_S_MAX) == 0
    assert errors == [None] * len(values)


def read(addresses: str, topic: str, count: int) -> list[str]:
    """The first records of partition 0."""
    settings = {"bootstrap.servers": addresses, "log_level": 0, "group.id": "unused"}
    deadline_s = time.monotonic() + CALL_S_MAX
    found: list[str] = []
    with closing(Consumer({**settings, "enable.auto.commit": False})) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while len(found) < count:
            assert time.monotonic() < deadline_s, f"{topic} has {found} only"
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.append(str(message.value() or b"", "utf-8"))
    return found
