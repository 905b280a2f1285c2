"""A consumer of Kafka topics that keeps its offsets here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import Message

from offsetd_clients import Consumer
from offsetd_clients.kafka.source import GoesOn, KafkaSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from offsetd_clients import ConsumerSettings, OffsetClient, TopicPartition
    from offsetd_clients.kafka.resets import OutOfRangeRule, PositionReset


class KafkaConsumer(Consumer[Message]):
    """Hands out the messages of Kafka topics, and commits here how far they are processed.

    It is a `Consumer`, with all that this says: the group here shares the partitions of the topics
    out among its members, or, with `settings.lease`, one has them all; who is fenced cannot commit.
    Kafka keeps no offsets of it, and knows of no group. What is committed has the leader epoch of
    the last message, and where its partition ended.

    `config` is librdkafka's: where Kafka is, and how to get in. With `enable.auto.commit`, or an
    `auto.offset.reset`, it raises ConsumerMisconfigured. `settings.start` says where a partition
    begins of which nothing is committed; `out_of_range` ("earliest", "latest", or "error", which
    raises `PositionGone`) where it goes on when Kafka has not what comes next, as retention took
    it, or the topic was made anew. `on_reset` is told of that, before; it is logged, too.
    """

    def __init__(
        self,
        client: OffsetClient,
        group_id: str,
        topics: Iterable[str],
        config: Mapping[str, Any],
        settings: ConsumerSettings | None = None,
        *,
        out_of_range: OutOfRangeRule = "error",
        on_reset: Callable[[PositionReset], object] = lambda _: None,
        on_assigned: Callable[[tuple[TopicPartition, ...]], Any] | None = None,
        on_revoked: Callable[[tuple[TopicPartition, ...]], Any] | None = None,
        on_lost: Callable[[tuple[TopicPartition, ...]], Any] | None = None,
        kafka_timeout_s: float = 30.0,
    ) -> None:
        self._kafka = KafkaSource(
            topics,
            config,
            group_id=group_id,
            out_of_range=out_of_range,
            on_reset=on_reset,
            timeout_s=kafka_timeout_s,
        )
        super().__init__(
            client,
            group_id,
            self._kafka,
            settings,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
            on_lost=on_lost,
        )

    def close(self) -> None:
        """As `Consumer.close`; and lets go of Kafka."""
        try:
            super().close()
        finally:
            self._kafka.close()

    def _read(self) -> None:
        try:
            super()._read()
        except GoesOn as elsewhere:
            self.seek(elsewhere.topic_partition, elsewhere.offset)
