"""The node as a member of the nodes' consumer group, which says who owns which partition.

Kafka's group coordinator assigns the partitions. A thread polls the consumer, and tells the node
what it gets and what it has to give up. The consumer reads no records.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from offsetd_coordinator.cluster.kafka_clients import KafkaClients

_log = structlog.get_logger(__name__)

_POLL_SECONDS: Final = 0.05


class PartitionAssignment:
    """Joins the group with `start`, leaves it with `leave`. The callbacks run on its thread.

    `on_assigned` gets the *term* of each partition: a number that no later assignment has again.
    `on_revoked` may take some time: the partitions stay with this node until it returns. When
    `on_lost` is called, another node may own them already.
    """

    def __init__(
        self,
        clients: KafkaClients,
        client_id: str,
        *,
        on_assigned: Callable[[Mapping[int, int]], None],
        on_revoked: Callable[[Collection[int]], None],
        on_lost: Callable[[Collection[int]], None],
        on_failed: Callable[[BaseException], object],
    ) -> None:
        self.turn = threading.Lock()
        # Held for a moment by a thread that changes `owned` or `_terms`.
        self._changes = threading.Lock()
        self.owned: frozenset[int] = frozenset()
        """The partitions that the node may write to."""
        self._terms: dict[int, int] = {}  # Of the partitions that the group has assigned.
        self._term = 0
        self._topic = clients.names.offsets_topic
        self._consumer = clients.member(client_id)
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._on_lost = on_lost
        self._on_failed = on_failed
        self._generation: Any = None
        self._is_leaving = False
        self._thread = threading.Thread(target=self._guard, name="group-member", daemon=True)

    def start(self) -> None:
        """Joins the group."""
        self._thread.start()

    def leave(self) -> None:
        """Gives up all partitions one after the other, and leaves the group. Blocks."""
        self._is_leaving = True
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def assigned(self) -> frozenset[int]:
        """The partitions that the group has assigned. Not all of them may be written to yet."""
        return frozenset(self._terms)

    def generation(self) -> Any:
        """The group metadata, with the generation that a transaction must have. For any thread."""
        return self._generation

    def still_assigned(self, terms: Mapping[int, int]) -> frozenset[int]:
        """The partitions that were not given up since their term began."""
        assigned = self._terms
        return frozenset(each for each, term in terms.items() if assigned.get(each) == term)

    def may_write(self, terms: Mapping[int, int]) -> frozenset[int]:
        """Allows transactions for the partitions that are `still_assigned`, and returns these."""
        with self._changes:
            allowed = self.still_assigned(terms)
            self.owned |= allowed
        return allowed

    def _guard(self) -> None:
        try:
            self._consumer.subscribe(
                [self._topic],
                on_assign=self._note_assigned,
                on_revoke=self._note_revoked,
                on_lost=self._note_lost,
            )
            while not self._is_leaving:
                message = self._consumer.poll(_POLL_SECONDS)
                self._note_generation()
                if message is not None and (error := message.error()) is not None:
                    _check(error)
            self._consumer.close()
        except BaseException as error:  # noqa: BLE001  Nothing says any more who owns what.
            self._on_failed(error)

    def _note_generation(self) -> None:
        # The consumer serves one thread at a time, so the others get what this thread has asked.
        self._generation = self._consumer.consumer_group_metadata()

    def _note_assigned(self, consumer: Any, partitions: Any) -> None:
        consumer.incremental_assign(partitions)
        consumer.pause(partitions)
        added = frozenset(each.partition for each in partitions)
        self._note_generation()
        self._term += 1
        terms = dict.fromkeys(added, self._term)
        self._terms = {**self._terms, **terms}
        self._on_assigned(terms)

    def _note_revoked(self, _: Any, partitions: Any) -> None:
        removed = frozenset(each.partition for each in partitions)
        self._end_terms(removed)
        self._note_generation()
        if removed:
            self._on_revoked(removed)
            with self.turn, self._changes:
                self.owned -= removed

    def _note_lost(self, _: Any, partitions: Any) -> None:
        removed = frozenset(each.partition for each in partitions)
        self._end_terms(removed)
        # The brokers refuse a transaction that is running now, so there is nothing to wait for.
        with self._changes:
            self.owned -= removed
        if removed:
            self._on_lost(removed)

    def _end_terms(self, removed: Collection[int]) -> None:
        with self._changes:
            self._terms = {each: term for each, term in self._terms.items() if each not in removed}


def _check(error: Any) -> None:
    """Raises RuntimeError if the node cannot stay in the group; else logs the error."""
    from confluent_kafka import KafkaError  # noqa: PLC0415

    if error.code() == KafkaError.INVALID_SESSION_TIMEOUT:
        raise RuntimeError(
            "the brokers refuse cluster.session.timeout.ms: it must be within their"
            " group.min.session.timeout.ms and group.max.session.timeout.ms"
        )
    if error.fatal():
        raise RuntimeError(f"the node cannot stay in its group: {error.str()}")
    _log.warning("the nodes' group", reason=error.str())
