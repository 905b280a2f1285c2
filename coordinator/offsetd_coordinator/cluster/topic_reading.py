"""Reading the committed records of a topic's partitions, up to their end."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import structlog

from offsetd_coordinator.errors import CoordinatorError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from offsetd_coordinator.cluster.kafka_clients import KafkaClients

_log = structlog.get_logger(__name__)

_CALL_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05
_RETRY_SECONDS: Final = 0.2
_MESSAGES_MAX: Final = 10_000


class TopicUnreadable(CoordinatorError):
    """The brokers do not answer, or a transaction stays open. The message says which."""

    reason = "KAFKA_UNAVAILABLE"


def ask_ends(
    admin: Any,
    topic: str,
    partitions: Collection[int],
    *,
    committed_only: bool,
    is_start: bool = False,
    seconds: float = _CALL_SECONDS,
) -> dict[int, int]:
    """Asks once for what `topic_ends` returns. Raises KafkaException and TimeoutError."""
    from confluent_kafka import IsolationLevel, TopicPartition  # noqa: PLC0415
    from confluent_kafka import admin as kafka_admin  # noqa: PLC0415

    spec: Any = kafka_admin.OffsetSpec  # type: ignore[attr-defined]
    wanted = spec.earliest() if is_start else spec.latest()
    level = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED
    asked = {TopicPartition(topic, each): wanted for each in partitions}
    futures = admin.list_offsets(asked, isolation_level=level, request_timeout=seconds)
    ends = {each.partition: future.result(seconds).offset for each, future in futures.items()}
    # While a leader changes, librdkafka answers -1001 (no offset) and no error.
    if unknown := sorted(each for each, end in ends.items() if end < 0):
        raise TimeoutError(f"no offset for partitions {unknown}")
    return ends


def topic_ends(
    clients: KafkaClients,
    topic: str,
    partitions: Collection[int],
    *,
    committed_only: bool = False,
    is_start: bool = False,
) -> dict[int, int]:
    """The Kafka offsets after the last record, or after the last decided one; or the starts.

    Raises TopicUnreadable.
    """
    from confluent_kafka import KafkaException  # noqa: PLC0415

    deadline_s = time.monotonic() + _CALL_SECONDS
    while True:
        # A new client each time: it may go on with what it knew before a leader changed.
        admin = clients.admin()
        try:
            return ask_ends(
                admin, topic, partitions, committed_only=committed_only, is_start=is_start
            )
        except (KafkaException, TimeoutError) as error:
            if time.monotonic() > deadline_s:
                raise TopicUnreadable(
                    "the ends of topic {topic} cannot be read: {cause}",
                    topic=topic,
                    cause=str(error),
                ) from error
            time.sleep(_RETRY_SECONDS)


def wait_until_decided(
    clients: KafkaClients, topic: str, ends: Mapping[int, int], *, seconds: float
) -> None:
    """Waits until all transactions below these Kafka offsets are decided. Raises TopicUnreadable.

    A transaction that its writer left open ends after `cluster.transaction.timeout.ms`.
    """
    deadline_s = time.monotonic() + seconds
    is_told = False
    while True:
        decided = topic_ends(clients, topic, ends, committed_only=True)
        open_ones = sorted(each for each, end in ends.items() if decided[each] < end)
        if not open_ones:
            return
        if time.monotonic() > deadline_s:
            raise TopicUnreadable(
                "topic {topic} has an open transaction in partitions {open_ones}: try again when"
                " the brokers have ended it",
                topic=topic,
                open_ones=open_ones,
            )
        if not is_told:
            _log.info("waiting for an open transaction", topic=topic, partitions=open_ones)
            is_told = True
        time.sleep(_POLL_SECONDS)


def committed_messages(
    clients: KafkaClients,
    topic: str,
    ends: Mapping[int, int],
    *,
    starts: Mapping[int, int] | None = None,
) -> Iterator[Any]:
    """The committed messages below `ends`, in the order of each partition, partitions mixed.

    All transactions below `ends` are decided. Raises TopicUnreadable.
    """
    from confluent_kafka import KafkaError, TopicPartition  # noqa: PLC0415

    places = {each: (starts or {}).get(each, 0) for each in ends}
    left = {each for each, end in ends.items() if places[each] < end}
    heard_s = time.monotonic()
    with closing(clients.reader()) as consumer:
        consumer.assign([TopicPartition(topic, each, places[each]) for each in sorted(left)])
        while left:
            messages = consumer.consume(_MESSAGES_MAX, _POLL_SECONDS)
            if messages:
                heard_s = time.monotonic()
            elif time.monotonic() - heard_s > _CALL_SECONDS:
                raise TopicUnreadable("topic {topic} cannot be read to its end", topic=topic)
            for message in messages:
                partition, error = message.partition(), message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    _log.warning("a topic cannot be read now", topic=topic, reason=error.str())
                    continue
                if partition not in left:
                    continue
                is_end = error is not None
                if not is_end and message.offset() < ends[partition]:
                    yield message
                if message.offset() + (not is_end) >= ends[partition]:
                    left.discard(partition)
