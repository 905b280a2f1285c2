"""The thread that reads the topic into the local copies, also of partitions of other nodes.

It reads committed records only. For a takeover it reads a partition up to a given Kafka offset, and
then leaves it to the new owner, which is this node.
"""

from __future__ import annotations

import queue
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

import attrs
import structlog
from offsetd_storage.log_store import OFFSETS_TOPIC
from offsetd_storage.topic_partition import TopicPartition

from offsetd_coordinator.cluster.claims import CLAIM_KEY, Claim, MalformedClaim
from offsetd_coordinator.cluster.copy_appends import append_read_batch, skip_unused
from offsetd_coordinator.cluster.copy_checkpoint import write_copies
from offsetd_coordinator.cluster.topic_records import PlacedRecord, batches_of, placed_record

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from offsetd_storage.clock import Clock
    from offsetd_storage.log_store import LogStore

    from offsetd_coordinator.cluster.copy_checkpoint import CopyCheckpoint
    from offsetd_coordinator.cluster.kafka_clients import KafkaClients

_log = structlog.get_logger(__name__)

_MESSAGES_MAX: Final = 10_000
_POLL_SECONDS: Final = 0.02
_SAVE_SECONDS: Final = 1.0


@attrs.define
class _Followed:
    """A partition that is being read. `records` are those of a batch that may go on."""

    reached: int
    records: list[PlacedRecord] = attrs.field(factory=list)
    records_position: int = 0

    @property
    def position(self) -> int:
        """The Kafka offset up to which the copy is complete."""
        return self.records_position if self.records else self.reached


class CopyFollower:
    """Reads partitions into the copies. The other methods are for any thread."""

    def __init__(
        self,
        clients: KafkaClients,
        store: LogStore,
        copies: CopyCheckpoint,
        *,
        folder: Path,
        clock: Clock,
        on_failed: Callable[[BaseException], object],
        on_journal_filling: Callable[[], object],
    ) -> None:
        self._topic = clients.names.offsets_topic
        self._consumer = clients.reader()
        self._store = store
        self._copies = copies
        self._folder = folder
        self._clock = clock
        self._on_failed = on_failed
        self._on_journal_filling = on_journal_filling
        self._followed: dict[int, _Followed] = {}
        self._lags: dict[int, int] = {}
        self._targets: dict[int, tuple[int, Future[None]]] = {}
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._guard, name="copies", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread. Blocks."""
        self._is_stopping = True
        if self._thread.ident is not None:
            self._thread.join()

    def follow(self, partitions: Collection[int], *, owned: Collection[int]) -> None:
        """Follows these partitions, except those that the node owns, and no others."""

        def change() -> None:
            wanted = set(partitions) - set(owned)
            self._unassign(self._followed.keys() - wanted - self._targets.keys())
            self._assign(wanted - self._followed.keys())

        self._commands.put(change)

    def catch_up(self, ends: Mapping[int, int]) -> list[Future[None]]:
        """Reads each partition up to a Kafka offset (exclusive), and then leaves it."""
        futures = {partition: Future[None]() for partition in ends}

        def change() -> None:
            for partition, end in ends.items():
                self._targets[partition] = end, futures[partition]
            self._assign(ends.keys() - self._followed.keys())
            self._check_targets()

        self._commands.put(change)
        return list(futures.values())

    def release(self, partitions: Collection[int]) -> None:
        """Leaves these partitions, even if they are not read to the end. Blocks until done."""
        done = threading.Event()

        def change() -> None:
            for partition in partitions:
                target = self._targets.pop(partition, None)
                if target is not None:
                    target[1].cancel()
            self._unassign(self._followed.keys() & set(partitions))
            done.set()

        self._commands.put(change)
        while not done.wait(0.1):
            if not self._thread.is_alive():
                return

    def lag(self, partition: int) -> int | None:
        """The Kafka offsets that a followed copy is behind, or None if it is not followed."""
        return self._lags.get(partition)

    def save(self) -> None:
        """Makes the copies durable, and then notes how far they reach. Raises StorageFailed."""
        self._note_lags()
        for partition, followed in list(self._followed.items()):
            self._copies.note_positions({partition: followed.position})
        content = self._copies.encode(now_ms=self._clock.now_ms())
        self._store.flush()
        self._store.bound_unwritten()
        if self._store.journal_used_ratio > 0.5:
            self._on_journal_filling()
        write_copies(self._store.files, self._folder, content)

    def _note_lags(self) -> None:
        lags = {}
        for partition, followed in self._followed.items():
            _, high = self._consumer.get_watermark_offsets(self._of(partition), cached=True)
            lags[partition] = max(0, high - followed.reached)
        self._lags = lags

    def _guard(self) -> None:
        try:
            self._run()
            self._consumer.close()
        except BaseException as error:  # noqa: BLE001  The copies cannot be trusted any more.
            self._on_failed(error)

    def _run(self) -> None:
        saved_s = time.monotonic()
        while not self._is_stopping:
            while not self._commands.empty():
                self._commands.get()()
            if self._followed:
                self._read()
                self._check_targets()
            else:
                time.sleep(_POLL_SECONDS)
            if time.monotonic() - saved_s > _SAVE_SECONDS:
                self.save()
                saved_s = time.monotonic()

    def _of(self, partition: int, offset: int = -1001) -> Any:
        from confluent_kafka import TopicPartition as KafkaPartition  # noqa: PLC0415

        return KafkaPartition(self._topic, partition, offset)

    def _assign(self, partitions: Collection[int]) -> None:
        if not partitions:
            return
        assigned = []
        for partition in partitions:
            position = self._copies.positions.get(partition, 0)
            self._followed[partition] = _Followed(position)
            assigned.append(self._of(partition, position))
        self._consumer.incremental_assign(assigned)

    def _unassign(self, partitions: Collection[int]) -> None:
        if not partitions:
            return
        self._consumer.incremental_unassign([self._of(each) for each in partitions])
        for partition in list(partitions):
            followed = self._followed.pop(partition)
            self._copies.note_positions({partition: followed.position})

    def _read(self) -> None:
        """Reads what is there, and appends it to the copies."""
        from confluent_kafka import KafkaError  # noqa: PLC0415

        for message in self._consumer.consume(_MESSAGES_MAX, _POLL_SECONDS):
            error = message.error()
            if error is None:
                self._note_message(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._note_end(message.partition(), message.offset())
            elif error.fatal():
                raise RuntimeError(f"the topic cannot be read: {error.str()}")
            else:
                _log.warning("the topic cannot be read now", reason=error.str())

    def _note_message(self, message: Any) -> None:
        partition = message.partition()
        followed = self._followed.get(partition)
        if followed is None:  # It was fetched before the partition was left.
            return
        if message.key() == CLAIM_KEY:
            self._append(partition, followed)
            self._note_claim(partition, message.value())
        elif (placed := placed_record(message)) is not None:
            if followed.records and followed.records[-1].batch_offset != placed.batch_offset:
                self._append(partition, followed)
            if not followed.records:
                followed.records_position = message.offset()
            followed.records.append(placed)
        followed.reached = message.offset() + 1

    def _note_claim(self, partition: int, value: bytes | None) -> None:
        try:
            claim = Claim.decode(value or b"")
        except MalformedClaim as error:
            _log.warning("a claim is left out", log_partition=partition, reason=str(error))
            return
        self._copies.note_claim(partition, claim)
        skip_unused(self._store, TopicPartition(OFFSETS_TOPIC, partition), claim)

    def _note_end(self, partition: int, offset: int) -> None:
        followed = self._followed.get(partition)
        if followed is not None:
            self._append(partition, followed)
            followed.reached = max(followed.reached, offset)

    def _append(self, partition: int, followed: _Followed) -> None:
        """Appends the batch that is complete now."""
        topic_partition = TopicPartition(OFFSETS_TOPIC, partition)
        for batch in batches_of(followed.records):
            append_read_batch(self._store, topic_partition, batch)
        followed.records.clear()

    def _check_targets(self) -> None:
        for partition, (end, future) in list(self._targets.items()):
            followed = self._followed.get(partition)
            if followed is None or followed.reached < end:
                continue
            self._append(partition, followed)
            del self._targets[partition]
            self._unassign([partition])
            if not future.cancelled():
                future.set_result(None)
