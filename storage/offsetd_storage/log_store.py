"""The log engine: the logs of a data folder share one journal, and all callers share one fsync.

`append` orders a batch into its partition's log. `flush` makes everything appended so far durable
with one write and one fdatasync of the journal. From time to time, `advance_recovery_points` writes
and syncs the segments, so that the journal can be reused. `docs/formats/journal.md` says what holds
after a crash.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from offsetd_storage.batch.batch_validation import produced_batch
from offsetd_storage.batch.record_batch import batch_header
from offsetd_storage.disk.failure_latch import FailureLatch
from offsetd_storage.errors import (
    FilesGone,
    OffsetOutOfRange,
    PartitionQuarantined,
    StorageError,
    StorageFailed,
    StorageFull,
    is_no_room,
    storage_failed,
)
from offsetd_storage.journal.journal_format import frame_bytes
from offsetd_storage.log.journal_size import JournalSize, StoreLocks
from offsetd_storage.log.log_appends import LogAppends
from offsetd_storage.log.open_file_check import OpenFileCheck
from offsetd_storage.log.pending_frames import PendingFrames
from offsetd_storage.log.recovery_points import points_to_reach, with_listings
from offsetd_storage.log.segment_swap import delete_oldest
from offsetd_storage.log.store_config import OFFSETS_TOPIC, LogStoreConfig, TopicSpec
from offsetd_storage.recovery.clean_shutdown_marker import write_marker
from offsetd_storage.recovery.folder_recovery import RecoveredFolder, recover_folder

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Collection, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from offsetd_storage.batch.batch_runs import AppendedRuns
    from offsetd_storage.batch.record_batch import BatchHeader
    from offsetd_storage.clock import Clock
    from offsetd_storage.disk.files import Files
    from offsetd_storage.duration_histogram import Durations
    from offsetd_storage.folder.folder_lock import FolderLock
    from offsetd_storage.journal.batches_frame import BatchesFrame
    from offsetd_storage.journal.journal_format import RecoveryPoint
    from offsetd_storage.kernels.scan import Bytes, Numbers
    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.recovery.recovery_report import RecoveryProgress
    from offsetd_storage.recovery.recovery_request import RepairWitness
    from offsetd_storage.topic_partition import TopicPartition

__all__ = ["OFFSETS_TOPIC", "LogStore", "LogStoreConfig", "TopicSpec"]


class LogStore:
    """The logs of one data folder, which stays locked while the store is open.

    Threads: one writer thread appends. One thread at a time flushes, and one at a time advances the
    recovery points, all at the same time. After the first failure of the disk nothing is
    acknowledged any more: every call raises StorageFailed, and the process must exit.
    """

    def __init__(
        self,
        recovered: RecoveredFolder,
        config: LogStoreConfig,
        clock: Clock,
        cleanup: ExitStack,
    ) -> None:
        """Use `open` instead."""
        # They use the descriptor of the folder, so they reach it even after it was moved.
        self.files = recovered.lock.files
        self._folder_lock = recovered.lock
        self.logs = recovered.logs
        self.quarantined = recovered.quarantined
        self.report = recovered.report
        self.folder_id = recovered.properties.identity.folder_id.hex()
        # The number for the offsets topic.
        self.partitions = recovered.properties.offsets_partitions
        self.is_from_elsewhere = recovered.properties.is_from_elsewhere
        self.config = config
        self._latch = FailureLatch()
        # A reader that makes a log write may cause a failure, which other threads may not notice
        # for a long time.
        self.on_write_failed: Callable[[StorageFailed], object] = lambda _: None
        for log in self.logs.values():
            log.on_write_failed = self._note_write_failed
        self._clock = clock
        self._cleanup = cleanup
        self._checkpoints = recovered.checkpoints
        self._journal = recovered.journal
        self._in_place = OpenFileCheck(recovered.lock, recovered.journal, recovered.logs)
        self._locks = StoreLocks()
        self._pending_frames = PendingFrames(self._journal.frame_payload_bytes_max)
        self.journal_size = JournalSize(
            self._journal,
            self._pending_frames,
            self.logs,
            self._locks,
            self._latch,
            advance_points=self.advance_recovery_points,
        )
        self._appends = LogAppends(self._pending_frames, self.journal_size, self._latch)
        self._unwritten_bytes_max = config.unwritten_bytes_max // max(1, len(self.logs))
        self._journaled_bytes = 0
        self._released_bytes = 0  # The part of these that lies below the recovery points.

    @classmethod
    def open(
        cls,
        files: Files,
        folder: Path,
        config: LogStoreConfig,
        *,
        clock: Clock,
        random: random.Random,
        on_progress: Callable[[RecoveryProgress], None] | None = None,
        recreated: Collection[TopicPartition] = (),
        repaired: Collection[TopicPartition] = (),
        witness: RepairWitness | None = None,
        restore_lock: FolderLock | None = None,
    ) -> LogStore:
        """Locks and recovers the folder, makes it if missing, and begins a new life of its journal.

        Logs in `recreated` lose all their batches, damaged or not; they are empty and continue at
        the offsets at which they ended. Damaged logs in `repaired` keep their valid batches, and
        `witness` is told of each. A restore opens the folder that it fills under its lock
        (`restore_lock`), and keeps the lock.

        Raises FolderLocked, NewerFormat, ForeignWriter, FolderMismatch, JournalDamaged (after
        these, only the lock's file has changed), StorageFull, StorageFailed.
        """
        with ExitStack() as cleanup:
            try:
                recovered = recover_folder(
                    files,
                    folder,
                    config,
                    clock=clock,
                    random=random,
                    cleanup=cleanup,
                    on_progress=on_progress,
                    recreated=recreated,
                    repaired=repaired,
                    witness=witness,
                    restore_lock=restore_lock,
                )
            except OSError as error:
                failed = storage_failed(error, f"{folder} could not be recovered")
                raise (StorageFull(str(failed)) if is_no_room(error) else failed) from error
            return cls(recovered, config, clock, cleanup.pop_all())

    # Appending -------------------------------------------------------------------------------

    def append(
        self,
        topic_partition: TopicPartition,
        batch: bytes,
        *,
        last_offset: int,
        max_timestamp_ms: int,
    ) -> bytes:
        """Adds one record batch at the end of a log; the next `flush` makes it durable.

        The batch's base offset is the log's `offset_next`, and its leader epoch is the log's. Its
        records have one timestamp, and keys if the log is compacted. If that is not known, use
        `produce`. Returns the batch as it is in the log: with the time of the append, if
        `message.timestamp.type` says so. Raises PartitionQuarantined, RecordTooLarge,
        JournalTooSmall, InvalidTimestamp, StorageFull (nothing was changed), or StorageFailed.
        """
        with self._locks.pending:
            self._latch.refuse_if_failed()
            log = self.log(topic_partition)
            now_ms = self._clock.now_ms()
            return self._appends.append(log, batch, last_offset, max_timestamp_ms, now_ms)

    def append_runs(
        self, topic_partitions: Sequence[TopicPartition], content: Bytes, spans: Numbers
    ) -> AppendedRuns:
        """Adds several batches to each of several logs.

        `spans` has a row for each log: the start and the end in `content` of its batches. If a log
        cannot take all of them, it takes the first few, or none, and the error that `append` would
        raise is among the refusals. Raises PartitionQuarantined, StorageFailed, and CorruptBatch
        (nothing was changed).
        """
        with self._locks.pending:
            self._latch.refuse_if_failed()
            logs = [self.log(each) for each in topic_partitions]
            return self._appends.append_runs(logs, content, spans, self._clock.now_ms())

    def produce(self, topic_partition: TopicPartition, batch: bytes) -> BatchHeader:
        """Adds a batch that any client may have made, as a broker does.

        The batch gets the log's next offset and leader epoch, and every record is checked. Returns
        the header that it has in the log. Call it on the thread that appends. Raises CorruptBatch,
        InvalidRecord, InvalidTimestamp (nothing was changed), and the errors of `append`.
        """
        log = self.log(topic_partition)
        placed = produced_batch(
            batch,
            log.config,
            base_offset=log.offset_next,
            leader_epoch=log.leader_epoch,
            now_ms=self._clock.now_ms(),
        )
        header = batch_header(placed)
        appended = self.append(
            topic_partition,
            placed,
            last_offset=header.last_offset,
            max_timestamp_ms=header.max_timestamp_ms,
        )
        return batch_header(appended)

    # Flushing --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Returns when everything appended before the call is on stable storage.

        Raises StorageFailed; a failed flush is never tried again.
        """
        with self._locks.flush, self._latch.fail_stop():
            with self._locks.pending:
                frames = self._pending_frames.take()
            for frame in frames:
                self._flush_frame(frame)
                frame.clear()

    def bound_unwritten(self) -> None:
        """Writes the segments of logs that have many unwritten bytes. Raises StorageFailed."""
        with self._latch.fail_stop():
            for log in self.logs.values():
                if log.unwritten_bytes > self._unwritten_bytes_max:
                    log.write()

    def _flush_frame(self, frame: BatchesFrame) -> None:
        while True:
            with self._locks.journal:
                if self._journal.make_room(frame.payload_bytes):
                    self._journal.append_batches(frame)
                    self._journaled_bytes += frame_bytes(frame.payload_bytes)
                    return
            # The frames in both files are still needed, so this flush waits until the segments are
            # synced.
            self.advance_recovery_points()

    # Recovery points -------------------------------------------------------------------------

    def advance_recovery_points(self) -> None:
        """Makes the segments durable up to the journal's end, and records that in the journal.

        Raises StorageFailed.
        """
        with self._locks.advance, self._latch.fail_stop():
            while not self._advance_once():
                pass

    def settle_points(self) -> None:
        """Flushes, and moves the recovery points to the end.

        Then rolled segments can be cleaned and deleted. Raises StorageFailed.
        """
        self.flush()
        self.advance_recovery_points()

    def sync_segments(self, *topic_partitions: TopicPartition) -> None:
        """Writes and syncs these logs, or all; moves no recovery point. Raises StorageFailed."""
        with self._locks.advance, self._latch.fail_stop():
            for topic_partition in topic_partitions or self.logs:
                self.logs[topic_partition].write()
                self.logs[topic_partition].sync()

    def checkpoint_log_starts(self) -> None:
        """Writes Kafka's text checkpoints if they have changed. Raises StorageFailed."""
        with self._locks.advance, self._latch.fail_stop():
            self._checkpoints.write(self._durable_offsets(), self.logs.values())

    def _advance_once(self) -> bool:
        """Returns False if the journal is so full that it needs newer points than these."""
        with self._locks.journal:
            points = self._points_to_reach()
            journaled_bytes = self._journaled_bytes
        for topic_partition, point in points.items():
            log = self.logs[topic_partition]
            log.write()
            synced = log.sync()
            assert synced >= point.offset, "the journal runs ahead of the segment"
        points = with_listings(self.logs, points)
        if points:
            with self._locks.journal:
                if not self._journal.append_recovery_points(points):
                    return False
        self._released_bytes = journaled_bytes
        # These files are only for Kafka, and are written only after the points are durable.
        self._checkpoints.write(self._durable_offsets(), self.logs.values())
        return True

    def _points_to_reach(self) -> dict[TopicPartition, RecoveryPoint]:
        return points_to_reach(self.logs, self._journal.points, self._journal.journaled)

    def _durable_offsets(self) -> dict[TopicPartition, int]:
        points = self._journal.points.values()
        return {point.topic_partition: point.offset for point in points if not point.held}

    def recovery_point(self, topic_partition: TopicPartition) -> RecoveryPoint:
        """The durable recovery point of a partition: its segments are durable up to there."""
        return self._journal.points[topic_partition]

    def durable_end(self, topic_partition: TopicPartition) -> int:
        """The offset below which a log is durable. For any thread."""
        journaled = self._journal.journaled.get(topic_partition)
        point = self._journal.points[topic_partition].offset
        return point if journaled is None else max(point, journaled.offset_next)

    def durable_ends(self) -> dict[TopicPartition, int]:
        """The durable ends of all logs at one moment: no flush ends in between. For any thread."""
        with self._locks.journal:
            return {each: self.durable_end(each) for each in self.logs}

    @property
    def journal_used_ratio(self) -> float:
        """The bytes journaled since the recovery points moved, as a share of one journal file.

        Above 1, a flush may have to wait for `advance_recovery_points`; so call that earlier.
        """
        return (self._journaled_bytes - self._released_bytes) / self._journal.capacity_bytes

    @property
    def journal_sync_durations(self) -> Durations:
        """The durations of the journal's fdatasyncs in this life."""
        return self._journal.sync_durations

    def _note_write_failed(self, error: BaseException) -> None:
        self.on_write_failed(self._latch.latch(error))

    # Rolling and deleting ----------------------------------------------------------------------

    def roll(self, topic_partition: TopicPartition, *, only_if_due: bool = False) -> bool:
        """Starts a new active segment, unless the active one is empty; returns whether it did.

        The old segment can be cleaned and deleted once `flush` and `advance_recovery_points` have
        moved the recovery point to the new one. With `only_if_due`, rolls only if the old segment
        is old enough by the clock. Raises StorageFull and StorageFailed.
        """
        with self._locks.pending:
            self._latch.refuse_if_failed()
            log = self.log(topic_partition)
            with self._latch.latching():
                return log.roll_if_due(self._clock.now_ms()) if only_if_due else log.roll()

    def raise_log_start_offset(self, topic_partition: TopicPartition, offset: int) -> None:
        """Hides the records below `offset`, durably; never lowers the start.

        Raises OffsetOutOfRange above the recovery point, because a crash may cut the log back to
        that point.
        """
        log = self.log(topic_partition)
        recovery_point = self.recovery_point(topic_partition).offset
        if offset > recovery_point:
            raise OffsetOutOfRange(
                f"{topic_partition} is durable up to {recovery_point}, and cannot start at {offset}"
            )
        log.raise_log_start_offset(offset)
        while self.recovery_point(topic_partition).log_start_offset < offset:
            self.advance_recovery_points()

    def delete_oldest(
        self,
        topic_partition: TopicPartition,
        count: int,
        *,
        discard: Callable[[Sequence[Path]], None] | None = None,
    ) -> None:
        """Deletes the oldest segments, all of them below the durable start of the log.

        Raises OffsetOutOfRange for other segments, and StorageFailed.
        """
        log, point = self.log(topic_partition), self.recovery_point(topic_partition)
        segments = log.segments[: count + 1]
        if len(segments) <= count or segments[count].base_offset > min(
            point.log_start_offset, point.segment_base_offset
        ):
            raise OffsetOutOfRange(
                f"{topic_partition} durably starts at {point.log_start_offset}, and cannot lose"
                f" {count} segments"
            )
        with self._latch.latching():
            delete_oldest(self.files, log, count, discard=discard)

    def log(self, topic_partition: TopicPartition) -> PartitionLog:
        """A log that is not damaged. Raises PartitionQuarantined."""
        log = self.logs.get(topic_partition)
        if log is None:
            damage = self.quarantined.get(topic_partition)
            raise PartitionQuarantined(
                str(damage or f"{topic_partition}: there is no such partition")
            )
        return log

    @property
    def failed(self) -> StorageFailed | None:
        """The first failure of the disk, if there was one."""
        return self._latch.failed

    def check_folder(self) -> None:
        """Checks that the folder and files in it are still at their paths. One call at a time.

        Raises FolderGone and FilesGone, which are failures of the store. Before FilesGone, it tries
        to write everything acknowledged to the segments, in case the journal is lost.
        """
        with self._latch.fail_stop():
            self._folder_lock.check()
            try:
                with self._locks.journal:
                    self._in_place.check_journal()
                self._in_place.check_some_logs()
            except FilesGone as gone:
                self._latch.latch(gone)
                self._write_what_is_left()
                raise

    def _write_what_is_left(self) -> None:
        """Writes and syncs the logs whose files still exist. No caller relies on it."""
        with self._locks.advance:
            for log in self.logs.values():
                with suppress(OSError, StorageError):
                    log.write()
                    log.sync()

    def latching(self) -> AbstractContextManager[None]:
        """A context manager for work on segments outside of the store.

        It raises StorageFailed after a failure. A StorageFailed in the block becomes a failure of
        the whole store. Other errors are raised unchanged.
        """
        return self._latch.latching()

    # Ending ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Flushes, syncs, and ends the journal's life cleanly. Unlocks in any case.

        Raises StorageFailed if that fails, or if something failed before.
        """
        with self._cleanup:
            self.flush()
            with self._locks.advance, self._locks.journal, self._latch.fail_stop():
                for log in self.logs.values():
                    log.close()
                self._journal.append_closed(with_listings(self.logs, self._points_to_reach()))
                for log in self.logs.values():
                    log.listing.settle()
                self._checkpoints.write(self._durable_offsets(), self.logs.values())
                write_marker(self.files, self._checkpoints.folder, self.logs.values())

    def abandon(self) -> None:
        """Closes everything without a write, like a crash. For tests."""
        self._cleanup.close()
