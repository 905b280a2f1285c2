"""The background work of an open store: Kafka's periodic tasks and the log cleaner.

- `kafka-log-retention` rolls active segments that are old enough by the clock, moves the recovery
  points there, and deletes what is due in logs that are not compacted. The cleaner's threads do
  this for compacted logs, or this task if there are no such threads.
- `kafka-log-flusher` syncs segments. This is never needed: the journal makes appends durable.
- `kafka-recovery-point-checkpoint` syncs segments and moves the recovery points, so that the
  journal can be used again. It runs early if the journal fills (`move_points_soon`).
- `offsetd-journal-growth` makes a small journal large again if it keeps filling, or if a
  topic now allows larger batches.
- `kafka-log-start-offset-checkpoint` writes Kafka's text checkpoints.
- `kafka-delete-logs` removes files that have waited for `file.delete.delay.ms`.
- `offsetd-idle-logs` rolls active segments that get no more appends and could be cleaned, and
  makes the journal small once no log gets appends.
- `offsetd-disk-space` checks the free space, and frees more if there is little.
- `offsetd-folder` checks that the folder is still the one at its path, and ends the store if not.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from offsetd_storage.cleaner.log_cleaner import LogCleaner
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC
from offsetd_storage.configuration.server_config import (
    BackgroundConfig,
    CleanerConfig,
    DiskConfig,
    RetentionConfig,
)
from offsetd_storage.disk.delayed_deletion import FileDeleter
from offsetd_storage.disk.disk_space import DiskSpace, SpaceState, reserve_bytes_for
from offsetd_storage.errors import StorageError, StorageFailed, StorageFull
from offsetd_storage.maintenance.disk_relief import DiskRelief
from offsetd_storage.maintenance.idle_logs import IdleLogs
from offsetd_storage.tasks.scheduler import (
    DELETE_LOGS,
    LOG_FLUSHER,
    LOG_RETENTION,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    PeriodicTask,
    Scheduler,
)

if TYPE_CHECKING:
    import random as random_module
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Future
    from pathlib import Path

    from offsetd_storage.cleaner.cleaner_status import FinishedRound
    from offsetd_storage.cleaner.uncleanable_logs import UncleanablePartition
    from offsetd_storage.clock import Clock
    from offsetd_storage.disk.files import Files
    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.retention.retention_rules import FutureTimestamp
    from offsetd_storage.tasks.supervision import RunStatus
    from offsetd_storage.topic_partition import TopicPartition

DISK_SPACE: Final = "offsetd-disk-space"
FOLDER_IN_PLACE: Final = "offsetd-folder"
IDLE_LOGS: Final = "offsetd-idle-logs"
JOURNAL_GROWTH: Final = "offsetd-journal-growth"
_IDLE_LOOK_MS: Final = 5000  # The interval of the checks for idle logs.
_JOURNAL_REST_MS: Final = 60_000  # See `_rest` and `_note_filled`.
_DELETION_LOOK_MS: Final = 1000  # The longest delay after which a due file is removed.
_FOLDER_LOOK_MS: Final = 1000  # The longest delay after which a replaced folder is noticed.


@attrs.frozen(kw_only=True)
class UpkeepConfig:
    """Settings of the background work.

    If `held` is not None, nothing is cleaned, or deleted by age or size. It is the reason.
    """

    held: str | None = None
    cleaner: CleanerConfig = attrs.Factory(CleanerConfig)
    retention: RetentionConfig = attrs.Factory(RetentionConfig)
    background: BackgroundConfig = attrs.Factory(BackgroundConfig)
    disk: DiskConfig = attrs.Factory(DiskConfig)


class Upkeep:
    """The background work of one store. Any thread may use it. Callbacks run on its own threads.

    `on_failed` gets the store's failure, perhaps more than once: the process must exit.
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
        cleaner_delay_ms: int = 0,
        on_failed: Callable[[StorageFailed], object],
        on_round: Callable[[FinishedRound], object] = lambda _: None,
        on_uncleanable: Callable[[UncleanablePartition], object] = lambda _: None,
        on_blocked: Callable[[TopicPartition, FutureTimestamp | None], object] | None = None,
    ) -> None:
        """Reads the cleaner's checkpoint; starts nothing. `folder` is the store's. Raises OSError.

        The cleaner starts `cleaner_delay_ms` after `start`, or earlier if a cleaning is requested.
        """
        self.config = config
        self.deleter = FileDeleter(files, clock)
        self.cleaner = LogCleaner(
            store,
            config.cleaner,
            held=config.held,
            files=files,
            folder=folder,
            clock=clock,
            random=random,
            sleep=sleep,
            deleter=self.deleter,
            initial_delay_ms=cleaner_delay_ms,
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
            reserve_bytes_needed=self._reserve_bytes_needed,
            on_low=lambda: self.run_soon(DISK_SPACE),
        )
        self.relief = DiskRelief(self.disk, self._begin_relief, clock=clock)
        self._idle = IdleLogs(clock)
        self._clock = clock
        self._on_failed = on_failed
        self._life_lock = threading.Lock()
        self._points_asked = False
        self._filled_ms: int | None = None  # Last time the journal filled, by the monotonic clock.
        self._keeps_filling = False
        self._growth_due_ms: int | None = None  # The earliest time, by the monotonic clock.
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
        """Ends all threads and waits for them. Cleaning rounds end at their next chunk."""
        with self._life_lock:
            self._scheduler.tell_to_stop()
            self.cleaner.stop()
            self._scheduler.stop()

    def configure(self, config: UpkeepConfig) -> None:
        """Takes new settings. Blocks while the cleaner's threads are exchanged."""
        with self._life_lock:
            self.config = config
            self.disk.configure(config.disk)
            self._scheduler.configure(self._new_tasks(), threads=config.background.threads)
            self.cleaner.configure(config.cleaner, held=config.held)

    def wake(self) -> None:
        """Makes the tasks read the clock again, after it was moved by hand."""
        self._scheduler.wake()
        self.cleaner.wake()

    def run_soon(self, name: str) -> None:
        """Runs a task at once."""
        self._scheduler.run_soon(name)

    def move_points_soon(self) -> None:
        """Moves the recovery points at once when the journal fills. Repeated calls are cheap."""
        if not self._points_asked:
            self._points_asked = True
            self._scheduler.run_soon(RECOVERY_POINT_CHECKPOINT)

    # Its state -----------------------------------------------------------------------------------

    @property
    def tasks(self) -> tuple[RunStatus, ...]:
        """The status of each task."""
        return self._scheduler.statuses

    @property
    def blocked(self) -> Mapping[TopicPartition, FutureTimestamp]:
        """For each log, the timestamp that blocked retention by time at the last check."""
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
            task(IDLE_LOGS, self._rest, _IDLE_LOOK_MS),
            task(JOURNAL_GROWTH, self._grow_journal, _IDLE_LOOK_MS),
            task(DELETE_LOGS, self.deleter.run, _DELETION_LOOK_MS),
            self._task(FOLDER_IN_PLACE, store.check_folder, _FOLDER_LOOK_MS, initial_delay_ms=0),
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
        """A task that, after a failure of the store, only reports the failure."""

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
        was_asked = self._points_asked
        try:
            self._store.advance_recovery_points()
        finally:
            self._points_asked = False  # A later request has a new reason.
        if was_asked:
            self._note_filled()

    def _note_filled(self) -> None:
        """Grows the journal when it fills for the second time within a minute.

        If it fills less often, its present size is enough.
        """
        filled_ms, self._filled_ms = self._filled_ms, self._clock.monotonic_ms()
        if filled_ms is None or self._filled_ms - filled_ms > _JOURNAL_REST_MS:
            return
        if self._store.journal_size.growth_bytes:
            self._keeps_filling = True
            self.run_soon(JOURNAL_GROWTH)

    def _grow_journal(self) -> None:
        """Grows the journal to full size; without room, to the size for the largest batch."""
        keeps_filling, self._keeps_filling = self._keeps_filling, False
        room, due_ms = self._store.journal_size, self._growth_due_ms
        is_due = due_ms is None or self._clock.monotonic_ms() >= due_ms
        if not (is_due and (keeps_filling or room.is_short)):
            return
        full_bytes, least_bytes = room.sizes_to_grow_to
        if not self._has_grown(full_bytes) and room.is_short:
            self._has_grown(least_bytes)

    def _has_grown(self, file_bytes: int) -> bool:
        """Grows the journal if there is disk space. After a failure, the next try is delayed."""
        room = self._store.journal_size
        if not self._is_room_left(room.growth_bytes_to(file_bytes)):
            return False
        has_grown = room.grow(file_bytes)
        if not has_grown:
            self._growth_due_ms = self._clock.monotonic_ms() + _JOURNAL_REST_MS
        return has_grown

    def _is_room_left(self, growth_bytes: int) -> bool:
        """Returns whether the growth leaves the space, with the reserve, that makes a low disk OK.

        Returns False while the disk is low: its free space is then the reserve that was released.
        """
        disk = self.disk.status
        left_bytes = disk.free_bytes + disk.reserve_bytes_held - growth_bytes
        return disk.state is SpaceState.OK and left_bytes >= disk.marks.room_bytes_enough

    def _retain(self) -> None:
        """Checks the retention of every log, even after the failure of one.

        Raises the first failure at the end, but StorageFailed at once.
        """
        self._roll_due()
        if self.config.held is not None:
            return
        failures: list[StorageError | OSError] = []
        for topic_partition, log in list(self._store.logs.items()):
            if self._scheduler.is_stopping:
                return
            if log.config.is_compacted and self.cleaner.is_on:
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
        """Rolls old segments. Without appends, a log does not roll by itself."""
        self._roll(list(self._store.logs), only_if_due=True)

    def _rest(self) -> None:
        """Releases the space that is reserved for appends if there are no appends."""
        idle_ms = self._idle.look(list(self._store.logs.values()))
        if min(idle_ms.values(), default=0) >= _JOURNAL_REST_MS:
            room = self._store.journal_size
            if room.rest_gain_bytes and not room.is_short:
                self._store.settle_points()
                room.rest()
        self._roll_idle(idle_ms)

    def _roll_idle(self, idle_ms: Mapping[TopicPartition, int]) -> None:
        """Rolls active segments of idle logs and has them cleaned, long before they are old.

        After that, nothing is done until the next append: an empty segment is not rolled. A log is
        not rolled before all of it is old enough to be cleaned. Otherwise each burst of appends
        would leave one more small segment. A failure of one log does not stop the work on others.
        """
        rolling, dirty, failures = [], [], []
        for topic_partition, log_idle_ms in idle_ms.items():
            log = self._store.logs[topic_partition]
            if not 0 <= log.config.segment_idle_ms <= log_idle_ms:
                continue
            try:
                if self.cleaner.gains_if_idle(log, is_rolled=True):
                    rolling.append(topic_partition)
                elif self.cleaner.gains_if_idle(log, is_rolled=False):
                    dirty.append(topic_partition)  # It was rolled, but not cleaned yet.
            except FileNotFoundError:
                continue  # A segment was removed from the log during the check.
            except OSError as error:
                failures.append(error)
        self.cleaner.compact([*self._roll(rolling), *dirty])
        if failures:
            raise failures[0]

    def _roll(
        self, topic_partitions: Iterable[TopicPartition], *, only_if_due: bool = False
    ) -> list[TopicPartition]:
        """Rolls these logs, moves the recovery points to the new segments, and wakes the cleaner.

        Returns the logs that were rolled.
        """
        rolled = []
        for topic_partition in topic_partitions:
            with suppress(StorageFull):
                if self._store.roll(topic_partition, only_if_due=only_if_due):
                    rolled.append(topic_partition)
        if rolled:
            self._store.settle_points()
            self.cleaner.wake()
        return rolled

    def _reserve_bytes_needed(self) -> int:
        """The reserve for the largest segment to clean, now or later in the offsets topic.

        Segments that are older than a reduction of `segment.bytes` stay large until they are
        cleaned. Topics other than the offsets topic rarely fill a segment.
        """
        logs = [log for log in list(self._store.logs.values()) if log.config.is_compacted]
        most = 0
        for log in logs:
            most = max(most, *(segment.size_bytes for segment in log.segments))
            if log.topic_partition.topic == OFFSETS_TOPIC:
                most = max(most, log.config.segment_bytes_max)
        return reserve_bytes_for(segment_bytes_most=most, logs=len(logs))

    def _begin_relief(self) -> Iterable[Future[Any]]:
        """Starts all that frees space: waiting files, the journal, retention, cleaning rounds."""
        with suppress(OSError):
            self.deleter.run_now()
        if self._store.journal_size.rest_gain_bytes:
            self._store.settle_points()
            self._store.journal_size.rest()
        self.run_soon(LOG_RETENTION)
        logs = [each for each in self._store.logs.values() if each.config.is_compacted]
        gaining = [each.topic_partition for each in logs if self._may_get_smaller(each)]
        return self.cleaner.compact(gaining, rolls_active=True).values()

    def _may_get_smaller(self, log: PartitionLog) -> bool:
        """Returns whether there is something to clean. A round over a clean log only reads it."""
        if log.segments[-1].size_bytes:
            return True  # The active segment will be rolled; a later round may clean it.
        try:
            status = self.cleaner.log_status(log.topic_partition)
        except (StorageError, OSError):
            return True  # The round reports the error.
        horizon_ms = status.delete_horizon_ms
        return status.cleanable_bytes > 0 or (
            horizon_ms is not None and horizon_ms <= self._clock.now_ms()
        )
