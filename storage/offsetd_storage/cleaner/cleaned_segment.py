"""Writes what stays of a group of segments into one segment of state `.cleaned`."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import attrs

from offsetd_storage.errors import CorruptBatch, StorageFailed, StorageFull, is_no_room
from offsetd_storage.segment import (
    CLEANED_STATE,
    LOG_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
    segment_path,
)
from offsetd_storage.segment_scan import scan_segment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from offsetd_storage.cleaner.transactions import AbortedTransaction
    from offsetd_storage.files import Files
    from offsetd_storage.log_config import LogConfig

# Version 0, producer's id, first offset, last offset, last stable offset.
TRANSACTION_ENTRY: Final = struct.Struct(">hqqqq")
assert TRANSACTION_ENTRY.size == 34, "an entry of .txnindex is 34 bytes"

_RESERVE_STEP_BYTES: Final = 1 << 20


class CleanedSegmentWriter:
    """Makes no file before there is something to write.

    Blocks are reserved ahead: so a full disk refuses a write, and fails no sync. What was begun is
    either finished or discarded.
    """

    def __init__(self, files: Files, folder: Path, base_offset: int, config: LogConfig) -> None:
        self.size_bytes = 0
        self._files = files
        self._folder = folder
        self._base_offset = base_offset
        self._config = attrs.evolve(config, preallocate_step_bytes=_RESERVE_STEP_BYTES)
        self._segment: Segment | None = None

    def write(self, batches: npt.NDArray[np.uint8]) -> None:
        """Adds whole batches. Raises StorageFull, StorageFailed."""
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
            self._segment.file.pwrite([batches], self.size_bytes)
        except OSError as error:
            raise self._failure(error) from error
        self.size_bytes = end

    def finish(
        self, *, modified_ms: int, aborted: Sequence[AbortedTransaction] = ()
    ) -> Segment | None:
        """The segment, with its indexes, durable but for its files' names; None: nothing stays.

        Every batch of it is checked. Raises CorruptBatch, StorageFull, StorageFailed.
        """
        segment = self._segment
        if segment is None:
            return None
        try:
            segment.file.truncate(self.size_bytes)  # Gives back what was reserved.
            scan = scan_segment(
                segment.file,
                size=self.size_bytes,
                base_offset=self._base_offset,
                offset_min=self._base_offset,
                index_interval_bytes=self._config.index_interval_bytes,
            )
            if scan.stop is not None:
                raise CorruptBatch(
                    f"{segment.path.name} got a batch that is none ({scan.stop.reason.name})",
                    position=scan.stop.position,
                )
            segment.take_scan(scan)
            segment.index_problems = ()  # That there are no files yet is none.
            self._write_transactions(aborted)
            # Kafka's retention counts by it where batches have no timestamps.
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
        """Removes what was written, as far as it can be; a start of the server does the rest."""
        segment, self._segment = self._segment, None
        if segment is not None:
            with suppress(OSError):
                segment.remove_files(CLEANED_STATE)

    def _path(self, suffix: str) -> Path:
        return segment_path(self._folder, self._base_offset, suffix + CLEANED_STATE)

    def _failure(self, error: OSError) -> StorageFull | StorageFailed:
        failure = StorageFull if is_no_room(error) else StorageFailed
        return failure(f"{self._path(LOG_SUFFIX)} could not be written: {error}")
