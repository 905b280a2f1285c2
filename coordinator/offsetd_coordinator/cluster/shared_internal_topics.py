"""Records of a node's internal topics, in the topics that all nodes of its cluster share.

One shared topic is for settings, and one for audit events. Each record has the node's id in a
header. The topic of settings is compacted, so the Kafka key begins with the node's id: records of
several nodes never replace each other. A node reads at each start what its own logs lack: all of it
if its folder is new or was lost, the last few records if it was killed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs
import structlog

from offsetd_coordinator.cluster.copy_appends import append_read_batch
from offsetd_coordinator.cluster.topic_reading import (
    committed_messages,
    topic_ends,
    wait_until_decided,
)
from offsetd_coordinator.cluster.topic_records import (
    PlacedRecord,
    TopicRecord,
    batches_of,
    placed_record,
)
from offsetd_coordinator.configuration.internal_topic_configs import (
    AUDIT_PARTITION,
    CONFIG_PARTITION,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from offsetd_storage.log_store import LogStore
    from offsetd_storage.topic_partition import TopicPartition

    from offsetd_coordinator.cluster.copy_checkpoint import CopyCheckpoint
    from offsetd_coordinator.cluster.kafka_clients import ClusterNames, KafkaClients

_log = structlog.get_logger(__name__)

NODE_HEADER: Final = "offsetd.node"
"""The name of the header with the node's id. It is the first header."""
_FLUSH_BYTES: Final = 4 << 20


class InternalRecord(NamedTuple):
    """A record of a node's internal topic that was read from a shared topic."""

    node_id: str
    placed: PlacedRecord


def internal_topics(names: ClusterNames) -> dict[TopicPartition, str]:
    """The shared topic of each log partition of a node's internal topics."""
    return {CONFIG_PARTITION: names.config_topic, AUDIT_PARTITION: names.audit_topic}


def internal_record(node_id: str, record: TopicRecord) -> TopicRecord:
    """A record of a node's own log, as it is in the topic."""
    node = node_id.encode()
    key = None if record.key is None else node + b"\0" + record.key
    return record._replace(key=key, headers=[(NODE_HEADER, node), *record.headers])


def read_internal_record(message: Any) -> InternalRecord | None:
    """The record in a message of a Kafka consumer, or None for one that no node wrote."""
    placed = placed_record(message)
    if placed is None or not placed.record.headers:
        return None
    (name, node), *headers = placed.record.headers
    if name != NODE_HEADER or node is None:
        return None
    key = placed.record.key
    if key is not None:
        prefix = node + b"\0"
        if not key.startswith(prefix):
            return None
        key = key[len(prefix) :]
    record = attrs.evolve(placed.record, key=key, headers=tuple(headers))
    return InternalRecord(node.decode(errors="replace"), placed._replace(record=record))


def append_internal_records(
    store: LogStore, topic_partition: TopicPartition, records: Iterable[PlacedRecord]
) -> int:
    """Appends records to a node's own log, unless it has them. Returns the number of batches.

    Raises the errors of `LogStore.append` and `LogStore.flush`.
    """
    count = size = 0
    for batch in batches_of(records):
        before = store.log(topic_partition).offset_next
        append_read_batch(store, topic_partition, batch)
        count += store.log(topic_partition).offset_next > before
        size += len(batch)
        if size > _FLUSH_BYTES:
            store.flush()
            size = 0
    store.flush()
    return count


def catch_up_internal_topics(
    clients: KafkaClients,
    store: LogStore,
    copies: CopyCheckpoint,
    *,
    node_id: str,
    transaction_seconds: float,
) -> None:
    """Appends to the node's own logs what they lack of the topics. Blocks.

    It waits until transactions that are open now have ended, also those that an earlier process of
    this node has left. Raises TopicUnreadable and the errors of the store.
    """
    for topic_partition, topic in internal_topics(clients.names).items():
        if topic_partition not in store.logs:
            continue
        [end] = topic_ends(clients, topic, [0]).values()
        wait_until_decided(clients, topic, {0: end}, seconds=2 * transaction_seconds)
        start = copies.own_positions.get(topic_partition.topic, 0)
        messages = committed_messages(clients, topic, {0: end}, starts={0: start})
        count = append_internal_records(store, topic_partition, _of_node(messages, node_id))
        copies.own_positions[topic_partition.topic] = end
        if count:
            _log.info("own records read from the cluster", topic=topic, batches=count)


def _of_node(messages: Iterable[Any], node_id: str) -> Iterator[PlacedRecord]:
    for message in messages:
        own = read_internal_record(message)
        if own is not None and own.node_id == node_id:
            yield own.placed
