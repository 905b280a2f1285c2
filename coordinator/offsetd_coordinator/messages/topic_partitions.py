"""Topics and partitions named in administrative requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_storage.topic_partition import TopicPartition

from offsetd_coordinator.cooperative_scheduling import Turns
from offsetd_coordinator.errors import (
    InvalidPartition,
    InvalidTopic,
    LogPartitionQuarantined,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.log_store import LogStore


def named_topic(store: LogStore, topic: str) -> str:
    """Returns `topic` if this server has it. Raises InvalidTopic."""
    known = sorted({each.topic for each in (*store.logs, *store.quarantined)})
    if topic not in known:
        raise InvalidTopic(
            "topic",
            "there is no topic {topic!r}, but {known}",
            topic=topic,
            known=", ".join(known),
        )
    return topic


async def named_partitions(
    store: LogStore, topic: str, partitions: Sequence[int]
) -> list[TopicPartition]:
    """A topic's partitions in the order of `partitions`; all partitions if `partitions` is empty.

    Raises InvalidPartition for a partition that does not exist or is named twice.
    """
    known = partitions_of(store, topic)
    asked: dict[int, TopicPartition] = {}
    async for index, partition in Turns().each(enumerate(partitions)):
        field = f"partitions[{index}]"
        if partition in asked:
            raise InvalidPartition(field, "{partition} is named twice", partition=partition)
        asked[partition] = _checked(topic, partition, known, field)
    return list(asked.values()) or [TopicPartition(topic, partition) for partition in known]


def named_log(store: LogStore, topic: str, partition: int) -> PartitionLog:
    """The log of one partition. Raises InvalidPartition, LogPartitionQuarantined."""
    topic_partition = _checked(topic, partition, partitions_of(store, topic), "partition")
    damage = store.quarantined.get(topic_partition)
    if damage is not None:
        raise LogPartitionQuarantined(
            "log partition {log_partition} is damaged: {cause}",
            log_partition=partition,
            cause=damage,
        )
    return store.logs[topic_partition]


def partitions_of(store: LogStore, topic: str) -> range:
    """The numbers of a topic's partitions, including damaged ones."""
    logs = (*store.logs, *store.quarantined)
    return range(1 + max((each.partition for each in logs if each.topic == topic), default=-1))


def _checked(topic: str, partition: int, known: range, field: str) -> TopicPartition:
    if partition not in known:
        raise InvalidPartition(
            field,
            "{partition} is not between 0 and {last_partition}",
            partition=partition,
            last_partition=known[-1],
        )
    return TopicPartition(topic, partition)
