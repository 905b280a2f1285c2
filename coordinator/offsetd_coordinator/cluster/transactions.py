"""The thread that commits frames: each frame is one Kafka transaction of the node.

The transaction also commits offsets for the nodes' group, with the node's generation (KIP-447). The
brokers refuse it if the generation is not current. So nothing of a node that lost its partitions is
ever committed.

If the brokers do not answer, it may be unknown whether a frame was committed. Then the producers
are made anew, which decides the transaction, and the committed offsets tell the outcome: each has
the frame's mark as its metadata.
"""

from __future__ import annotations

import threading
import time
import uuid
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import structlog

from offsetd_coordinator.cluster.claims import CLAIM_KEY
from offsetd_coordinator.cluster.shared_internal_topics import internal_record, internal_topics
from offsetd_coordinator.cluster.topic_records import topic_records
from offsetd_coordinator.cluster.transactional_producers import (
    TransactionalProducers,
    call_beside,
    told,
    until_known,
)
from offsetd_coordinator.runtime.commit_log import NodeFenced, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offsetd_coordinator.cluster.frames import Frame, FrameEntry, OpenFrame
    from offsetd_coordinator.cluster.kafka_clients import KafkaClients
    from offsetd_coordinator.counters import ClusterCounters

_log = structlog.get_logger(__name__)

_FLUSH_SECONDS: Final = 10.0
_FLUSH_LOOK_SECONDS: Final = 0.05
_ABORT_SECONDS_MAX: Final = 10.0
# librdkafka may ignore the first of these limits.
_OFFSETS_SECONDS: Final = 4.0
_OFFSETS_SECONDS_MAX: Final = 5.0
_DECIDE_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 0.005
_RETRY_SECONDS_MAX: Final = 0.2
# A node that stops gives up a frame after this time, if the brokers do not answer.
_STOP_SECONDS_MAX: Final = 20.0


class CommittedFrame(NamedTuple):
    """A frame whose transaction was committed."""

    frame: Frame
    lost: Sequence[FrameEntry]
    """The entries of partitions that the node no longer owned. They were not committed."""
    kafka_ends: dict[int, int]
    """By partition: the Kafka offset after the last record of the frame."""
    begun_s: float
    """The monotonic time before the transaction began."""
    may_be_committed: bool = False
    """Whether an earlier attempt may have committed what is `lost`."""


class GroupMember(Protocol):
    """The node as a member of the nodes' group. For any thread."""

    turn: threading.Lock
    """Held during each attempt. A partition is given up only by a thread that holds it."""

    @property
    def owned(self) -> frozenset[int]:
        """The partitions that the node may write to."""

    def generation(self) -> Any:
        """The group metadata of the node's consumer."""


class Transactions:
    """Commits the frames of an OpenFrame one after the other, until it is closed.

    Without work it commits an empty frame every `idle_seconds`, to learn if it was fenced.
    `on_committed` and `on_failed` are called on this thread. After a failure nothing is committed.
    """

    def __init__(
        self,
        clients: KafkaClients,
        frames: OpenFrame,
        member: GroupMember,
        *,
        producers: int,
        node_id: str,
        idle_seconds: float,
        counters: ClusterCounters,
        on_committed: Callable[[CommittedFrame], object],
        on_failed: Callable[[BaseException], object],
    ) -> None:
        self._clients = clients
        self._frames = frames
        self._member = member
        self._node_id = node_id
        self._idle_s = idle_seconds
        self._counters = counters
        self._on_committed = on_committed
        self._on_failed = on_failed
        self._topics = internal_topics(clients.names)
        self._producers = TransactionalProducers(clients, producers)
        # The marks of two processes of one node differ.
        self._mark = f"{node_id} {uuid.uuid4().hex}"
        self._is_stuck = False  # The producers have to be replaced before the next attempt.
        self._doubtful: CommittedFrame | None = None  # The frame, if it was committed.
        self._stopped_s: float | None = None
        self._thread = threading.Thread(target=self._guard, name="transactions", daemon=True)

    def fence(self) -> None:
        """See `TransactionalProducers.fence`."""
        self._producers.fence()

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Commits what is left, and ends the thread. Blocks."""
        self._stopped_s = time.monotonic()
        self._frames.close()
        if self._thread.ident is not None:
            self._thread.join()

    def _guard(self) -> None:
        try:
            while (frame := self._frames.take(idle_seconds=self._idle_s)) is not None:
                self._on_committed(self._committed(frame))
        except BaseException as error:  # noqa: BLE001  Whatever it was: nothing more is committed.
            self._on_failed(error)

    def _committed(self, frame: Frame) -> CommittedFrame:
        """Commits a frame, however many attempts that takes.

        Raises NodeFenced, and OutcomeUnknown if the brokers do not answer while the node stops.
        """
        wait_s = _RETRY_SECONDS
        was_doubtful = False
        while True:
            was_doubtful |= self._doubtful is not None
            with self._member.turn:
                if self._is_stuck and not self._replace_producers():
                    done = None
                elif self._doubtful is not None:
                    done = self._decided(self._doubtful)
                else:
                    done = self._attempt(frame)
            if done is not None:
                return done._replace(may_be_committed=was_doubtful)
            stopped_s = self._stopped_s
            if stopped_s is not None and time.monotonic() - stopped_s > _STOP_SECONDS_MAX:
                raise OutcomeUnknown("the brokers do not answer, and the node stops")
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, _RETRY_SECONDS_MAX)

    def _attempt(self, frame: Frame) -> CommittedFrame | None:
        """One transaction. None if it was aborted, or if its outcome is not known yet."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        # Read the generation before `owned`. With a later generation, the brokers would accept
        # writes to partitions that the node no longer owns.
        generation, owned = self._member.generation(), self._member.owned
        kept: list[FrameEntry] = []
        lost: list[FrameEntry] = []
        for each in frame.entries:
            is_owned = each.topic_partition.partition in owned
            (kept if is_owned and not self._frames.is_dropped(each) else lost).append(each)
        begun_s = time.monotonic()
        if not (kept or frame.internal_entries or owned):
            return CommittedFrame(frame, lost, {}, 0.0)
        producer = self._producers.next()
        done = CommittedFrame(frame, lost, {}, begun_s if owned else 0.0)
        is_commit_asked = False
        try:
            producer.begin_transaction()
            self._produce(producer, frame, kept, owned, done.kafka_ends)
            sending = self._send_offsets(producer, frame, kept, owned, generation)
            flush(producer, sending)
            sending.result(_OFFSETS_SECONDS_MAX)
            is_commit_asked = True
            until_known(producer.commit_transaction)
        except TimeoutError:
            self._note_stuck("a producer does not find the group's coordinator")
        except OutcomeUnknown as unknown:
            self._note_stuck(str(unknown))
        except KafkaException as error:
            self._abort(producer, error)
        else:
            return done
        if self._is_stuck and is_commit_asked:
            self._doubtful = done
        return None

    def _decided(self, doubtful: CommittedFrame) -> CommittedFrame | None:
        """The frame, if its transaction was committed. Else None: the caller sends or asks again.

        The producers are new, so the transaction is decided. If other nodes have committed offsets
        of all its partitions meanwhile, those partitions are lost, and nothing of them is sent.
        """
        from confluent_kafka import KafkaException, TopicPartition  # noqa: PLC0415

        partitions = {each.topic_partition.partition for each in doubtful.frame.entries}
        partitions |= doubtful.frame.claims.keys() | self._member.owned
        if not partitions:  # Only the node's own records, which may be written twice.
            self._doubtful = None
            return None
        topic = self._clients.names.offsets_topic
        reader = self._clients.reader()
        try:
            found = reader.committed(
                [TopicPartition(topic, each) for each in sorted(partitions)], _DECIDE_SECONDS
            )
        except KafkaException as error:
            _log.info("it is not known yet whether a transaction was committed", reason=told(error))
            return None
        finally:
            reader.close()
        if any(each.error for each in found):
            return None
        self._doubtful = None
        mark = self._mark_of(doubtful.frame)
        return doubtful if any(each.metadata == mark for each in found) else None

    def _mark_of(self, frame: Frame) -> str:
        return f"{self._mark} {frame.number}"

    def _produce(
        self,
        producer: Any,
        frame: Frame,
        kept: list[FrameEntry],
        owned: frozenset[int],
        ends: dict[int, int],
    ) -> None:
        """Queues the records of a frame. Their Kafka offsets come to `ends`, by partition."""
        topic = self._clients.names.offsets_topic
        last_of = {each.topic_partition.partition: each for each in kept}
        for entry in kept:
            partition = entry.topic_partition.partition

            def note_end(_: Any, message: Any, partition: int = partition) -> None:
                ends[partition] = (message.offset() or 0) + 1

            records = list(topic_records(entry.batch))
            for each in records[:-1]:
                put_record(producer, topic, partition, each)
            is_last = last_of[partition] is entry
            put_record(producer, topic, partition, records[-1], note_end if is_last else None)
        for partition, claim in frame.claims.items():
            if partition in owned:
                producer.produce(topic, claim.encode(), CLAIM_KEY, partition)
        for entry in frame.internal_entries:
            for each in topic_records(entry.batch):
                record = internal_record(self._node_id, each)
                put_record(producer, self._topics[entry.topic_partition], 0, record)

    def _send_offsets(
        self,
        producer: Any,
        frame: Frame,
        kept: list[FrameEntry],
        owned: frozenset[int],
        generation: Any,
    ) -> Future[None]:
        """Begins to commit the offsets. This does not wait for the records."""
        if not owned:
            nothing: Future[None] = Future()
            nothing.set_result(None)
            return nothing
        return call_beside(
            producer.send_offsets_to_transaction,
            self._offsets(frame, kept, owned),
            generation,
            _OFFSETS_SECONDS,
        )

    def _offsets(self, frame: Frame, kept: list[FrameEntry], owned: frozenset[int]) -> list[Any]:
        """Offsets for the partitions of a frame: the brokers check the generation for them."""
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        partitions = {each.topic_partition.partition for each in kept}
        partitions |= frame.claims.keys() & owned
        topic = self._clients.names.offsets_topic
        mark = self._mark_of(frame)
        return [
            TopicPartition(topic, each, frame.number, mark)
            for each in sorted(partitions) or [min(owned)]
        ]

    def _abort(self, producer: Any, error: Any) -> None:
        """Aborts after an error, or notes that the producers must be made anew.

        Raises NodeFenced.
        """
        from confluent_kafka import KafkaException  # noqa: PLC0415

        _raise_if_fenced(error)
        if error.args[0].fatal():
            self._note_stuck(told(error))
            return
        self._counters.transaction_retries += 1
        _log.info("a transaction is sent again", reason=told(error))
        try:
            until_known(producer.abort_transaction, seconds_max=_ABORT_SECONDS_MAX)
        except KafkaException as failed:
            _raise_if_fenced(failed)
            # INVALID_TXN_STATE, for example: a coordinator that is new does not know it as open.
            self._note_stuck(told(failed))
        except OutcomeUnknown as unknown:
            self._note_stuck(str(unknown))

    def _note_stuck(self, reason: str) -> None:
        self._is_stuck = True
        self._counters.producer_replacements += 1
        _log.warning("the producers are replaced", reason=reason)

    def _replace_producers(self) -> bool:
        """Returns False if the brokers do not answer, or refuse. Raises NodeFenced."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        try:
            self._producers.replace()
        except OutcomeUnknown:
            return False
        except KafkaException as error:
            _raise_if_fenced(error)
            _log.warning("the new producers are refused", reason=told(error))
            return False
        self._is_stuck = False
        return True


def _raise_if_fenced(error: Any) -> None:
    """Raises NodeFenced if another process has this node's transactional ids."""
    from confluent_kafka import KafkaError  # noqa: PLC0415

    known = error.args[0]
    is_fenced = known.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)
    # Without `fatal`, the brokers have only ended a transaction that took too long.
    if is_fenced or (known.fatal() and known.code() == KafkaError.INVALID_PRODUCER_EPOCH):
        raise NodeFenced(told(error)) from None  # A cause would make it a defect of ours.


def flush(producer: Any, sending: Future[None]) -> None:
    """Sends what is queued, until all is acknowledged or `sending` has failed.

    It ends the linger of the producer, so each partition gets few batches.
    """
    deadline_s = time.monotonic() + _FLUSH_SECONDS
    while producer.flush(_FLUSH_LOOK_SECONDS) and time.monotonic() < deadline_s:
        # Then the producer keeps what is queued until the abort.
        if sending.done() and sending.exception() is not None:
            return


def put_record(
    producer: Any, topic: str, partition: int, record: Any, on_delivery: Any = None
) -> None:
    """Queues a record. Waits while the producer's queue is full."""
    key, value, timestamp_ms, headers = record
    while True:
        try:
            producer.produce(topic, value, key, partition, on_delivery, None, timestamp_ms, headers)
        except BufferError:
            producer.poll(0.01)
        else:
            return
