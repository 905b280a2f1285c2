"""The transactional producers of a node, which take turns; and calls of a producer that may hang.

A producer that begins again right after its commit waits until the brokers have written the markers
of its last transaction. So a node has several, and uses them one after the other.

A producer can get stuck. librdkafka looks for the coordinator of a group again only when some
connection opens or closes, and ignores the timeout meanwhile (its issues 5456 and 5511). All
producers know the same coordinator, so all are replaced. The brokers then abort what an old one
left open, and refuse what it sends later.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from offsetd_coordinator.runtime.commit_log import OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offsetd_coordinator.cluster.kafka_clients import KafkaClients

_CALL_SECONDS: Final = 10.0
_FENCE_SECONDS: Final = 60.0
_UNKNOWN_SECONDS_MAX: Final = 30.0
_REPLACE_SECONDS_MAX: Final = 10.0
_RETRY_SECONDS: Final = 0.005


class TransactionalProducers:
    """The producers of this node. For one thread."""

    def __init__(self, clients: KafkaClients, count: int) -> None:
        self._clients = clients
        self._producers = [clients.producer(number) for number in range(count)]
        self._turn = -1
        self._not_ready: list[Any] = []  # New ones that the brokers do not know yet.

    def fence(self) -> None:
        """Ends what an earlier process of this node has left open, and keeps it from writing.

        Blocks. Raises KafkaException.
        """
        init_together(self._producers, _FENCE_SECONDS)

    def next(self) -> Any:
        """The producer whose turn it is."""
        self._turn = (self._turn + 1) % len(self._producers)
        return self._producers[self._turn]

    def replace(self) -> None:
        """Makes all anew, and aborts what the old ones left open. Blocks.

        Raises KafkaException, or OutcomeUnknown if the brokers do not answer in time. Then call it
        again: it goes on with the same new producers.
        """
        if not self._not_ready:
            old = self._producers
            self._producers = [self._clients.producer(number) for number in range(len(old))]
            self._not_ready = list(self._producers)
            # The end of a producer may block, as its calls may.
            threading.Thread(target=old.clear, name="old-producers", daemon=True).start()
        _together(list(self._not_ready), self._init)

    def _init(self, producer: Any) -> None:
        until_known(producer.init_transactions, seconds_max=_REPLACE_SECONDS_MAX)
        self._not_ready.remove(producer)


def init_together(producers: Sequence[Any], seconds: float) -> None:
    """Initialises producers at the same time, which ends open transactions of their ids. Blocks.

    Raises KafkaException if one cannot be initialised.
    """
    _together(producers, lambda each: each.init_transactions(seconds))


def _together(producers: Sequence[Any], call: Callable[[Any], None]) -> None:
    with ThreadPoolExecutor(len(producers)) as pool:
        for _ in pool.map(call, producers):
            pass


def call_beside(call: Callable[..., object], *arguments: object) -> Future[None]:
    """Calls on a thread of its own, because the call may hang.

    If it does, its producer must be replaced: the call may still go on.
    """
    outcome: Future[None] = Future()

    def run() -> None:
        try:
            call(*arguments)
        except BaseException as error:  # noqa: BLE001  Raised where the result is waited for.
            outcome.set_exception(error)
        else:
            outcome.set_result(None)

    threading.Thread(target=run, name="producer-call", daemon=True).start()
    return outcome


def until_known(
    call: Callable[[float], None], *, seconds_max: float = _UNKNOWN_SECONDS_MAX
) -> None:
    """Calls until the outcome is known. Raises KafkaException if the call failed.

    Raises OutcomeUnknown if the brokers do not report the outcome within `seconds_max`.
    """
    from confluent_kafka import KafkaException  # noqa: PLC0415

    deadline_s = time.monotonic() + seconds_max
    while True:
        try:
            call(_CALL_SECONDS)
        except KafkaException as error:
            known = error.args[0]
            if known.fatal() or known.txn_requires_abort() or not known.retriable():
                raise
            if time.monotonic() > deadline_s:
                raise OutcomeUnknown(told(error)) from None
            time.sleep(_RETRY_SECONDS)
        else:
            return


def told(error: Any) -> str:
    """What a KafkaException says, with the name of its code."""
    return f"{error.args[0].name()}: {error.args[0].str()}"
