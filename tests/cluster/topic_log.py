"""A topic as a client of Kafka has it: written with acks=all, read from its beginning."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

CALL_S_MAX = 60


class Committed(NamedTuple):
    """A record of a committed transaction, or one without a transaction."""

    partition: int
    offset: int
    key: bytes
    value: bytes | None


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


def committed(addresses: str, topic: str, partitions: Collection[int]) -> list[Committed]:
    """All that is committed now, partition by partition."""
    settings = {
        "bootstrap.servers": addresses,
        "log_level": 0,
        "group.id": "unused",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    deadline_s = time.monotonic() + CALL_S_MAX
    unread, found = {*partitions}, list[Committed]()
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
        while unread:
            assert time.monotonic() < deadline_s, f"{topic} cannot be read: {unread}"
            message = consumer.poll(1)
            if message is None:
                continue
            if (error := message.error()) is None:
                where = message.partition() or 0, message.offset() or 0
                found.append(Committed(*where, bytes(message.key() or b""), message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(message.partition() or 0)
    return sorted(found, key=lambda each: each[:2])


def open_partitions(addresses: str, topic: str, partitions: Collection[int]) -> set[int]:
    """Those with records of a transaction that has not ended."""
    admin = AdminClient({"bootstrap.servers": addresses, "log_level": 0})
    ends = [
        {
            each.partition: future.result(CALL_S_MAX).offset
            for each, future in admin.list_offsets(
                {TopicPartition(topic, each): OffsetSpec.latest() for each in partitions},
                isolation_level=level,
                request_timeout=CALL_S_MAX,
            ).items()
        }
        for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
    ]
    stable, all_ends = ends
    return {each for each in partitions if stable[each] < all_ends[each]}
