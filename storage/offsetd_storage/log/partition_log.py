"""The log of one partition: a list of segments; the last one takes the appends."""

from __future__ import annotations

import threading
from bisect import bisect_left
from contextlib import contextmanager
from typing import TYPE_CHECKING

from offsetd_storage.errors import (
    FolderMismatch,
    StorageFailed,
    StorageFull,
    may_pass,
    storage_failed,
)
from offsetd_storage.folder.checkpoint_files import write_leader_epochs
from offsetd_storage.journal.journal_format import LogEnd
from offsetd_storage.log.leader_epochs import LEADER_EPOCHS_FILE, found_leader_epochs
from offsetd_storage.log.readable_log import ReadableLog
from offsetd_storage.log.segment import Segment
from offsetd_storage.log.segment_list_updates import SegmentListUpdates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from random import Random

    from offsetd_storage.batch.batch_runs import Run
    from offsetd_storage.configuration.log_config import LogConfig
    from offsetd_storage.disk.files import Files
    from offsetd_storage.log.segment_scan import SegmentScan
    from offsetd_storage.topic_partition import TopicPartition


class PartitionLog(ReadableLog):
    """Appends to, reads and syncs the segments of one partition.

    One thread appends (`append`, `roll`), one syncs (`sync`), one cleans or deletes
    (`replace_segments`, `take_oldest`). These may be three threads. Any thread may `write` and
    read; a read first writes what it is going to read. For the other methods (`truncate`, `close`,
    `abandon`) a thread must have the log to itself. After an OSError from `write`, `sync`,
    `truncate` or `close`, the contents of the disk are unknown: nothing may be tried again, and
    `write` fails.
    """

    def __init__(
        self,
        files: Files,
        folder: Path,
        topic_partition: TopicPartition,
        config: LogConfig,
        segments: list[Segment],
        *,
        random: Random | None,
    ) -> None:
        """Use `create` or `open` instead."""
        self.topic_partition = topic_partition
        self.folder = folder
        self.segments = segments
        self.log_start_offset = segments[0].base_offset
        self.offset_next = segments[-1].offset_next  # The offset of the next append.
        self.offset_next_written = self.offset_next
        self._gapless_floor = 0
        self.superseders_end = 0
        self.listing = SegmentListUpdates(files, folder, lambda: self.segments)
        self._files = files
        self._config = config
        self._random = random
        self._active = segments[-1]
        self._write_lock = threading.Lock()  # Taken before `_lock` by a thread that takes both.
        self._lock = threading.Lock()
        self._unwritten: list[Segment] = []  # The segments with queued batches, by base offset.
        self.unwritten_bytes = 0  # The size of all queued batches.
        self._write_failed: BaseException | None = None
        # Called with a failure of `write`, on the thread on which it failed.
        self.on_write_failed: Callable[[BaseException], object] = lambda _: None
        # The segments that `sync` has work for, by base offset.
        self._unsynced: dict[int, Segment] = {}
        self._unsynced_folders: list[Path] = []
        # The problem of the checkpoint when the log was opened.
        self.leader_epochs_problem: str | None = None
        self._leader_epochs: list[tuple[int, int]] = []
        self._leader_epochs_changed = False

    @classmethod
    def create(
        cls,
        files: Files,
        folder: Path,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        base_offset: int = 0,
        random: Random | None = None,
    ) -> PartitionLog:
        """Makes the partition's folder and an empty first segment.

        The folder may exist, as after a crash, if its first segment is empty. Nothing is durable
        before `sync`, which also writes `leader-epoch-checkpoint`: epoch 0 starts at `base_offset`.
        """
        if not files.exists(folder):
            files.make_folder(folder)
        jitter_ms = _jitter_ms(config, random)
        segment = Segment(files, folder, base_offset, config, create=True, jitter_ms=jitter_ms)
        if not segment.is_empty:
            segment.close()
            raise FolderMismatch(f"{segment.path} is not empty")
        log = cls(files, folder, topic_partition, config, [segment], random=random)
        log._leader_epochs, log._leader_epochs_changed = [(0, base_offset)], True
        log._unsynced = {base_offset: segment}
        log._unsynced_folders = [folder, folder.parent]
        return log

    @classmethod
    def open(
        cls,
        files: Files,
        folder: Path,
        topic_partition: TopicPartition,
        config: LogConfig,
        scans: Mapping[int, SegmentScan],
        *,
        log_start_offset: int = 0,
        leader_epoch: int | None = None,
        synced: bool = False,
        random: Random | None = None,
    ) -> PartitionLog:
        """Opens the segments in `scans`, which has their scans by base offset; at least one.

        Each segment holds the `valid_bytes` of its scan and has the indexes of the scan. Opening
        changes nothing on disk. The next `append`, `truncate`, `sync` or `close` of a segment cuts
        off the bytes after `valid_bytes` and corrects index files that differ. The first `sync`
        syncs every file, unless `synced` promises that all files are durable as they are. Appended
        batches carry `leader_epoch`, or the epoch in the checkpoint if that is None. A log that is
        only read opens no file for writing; end it with `abandon`.
        """
        segments = []
        for base_offset in sorted(scans):
            jitter_ms = _jitter_ms(config, random)
            segment = Segment(files, folder, base_offset, config, jitter_ms=jitter_ms)
            segment.take_scan(scans[base_offset])
            segments.append(segment)
        log = cls(files, folder, topic_partition, config, segments, random=random)
        log.log_start_offset = max(log_start_offset, log.log_start_offset)
        log.offset_next = log.offset_next_written = max(log.offset_next, log.log_start_offset)
        log._note_gaps()
        found = found_leader_epochs(
            files,
            folder,
            segments,
            scans,
            offset_next=log.offset_next,
            known_last=leader_epoch,
        )
        log._leader_epochs, log._leader_epochs_changed, log.leader_epochs_problem = found
        due = [segment for segment in segments if segment.needs_mending or not synced]
        log._unsynced = {segment.base_offset: segment for segment in due}
        log._unsynced_folders = [folder] if due else []
        if not synced:
            log._unsynced_folders.append(folder.parent)
        return log

    @property
    def config(self) -> LogConfig:
        """The log's settings, which may be replaced while it runs."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        with self._lock:
            self._config = config
            self._active.configure(config)

    @property
    def leader_epoch(self) -> int:
        """The log's last leader epoch. Batches that are appended carry it."""
        return self._leader_epochs[-1][0]

    @property
    def end(self) -> LogEnd:
        """The end of the log. Only the thread that appends may read it."""
        return LogEnd(self.offset_next, self._active.base_offset, self._active.size_bytes)

    @property
    def size_bytes(self) -> int:
        """The size of all batches, queued ones included."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def index_problems(self) -> tuple[str, ...]:
        """The problems of index files when the log was opened."""
        return tuple(problem for each in self.segments for problem in each.index_problems)

    # Appending.

    @property
    def batch_bytes_max(self) -> int:
        """The largest size of a new batch, in bytes."""
        return self._config.batch_bytes_max

    def append(self, batch: bytes, *, last_offset: int, max_timestamp_ms: int, now_ms: int) -> None:
        """Queues a record batch whose base offset is at or above `offset_next`.

        The caller checks its size: a batch that was already acknowledged may have any size. Raises
        StorageFull (no free blocks or descriptors), StorageFailed; then nothing has changed.
        """
        assert self.offset_next <= int.from_bytes(batch[:8], "big") <= last_offset
        with self._lock:
            active = self._active
            if not active.takes(len(batch), last_offset, max_timestamp_ms):
                active = self._make_room(batch, last_offset, max_timestamp_ms, now_ms)
            self._queue(active, batch, last_offset, max_timestamp_ms, last_offset)

    def append_run(self, run: Run) -> bool:
        """Queues all batches of a run that continues the log, if the active segment takes them all.

        Otherwise returns False and changes nothing; then append the batches one by one.
        """
        assert run.base_offset == self.offset_next
        with self._lock:
            active = self._active
            if not active.takes(len(run.content), run.last_offset, run.timestamp_ms_max):
                return False
            self._queue(
                active,
                run.content,
                run.last_offset,
                run.timestamp_ms_max,
                run.timestamp_ms_max_offset,
            )
            return True

    def _queue(
        self,
        active: Segment,
        batches: bytes,
        last_offset: int,
        max_timestamp_ms: int,
        max_timestamp_offset: int,
    ) -> None:
        if active.append(batches, last_offset, max_timestamp_ms, max_timestamp_offset):
            self._unwritten.append(active)
        self.unwritten_bytes += len(batches)
        self.offset_next = last_offset + 1

    def _make_room(
        self, batch: bytes, last_offset: int, max_timestamp_ms: int, now_ms: int
    ) -> Segment:
        """The active segment, with room for the batch. Rolls first, if a new segment is due."""
        size = len(batch)
        self._active.wake()
        try:
            if self._active.must_roll(
                batch_bytes=size,
                last_offset=last_offset,
                max_timestamp_ms=max_timestamp_ms,
                now_ms=now_ms,
            ):
                self._roll(base_offset=int.from_bytes(batch[:8], "big"))
            # If this fails, the active segment is empty and stays; the next batch goes into it.
            self._active.make_room(
                batch_bytes=size, max_timestamp_ms=max_timestamp_ms, now_ms=now_ms
            )
        except OSError as error:
            raise self._no_room(error) from error
        return self._active

    def _no_room(self, error: OSError) -> StorageFull | StorageFailed:
        failed = storage_failed(error, f"{self.topic_partition}: no room for a batch")
        return StorageFull(str(failed)) if may_pass(error) else failed

    def roll(self) -> bool:
        """Starts a new active segment at the log's end, unless the active one is empty.

        Returns whether it did. Raises StorageFull and StorageFailed; then nothing has changed.
        """
        with self._lock:
            if self._active.size_bytes == 0:
                return False
            try:
                self._roll(base_offset=self.offset_next)
            except OSError as error:
                raise self._no_room(error) from error
            return True

    def roll_if_due(self, now_ms: int) -> bool:
        """Rolls an active segment that is too old by the clock; returns whether it did.

        Kafka rolls by time only when a batch arrives, so in Kafka an idle log keeps its last
        segment for ever. Raises StorageFull, StorageFailed.
        """
        return self._active.is_overdue(now_ms) and self.roll()

    def _roll(self, *, base_offset: int) -> None:
        old = self._active
        old.make_room_to_rest()
        new = self._made_segment(base_offset)
        old.rest()
        self._unsynced[old.base_offset] = old
        self._active = new
        self.segments = [*self.segments, new]

    def _made_segment(self, base_offset: int) -> Segment:
        """A new segment, not yet in the list. Its name is not durable before `sync`."""
        jitter_ms = _jitter_ms(self._config, self._random)
        segment = Segment(
            self._files, self.folder, base_offset, self._config, create=True, jitter_ms=jitter_ms
        )
        self._unsynced[base_offset] = segment
        self._unsynced_folders.append(self.folder)
        return segment

    # Writing and syncing.

    @property
    def has_unwritten(self) -> bool:
        """Whether batches are queued for `write`."""
        return self.offset_next != self.offset_next_written

    @property
    def has_unsynced(self) -> bool:
        """Whether `sync` has work to do."""
        return bool(self._unsynced or self._unsynced_folders or self._leader_epochs_changed)

    def write(self) -> None:
        """Writes the queued batches into the segments' files, one system call per file.

        Any thread may call it. The call returns when all batches that were queued before are
        written. Appends do not wait for the disk. The first failure raises OSError, each later call
        StorageFailed.
        """
        if not self.has_unwritten:
            return
        with self._write_lock:
            if self._write_failed is not None:
                raise StorageFailed(f"{self.folder}: {self._write_failed}") from self._write_failed
            try:
                self._write()
            except BaseException as error:
                self._write_failed = error
                self.on_write_failed(error)
                raise

    def _write(self) -> None:
        with self._lock:
            offset_next, size = self.offset_next, self.unwritten_bytes
            taken = [(segment, segment.take_unwritten()) for segment in self._unwritten]
            self._unwritten = []
        ends = []
        for segment, batches in taken:
            segment.file.pwrite([batches], segment.written_bytes)
            ends.append(segment.written_bytes + len(batches))
        with self._lock:
            for (segment, _), end in zip(taken, ends, strict=True):
                segment.written_bytes = end
                self._unsynced[segment.base_offset] = segment
            self.unwritten_bytes -= size
            self.offset_next_written = offset_next

    def sync(self) -> int:
        """Makes durable what was written before the call; returns the end of that (exclusive)."""
        with self._lock:
            offset_next = self.offset_next_written
            segments = [self._unsynced[base_offset] for base_offset in sorted(self._unsynced)]
            unsynced = [
                segment.take_unsynced(offset_next, is_active=segment is self._active)
                for segment in segments
            ]
            folders = dict.fromkeys(self._unsynced_folders)
            self._unsynced, self._unsynced_folders = {}, []
            epochs_changed, self._leader_epochs_changed = self._leader_epochs_changed, False
        if epochs_changed:
            write_leader_epochs(self._files, self.folder / LEADER_EPOCHS_FILE, self._leader_epochs)
        for segment, work in zip(segments, unsynced, strict=True):
            segment.sync(work)
        for folder in folders:
            self._files.sync_folder(folder)
        return offset_next

    def close(self) -> None:
        """Writes and syncs everything, gives back reserved blocks and descriptors.

        If there is no room for the last entry of the time index, the next start writes it.
        """
        self.write()
        with _passing_without_room():
            self._active.make_room_to_rest()
            if self._active.rest():
                self._unsynced[self._active.base_offset] = self._active
        if self.has_unsynced:
            self.sync()
        self.abandon()

    def abandon(self) -> None:
        """Gives the descriptors back and leaves the files as they are.

        Later calls of `write` fail: a late reader may still call it when another process owns the
        folder.
        """
        with self._write_lock:
            if self._write_failed is None:
                self._write_failed = StorageFailed("the log is closed")
            for segment in self.segments:
                segment.close()

    # Cleaning and deleting. The caller changes the files (`log.segment_swap`).

    def replace_segments(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        """Replaces `old`, neighbours in the list, by `new`; all are durable, none is active.

        After that, no thread opens an old segment.
        """
        with self._lock:
            start = bisect_left(self.segments, old[0].base_offset, key=_base_offset)
            end = start + len(old)
            assert self.segments[start:end] == list(old), "these are not neighbours in the log"
            assert self._active not in old, "the active segment takes appends"
            assert not any(each.base_offset in self._unsynced for each in old), "not durable yet"
            self.segments = [*self.segments[:start], *new, *self.segments[end:]]
            # This is needed if the oldest segments have no replacement.
            self.log_start_offset = max(self.log_start_offset, self.segments[0].base_offset)
        for segment in old:
            segment.retire()

    def take_oldest(self, count: int) -> list[Segment]:
        """Removes the oldest segments from the list. All of them lie below `log_start_offset`."""
        taken = self.segments[:count]
        if taken:
            assert self.segments[count].base_offset <= self.log_start_offset
            self.replace_segments(taken, [])
        return taken

    def note_superseders(self, offset_next: int) -> None:
        """Call it before records are removed whose key has a later record below `offset_next`."""
        with self._lock:
            self.superseders_end = max(self.superseders_end, offset_next)

    def _note_gaps(self) -> None:
        """Notes which records may be missing in a log that was just opened or cut."""
        if self.offset_next > self.segments[-1].offset_next:
            self._gapless_floor = self.offset_next  # The last batches were cleaned away.
        # The files do not say how far the cleaner got. But it never cleans the active segment.
        self.superseders_end = self._active.base_offset if self.gapless_from else 0

    def raise_log_start_offset(self, offset: int) -> None:
        """Hides the records below `offset`. Never lowers the start, or raises it above the end."""
        with self._lock:
            assert offset <= self.offset_next_written, "a log starts where it has batches"
            self.log_start_offset = max(self.log_start_offset, offset)

    # Recovery.

    def truncate(self, offset_next: int) -> None:
        """Keeps the batches that end below `offset_next`, which becomes the log's end.

        The end may lie above the last batch: cleaning removes batches, but not their offsets.
        """
        assert not self._unwritten, "recovery cuts before it appends"
        kept = [segment for segment in self.segments if segment.base_offset <= offset_next]
        dropped = self.segments[len(kept) :]
        if not kept:
            kept = [self._made_segment(offset_next)]
        for segment in reversed(dropped):  # The last one first, so that a crash leaves no gap.
            self._unsynced.pop(segment.base_offset, None)
            segment.remove_files()
            self._unsynced_folders.append(self.folder)
        self.segments, self._active = kept, kept[-1]
        if self._active.offset_next > offset_next:
            self._active.truncate(offset_next)
            self._unsynced[self._active.base_offset] = self._active
        self.offset_next = self.offset_next_written = offset_next
        self._active.gapless_from = min(self._active.gapless_from, self._active.offset_next)
        self.log_start_offset = min(max(self.log_start_offset, kept[0].base_offset), offset_next)
        self._note_gaps()
        epochs = [(epoch, start) for epoch, start in self._leader_epochs if start <= offset_next]
        if epochs != self._leader_epochs:
            self._leader_epochs = epochs or [(0, offset_next)]
            self._leader_epochs_changed = True


@contextmanager
def _passing_without_room() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if not may_pass(error):
            raise


def _jitter_ms(config: LogConfig, random: Random | None) -> int:
    """The time by which a segment rolls early: not all roll at once. 0 without `random`."""
    jitter_ms = min(config.segment_jitter_ms, config.roll_ms)
    return random.randrange(jitter_ms) if random and jitter_ms else 0


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
