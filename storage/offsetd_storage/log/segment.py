"""One segment of a log: `<base offset>.log`, and its two indexes."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from offsetd_storage.batch.record_batch import NO_TIMESTAMP
from offsetd_storage.errors import SegmentRetired, is_no_room
from offsetd_storage.log.indexes import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    IndexTail,
    OffsetIndex,
    TimeIndex,
    index_problems,
    offset_index_problem,
    time_index_problem,
)
from offsetd_storage.log.segment_files import (
    SegmentFiles,
)
from offsetd_storage.log.segment_reader import SegmentReader
from offsetd_storage.log.segment_scan import (
    RunningDigest,
    index_entries_max,
    index_rows,
    index_step_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from offsetd_storage.configuration.log_config import LogConfig
    from offsetd_storage.disk.files import File, Files
    from offsetd_storage.log.segment_scan import SegmentScan

_RELATIVE_OFFSET_MAX: Final = 2**31 - 1  # The largest that an index entry holds.
# Each reservation is twice the one before if that lasted less than `_AHEAD_LASTS_MS`. So a segment
# that grows fast rarely waits for the file system, and an idle log reserves few blocks.
_AHEAD_LASTS_MS: Final = 1000
_AHEAD_STEPS_MAX: Final = 16


class SegmentSync(NamedTuple):
    """The work of one `Segment.sync`."""

    file: File | None  # None if the segment takes no more writes; `sync` closes it.
    cut_bytes: int | None  # The log file is cut there; nothing stays reserved after it.
    offset_tail: IndexTail | None
    time_tail: IndexTail | None


class Segment(SegmentFiles):
    """One segment's files and the state of its log in memory. The log serialises the threads.

    While the segment takes appends, blocks are reserved ahead. At rest (closed, or no longer the
    active one) it reserves none, and its time index has the last entry that Kafka adds then. After
    its first change it holds a descriptor, until it is synced and no longer active.

    A segment that leaves the log is retired. Its readers continue with the files that they have
    open. No thread opens its file any more, because another segment may have the name by now.
    """

    __slots__ = (
        "_ahead_steps",
        "_config",
        "_filled_ms",
        "_indexed_pieces",
        "_indexed_timestamp_ms",
        "_indexed_timestamp_offset",
        "_jitter_ms",
        "_reserved_bytes",
        "_reserved_ms",
        "_tail_found",
        "_timeless_since_ms",
        "_unwritten",
        "_waking_bytes",
        "first_timestamp_ms",
        "gapless_from",
        "headers_digest",
        "index_problems",
        "largest_timestamp_ms",
        "largest_timestamp_offset",
        "last_offset_max",
        "offset_index",
        "offset_next",
        "plain_bytes",
        "roll_after_ms",
        "room_bytes",
        "size_bytes",
        "time_index",
        "written_bytes",
    )

    def __init__(
        self,
        files: Files,
        folder: Path,
        base_offset: int,
        config: LogConfig,
        *,
        create: bool = False,
        jitter_ms: int = 0,
        state: str = "",
    ) -> None:
        """The log file counts as empty until `take_scan` says what is in it.

        `state` is the end of its files' names until they are renamed; empty for a segment in use.
        """
        super().__init__(files, folder, base_offset, create=create, state=state)
        self.size_bytes = 0  # Queued batches included.
        self.written_bytes = 0  # The size of the batches in the file.
        self.offset_next = base_offset  # The end of the last batch, queued ones included.
        self.gapless_from = base_offset  # See `SegmentScan`.
        self.first_timestamp_ms = NO_TIMESTAMP  # The largest timestamp of the first batch.
        self.largest_timestamp_ms = NO_TIMESTAMP
        self.largest_timestamp_offset = base_offset  # Last offset of the batch that has it.
        self.offset_index = OffsetIndex(base_offset)
        self.time_index = TimeIndex(base_offset)
        self.index_problems: tuple[str, ...] = ()  # Found in the index files when opened.
        self.headers_digest = RunningDigest()  # Kept for the log's `SegmentListUpdates`.
        self.plain_bytes = 0  # Before this position no batch has a producer or a delete horizon.

        # Batches within these limits are appended without a further check.
        self.room_bytes = 0
        self.roll_after_ms = sys.maxsize
        self.last_offset_max = base_offset + _RELATIVE_OFFSET_MAX

        self._config = config
        self._jitter_ms = jitter_ms
        self._unwritten: list[bytes | bytearray] = []
        self._reserved_bytes = 0  # The bytes that are known to be reserved.
        self._reserved_ms = -sys.maxsize  # When blocks were last reserved for appends.
        self._ahead_steps = 1  # The size of the next reservation, in steps.
        self._tail_found = files.size(self.path) > 0  # Whether the file has other bytes.
        # None while the segment takes appends. After `rest`: the size of the time index before
        # `rest` added its entry.
        self._waking_bytes: int | None = None
        # The time of the first request for room by batches without a timestamp.
        self._timeless_since_ms = sys.maxsize
        self._filled_ms: int | None = None  # When the first batch came, by the clock.
        self._note_indexed()

    def take_scan(self, scan: SegmentScan) -> None:
        """Takes over the batches that `scan` found valid. Changes nothing on disk."""
        self.size_bytes = self.written_bytes = self._reserved_bytes = scan.valid_bytes
        self._tail_found = self._files.size(self.path) > scan.valid_bytes
        self.headers_digest = RunningDigest(scan.valid_bytes, scan.headers_digest)
        self.plain_bytes = 0 if scan.marked_batches else scan.valid_bytes
        self.offset_next, self.gapless_from = scan.offset_next, scan.gapless_from
        self.first_timestamp_ms = scan.first_timestamp_ms
        self.largest_timestamp_ms = scan.largest_timestamp_ms
        self.largest_timestamp_offset = scan.largest_timestamp_offset
        self.offset_index = OffsetIndex(self.base_offset, scan.offset_index.tobytes())
        self.time_index = TimeIndex(self.base_offset, scan.time_index.tobytes())
        self._note_indexed()
        self.configure(self._config)
        self.rest()
        # This reads one more entry than expected, to see whether anything but zeros follows.
        offset_raw = self._offset_file.read(len(self.offset_index.entries) + OFFSET_ENTRY.size)
        time_raw = self._time_file.read(len(self.time_index.entries) + TIME_ENTRY.size)
        self._offset_file.compare(offset_raw, self.offset_index.entries)
        self._time_file.compare(time_raw, self.time_index.entries)
        self.index_problems = self._problems(offset_raw, time_raw)

    def _problems(self, offset_raw: bytes, time_raw: bytes) -> tuple[str, ...]:
        offset_problem = offset_index_problem(offset_raw, log_bytes=self.size_bytes)
        time_problem = time_index_problem(
            time_raw,
            largest_timestamp_ms=self.largest_timestamp_ms,
            offset_span=self.offset_next - self.base_offset,
        )
        found = (
            (self._offset_file, self.offset_index.entries, offset_problem),
            (self._time_file, self.time_index.entries, time_problem),
        )
        return index_problems(found)

    @property
    def is_empty(self) -> bool:
        """Whether neither the log has batches here, nor the file has bytes."""
        return not (self.size_bytes or self._tail_found)

    @property
    def needs_mending(self) -> bool:
        """Whether its files differ from what the batches say; then a `sync` corrects them."""
        return (
            self._tail_found
            or not self._offset_file.holds(self.offset_index.entries)
            or not self._time_file.holds(self.time_index.entries)
        )

    # Appending: one thread, under the log's lock.

    def configure(self, config: LogConfig) -> None:
        """Takes new settings for the next appends."""
        self.index_queued()
        self._config = config
        self.room_bytes = 0

    def must_roll(
        self, *, batch_bytes: int, last_offset: int, max_timestamp_ms: int, now_ms: int
    ) -> bool:
        """Whether a batch needs a new segment, by the rules of Kafka's `LogSegment.shouldRoll`.

        The time is that of the records, or that of the clock if the first batch has no timestamp.
        """
        if last_offset > self.last_offset_max:
            return True
        if self.size_bytes == 0:
            return False
        self.index_queued()
        if self.first_timestamp_ms >= 0:
            waited_ms = max_timestamp_ms - self.first_timestamp_ms
        else:
            waited_ms = now_ms - self._timeless_since_ms
        return (
            self.size_bytes > self._config.segment_bytes_max - batch_bytes
            or waited_ms > self._config.roll_ms - self._jitter_ms
            or self._free_slots <= 0
        )

    @property
    def _free_slots(self) -> int:
        """The number of entries that each index can still take."""
        # The time index keeps one slot free: `rest` adds one more entry.
        bytes_max = self._config.segment_index_bytes_max
        return min(
            bytes_max // OFFSET_ENTRY.size - len(self.offset_index),
            bytes_max // TIME_ENTRY.size - 1 - len(self.time_index),
        )

    def is_overdue(self, now_ms: int) -> bool:
        """Whether the segment has held batches for longer than it may, by the clock.

        The records' timestamps do not count: records may be old when they are appended, or be from
        the future. Time counts from the segment's first append; if an earlier process made that,
        from the file's last modification before the first call.
        """
        if self.size_bytes == 0:
            return False
        if self._filled_ms is None:
            self._filled_ms = min(now_ms, self._files.modified_ms(self.path))
        return now_ms - self._filled_ms > self._config.roll_ms - self._jitter_ms

    def make_room(self, *, batch_bytes: int, max_timestamp_ms: int, now_ms: int) -> None:
        """Prepares the segment for a batch. Raises OSError if there are no free blocks."""
        config = self._config
        if self.size_bytes + batch_bytes > self._reserved_bytes:
            is_fast = now_ms - self._reserved_ms < _AHEAD_LASTS_MS
            self._ahead_steps = min(2 * self._ahead_steps, _AHEAD_STEPS_MAX) if is_fast else 1
            self._reserved_ms = now_ms
        self.reserve(self.size_bytes + batch_bytes)
        if self.size_bytes == 0:
            self.first_timestamp_ms = max_timestamp_ms
            self._filled_ms = now_ms
        if self.first_timestamp_ms >= 0:
            self.roll_after_ms = self.first_timestamp_ms + config.roll_ms - self._jitter_ms
        else:
            self.roll_after_ms = NO_TIMESTAMP - 1  # So each batch checks the clock again.
            self._timeless_since_ms = min(self._timeless_since_ms, now_ms)
        # The next check comes before an index can be full.
        until_full_bytes = (self._free_slots - 2) * index_step_bytes(config.index_interval_bytes)
        self.room_bytes = min(
            self._reserved_bytes, config.segment_bytes_max, self.size_bytes + until_full_bytes
        )

    def reserve(self, end_bytes: int) -> None:
        """Reserves blocks for the log up to `end_bytes` or more, and for its index entries."""
        config = self._config
        self.cut_tail()
        if end_bytes > self._reserved_bytes:
            ahead_bytes = self._ahead_steps * config.preallocate_step_bytes
            ahead = min(self._reserved_bytes + ahead_bytes, config.segment_bytes_max)
            try:
                self._allocate_up_to(max(ahead, end_bytes))
            except OSError as error:
                # There may be room for batches that recovery appends again, but not for more.
                if not is_no_room(error) or ahead <= end_bytes:
                    raise
                self._allocate_up_to(end_bytes)
        self.index_queued()
        unused_bytes = self._reserved_bytes - self.size_bytes
        entries = index_entries_max(unused_bytes, config.index_interval_bytes)
        self._offset_file.reserve((len(self.offset_index) + entries) * OFFSET_ENTRY.size)
        self._time_file.reserve((len(self.time_index) + entries + 1) * TIME_ENTRY.size)

    def _allocate_up_to(self, end_bytes: int) -> None:
        self.file.allocate(self._reserved_bytes, end_bytes - self._reserved_bytes)
        self._reserved_bytes = end_bytes

    def cut_tail(self) -> None:
        """Cuts off the bytes found after the batches. Call it before batches are queued."""
        if self._tail_found:
            self.file.truncate(self.size_bytes)
            self._tail_found = False

    def takes(self, size_bytes: int, last_offset: int, max_timestamp_ms: int) -> bool:
        """Whether batches are appended without a further check."""
        return (
            self.size_bytes + size_bytes <= self.room_bytes
            and max_timestamp_ms <= self.roll_after_ms
            and last_offset <= self.last_offset_max
        )

    def append(
        self, batches: bytes, last_offset: int, max_timestamp_ms: int, max_timestamp_offset: int
    ) -> bool:
        """Queues batches for which there is room. Returns whether nothing else was queued.

        `max_timestamp_offset` is the last offset of the first batch that has that timestamp.
        """
        if max_timestamp_ms > self.largest_timestamp_ms:
            self.largest_timestamp_ms = max_timestamp_ms
            self.largest_timestamp_offset = max_timestamp_offset
        self._unwritten.append(batches)
        self.size_bytes += len(batches)
        self.offset_next = last_offset + 1
        return len(self._unwritten) == 1

    def index_queued(self) -> None:
        """Adds index entries for everything that is queued.

        This can come late, for many batches at once: lookups only concern batches in the file.
        """
        queued = self._unwritten[self._indexed_pieces :]
        if not queued:
            return
        batches = bytearray().join(queued)
        rows = index_rows(
            batches,
            file_position=self.size_bytes - len(batches),
            indexed_position=self.offset_index.last.position,
            index_interval_bytes=self._config.index_interval_bytes,
            largest_timestamp_ms=self._indexed_timestamp_ms,
            largest_timestamp_offset=self._indexed_timestamp_offset,
        )
        for last_offset, position, timestamp_ms, timestamp_offset in rows:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(timestamp_ms, timestamp_offset)
        self._unwritten[self._indexed_pieces :] = [batches]
        self._note_indexed()

    def _note_indexed(self) -> None:
        """Notes that the indexes cover everything that is queued."""
        self._indexed_pieces = len(self._unwritten)
        self._indexed_timestamp_ms = self.largest_timestamp_ms
        self._indexed_timestamp_offset = self.largest_timestamp_offset

    def make_room_to_rest(self) -> None:
        """Prepares `rest`. Raises OSError if there are no free blocks for that."""
        if self._waking_bytes is None:
            self.index_queued()
            self._offset_file.reserve(len(self.offset_index) * OFFSET_ENTRY.size)
            self._time_file.reserve((len(self.time_index) + 1) * TIME_ENTRY.size)

    def rest(self) -> bool:
        """Takes no appends until `wake`; the time index gets its last entry.

        Returns False if `rest` was called already, without a `wake` since.
        """
        self.index_queued()
        if self._waking_bytes is not None:
            return False
        self._waking_bytes = len(self.time_index.entries)
        self.room_bytes = 0
        self.time_index.maybe_append(self.largest_timestamp_ms, self.largest_timestamp_offset)
        return True

    def wake(self) -> None:
        """Accepts appends again. Removes the time-index entry of `rest`: a scan adds none."""
        if self._waking_bytes is not None:
            self.time_index.shorten(self._waking_bytes)
            self._time_file.changed_from(self._waking_bytes)
            self._waking_bytes = None

    # Writing and syncing: called under the log's lock, except for `sync`.

    def take_unwritten(self) -> bytes | bytearray:
        """Takes the queued batches, in one piece; they belong at `written_bytes` in the file."""
        self.index_queued()
        queued, self._unwritten, self._indexed_pieces = self._unwritten, [], 0
        return queued[0] if len(queued) == 1 else b"".join(queued)

    def take_unsynced(self, offset_next_written: int, *, is_active: bool = True) -> SegmentSync:
        """The work of `sync` for the batches in the file, which end at `offset_next_written`."""
        self.cut_tail()  # Done now, because a later cut would remove new appends, too.
        finished = self._waking_bytes is not None and self.written_bytes == self.size_bytes
        cut = finished and self._reserved_bytes > self.size_bytes
        if cut:
            self._reserved_bytes = self.size_bytes
        return SegmentSync(
            # The file is opened now if an append may need it, too.
            file=None if finished and not is_active else self.file,
            cut_bytes=self.size_bytes if cut else None,
            offset_tail=self._offset_file.take_tail(
                self.offset_index.entries,
                self.offset_index.bytes_below(self.written_bytes),
                last=finished,
            ),
            time_tail=self._time_file.take_tail(
                self.time_index.entries,
                self.time_index.bytes_below(offset_next_written),
                last=finished,
            ),
        )

    def sync(self, unsynced: SegmentSync) -> None:
        """Makes the files durable, but not the names of files that it makes."""
        file = unsynced.file or self.file
        if unsynced.cut_bytes is not None:
            file.truncate(unsynced.cut_bytes)
        self._date_file(None if unsynced.file else self._filled_ms)
        file.sync()
        if unsynced.offset_tail:
            self._offset_file.write(unsynced.offset_tail)
        if unsynced.time_tail:
            self._time_file.write(unsynced.time_tail)
        if unsynced.file is None:
            self.close()

    # Reading what is written: any thread.

    @contextmanager
    def reader(self) -> Iterator[SegmentReader]:
        """A reader of what the file holds now, with its own descriptor.

        So a log of thousands of segments holds few descriptors, and no reader loses its file.
        Raises SegmentRetired.
        """
        with self._name_lock:
            if self.is_retired:
                raise SegmentRetired(f"{self.path} has left the log")
            file = self._files.open(self.path, read_only=True)
            file_name = self.path.name
        try:
            yield SegmentReader(
                file, file_name, self.offset_index, written_bytes=self.written_bytes
            )
        finally:
            file.close()

    # Recovery: one thread has the log to itself.

    def truncate(self, offset_next: int) -> None:
        """Keeps the batches that end below `offset_next`. Nothing is queued."""
        assert not self._unwritten, "only what is written can be cut"
        self.wake()
        self.offset_index.truncate(offset_next)
        # A time entry may name an earlier batch than the offset entry that came with it; both are
        # removed.
        entries_end = self.offset_index.last.offset + 1 if self.offset_index.entries else 0
        self.time_index.truncate(entries_end)
        self._offset_file.changed_from(len(self.offset_index.entries))
        self._time_file.changed_from(len(self.time_index.entries))
        # The last index entries cover the batches up to their position. Later batches are read.
        self.largest_timestamp_ms, self.largest_timestamp_offset = self.time_index.last
        self.offset_next = self.base_offset
        end = self.offset_index.last.position
        with self.reader() as reader:
            for position, header in reader.headers(end, self.size_bytes):
                if header.last_offset >= offset_next:
                    break
                end = position + header.size_bytes
                self.offset_next = header.last_offset + 1
                if header.max_timestamp_ms > self.largest_timestamp_ms:
                    self.largest_timestamp_ms = header.max_timestamp_ms
                    self.largest_timestamp_offset = header.last_offset
        if end == 0:
            self.first_timestamp_ms = NO_TIMESTAMP
        self.file.truncate(end)
        self.size_bytes = self.written_bytes = self._reserved_bytes = end
        self.plain_bytes = min(self.plain_bytes, end)
        self.headers_digest = RunningDigest()
        self._tail_found = False
        self._note_indexed()
        self.configure(self._config)
