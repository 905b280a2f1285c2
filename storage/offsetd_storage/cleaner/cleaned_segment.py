"""Writer of a `.cleaned` segment: what is left of a group of segments."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from offsetd_storage.errors import (
    CorruptBatch,
    StorageFailed,
    StorageFull,
    may_pass,
    storage_failed,
)
from offsetd_storage.log.segment import Segment
from offsetd_storage.log.segment_files import (
    CLEANED_STATE,
    LOG_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
)
from offsetd_storage.log.segment_scan import scan_segment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

    from offsetd_storage.cleaner.cleaned_transactions import AbortedTransaction
    from offsetd_storage.cleaner.segment_chunks import SegmentChunks
    from offsetd_storage.configuration.log_config import LogConfig
    from offsetd_storage.disk.files import Files

# Version 0, producer id, first offset, last offset, last stable offset.
TRANSACTION_ENTRY: Final = struct.Struct(">hqqqq")
assert TRANSACTION_ENTRY.size == 34, "an entry of .txnindex is 34 bytes"

_RESERVE_STEP_BYTES: Final = 1 << 20
_COPY_BYTES: Final = 1 << 20
# For longer writes the page cache takes larger blocks of memory. A virtual machine may have to ask
# its host for these first, which is several times slower.
_WRITE_BYTES: Final = 1 << 16
# After this many bytes the disk starts to write them, while the next bytes are filtered.
_WRITEBACK_BYTES: Final = 4 << 20


class CleanedSegmentWriter:
    """Writes what is left of a group of segments.

    As long as the output equals the sources, byte for byte, no file is made. So a group with
    nothing to gain costs the disk nothing. Blocks are reserved ahead, so that a full disk refuses a
    write and does not fail a sync. Each segment that was begun must be finished or discarded.
    """

    def __init__(self, files: Files, folder: Path, base_offset: int, config: LogConfig) -> None:
        self.size_bytes = 0  # The size of the batches written so far.
        self._files = files
        self._folder = folder
        self._base_offset = base_offset
        self._config = attrs.evolve(config, preallocate_step_bytes=_RESERVE_STEP_BYTES)
        self._segment: Segment | None = None
        self._writeback_bytes = 0  # How many bytes the disk has started to write.
        self._is_copying = True  # Whether all batches so far were equal to the sources.
        self._sources: list[Segment] = []
        self._source: SegmentChunks | None = None  # The last of the sources, which is open.
        self._source_position = 0
        self._buffer: npt.NDArray[np.uint8] = np.empty(0, dtype=np.uint8)

    def begin_source(self, segment: Segment, source: SegmentChunks) -> None:
        """The next batches come from this segment, which the caller keeps open."""
        if self._source is not None and self._source_position < self._source.size_bytes:
            self._stop_copying()  # The last batches of that source were dropped.
        self._sources.append(segment)
        self._source, self._source_position = source, 0

    def write(self, batches: npt.NDArray[np.uint8]) -> None:
        """Adds whole batches. Raises StorageFull, StorageFailed, and OSError if a source fails."""
        if self._is_copying:
            if self._is_next_in_source(batches):
                self._source_position += batches.size
                self.size_bytes += batches.size
                return
            self._stop_copying()
        self._append(batches)

    def _is_next_in_source(self, batches: npt.NDArray[np.uint8]) -> bool:
        if self._source is None:
            return False
        if self._buffer.size < batches.size:
            self._buffer = np.empty(batches.size, dtype=np.uint8)
        read = self._source.file.pread_into(self._buffer, batches.size, self._source_position)
        return np.array_equal(self._buffer[:read], batches)

    def _stop_copying(self) -> None:
        """Makes the file and copies to it what has equalled the sources so far."""
        if not self._is_copying:
            return
        self._is_copying = False
        left, self.size_bytes = self.size_bytes, 0
        buffer = np.empty(_COPY_BYTES, dtype=np.uint8)
        for segment in self._sources:
            end = min(left, segment.written_bytes)
            left -= end
            with segment.reader() as reader:
                for position in range(0, end, _COPY_BYTES):
                    size = min(_COPY_BYTES, end - position)
                    if reader.file.pread_into(buffer, size, position) < size:
                        raise CorruptBatch(f"{segment.path.name} ends early", position=position)
                    self._append(buffer[:size])

    def _append(self, batches: npt.NDArray[np.uint8]) -> None:
        if not batches.size:
            return
        end = self.size_bytes + batches.size
        try:
            if self._segment is None:
                self._segment = Segment(
                    self._files,
                    self._folder,
                    self._base_offset,
                    self._config,
                    create=True,
                    state=CLEANED_STATE,
                )
            self._segment.reserve(end)
            for start in range(0, batches.size, _WRITE_BYTES):
                piece = batches[start : start + _WRITE_BYTES]
                self._segment.file.pwrite([piece], self.size_bytes + start)
            if end - self._writeback_bytes >= _WRITEBACK_BYTES:
                self._segment.file.begin_writeback(
                    self._writeback_bytes, end - self._writeback_bytes
                )
                self._writeback_bytes = end
        except OSError as error:
            raise self._failure(error) from error
        self.size_bytes = end

    def finish(
        self, *, modified_ms: int, aborted: Sequence[AbortedTransaction] = ()
    ) -> Segment | None:
        """The segment with its indexes; None if nothing is left.

        It is durable, except for its files' names, and every batch of it was checked. Raises
        CorruptBatch, StorageFull, StorageFailed.
        """
        self._stop_copying()
        segment = self._segment
        if segment is None:
            return None
        try:
            segment.file.truncate(self.size_bytes)  # Gives back reserved blocks.
            scan = scan_segment(
                segment.file,
                size=self.size_bytes,
                base_offset=self._base_offset,
                offset_min=self._base_offset,
                index_interval_bytes=self._config.index_interval_bytes,
            )
            if scan.stop is not None:
                raise CorruptBatch(
                    f"{segment.path.name} was written with a bad batch ({scan.stop.reason.name})",
                    position=scan.stop.position,
                )
            segment.take_scan(scan)
            segment.index_problems = ()  # A new segment has no index files yet: no problem.
            self._write_transactions(aborted)
            # Kafka's retention uses this time for batches without timestamps.
            self._files.set_modified_ms(segment.path, modified_ms)
            segment.sync(segment.take_unsynced(segment.offset_next, is_active=False))
        except OSError as error:
            raise self._failure(error) from error
        self._segment = None
        return segment

    def _write_transactions(self, aborted: Sequence[AbortedTransaction]) -> None:
        if not aborted:
            return
        entries = b"".join(
            TRANSACTION_ENTRY.pack(
                0, each.producer_id, each.first_offset, each.last_offset, each.last_stable_offset
            )
            for each in aborted
        )
        path = self._path(TRANSACTION_INDEX_SUFFIX)
        file = self._files.open(path, create=True)
        try:
            file.allocate(0, len(entries))
            file.pwrite([entries], 0)
            file.sync()
        finally:
            file.close()

    def discard(self) -> None:
        """Removes what was written, as far as possible. The next start removes the rest."""
        segment, self._segment = self._segment, None
        if segment is not None:
            with suppress(OSError):
                segment.remove_files(CLEANED_STATE)

    def _path(self, suffix: str) -> Path:
        return segment_path(self._folder, self._base_offset, suffix + CLEANED_STATE)

    def _failure(self, error: OSError) -> StorageFull | StorageFailed:
        failed = storage_failed(error, f"{self._path(LOG_SUFFIX)} could not be written")
        return StorageFull(str(failed)) if may_pass(error) else failed
