"""A single server's folder moves into the topics of a cluster.

Batches keep their log offsets, so revisions, epochs of leases, history and request ids stay. They
go in transactions of bounded size, each of whole batches. If the move is broken off, the next one
finds what is there, checks that it is the beginning of the folder's logs, and continues behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC
from offsetd_storage.topic_partition import TopicPartition

from offsetd_coordinator.cluster.claims import CLAIM_KEY, Claim
from offsetd_coordinator.cluster.moving.folder_records import log_batches
from offsetd_coordinator.cluster.moving.log_digest import (
    Compared,
    LogDigest,
    MoveRefused,
    compared,
)
from offsetd_coordinator.cluster.moving.topic_contents import TopicContents
from offsetd_coordinator.cluster.shared_internal_topics import internal_record, internal_topics
from offsetd_coordinator.cluster.topic_reading import topic_ends
from offsetd_coordinator.cluster.topic_records import TopicRecord, placed_header
from offsetd_coordinator.cluster.transactional_producers import until_known
from offsetd_coordinator.cluster.transactions import put_record
from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_PARTITION

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_storage.log_store import LogStore

    from offsetd_coordinator.cluster.kafka_clients import KafkaClients
    from offsetd_coordinator.cluster.topic_records import PlacedRecord

INIT_NODE: Final = "offsetd.cluster.init"
"""The node of the first claims, and of the transactional id of a move."""
_TRANSACTION_BYTES: Final = 4 << 20
_RECORD_BYTES_BESIDE: Final = 100
_CALL_SECONDS: Final = 30.0


class MoveFenced(MoveRefused):
    """Another move into the same topics has begun."""


class TopicWriter:
    """Writes records to topics in transactions. A new writer ends what an earlier one left open."""

    def __init__(self, clients: KafkaClients) -> None:
        """Raises KafkaException."""
        self._producer = clients.producer(0, node_id=INIT_NODE)
        self._producer.init_transactions(2 * _CALL_SECONDS)
        self._waiting: list[tuple[str, int, TopicRecord]] = []
        self._bytes = 0
        self._refused: list[str] = []

    def add(self, topic: str, partition: int, records: list[TopicRecord]) -> None:
        """Adds records that go into one transaction. Raises the errors of `flush`."""
        for each in records:
            self._waiting.append((topic, partition, each))
            self._bytes += len(each.key or b"") + len(each.value or b"") + _RECORD_BYTES_BESIDE
        if self._bytes > _TRANSACTION_BYTES:
            self.flush()

    def flush(self) -> None:
        """Commits what was added. Raises KafkaException and MoveFenced."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        while self._waiting:
            try:
                self._producer.begin_transaction()
                self._refused.clear()
                for topic, partition, record in self._waiting:
                    put_record(self._producer, topic, partition, record, self._note_delivery)
                until_known(self._producer.commit_transaction)
            except KafkaException as error:
                self._abort(error)
            else:
                self._waiting.clear()
                self._bytes = 0

    def _note_delivery(self, error: Any, message: Any) -> None:
        from confluent_kafka import KafkaError  # noqa: PLC0415

        # An abort purges what was not sent yet.
        purged = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
        if error is not None and error.code() not in purged and not error.retriable():
            self._refused.append(f"a record of {message.topic()}: {error.str()}")

    def _abort(self, error: Any) -> None:
        told = error.args[0]
        if told.fatal():
            raise MoveFenced(
                "the move was ended, because another one began, or the brokers did not answer in"
                " time ({cause}): nothing is lost, the same command continues it",
                cause=told.str(),
            ) from error
        until_known(self._producer.abort_transaction)
        if self._refused:
            raise MoveRefused("the brokers refuse {what}", what=self._refused[0]) from error
        if not (told.retriable() or told.txn_requires_abort()):
            raise error


@attrs.define(kw_only=True)
class MovingIn:
    """One move of an open store, which nothing else uses. The topics are closed to nodes."""

    clients: KafkaClients
    store: LogStore
    node_id: str
    """The node that gets the settings and the audit events."""
    wait_seconds: float
    report: Callable[[int, int, str], None]
    sources: dict[TopicPartition, LogDigest] = attrs.field(factory=dict)
    _writer: TopicWriter = attrs.field(init=False)

    def run(self) -> list[Compared]:
        """Writes what the topics lack, then the claims, and reads all back.

        Raises MoveRefused, TopicUnreadable, KafkaException and errors of the store.
        """
        self._writer = TopicWriter(self.clients)
        there = self._contents().read()
        topics = internal_topics(self.clients.names)
        logs = sorted(each for each in self.store.logs if each in there)
        for place, each in enumerate(logs):
            self.report(place, len(logs), each.folder_name)
            topic = topics.get(each, self.clients.names.offsets_topic)
            self.sources[each] = self._moved(each, topic, there[each])
        self._writer.flush()
        self._claim()
        self.report(len(logs), len(logs), "reading back")
        return list(compared(self.sources, self._contents().read()))

    def _contents(self) -> TopicContents:
        return TopicContents(
            self.clients,
            self.store.partitions,
            node_id=self.node_id,
            wait_seconds=self.wait_seconds,
        )

    def _moved(self, topic_partition: TopicPartition, topic: str, there: LogDigest) -> LogDigest:
        """Writes a log, except what is there, and returns its digest."""
        log = self.store.log(topic_partition)
        is_own = topic_partition.topic != OFFSETS_TOPIC
        digest = LogDigest(end_offset=log.offset_next)
        has_keys = topic_partition != AUDIT_PARTITION
        for batch in log_batches(topic_partition, log, has_keys=has_keys):
            is_there = digest.records < there.records
            for each in batch:
                digest.add(each)
            if not is_there:
                records = [self._in_topic(each, is_own=is_own) for each in batch]
                self._writer.add(topic, topic_partition.partition, records)
            elif digest.records >= there.records:
                _refuse_different(topic_partition, digest, there)
        if digest.records < there.records:
            _refuse_different(topic_partition, digest, there)
        return digest

    def _in_topic(self, placed: PlacedRecord, *, is_own: bool) -> TopicRecord:
        record = placed.record
        headers = [*record.headers, placed_header(record.offset, placed.batch_offset)]
        found = TopicRecord(record.key, record.value, record.timestamp_ms, headers)
        return internal_record(self.node_id, found) if is_own else found

    def _claim(self) -> None:
        """Writes the first claim of each partition: the log offsets go on above the log's end."""
        topic = self.clients.names.offsets_topic
        ends = topic_ends(self.clients, topic, range(self.store.partitions))
        for partition, end in ends.items():
            log = self.store.log(TopicPartition(OFFSETS_TOPIC, partition))
            shift = max(0, log.offset_next - end)
            claim = Claim(
                epoch=1,
                node_id=INIT_NODE,
                address="",
                producers=1,
                first_offset=end + shift,
                unused_from=log.offset_next,
                shift=shift,
                is_released=True,
            )
            record = TopicRecord(CLAIM_KEY, claim.encode(), 0, [])
            self._writer.add(topic, partition, [record])
        self._writer.flush()


def _refuse_different(topic_partition: TopicPartition, digest: LogDigest, there: LogDigest) -> None:
    """Raises MoveRefused unless what is in the topic is the beginning of the log."""
    if digest.value != there.value:
        raise MoveRefused(
            "an earlier init was broken off, and what it brought of {log} is not the beginning of"
            " this folder's log: delete the topics of the cluster, and run init again",
            log=topic_partition.folder_name,
        )
