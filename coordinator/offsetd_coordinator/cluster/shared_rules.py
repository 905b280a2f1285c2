"""The access rules of a cluster: records of the topic of settings that belong to no node.

Each rule is a record of its own, so changes by several nodes do not replace each other, and the
order of the topic decides. A change is one transaction. Each node reads the topic all the time. The
keys of rules begin with an empty node id, so nodes leave them out of their own logs.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from contextlib import closing
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import attrs
import structlog
from offsetd_storage.batch.record_batch import Record, decode_batch, encode_batch

from offsetd_coordinator.cluster.shared_internal_topics import NODE_HEADER
from offsetd_coordinator.cluster.topic_reading import (
    TopicUnreadable,
    ask_ends,
    committed_messages,
    topic_ends,
    wait_until_decided,
)
from offsetd_coordinator.cluster.topic_records import placed_record, topic_records
from offsetd_coordinator.configuration.acl_state import AclState
from offsetd_coordinator.cooperative_scheduling import call_soon

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from offsetd_storage.clock import Clock

    from offsetd_coordinator.cluster.kafka_clients import KafkaClients
    from offsetd_coordinator.configuration.acl_state import AclsReply, ChangeAcls
    from offsetd_coordinator.security.acl import Acl

_log = structlog.get_logger(__name__)

_OF_NO_NODE: Final = b"\0"
_POLL_SECONDS: Final = 0.2
_RETRY_SECONDS: Final = 1.0
_WRITE_SECONDS: Final = 30.0
_PROOF_SECONDS: Final = 5.0
# Far less than the time for which the topic keeps tombstones.
_READ_ANEW_SECONDS: Final = 3600.0
_MESSAGES_MAX: Final = 1000


@attrs.define
class LoadedRules:
    """The rules of the topic up to a Kafka offset (exclusive)."""

    state: AclState
    end: int


def load_rules(
    clients: KafkaClients, *, request_id_window_ms: int, transaction_seconds: float
) -> LoadedRules:
    """Reads all rules, also those whose transactions are being committed. Blocks.

    Raises TopicUnreadable.
    """
    topic = clients.names.config_topic
    [end] = topic_ends(clients, topic, [0]).values()
    wait_until_decided(clients, topic, {0: end}, seconds=2 * transaction_seconds)
    state = AclState(request_id_window_ms=request_id_window_ms)
    replay_rules(state, committed_messages(clients, topic, {0: end}))
    return LoadedRules(state, end)


def replay_rules(state: AclState, messages: Iterable[Any]) -> bool:
    """Replays the rules among the messages of the topic. Returns whether there are any."""
    found = [each for message in messages if (each := _rule_record(message)) is not None]
    for (_, batch_offset), records in groupby(found, key=lambda each: each[:2]):
        batch = encode_batch([record for *_, record in records], base_offset=batch_offset)
        state.replay(decode_batch(batch))
    return bool(found)


def _rule_record(message: Any) -> tuple[bytes | None, int, Record] | None:
    """The node that wrote a rule, the change, and the record; None for another record."""
    key, placed = message.key(), placed_record(message)
    if placed is None or key is None or not key.startswith(_OF_NO_NODE):
        return None
    (name, node), *headers = placed.record.headers or ((None, None),)
    if name != NODE_HEADER:
        return None
    record = attrs.evolve(placed.record, key=key[len(_OF_NO_NODE) :], headers=tuple(headers))
    return node, placed.batch_offset, record


class SharedRules:
    """The rules of all nodes, as this node has read them. On the event loop, but for its thread."""

    def __init__(
        self,
        clients: KafkaClients,
        loaded: LoadedRules,
        *,
        node_id: str,
        clock: Clock,
        reload: Callable[[], LoadedRules],
    ) -> None:
        """`reload` reads all rules again; it is called on the thread."""
        self._clients = clients
        self._topic = clients.names.config_topic
        self._loaded = loaded
        self._node_id = node_id
        self._clock = clock
        self._reload = reload
        self._loop = asyncio.get_running_loop()
        self._on_change: Callable[[], None] = lambda: None
        self._moved = asyncio.Event()
        self._changing = asyncio.Lock()
        self._producer: Any = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="offsetd-rules", daemon=True)
        self._proved_s = time.monotonic()

    @property
    def acls(self) -> frozenset[Acl]:
        """All rules that were read. Each change makes another set."""
        return self._loaded.state.acls

    @property
    def unreadable_records(self) -> int:
        """Records of rules that this version cannot read."""
        return self._loaded.state.unreadable_records

    def call_on_change(self, callback: Callable[[], None]) -> None:
        """Calls `callback` on the event loop after each change by any node."""
        self._on_change = callback

    def silent_seconds(self) -> float:
        """For how long it is not known whether this node has read the newest rules."""
        return max(0.0, time.monotonic() - self._proved_s - _PROOF_SECONDS)

    def start(self) -> None:
        """Begins to read the changes of all nodes."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread. Blocks."""
        self._stopping.set()
        self._thread.join()

    async def change(
        self, request: ChangeAcls, before_write: Callable[[AclsReply], Awaitable[None]]
    ) -> AclsReply:
        """Decides on a change by the newest rules; returns once this node has read it back.

        `before_write` is awaited if anything changes. Raises the refusal, and TopicUnreadable.
        """
        async with self._changing:
            await self.catch_up()
            end = self._loaded.end
            now_ms = self._clock.now_ms()
            decision = self._loaded.state.decide(request, now_ms, offset_next=end, leader_epoch=0)
            if decision.reply is None:
                assert decision.refusal is not None, "a decision is a reply or a refusal"
                raise decision.refusal
            if decision.batch is not None:
                await before_write(decision.reply)
                await asyncio.to_thread(self._write, decision.batch)
                await self.catch_up()
            return decision.reply

    async def catch_up(self) -> None:
        """Waits until all is read that the topic has now. Raises TopicUnreadable."""
        ends = await asyncio.to_thread(topic_ends, self._clients, self._topic, [0])
        try:
            async with asyncio.timeout(_WRITE_SECONDS):
                while self._loaded.end < ends[0]:
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError as error:
            raise TopicUnreadable(
                "topic {topic} cannot be read to its end", topic=self._topic
            ) from error

    def _write(self, batch: bytes) -> None:
        """Writes a change as one transaction. Blocks. Raises TopicUnreadable."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        try:
            if self._producer is None:
                self._producer = self._clients.rules_producer()
                self._producer.init_transactions(_WRITE_SECONDS)
            self._producer.begin_transaction()
            for each in topic_records(batch):
                self._producer.produce(
                    self._topic,
                    key=_OF_NO_NODE + (each.key or b""),
                    value=each.value,
                    partition=0,
                    timestamp=each.timestamp_ms,
                    headers=[(NODE_HEADER, self._node_id.encode()), *each.headers],
                )
            self._producer.commit_transaction(_WRITE_SECONDS)
        except (KafkaException, BufferError) as error:
            # The next producer ends the transaction of this one.
            self._producer = None
            raise TopicUnreadable(
                "the change of rules may have been written or not, ask again: {cause}",
                cause=str(error),
            ) from error

    # On the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
                if not self._stopping.is_set():
                    call_soon(self._loop, self._replace, self._reload())
            except Exception as error:  # noqa: BLE001  The rules known so far stay in force.
                _log.warning("the access rules cannot be read now", reason=str(error))
                self._stopping.wait(_RETRY_SECONDS)

    def _follow(self) -> None:
        """Reads on until it is told to stop, or the brokers were silent for too long."""
        from confluent_kafka import KafkaError, TopicPartition  # noqa: PLC0415

        end, waiting = self._loaded.end, list[Any]()
        asked_s = 0.0
        admin = self._clients.admin()
        with closing(self._clients.reader()) as consumer:
            consumer.assign([TopicPartition(self._topic, 0, end)])
            while not self._stopping.is_set():
                for message in consumer.consume(_MESSAGES_MAX, _POLL_SECONDS):
                    error = message.error()
                    if error is None:
                        waiting.append(message)
                    elif error.code() == KafkaError._PARTITION_EOF:
                        # All of a transaction is there, so a change counts as a whole.
                        end = message.offset()
                        call_soon(self._loop, self._note_read, waiting, end)
                        waiting = []
                now_s = time.monotonic()
                if now_s - self._proved_s > _READ_ANEW_SECONDS:
                    return
                if now_s - asked_s > _PROOF_SECONDS:
                    self._prove(admin, end)
                    asked_s = time.monotonic()

    def _prove(self, admin: Any, end: int) -> None:
        from confluent_kafka import KafkaException  # noqa: PLC0415

        with contextlib.suppress(KafkaException, TimeoutError):
            ends = ask_ends(admin, self._topic, [0], committed_only=True, seconds=_RETRY_SECONDS)
            if end >= ends[0]:
                self._proved_s = time.monotonic()

    # On the event loop -----------------------------------------------------------------------

    def _note_read(self, messages: list[Any], end: int) -> None:
        if replay_rules(self._loaded.state, messages):
            self._on_change()
        self._loaded.end = max(end, self._loaded.end)
        self._moved.set()

    def _replace(self, loaded: LoadedRules) -> None:
        self._loaded = loaded
        self._proved_s = time.monotonic()
        self._on_change()
        self._moved.set()
