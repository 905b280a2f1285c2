"""What runs beside the appends of an open store: Kafka's periodic tasks and the log cleaner.

- `kafka-log-retention` rolls active segments that are old enough by the clock, moves the recovery
  points there, and deletes what is due of logs that are not compacted; the cleaner's threads see
  to the others, or this task, where there are none.
- `kafka-log-flusher` syncs segments, which is never needed: the journal makes appends durable.
- `kafka-recovery-point-checkpoint` syncs segments and moves the recovery points, so that the
  journal can be used again. It is asked for early where the journal fills (`move_points_soon`).
- `kafka-log-start-offset-checkpoint` writes Kafka's text checkpoints.
- `kafka-delete-logs` removes files that have waited for `file.delete.delay.ms`.
- `offsetd-disk-space` looks at what is free, and makes room where that is little.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from offsetd_storage.cleaner.log_cleaner import LogCleaner
from offsetd_storage.delayed_deletion import FileDeleter
from offsetd_storage.disk_relief import DiskRelief
from offsetd_storage.disk_space import DiskSpace
from offsetd_storage.errors import StorageError, StorageFailed, StorageFull
from offsetd_storage.log_config import OFFSETS_TOPIC
from offsetd_storage.scheduler import (
    DELETE_LOGS,
    LOG_FLUSHER,
    LOG_RETENTION,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    PeriodicTask,
    Scheduler,
)
from offsetd_storage.server_config import (
    BackgroundConfig,
    CleanerConfig,
    DiskConfig,
    RetentionConfig,
)

if TYPE_CHECKING:
    import random as random_module
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Future
    from pathlib import Path

    from offsetd_storage.cleaner.cleaner_status import FinishedRound
    from offsetd_storage.cleaner.failures import UncleanablePartition
    from offsetd_storage.clock import Clock
    from offsetd_storage.files import Files
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.partition_log import PartitionLog
    from offsetd_storage.retention import FutureTimestamp
    from offsetd_storage.supervision import RunStatus
    from offsetd_storage.topic_partition import TopicPartition

DISK_SPACE: Final = "offsetd-disk-space"
_DELETION_LOOK_MS: Final = 1000  # How late a file may go.


@attrs.frozen(kw_only=True)
class UpkeepConfig:
    """Settings of all that runs beside the appends."""

    cleaner: CleanerConfig = attrs.Factory(CleanerConfig)
    retention: RetentionConfig = attrs.Factory(RetentionConfig)
    background: BackgroundConfig = attrs.Factory(BackgroundConfig)
    disk: DiskConfig = attrs.Factory(DiskConfig)


class Upkeep:
    """For any thread. The callbacks are called on threads of its own.

    `on_failed` gets the store's failure, perhaps more than once: the process has to exit.
    """

    def __init__(
        self,
        store: LogStore,
        folder: Path,
        config: UpkeepConfig,
        *,
        files: Files,
        clock: Clock,
        random: random_module.Random,
        sleep: Callable[[float], None] = time.sleep,
        on_failed: Callable[[StorageFailed], object],
        on_round: Callable[[FinishedRound], object] = lambda _: None,
        on_uncleanable: Callable[[UncleanablePartition], object] = lambda _: None,
        on_blocked: Callable[[TopicPartition, FutureTimestamp | None], object] | None = None,
    ) -> None:
        """`folder` is the store's. Starts nothing, and reads the cleaner's checkpoint: OSError."""
        self.config = config
        self.deleter = FileDeleter(files, clock)
        self.cleaner = LogCleaner(
            store,
            config.cleaner,
            files=files,
            folder=folder,
            clock=clock,
            random=random,
            sleep=sleep,
            deleter=self.deleter,
            on_round=on_round,
            on_failed=on_failed,
            on_uncleanable=on_uncleanable,
            on_blocked=on_blocked,
        )
        self.retention = self.cleaner.retention
        self._store = store
        self.disk = DiskSpace(
            files,
            folder,
            config.disk,
            clock=clock,
            segment_bytes_most=self._segment_bytes_most,
            on_low=lambda: self.run_soon(DISK_SPACE),
        )
        self.relief = DiskRelief(self.disk, self._begin_relief, clock=clock)
        self._clock = clock
        self._on_failed = on_failed
        self._life_lock = threading.Lock()
        self._points_asked = False
        self._scheduler = Scheduler(
            self._new_tasks(), threads=config.background.threads, clock=clock
        )

    # Life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the tasks and the cleaner. Raises StorageFailed."""
        with self._life_lock:
            self._scheduler.start()
            self.cleaner.start()

    def stop(self) -> None:
        """Ends all threads, rounds of the cleaner at their next chunk. Blocks."""
        with self._life_lock:
            self._scheduler.tell_to_stop()
            self.cleaner.stop()
            self._scheduler.stop()

    def configure(self, config: UpkeepConfig) -> None:
        """Other settings, from now on. Blocks while the cleaner's threads are exchanged."""
        with self._life_lock:
            self.config = config
            self.disk.configure(config.disk)
            self._scheduler.configure(self._new_tasks(), threads=config.background.threads)
            self.cleaner.configure(config.cleaner)

    def wake(self) -> None:
        """Looks at the clock again, which was moved."""
        self._scheduler.wake()
        self.cleaner.wake()

    def run_soon(self, name: str) -> None:
        """Runs a task at once."""
        self._scheduler.run_soon(name)

    def move_points_soon(self) -> None:
        """Moves the recovery points at once, as the journal fills. Cheap where it was asked."""
        if not self._points_asked:
            self._points_asked = True
            self._scheduler.run_soon(RECOVERY_POINT_CHECKPOINT)

    # What it says of itself --------------------------------------------------------------------

    @property
    def tasks(self) -> tuple[RunStatus, ...]:
        """How each task went so far."""
        return self._scheduler.statuses

    @property
    def blocked(self) -> Mapping[TopicPartition, FutureTimestamp]:
        """What held back retention by time at the last check, by log."""
        return self.retention.blocked

    # The tasks -------------------------------------------------------------------------------

    def _new_tasks(self) -> list[PeriodicTask]:
        background, retention = self.config.background, self.config.retention
        store = self._store
        task = partial(self._task, initial_delay_ms=background.initial_delay_ms)
        return [
            task(LOG_RETENTION, self._retain, retention.check_interval_ms),
            task(LOG_FLUSHER, store.sync_segments, background.flush_interval_ms),
            task(
                RECOVERY_POINT_CHECKPOINT, self._move_points, background.recovery_point_interval_ms
            ),
            task(
                LOG_START_OFFSET_CHECKPOINT,
                store.checkpoint_log_starts,
                background.log_start_interval_ms,
            ),
            task(DELETE_LOGS, self.deleter.run, _DELETION_LOOK_MS),
            self._task(
                DISK_SPACE,
                self.relief.run,
                self.config.disk.check_interval_ms,
                initial_delay_ms=0,
            ),
        ]

    def _task(
        self,
        name: str,
        run: Callable[[], object],
        interval_ms: int,
        *,
        initial_delay_ms: int,
    ) -> PeriodicTask:
        """Nothing is done to a store that has failed, but to say so."""

        def run_unless_failed() -> None:
            try:
                if self._store.failed is None:
                    run()
            finally:
                if self._store.failed is not None:
                    self._on_failed(self._store.failed)

        return PeriodicTask(
            name=name,
            run=run_unless_failed,
            interval_ms=interval_ms,
            initial_delay_ms=initial_delay_ms,
        )

    def _move_points(self) -> None:
        try:
            self._store.advance_recovery_points()
        finally:
            self._points_asked = False  # Whoever asks now has new reason to.

    def _retain(self) -> None:
        """One log's failure does not keep the others from being looked at.

        Raises the first of them at the end; at once StorageFailed.
        """
        self._roll_due()
        failures: list[StorageError | OSError] = []
        for topic_partition, log in list(self._store.logs.items()):
            if self._scheduler.is_stopping:
                return
            if log.config.is_compacted and self.cleaner.config.is_enabled:
                continue
            try:
                self.retention.check(topic_partition)
            except StorageFailed:
                raise
            except (StorageError, OSError) as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _roll_due(self) -> None:
        """Without appends no log rolls by itself, and what its last segment holds would stay."""
        rolled = []
        for topic_partition in list(self._store.logs):
            with suppress(StorageFull):
                rolled.append(self._store.roll(topic_partition, only_if_due=True))
        if any(rolled):
            self._store.settle_points()
            self.cleaner.wake()

    def _segment_bytes_most(self) -> int:
        """Of the largest segment that there is to clean, or will be in the offsets topic.

        Those of before `segment.bytes` was made less stay as large until they are cleaned; topics
        beside that one hardly fill a segment, whatever theirs is.
        """
        most = 0
        for log in list(self._store.logs.values()):
            if log.config.is_compacted:
                most = max(most, *(segment.size_bytes for segment in log.segments))
                if log.topic_partition.topic == OFFSETS_TOPIC:
                    most = max(most, log.config.segment_bytes_max)
        return most

    def _begin_relief(self) -> Iterable[Future[Any]]:
        """All that frees room: files that wait, retention, and a round over every log."""
        with suppress(OSError):
            self.deleter.run_now()
        self.run_soon(LOG_RETENTION)
        logs = [each for each in self._store.logs.values() if each.config.is_compacted]
        gaining = [each.topic_partition for each in logs if self._may_get_smaller(each)]
        return self.cleaner.compact(gaining, rolls_active=True).values()

    def _may_get_smaller(self, log: PartitionLog) -> bool:
        """Whether there is something to clean: a log that is clean would only be read."""
        if log.segments[-1].size_bytes:
            return True  # It is rolled, and may be cleaned in this round, or in a later one.
        try:
            status = self.cleaner.log_status(log.topic_partition)
        except (StorageError, OSError):
            return True  # The round will say what it is.
        horizon_ms = status.delete_horizon_ms
        return status.cleanable_bytes > 0 or (
            horizon_ms is not None and horizon_ms <= self._clock.now_ms()
        )
