"""What the topics of a cluster have: the records of each log, and the newest claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offsetd_storage.configuration.log_config import OFFSETS_TOPIC
from offsetd_storage.topic_partition import TopicPartition

from offsetd_coordinator.cluster.claims import CLAIM_KEY, Claim
from offsetd_coordinator.cluster.moving.log_digest import LogDigest
from offsetd_coordinator.cluster.shared_internal_topics import internal_topics, read_internal_record
from offsetd_coordinator.cluster.topic_reading import (
    committed_messages,
    topic_ends,
    wait_until_decided,
)
from offsetd_coordinator.cluster.topic_records import placed_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from offsetd_coordinator.cluster.kafka_clients import KafkaClients
    from offsetd_coordinator.cluster.topic_records import PlacedRecord


class TopicContents:
    """One read of all topics, up to the ends that they have when this is made.

    Of the settings and the audit events it takes those of one node.
    """

    def __init__(
        self, clients: KafkaClients, partitions: int, *, node_id: str, wait_seconds: float
    ) -> None:
        """Waits until all transactions are decided. Raises TopicUnreadable."""
        self._clients = clients
        self._node_id = node_id
        self._offsets_topic = clients.names.offsets_topic
        self._own = internal_topics(clients.names)
        self.ends = topic_ends(clients, self._offsets_topic, range(partitions))
        self._own_ends = {topic: topic_ends(clients, topic, [0]) for topic in self._own.values()}
        for topic, ends in ((self._offsets_topic, self.ends), *self._own_ends.items()):
            wait_until_decided(clients, topic, ends, seconds=wait_seconds)
        self.claims: dict[int, Claim] = {}
        """By partition: complete after `records`."""
        self.digests: dict[TopicPartition, LogDigest] = {
            **{TopicPartition(OFFSETS_TOPIC, each): LogDigest() for each in self.ends},
            **{each: LogDigest() for each in self._own},
        }
        """Complete after `records`."""

    def records(
        self, on_claim: Callable[[TopicPartition, Claim], object] = lambda *_: None
    ) -> Iterator[tuple[TopicPartition, PlacedRecord]]:
        """Each record with its log. `on_claim` gets each claim after the records before it.

        Raises TopicUnreadable and MalformedClaim.
        """
        for message in committed_messages(self._clients, self._offsets_topic, self.ends):
            if message.key() == CLAIM_KEY:
                claim = self.claims[message.partition()] = Claim.decode(message.value() or b"")
                on_claim(TopicPartition(OFFSETS_TOPIC, message.partition()), claim)
            elif (placed := placed_record(message)) is not None:
                yield from self._noted(TopicPartition(OFFSETS_TOPIC, message.partition()), placed)
        for topic_partition, topic in self._own.items():
            for message in committed_messages(self._clients, topic, self._own_ends[topic]):
                own = read_internal_record(message)
                if own is not None and own.node_id == self._node_id:
                    yield from self._noted(topic_partition, own.placed)

    def read(self) -> dict[TopicPartition, LogDigest]:
        """Reads all records, and returns the digests. Raises the errors of `records`."""
        for _ in self.records():
            pass
        return self.digests

    def _noted(
        self, topic_partition: TopicPartition, placed: PlacedRecord
    ) -> Iterator[tuple[TopicPartition, PlacedRecord]]:
        digest = self.digests[topic_partition]
        # As in a copy: what a log has already is left out.
        if placed.record.offset > digest.last_offset:
            digest.add(placed)
            yield topic_partition, placed


def nodes_with_internal_records(clients: KafkaClients, *, wait_seconds: float) -> set[str]:
    """The ids of the nodes whose settings or audit events are there. Raises TopicUnreadable."""
    found: set[str] = set()
    for topic in internal_topics(clients.names).values():
        ends = topic_ends(clients, topic, [0])
        wait_until_decided(clients, topic, ends, seconds=wait_seconds)
        messages: Iterator[Any] = committed_messages(clients, topic, ends)
        found |= {
            own.node_id for each in messages if (own := read_internal_record(each)) is not None
        }
    return found
