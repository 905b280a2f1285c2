"""The thread that commits frames, on producers that fail as they are told."""

from __future__ import annotations

import struct
import threading
from typing import Any

from confluent_kafka import KafkaError
from fake_producers import FakeKafka, Transaction, failed
from log_stores import P0, P1
from offsetd_coordinator.cluster.claims import CLAIM_KEY, Claim
from offsetd_coordinator.cluster.frames import OpenFrame
from offsetd_coordinator.cluster.transactions import CommittedFrame, Transactions
from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_PARTITION
from offsetd_coordinator.counters import ClusterCounters
from partition_logs import NOW_MS, batch_of
from patience import PATIENCE_SECONDS

OFFSETS, AUDIT = "__c_offsets", "__c_audit"
CLAIM = Claim(epoch=1, node_id="n1", address="a:1", producers=2, first_offset=0)
ABORTABLE = failed(KafkaError.ILLEGAL_GENERATION, txn_requires_abort=True)
TIMED_OUT = failed(KafkaError._TIMED_OUT, retriable=True)
FATAL = failed(KafkaError._FENCED, fatal=True)


class Member:
    """The node in its group."""

    def __init__(self, *owned: int) -> None:
        self.turn = threading.Lock()
        self.owned = frozenset(owned)
        self.epoch = 7

    def generation(self) -> Any:
        return f"generation {self.epoch}"


class Committing:
    """The thread, the frame that is filled, and what it said."""

    def __init__(self, *owned: int, producers: int = 2) -> None:
        self.kafka = FakeKafka()
        self.member = Member(*owned)
        self.frames = OpenFrame()
        self.done: list[CommittedFrame] = []
        self.errors: list[BaseException] = []
        self.committed_when_told: list[int] = []
        self._next = {P0: 0, P1: 0, AUDIT_PARTITION: 0}
        clients: Any = self.kafka
        self.transactions = Transactions(
            clients,
            self.frames,
            self.member,
            producers=producers,
            node_id="n1",
            idle_seconds=PATIENCE_SECONDS,
            counters=ClusterCounters(),
            on_committed=self._note,
            on_failed=self.errors.append,
        )

    def _note(self, done: CommittedFrame) -> None:
        self.done.append(done)
        self.committed_when_told.append(len(self.kafka.committed))

    def add(self, where: Any, count: int = 1) -> int:
        offset = self._next[where]
        self._next[where] += count
        return self.frames.add(
            where,
            batch_of(offset, count=count),
            last_offset=offset + count - 1,
            max_timestamp_ms=NOW_MS,
            is_own=where is AUDIT_PARTITION,
        )

    def run(self) -> None:
        """Commits what was added, and ends the thread."""
        self.transactions.start()
        self.transactions.stop()


def offsets_of(transaction: Transaction, partition: int = 0) -> list[int]:
    """The log offsets of the records."""
    return [
        struct.unpack(">qq", each.headers[-1][1])[0]
        for each in transaction.records
        if (each.topic, each.partition) == (OFFSETS, partition) and each.key != CLAIM_KEY
    ]
