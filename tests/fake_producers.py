"""Kafka's producers without Kafka: they keep what was committed, and fail as they are told."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import attrs
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from offsetd_coordinator.cluster.kafka_clients import ClusterNames

if TYPE_CHECKING:
    from collections.abc import Callable


def failed(code: int, **kind: bool) -> KafkaException:
    """An error as librdkafka raises it: fatal, retriable, or txn_requires_abort."""
    return KafkaException(KafkaError(code, "as told", **kind))


@attrs.define
class Sent:
    """One record of a transaction, and the offset that it has in its partition."""

    topic: str
    value: bytes | None
    key: bytes | None
    partition: int
    timestamp_ms: int = 0
    headers: Any = None
    offset: int = -1


@attrs.define
class Transaction:
    """What one transaction had, and whether it was committed."""

    producer: int
    records: list[Sent] = attrs.field(factory=list)
    offsets: dict[int, int] = attrs.field(factory=dict)
    marks: dict[int, str] = attrs.field(factory=dict)
    generation: Any = None
    is_committed: bool = False


class FakeKafka:
    """The brokers: the transactions, and what is to go wrong in the next calls.

    `failures` has, by the name of a call, what each next one raises. None: it does its work.
    """

    def __init__(self) -> None:
        self.transactions: list[Transaction] = []
        self.calls: list[str] = []
        self.failures: dict[str, deque[BaseException | None]] = {}
        self.before: dict[str, Callable[[], None]] = {}
        self.ends: dict[tuple[str, int], int] = {}
        self.names = ClusterNames(cluster_id="c")

    def fail(self, call: str, *errors: BaseException | None) -> None:
        """The next calls of this name raise these errors, one each."""
        self.failures.setdefault(call, deque()).extend(errors)

    def note(self, call: str) -> None:
        """Called at the begin of each call."""
        self.calls.append(call)
        if call in self.before:
            self.before[call]()
        waiting = self.failures.get(call)
        if waiting and (error := waiting.popleft()) is not None:
            raise error

    @property
    def committed(self) -> list[Transaction]:
        """In the order of their begin."""
        return [each for each in self.transactions if each.is_committed]

    def producer(self, number: int) -> FakeProducer:
        """As `KafkaClients.producer`."""
        return FakeProducer(self, number)

    def reader(self) -> FakeReader:
        """As `KafkaClients.reader`."""
        return FakeReader(self)


class FakeReader:
    """Says what was committed for the nodes' group."""

    def __init__(self, kafka: FakeKafka) -> None:
        self._kafka = kafka

    def committed(self, partitions: list[TopicPartition], _: float) -> list[TopicPartition]:
        self._kafka.note("committed")
        marks: dict[int, str] = {}
        for transaction in self._kafka.committed:
            marks |= transaction.marks
        return [
            TopicPartition(each.topic, each.partition, 1, marks.get(each.partition, ""))
            for each in partitions
        ]

    def close(self) -> None:
        pass


class FakeProducer:
    """One producer. It checks the order of the calls, as librdkafka does."""

    def __init__(self, kafka: FakeKafka, number: int) -> None:
        self._kafka = kafka
        self._number = number
        self._open: Transaction | None = None
        self._callbacks: list[tuple[Callable[[Any, Any], None], Sent]] = []

    def init_transactions(self, _: float) -> None:
        self._kafka.note("init_transactions")

    def begin_transaction(self) -> None:
        self._kafka.note("begin_transaction")
        assert self._open is None, "the last one is neither committed nor aborted"
        self._open = Transaction(self._number)
        self._kafka.transactions.append(self._open)

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = -1,
        on_delivery: Any = None,
        partitioner: Any = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        self._kafka.note("produce")
        assert self._open is not None
        assert partitioner is None
        sent = Sent(topic, value, key, partition, timestamp, headers)
        self._open.records.append(sent)
        sent.offset = self._kafka.ends.get((topic, partition), 0)
        self._kafka.ends[topic, partition] = sent.offset + 1
        if on_delivery is not None:
            self._callbacks.append((on_delivery, sent))

    def poll(self, _: float) -> int:
        self._kafka.note("poll")
        return 0

    def flush(self, _: float) -> int:
        self._kafka.note("flush")
        self._deliver()
        return 0

    def send_offsets_to_transaction(self, offsets: Any, generation: Any, _: float) -> None:
        self._kafka.note("send_offsets_to_transaction")
        assert self._open is not None
        assert offsets, "without an offset the brokers do not look at the generation"
        self._open.offsets = {each.partition: each.offset for each in offsets}
        self._open.marks = {each.partition: each.metadata for each in offsets}
        self._open.generation = generation

    def commit_transaction(self, _: float) -> None:
        self._kafka.note("commit_transaction")
        assert self._open is not None
        self._deliver()
        self._open.is_committed = True
        self._end()
        self._kafka.note("commit_answered")

    def abort_transaction(self, _: float) -> None:
        self._kafka.note("abort_transaction")
        self._end()

    def _deliver(self) -> None:
        for call, sent in self._callbacks:
            call(None, _Delivered(sent.offset))
        self._callbacks.clear()

    def _end(self) -> None:
        """The marker takes an offset of each partition."""
        assert self._open is not None
        for where in {(each.topic, each.partition) for each in self._open.records}:
            self._kafka.ends[where] += 1
        self._callbacks.clear()
        self._open = None


@attrs.frozen
class _Delivered:
    _offset: int

    def offset(self) -> int:
        return self._offset
