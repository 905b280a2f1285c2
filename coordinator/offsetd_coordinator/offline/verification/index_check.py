"""Checks of a segment's index files against its log.

An index is valid if every lookup works. An offset's entry has the start of a batch that does not
begin after the offset. A time's entry has the largest timestamp so far and a batch with it. So
indexes of Kafka's cleaner are valid, although their entries are at other places than those of
appends.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from offsetd_storage.batch.record_batch import BATCH_HEADER, BatchHeader, batch_header
from offsetd_storage.disk.files import File, Files
from offsetd_storage.errors import CorruptBatch
from offsetd_storage.log.indexes import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    OffsetIndex,
    TimeEntry,
    TimeIndex,
    offset_index_problem,
    time_index_problem,
)
from offsetd_storage.log.segment_files import INDEX_SUFFIX, TIME_INDEX_SUFFIX, segment_path
from offsetd_storage.log.segment_scan import SegmentScan

from offsetd_coordinator.offline.verification.findings import Finding

_MISSING: Final = "the index is missing"
_INDEX_BYTES_MAX: Final = 256 << 20  # Kafka's default is 10 MiB.
_TOO_LARGE: Final = f"it is larger than {_INDEX_BYTES_MAX} bytes, and was not checked"


class IndexVerifier:
    """Checks the indexes of one segment. `scan` has read every valid batch of its log file."""

    def __init__(
        self, files: Files, folder: Path, base_offset: int, log: File, scan: SegmentScan
    ) -> None:
        self._files = files
        self._folder = folder
        self._base_offset = base_offset
        self._log = log
        self._scan = scan

    def findings(self) -> Iterator[Finding]:
        """The problems of `.index` and `.timeindex`: for each, at most the first wrong entry."""
        for suffix, reason in (
            (INDEX_SUFFIX, self._offset_index_reason),
            (TIME_INDEX_SUFFIX, self._time_index_reason),
        ):
            path = segment_path(self._folder, self._base_offset, suffix)
            exists = self._files.exists(path)
            if exists and self._files.size(path) > _INDEX_BYTES_MAX:
                position, text = None, _TOO_LARGE
            else:
                position, text = reason(self._files.read_bytes(path) if exists else None)
            if text:
                yield Finding(
                    file=f"{self._folder.name}/{path.name}", position=position, reason=text
                )

    def _offset_index_reason(self, raw: bytes | None) -> tuple[int | None, str]:
        if raw is None:
            return None, _MISSING if len(self._scan.offset_index) else ""
        problem = offset_index_problem(raw, log_bytes=self._scan.valid_bytes)
        if problem:
            return None, problem
        known = set(OffsetIndex(self._base_offset, self._scan.offset_index.tobytes()))
        for slot, entry in enumerate(OffsetIndex(self._base_offset, raw)):
            if entry in known or entry.position == 0:  # A killed broker leaves preallocated zeros.
                continue
            header = self._header_at(entry.position)
            if header is None or header.base_offset > entry.offset:
                reason = f"offset {entry.offset} is not at byte {entry.position} of the log"
                return slot * OFFSET_ENTRY.size, reason
        return None, ""

    def _time_index_reason(self, raw: bytes | None) -> tuple[int | None, str]:
        scan = self._scan
        if raw is None:
            return None, _MISSING if len(scan.time_index) else ""
        problem = time_index_problem(
            raw,
            largest_timestamp_ms=scan.largest_timestamp_ms,
            offset_span=scan.offset_next - self._base_offset,
        )
        if problem:
            return None, problem
        known = set(TimeIndex(self._base_offset, scan.time_index.tobytes()))
        known.add(TimeEntry(scan.largest_timestamp_ms, scan.largest_timestamp_offset))
        for slot, entry in enumerate(TimeIndex(self._base_offset, raw)):
            if entry in known or entry.timestamp_ms == 0:
                continue
            header = self._header_with(entry.offset)
            if header is None or header.max_timestamp_ms != entry.timestamp_ms:
                reason = f"offset {entry.offset} does not have timestamp {entry.timestamp_ms}"
                return slot * TIME_ENTRY.size, reason
        return None, ""

    def _header_with(self, offset: int) -> BatchHeader | None:
        """The header of the batch that holds `offset`, or of the first batch after it."""
        index = OffsetIndex(self._base_offset, self._scan.offset_index.tobytes())
        position = index.lookup(offset).position
        while (header := self._header_at(position)) is not None and header.last_offset < offset:
            position += header.size_bytes
        return header

    def _header_at(self, position: int) -> BatchHeader | None:
        """The header at `position`; None if no valid batch is there."""
        if position >= self._scan.valid_bytes:
            return None
        try:
            header = batch_header(self._log.pread(BATCH_HEADER.size, position))
        except CorruptBatch:
            return None
        return header if position + header.size_bytes <= self._scan.valid_bytes else None
