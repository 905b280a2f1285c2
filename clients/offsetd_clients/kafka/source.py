"""Makes topics of a Kafka cluster the source of a consumer. The offsets are committed elsewhere."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NoReturn

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from offsetd_clients import Bounds, Item, TopicPartition
from offsetd_clients.kafka.out_of_range import (
    RULES,
    OutOfRangeRule,
    PositionGone,
    PositionReset,
    librdkafka_config,
    reset_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from offsetd_clients import CommittedOffset

_NO_OFFSET: Final = -1001  # The watermark of a partition that was not fetched yet.
_LOGGER: Final = logging.getLogger("offsetd_clients.kafka")


class TopicMissing(LookupError):
    """Kafka does not have a topic that the consumer should read."""


class GoesOn(Exception):
    """The rule resets a partition: the consumer must continue at the new offset."""

    def __init__(self, topic_partition: TopicPartition, offset: int) -> None:
        super().__init__(f"{topic_partition} goes on at {offset}")
        self.topic_partition = topic_partition
        self.offset = offset


class KafkaSource:
    """Reads the assigned partitions of topics through its own `confluent_kafka.Consumer`.

    `config` has librdkafka's settings, without those about offsets: see `librdkafka_config`.
    `out_of_range` is the rule for a position that Kafka does not have. A reset is logged and passed
    to `on_reset`. Calls to Kafka raise KafkaException after `timeout_s` seconds. Only one thread
    may use it.
    """

    def __init__(
        self,
        topics: Iterable[str],
        config: Mapping[str, Any],
        *,
        group_id: str,
        out_of_range: OutOfRangeRule = "error",
        on_reset: Callable[[PositionReset], object] = lambda _: None,
        timeout_s: float = 30.0,
        make_consumer: Callable[[dict[str, Any]], Consumer] = Consumer,
    ) -> None:
        if out_of_range not in RULES:
            raise ValueError(f"out_of_range = {out_of_range!r}: must be of {', '.join(RULES)}")
        self._topics = sorted(set(topics))
        self._rule = out_of_range
        self._on_reset = on_reset
        self._timeout_s = timeout_s
        self._consumer = make_consumer(librdkafka_config(config, group_id))
        self._counts: dict[str, int] = {}
        self._buffers: dict[TopicPartition, deque[Message]] = {}
        self._buffered_count = 0
        # The next offset to request, for each partition that librdkafka fetches.
        self._next: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, tuple[int, int]] = {}
        # The positions that librdkafka reported as missing, and that were requested once more
        # since.
        self._gone: dict[TopicPartition, int | None] = {}
        self._begun_anew: set[TopicPartition] = set()
        # The bounds of partitions that were just assigned, for the next call of `bounds`.
        self._seen_bounds: dict[TopicPartition, tuple[int, int]] = {}

    def close(self) -> None:
        """Closes the Kafka consumer."""
        self._consumer.close()

    def partition_counts(self) -> dict[str, int]:
        """The present number of partitions of each topic. Raises TopicMissing.

        While Kafka does not answer, this returns its last answer.
        """
        try:
            self._counts = {topic: self._partition_count(topic) for topic in self._topics}
        except KafkaException as error:
            if not self._counts:
                raise
            _LOGGER.warning("Kafka does not tell the partitions of topics: %s", error)
        return self._counts

    def bounds(self, topic_partition: TopicPartition) -> Bounds:
        """The first offset and the end of a partition; the last known end while it is read."""
        if topic_partition in self._buffers:
            _, latest = self._consumer.get_watermark_offsets(_at(topic_partition), cached=True) or (
                _NO_OFFSET,
                _NO_OFFSET,
            )
            if latest >= 0:
                return Bounds(None, latest)
        seen = self._seen_bounds.pop(topic_partition, None)
        return Bounds(*(seen or self._watermarks(topic_partition)))

    def assign(
        self, committed: Mapping[TopicPartition, CommittedOffset | None]
    ) -> dict[TopicPartition, int]:
        """Sets the partitions that are read.

        If Kafka does not have a committed offset, the rule decides the partition's start. Returns
        these starts. With the rule "error" it raises PositionGone for all of them.
        """
        self._forget_all()
        self._consumer.unassign()
        resets = []
        for topic_partition, stored in committed.items():
            if stored is None:
                continue
            if stored.leader_epoch is not None:
                self._epochs[topic_partition] = stored.offset, stored.leader_epoch
            reset = self._reset_of(topic_partition, stored.offset)
            resets += [reset] if reset else []
        self._tell(resets)
        return {each.topic_partition: each.offset for each in resets if each.offset is not None}

    def read(
        self, topic_partition: TopicPartition, offset: int, items_max: int
    ) -> list[Item[Message]]:
        """The messages of a partition that have arrived.

        Raises PositionGone or GoesOn if Kafka does not have the next offset, and TopicMissing.
        """
        if topic_partition not in self._buffers or self._next[topic_partition] != offset:
            self._begin(topic_partition, offset)
            self._next[topic_partition] = offset
            self._begun_anew.discard(topic_partition)
        if not self._buffers[topic_partition] and self._buffered_count < items_max:
            self._receive(items_max)
        if self._is_older_than_committed(topic_partition, offset):
            self._gone[topic_partition] = offset
            self._let_go(topic_partition)
        if not self._buffers.get(topic_partition) and topic_partition in self._gone:
            self._leave_or_begin_anew(topic_partition, offset)
        buffer = self._buffers[topic_partition]
        messages = [buffer.popleft() for _ in range(min(items_max, len(buffer)))]
        self._buffered_count -= len(messages)
        items = [_item(topic_partition, message) for message in messages]
        if items:
            self._next[topic_partition] = items[-1].offset_next
        return items

    def _partition_count(self, topic: str) -> int:
        described = self._consumer.list_topics(topic, timeout=self._timeout_s).topics[topic]
        if described.error is not None:
            if described.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise TopicMissing(f"Kafka has no topic {topic}")
            raise KafkaException(described.error)
        return len(described.partitions)

    def _watermarks(self, topic_partition: TopicPartition) -> tuple[int, int]:
        found = self._consumer.get_watermark_offsets(
            _at(topic_partition), timeout=self._timeout_s, cached=False
        )
        if found is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return found

    def _reset_of(
        self, topic_partition: TopicPartition, position: int, *, is_truncated: bool = False
    ) -> PositionReset | None:
        earliest, latest = self._watermarks(topic_partition)
        self._seen_bounds[topic_partition] = earliest, latest
        return reset_of(
            topic_partition,
            position,
            earliest=earliest,
            latest=latest,
            rule=self._rule,
            is_truncated=is_truncated,
        )

    def _tell(self, resets: Iterable[PositionReset]) -> None:
        resets = list(resets)
        for each in resets:
            _LOGGER.warning("%s", each)
            self._on_reset(each)
        if any(each.offset is None for each in resets):
            raise PositionGone(resets)

    def _forget_all(self) -> None:
        for each in (self._buffers, self._next, self._epochs, self._gone, self._seen_bounds):
            each.clear()
        self._begun_anew.clear()
        self._buffered_count = 0

    def _begin(self, topic_partition: TopicPartition, offset: int) -> None:
        """Lets librdkafka fetch a partition, starting at `offset`. Drops its old messages."""
        self._let_go(topic_partition)
        committed, leader_epoch = self._epochs.get(topic_partition, (None, -1))
        self._consumer.incremental_assign(
            [_at(topic_partition, offset, leader_epoch if committed == offset else -1)]
        )
        self._buffers[topic_partition] = deque()
        self._gone.pop(topic_partition, None)

    def _let_go(self, topic_partition: TopicPartition) -> None:
        """Lets librdkafka stop fetching the partition. Drops what has arrived."""
        buffer = self._buffers.pop(topic_partition, None)
        if buffer is not None:
            self._consumer.incremental_unassign([_at(topic_partition)])
            self._buffered_count -= len(buffer)

    def _is_older_than_committed(self, topic_partition: TopicPartition, offset: int) -> bool:
        """Whether the next message has a smaller leader epoch than the one committed before it.

        Leader epochs never fall along a log, so this would be another log. librdkafka makes this
        check with Kafka only while it does not know the partition's leader.
        """
        buffer = self._buffers[topic_partition]
        if not buffer:
            return False
        committed, leader_epoch = self._epochs.get(topic_partition, (None, -1))
        first = buffer[0].leader_epoch()
        if committed == offset and first is not None and first < leader_epoch:
            return True
        self._epochs.pop(topic_partition, None)
        return False

    def _receive(self, messages_max: int) -> None:
        """Takes all arrived messages of all partitions. Then raises the first failure.

        Everything is taken before the raise, because librdkafka delivers nothing twice.
        """
        failures: list[Exception] = []
        for message in self._consumer.consume(messages_max, timeout=0):
            error = message.error()
            if error is not None:
                failure = self._noted(message, error)
                failures += [failure] if failure else []
                continue
            topic_partition = TopicPartition(message.topic() or "", message.partition() or 0)
            buffer = self._buffers.get(topic_partition)
            if buffer is not None:
                buffer.append(message)
                self._buffered_count += 1
        if failures:
            raise failures[0]

    def _noted(self, message: Message, error: KafkaError) -> Exception | None:
        """The exception for an error of librdkafka. None if reading can continue."""
        match error.code():
            case KafkaError._PARTITION_EOF | KafkaError.GROUP_AUTHORIZATION_FAILED:
                # The group does not exist in Kafka: librdkafka only asks for its coordinator.
                pass
            case KafkaError._AUTO_OFFSET_RESET:
                topic_partition = TopicPartition(message.topic() or "", message.partition() or 0)
                if topic_partition in self._next:
                    self._gone[topic_partition] = message.offset()
            case KafkaError.UNKNOWN_TOPIC_OR_PART | KafkaError.UNKNOWN_TOPIC_ID:
                return TopicMissing(f"Kafka has no topic {message.topic()} any more")
            case _ if error.fatal() or not _is_passing(error):
                return KafkaException(error)
            case _:
                _LOGGER.warning("Kafka: %s", error.str())
        return None

    def _leave_or_begin_anew(self, topic_partition: TopicPartition, offset: int) -> None:
        """Handles librdkafka's report that Kafka does not have an offset.

        An error may arrive after its assignment has ended. If it names another offset, it may be
        such a late one, or there is a gap. So the offset is requested once more. Only a second
        error counts.
        """
        if self._gone[topic_partition] == offset or topic_partition in self._begun_anew:
            self._leave(topic_partition, offset)
        self._begin(topic_partition, offset)
        self._begun_anew.add(topic_partition)

    def _leave(self, topic_partition: TopicPartition, offset: int) -> NoReturn:
        """Applies the rule to a next offset that Kafka does not have."""
        reset = self._reset_of(topic_partition, offset, is_truncated=True)
        assert reset is not None, "it is gone"
        self._tell([reset])
        assert reset.offset is not None, "else the rule is to raise"
        raise GoesOn(topic_partition, reset.offset)


def _at(
    topic_partition: TopicPartition, offset: int = _NO_OFFSET, leader_epoch: int = -1
) -> KafkaTopicPartition:
    return KafkaTopicPartition(
        topic_partition.topic, topic_partition.partition, offset, "", leader_epoch
    )


def _item(topic_partition: TopicPartition, message: Message) -> Item[Message]:
    offset = message.offset()
    assert offset is not None, "a message without an error has an offset"
    return Item(topic_partition, offset, offset + 1, message, message.leader_epoch())


def _is_passing(error: KafkaError) -> bool:
    """Whether librdkafka recovers by itself."""
    return error.retriable() or error.code() in (
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
    )
