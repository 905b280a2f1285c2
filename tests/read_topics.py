"""A topic in memory, and a consumer of it as that of confluent-kafka."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import attrs
from confluent_kafka import KafkaError
from offsetd_coordinator.cluster.claims import CLAIM_KEY
from offsetd_coordinator.cluster.topic_records import TopicRecord, topic_records

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import TopicPartition as KafkaPartition


@attrs.frozen
class ReadMessage:
    """What a consumer returns: a record, or an error about a partition."""

    number: int
    place: int
    record: TopicRecord | None = None
    failure: KafkaError | None = None

    def partition(self) -> int:
        return self.number

    def offset(self) -> int:
        return self.place

    def error(self) -> KafkaError | None:
        return self.failure

    def key(self) -> bytes | None:
        return self.record.key if self.record else None

    def value(self) -> bytes | None:
        return self.record.value if self.record else None

    def headers(self) -> Any:
        return (self.record.headers or None) if self.record else None

    def timestamp(self) -> tuple[int, int]:
        return 1, self.record.timestamp_ms if self.record else -1


class ReadTopic:
    """Kafka offsets are places in a list. One without a record is the marker of a transaction."""

    def __init__(self) -> None:
        self._records: dict[int, list[TopicRecord | None]] = {}
        self._assigned: dict[int, int] = {}
        self._told_end: dict[int, int] = {}
        self._shown: dict[int, int] = {}
        self._strays: list[ReadMessage] = []
        self._lock = threading.Lock()
        self.is_closed = False

    # What a test does.

    def commit(self, partition: int, *batches: bytes) -> int:
        """A transaction with these batches. Returns the Kafka offset behind its marker."""
        return self._add(partition, [each for batch in batches for each in topic_records(batch)])

    def claim(self, partition: int, value: bytes | None) -> int:
        """A transaction with the record of a claim."""
        return self._add(partition, [TopicRecord(CLAIM_KEY, value, 0, [])])

    def show(self, partition: int, end: int | None) -> None:
        """The consumer has fetched no more than this yet. None: all."""
        with self._lock:
            if end is None:
                self._shown.pop(partition, None)
            else:
                self._shown[partition] = end

    def stray(self, message: ReadMessage) -> None:
        """The consumer returns this next, whatever is assigned."""
        with self._lock:
            self._strays.append(message)

    def record_at(self, partition: int, place: int) -> ReadMessage:
        """A record as the consumer returns it."""
        return ReadMessage(partition, place, self._records[partition][place])

    @property
    def assigned(self) -> set[int]:
        """The partitions that are read now."""
        with self._lock:
            return set(self._assigned)

    def _add(self, partition: int, records: Iterable[TopicRecord]) -> int:
        with self._lock:
            log = self._records.setdefault(partition, [])
            log += [*records, None]
            return len(log)

    # What the consumer does.

    def incremental_assign(self, partitions: Iterable[KafkaPartition]) -> None:
        with self._lock:
            for each in partitions:
                assert each.partition not in self._assigned, "it is assigned already"
                self._assigned[each.partition] = each.offset
                self._told_end.pop(each.partition, None)

    def incremental_unassign(self, partitions: Iterable[KafkaPartition]) -> None:
        with self._lock:
            for each in partitions:
                del self._assigned[each.partition]

    def consume(self, count_max: int, seconds: float) -> list[ReadMessage]:
        with self._lock:
            found, self._strays = self._strays, []
            for partition, position in self._assigned.items():
                found += self._fetched(partition, position)
        if not found:
            time.sleep(seconds)
        assert len(found) <= count_max
        return found

    def get_watermark_offsets(self, where: KafkaPartition, *, cached: bool) -> tuple[int, int]:
        assert cached, "a question to the brokers would hold up the reading"
        return 0, len(self._records.get(where.partition, ()))

    def close(self) -> None:
        self.is_closed = True
        with self._lock:
            self._assigned.clear()

    def _fetched(self, partition: int, position: int) -> list[ReadMessage]:
        log = self._records.get(partition, [])
        end = min(self._shown.get(partition, len(log)), len(log))
        found = [
            ReadMessage(partition, place, record)
            for place, record in enumerate(log[position:end], position)
            if record is not None
        ]
        self._assigned[partition] = max(position, end)
        if partition not in self._shown and self._told_end.get(partition) != end:
            self._told_end[partition] = end
            at_end = KafkaError(KafkaError._PARTITION_EOF)
            found.append(ReadMessage(partition, end, failure=at_end))
        return found
