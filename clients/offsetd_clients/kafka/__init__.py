"""Consumers that read from Kafka and store offsets in offsetd. They need the extra `kafka`."""

from offsetd_clients.kafka.consumer import KafkaConsumer
from offsetd_clients.kafka.out_of_range import (
    ConsumerMisconfigured,
    OutOfRangeRule,
    PositionGone,
    PositionReset,
    Why,
)
from offsetd_clients.kafka.source import TopicMissing

__all__ = [
    "ConsumerMisconfigured",
    "KafkaConsumer",
    "OutOfRangeRule",
    "PositionGone",
    "PositionReset",
    "TopicMissing",
    "Why",
]
