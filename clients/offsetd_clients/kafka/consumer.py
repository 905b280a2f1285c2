"""A consumer of Kafka topics that keeps its offsets in offsetd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import Message

from offsetd_clients import Consumer
from offsetd_clients.kafka.source import GoesOn, KafkaSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from offsetd_clients import ConsumerSettings, OffsetClient, TopicPartition
    from offsetd_clients.kafka.out_of_range import OutOfRangeRule, PositionReset


class KafkaConsumer(Consumer[Message]):
    """Hands out the messages of Kafka topics, and commits the progress to offsetd.

    It is a `Consumer`, with all its rules: the members of the group in offsetd share the partitions
    of the topics, or, with `settings.lease`, one consumer has them all. A fenced consumer cannot
    commit. Kafka stores no offsets for it, and does not know its group. Each commit has the leader
    epoch of the last message, and the end of its partition.

    `config` has librdkafka's settings for the connection to Kafka and the authentication. Raises
    ConsumerMisconfigured if it has `enable.auto.commit` or an `auto.offset.reset`. `settings.start`
    is the start of a partition without a committed offset.

    `out_of_range` is the rule for a partition whose next offset Kafka no longer has (retention
    deleted it, or the topic was recreated): "earliest", "latest", or "error", which raises
    `PositionGone`. `on_reset` is called before such a reset, which is also logged.
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
        """Does what `Consumer.close` does, and closes the Kafka consumer."""
        try:
            super().close()
        finally:
            self._kafka.close()

    def _read(self) -> None:
        try:
            super()._read()
        except GoesOn as elsewhere:
            with self._guard:
                self._positions.go_on(elsewhere.topic_partition, elsewhere.offset)
                self._backlog.seek(elsewhere.topic_partition, elsewhere.offset)
