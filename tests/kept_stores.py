"""A store on a simulated disk under a clock moved by hand, with the upkeep that a server has."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Self

import attrs
from cleaned_logs import record_batch, replayed
from log_stores import FOLDER, log_bytes
from offsetd_storage.clock import ManualClock
from offsetd_storage.configuration.log_config import COMPACT, LogConfig
from offsetd_storage.configuration.server_config import (
    BackgroundConfig,
    CleanerConfig,
    DiskConfig,
    RetentionConfig,
)
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.log.store_config import TopicSpec
from offsetd_storage.log_store import OFFSETS_TOPIC, LogStore, LogStoreConfig
from offsetd_storage.maintenance.upkeep import Upkeep, UpkeepConfig
from offsetd_storage.topic_partition import TopicPartition
from partition_logs import NOW_MS, bases
from patience import PATIENCE_SECONDS
from server_process import poll

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_storage.cleaner.cleaner_status import FinishedRound
    from offsetd_storage.cleaner.cleaning_round import CleanReport
    from offsetd_storage.cleaner.uncleanable_logs import UncleanablePartition
    from offsetd_storage.errors import StorageFailed
    from offsetd_storage.retention.retention_rules import FutureTimestamp

HOUR_MS = 3_600_000
LOG = LogConfig(
    cleanup_policy=COMPACT,
    segment_bytes_max=900,
    index_interval_bytes=150,
    preallocate_step_bytes=512,
    segment_ms=HOUR_MS,
    segment_idle_ms=-1,
)
CONFIG = LogStoreConfig(
    partitions=3, log=LOG, journal_file_bytes=16384, journal_header_bytes=512, recovery_threads=1
)
# A map of 2 MiB, and nothing that runs by itself but what a test moves the clock for.
CLEANER = CleanerConfig(dedupe_buffer_bytes=2 << 20)
UPKEEP = UpkeepConfig(
    cleaner=CLEANER,
    retention=RetentionConfig(check_interval_ms=300_000),
    background=BackgroundConfig(),
    disk=DiskConfig(reserve_bytes=0, free_bytes_min=0),
)
P0, P1, P2 = (TopicPartition(OFFSETS_TOPIC, partition) for partition in range(3))
EVENTS = TopicPartition("events", 0)


def with_events(log: LogConfig) -> LogStoreConfig:
    """A second topic of one partition."""
    return attrs.evolve(
        CONFIG, other_topics=(TopicSpec(topic=EVENTS.topic, partitions=1, log=log),)
    )


class KeptStore:
    """The store, what keeps it, and all that this has told. The upkeep is not started yet."""

    def __init__(
        self,
        config: LogStoreConfig = CONFIG,
        upkeep: UpkeepConfig = UPKEEP,
        *,
        files: SimulatedFiles | None = None,
        clock: ManualClock | None = None,
        cleaner_delay_ms: int = 0,
    ) -> None:
        self.clock = clock or ManualClock(NOW_MS)
        self.files = files or SimulatedFiles(clock=self.clock)
        self.files.clock = self.clock
        self.config = config
        self.rounds: list[FinishedRound] = []
        self.failures: list[StorageFailed] = []
        self.uncleanable: list[UncleanablePartition] = []
        self.blocked: list[FutureTimestamp | None] = []
        self.store = LogStore.open(self.files, FOLDER, config, clock=self.clock, random=Random(1))
        self.upkeep = Upkeep(
            self.store,
            FOLDER,
            upkeep,
            files=self.files,
            clock=self.clock,
            random=Random(2),
            sleep=lambda seconds: self.clock.advance(round(seconds * 1000)),
            cleaner_delay_ms=cleaner_delay_ms,
            on_failed=self.failures.append,
            on_round=self.rounds.append,
            on_uncleanable=self.uncleanable.append,
            on_blocked=lambda _, blocked: self.blocked.append(blocked),
        )

    def __enter__(self) -> Self:
        self.upkeep.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.upkeep.stop()
        self.store.abandon()

    # Appending

    def put(self, topic_partition: TopicPartition, key: str, value: str | None) -> None:
        """Appends one record; its time is the clock's."""
        offset = self.store.logs[topic_partition].offset_next
        now_ms = self.clock.now_ms()
        batch = record_batch(offset, key, value, timestamp_ms=now_ms)
        self.store.append(topic_partition, batch, last_offset=offset, max_timestamp_ms=now_ms)

    def overwrite(self, topic_partition: TopicPartition, times: int = 30) -> None:
        """Two keys get values again and again, some of them in closed segments; all durable."""
        for number in range(times):
            self.put(topic_partition, "ab"[number % 2], f"value {number}")
        self.store.settle_points()

    # What it holds

    def size(self, topic_partition: TopicPartition) -> int:
        """The bytes of a log's batches."""
        return self.store.logs[topic_partition].size_bytes

    def values(self, topic_partition: TopicPartition) -> dict[bytes, bytes]:
        """What a log says, replayed."""
        self.store.flush()
        return replayed(log_bytes(self.store.logs[topic_partition]))

    def bases(self, topic_partition: TopicPartition) -> list[int]:
        """Where its segments begin."""
        return bases(self.store.logs[topic_partition])

    # Time

    def advance(self, milliseconds: int) -> None:
        """Lets time pass, and everybody see it."""
        self.clock.advance(milliseconds)
        self.upkeep.wake()

    def until(self, condition: Callable[[], object]) -> None:
        """Waits for what the upkeep does by itself; the clock stands still."""
        poll(condition, PATIENCE_SECONDS, self.upkeep.cleaner.status)

    def run(self, task: str) -> None:
        """Has a task run once more, and waits until it has."""

        def runs() -> int:
            return next(each.runs for each in self.upkeep.tasks if each.name == task)

        before = runs()
        self.upkeep.run_soon(task)
        self.until(lambda: runs() > before)

    def look(self) -> None:
        """Has the cleaner look at everything once more, and waits until it has."""
        statuses = self.upkeep.cleaner.status.threads
        runs = [each.run.runs for each in statuses]
        self.upkeep.cleaner.wake()
        self.until(
            lambda: all(
                each.run.runs > before + 1 or (not each.run.is_running and each.run.runs > before)
                for each, before in zip(self.upkeep.cleaner.status.threads, runs, strict=True)
            )
        )


def compacted(
    kept: KeptStore, topic_partition: TopicPartition, *, rolls_active: bool = False
) -> CleanReport | None:
    """What became of an operator's request."""
    answers = kept.upkeep.cleaner.compact([topic_partition], rolls_active=rolls_active)
    return answers[topic_partition].result(timeout=PATIENCE_SECONDS)
