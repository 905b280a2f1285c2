"""A node's log on Kafka without Kafka: the test commits the frames, and moves the clock."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING

import attrs
from log_stores import SMALL, opened
from offsetd_coordinator.cluster import kafka_commit_log
from offsetd_coordinator.cluster.frames import OpenFrame
from offsetd_coordinator.cluster.kafka_commit_log import KafkaCommitLog
from offsetd_coordinator.cluster.transactions import CommittedFrame
from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_TOPIC
from offsetd_storage.batch.record_batch import batch_header
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.log.store_config import TopicSpec
from partition_logs import batch_of
from patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    import pytest
    from offsetd_coordinator.cluster.frames import Frame
    from offsetd_storage.errors import StorageFailed
    from offsetd_storage.log_store import LogStore

LEASE_S = 1.0
CONFIG = attrs.evolve(
    SMALL, other_topics=(TopicSpec(topic=AUDIT_TOPIC, partitions=1, log=SMALL.log),)
)


class LogByHand:
    """A `KafkaCommitLog` whose frames are committed by `commit`, at the time `now_s`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, store: LogStore | None = None) -> None:
        self.now_s = 100.0
        clock = SimpleNamespace(monotonic=lambda: self.now_s)
        monkeypatch.setattr(kafka_commit_log, "time", clock)
        self.store = store or opened(SimulatedFiles(), CONFIG, random=Random(1))
        self.frames = OpenFrame()
        self.owned: set[int] = set()
        self.copied: dict[int, int] = {}
        self.failures: list[StorageFailed] = []
        self.log = KafkaCommitLog(
            self.store,
            self.frames,
            loop=asyncio.get_running_loop(),
            read_lease_seconds=LEASE_S,
            on_failed=self.failures.append,
            on_copied=self.copied.update,
        )
        self._ends: dict[int, int] = {}

    def serve(self, *partitions: int) -> None:
        """Becomes the owner of partitions, as after a takeover."""
        self.log.begin_load(partitions)
        self.owned |= set(partitions)
        for partition in partitions:
            self._ends[partition] = self.log.reader(partition).offset_next
            self.log.serve(partition)

    def append(self, partition: int, count: int = 1) -> int:
        """Appends a batch, and returns its ticket."""
        offset = self._ends[partition]
        batch = batch_of(offset, count=count)
        header = batch_header(batch)
        ticket = self.log.append(
            partition,
            batch,
            last_offset=header.last_offset,
            max_timestamp_ms=header.max_timestamp_ms,
        )
        self._ends[partition] = header.last_offset + 1
        return ticket

    def taken(self) -> Frame:
        """The frame that is open, as the thread that commits takes it."""
        frame = self.frames.take(idle_seconds=0)
        assert frame is not None
        return frame

    def note(self, frame: Frame, *, begun_s: float | None = None) -> None:
        """The frame's transaction was committed, or there was none: nothing is owned."""
        lost = [each for each in frame.entries if each.topic_partition.partition not in self.owned]
        kept = [each.topic_partition.partition for each in frame.entries if each not in lost]
        begun_s = self.now_s if begun_s is None else begun_s
        ends = dict.fromkeys(kept, 1000 + frame.number)
        done = CommittedFrame(frame, lost, ends, begun_s if self.owned else 0.0)
        self.log.note_committed(done)

    def commit(self) -> None:
        """All that waits is committed now."""
        self.note(self.taken())

    def copy(self, partition: int) -> int:
        """The end of a partition's copy."""
        return self.log.durable_end(partition)


async def ended(future: asyncio.Future[None] | None) -> None:
    """Waits for an answer that was not there at once."""
    assert future is not None, "it was to wait"
    await asyncio.wait_for(future, PATIENCE_SECONDS)
