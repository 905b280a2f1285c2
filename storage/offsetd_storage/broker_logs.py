"""Logs that no offsetd journal covers: a stopped broker's logs, cleaned and shortened in place.

This work leaves only Kafka's own files, so the folder remains a broker's folder. There are no
appends, so every change is durable when its call returns. If the process is killed, the files are
in a state that a broker killed during the same work would also leave.
"""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING, TypeAlias

from offsetd_storage.errors import PartitionQuarantined, storage_failed
from offsetd_storage.folder.folder_lock import FolderLock
from offsetd_storage.kernels import padded_buffer
from offsetd_storage.log.kafka_checkpoints import KafkaCheckpoints
from offsetd_storage.log.recovery_points import point_at_end
from offsetd_storage.log.segment_scan import BUFFER_BYTES
from offsetd_storage.log.segment_swap import delete_oldest
from offsetd_storage.recovery.partition_recovery import PartitionPlanner, apply_plan
from offsetd_storage.recovery.quarantine import Damage, DamageFound
from offsetd_storage.recovery.swap_recovery import sync_segments

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from random import Random

    from offsetd_storage.clock import Clock
    from offsetd_storage.configuration.log_config import LogConfig
    from offsetd_storage.disk.files import Files
    from offsetd_storage.journal.journal_format import RecoveryPoint
    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.topic_partition import TopicPartition

    # The logs that cleaning and retention can work on when no server runs.
    OpenLogs: TypeAlias = "LogStore | BrokerLogs"


class BrokerLogs:
    """Some logs of one folder, which stays locked while they are open.

    For one thread. After an OSError or a StorageFailed, abandon them.
    """

    def __init__(
        self,
        files: Files,
        logs: Mapping[TopicPartition, PartitionLog],
        quarantined: Mapping[TopicPartition, Damage],
        checkpoints: KafkaCheckpoints,
        clock: Clock,
        cleanup: ExitStack,
    ) -> None:
        """Use `open` instead."""
        self.files = files
        self.logs = logs
        self.quarantined = quarantined
        self._checkpoints = checkpoints
        self._clock = clock
        self._cleanup = cleanup
        self._points = {each: point_at_end(log) for each, log in logs.items()}

    @classmethod
    def open(
        cls,
        files: Files,
        folder: Path,
        topic_partitions: Sequence[TopicPartition],
        config: LogConfig,
        *,
        clock: Clock,
        random: Random,
        on_progress: Callable[[int], None] = lambda _: None,
    ) -> BrokerLogs:
        """Locks the folder, and recovers these logs by their own bytes, as a broker would.

        `on_progress` gets the number of logs that are done. Raises FolderLocked, StorageFailed.
        """
        with ExitStack() as cleanup:
            try:
                lock = FolderLock.acquire(files, folder)
                cleanup.callback(lock.release)
                files = lock.files
                checkpoints = KafkaCheckpoints(files, folder)
                planner = PartitionPlanner(files, folder, padded_buffer(BUFFER_BYTES))
                logs: dict[TopicPartition, PartitionLog] = {}
                quarantined: dict[TopicPartition, Damage] = {}
                for done, each in enumerate(topic_partitions):
                    on_progress(done)
                    sync_segments(files, folder / each.folder_name, drop_cache=True)
                    plan = planner.plan(each, None, config)
                    if not isinstance(plan, Damage) and not plan.scans:
                        plan = DamageFound("it has no segments").of(each)
                    if isinstance(plan, Damage):
                        quarantined[each] = plan
                        continue
                    log = apply_plan(
                        files,
                        folder,
                        plan,
                        config,
                        log_start_offset=checkpoints.log_start(each, plan.offset_next),
                        now_ms=clock.now_ms(),
                        random=random,
                        is_listed=False,
                    )
                    cleanup.callback(log.abandon)
                    logs[each] = log
            except OSError as error:
                raise storage_failed(error, f"{folder} could not be opened") from error
            return cls(files, logs, quarantined, checkpoints, clock, cleanup.pop_all())

    def log(self, topic_partition: TopicPartition) -> PartitionLog:
        """A log that is not damaged. Raises PartitionQuarantined."""
        log = self.logs.get(topic_partition)
        if log is None:
            raise PartitionQuarantined(str(self.quarantined[topic_partition]))
        return log

    def recovery_point(self, topic_partition: TopicPartition) -> RecoveryPoint:
        """The offset up to which a log is durable, as a recovery point."""
        return self._points[topic_partition]

    def roll(self, topic_partition: TopicPartition, *, only_if_due: bool = False) -> bool:
        """Rolls the active segment; see `LogStore.roll`. Raises StorageFull, StorageFailed."""
        log = self.log(topic_partition)
        return log.roll_if_due(self._clock.now_ms()) if only_if_due else log.roll()

    def settle_points(self) -> None:
        """Makes all logs durable, so that rolled segments can be cleaned and deleted.

        Raises OSError.
        """
        for topic_partition, log in self.logs.items():
            log.write()
            log.sync()
            self._points[topic_partition] = point_at_end(log)

    def raise_log_start_offset(self, topic_partition: TopicPartition, offset: int) -> None:
        """Hides the records below `offset`, durably, as a broker does: by its checkpoint."""
        self.log(topic_partition).raise_log_start_offset(offset)
        self._checkpoints.write({}, self.logs.values())
        self._points[topic_partition] = point_at_end(self.log(topic_partition))

    def delete_oldest(
        self,
        topic_partition: TopicPartition,
        count: int,
        *,
        discard: Callable[[Sequence[Path]], None] | None = None,
    ) -> None:
        """Deletes the oldest segments, all below the log's start. Raises StorageFailed."""
        delete_oldest(self.files, self.log(topic_partition), count, discard=discard)

    def latching(self) -> AbstractContextManager[None]:
        """A context manager like `LogStore.latching`, but without effect.

        After a StorageFailed, the caller abandons the logs.
        """
        return nullcontext()

    def close(self) -> None:
        """Syncs, writes Kafka's checkpoint if a log's start has moved, and unlocks."""
        with self._cleanup:
            for log in self.logs.values():
                log.close()
            self._checkpoints.write({}, self.logs.values())

    def abandon(self) -> None:
        """Closes everything without a write, and unlocks."""
        self._cleanup.close()
