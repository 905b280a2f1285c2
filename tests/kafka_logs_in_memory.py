"""Commit logs of nodes on Kafka that share a topic in memory, for tests of a log in memory.

A frame is committed in the loop's next turn, unless the log `holds`.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

from cluster_logs import CONFIG
from log_stores import opened
from memory_commit_log import MemoryPartition
from offsetd_coordinator.cluster.copy_appends import append_read_batch
from offsetd_coordinator.cluster.frames import OpenFrame
from offsetd_coordinator.cluster.kafka_commit_log import KafkaCommitLog
from offsetd_coordinator.cluster.transactions import CommittedFrame
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.log.store_config import LogStoreConfig
from offsetd_storage.log_store import OFFSETS_TOPIC
from offsetd_storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection

    from memory_commit_log import MemoryTopic

LEASE_SECONDS = 3600.0  # No test here waits for a proof.


class KafkaLogInMemory(KafkaCommitLog):
    """Has the calls by which tests move the partitions of a `MemoryCommitLog`."""

    def __init__(self, topic: MemoryTopic, owned: Collection[int] = ()) -> None:
        config = LogStoreConfig(partitions=len(topic.logs), other_topics=CONFIG.other_topics)
        self.holds = False
        self._topic = topic
        self._open = OpenFrame()
        self._owned: set[int] = set()
        self._internal: dict[TopicPartition, MemoryPartition] = {}
        super().__init__(
            opened(SimulatedFiles(), config, random=Random(1)),
            self._open,
            loop=asyncio.get_running_loop(),
            read_lease_seconds=LEASE_SECONDS,
            on_failed=lambda _: None,
        )
        for partition in owned:
            self.begin_load(partition)
            self.serve(partition)

    def begin_load(self, partitions: int | Collection[int]) -> None:  # type: ignore[override]
        """Reads the topic into the copy."""
        found = [partitions] if isinstance(partitions, int) else partitions
        super().begin_load(found)
        for partition in found:
            owner: object = self
            assert self._topic.owners.setdefault(partition, owner) is self  # type: ignore[arg-type]
            self._owned.add(partition)
            for batch in self._topic.logs[partition].batches:
                append_read_batch(self._store, TopicPartition(OFFSETS_TOPIC, partition), batch)

    def serve(self, partition: int) -> None:
        """Commits what waits, too: a partition answers nothing before a frame of its term."""
        super().serve(partition)
        self.flush()

    def release(self, partition: int) -> None:
        """Commits what waits, and gives the partition up."""
        self.leave(partition)
        self.flush()
        self.lose(partition)

    def lose(self, partitions: int | Collection[int]) -> None:  # type: ignore[override]
        """Another node took the partitions: what is not committed never will be."""
        found = [partitions] if isinstance(partitions, int) else partitions
        for partition in found:
            self._owned.discard(partition)
            self._topic.owners.pop(partition, None)
        super().lose(found)

    def flush(self) -> None:
        """Commits the open frame."""
        frame = self._open.take(idle_seconds=0)
        assert frame is not None
        lost = []
        for entry in frame.entries:
            partition = entry.topic_partition.partition
            if partition not in self._owned or self._open.is_dropped(entry):
                lost.append(entry)
                continue
            log = self._topic.logs[partition]
            log.append(entry.batch)
            log.durable_count = len(log.batches)
        begun_s = asyncio.get_running_loop().time() if self._owned else 0.0
        self.note_committed(CommittedFrame(frame, lost, {}, begun_s))

    def internal_log(self, topic_partition: TopicPartition) -> MemoryPartition:
        """A log of this node's own."""
        return self._internal.setdefault(topic_partition, MemoryPartition())

    def _kick(self) -> None:
        super()._kick()
        if not self.holds and self.failed is None:
            self.flush()
