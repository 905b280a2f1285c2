"""Checks of a partition's log: its segments, batches, records, indexes and leader epochs.

A valid checksum proves that the bytes did not change. So a record in such a batch that cannot be
decoded was written that way.
"""

from collections.abc import Generator, Iterator
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt
from offsetd_storage.batch.record_batch import batch_header, computed_crc
from offsetd_storage.disk.files import File, Files
from offsetd_storage.errors import CorruptBatch, CorruptCheckpoint
from offsetd_storage.folder.checkpoint_files import read_leader_epochs
from offsetd_storage.kernels import PADDING_BYTES, padded_buffer
from offsetd_storage.log.leader_epochs import LEADER_EPOCHS_FILE
from offsetd_storage.log.segment_files import segment_base_offsets, segment_path
from offsetd_storage.log.segment_scan import SegmentScan, StopReason, scan_segment
from offsetd_storage.recovery.tail_search import valid_batch_after
from offsetd_storage.views.folder_view import LogView

from offsetd_coordinator.kernels.records.record_screening import skip_plain_batches
from offsetd_coordinator.offline.segment_batches import whole_batches
from offsetd_coordinator.offline.verification.findings import Finding
from offsetd_coordinator.offline.verification.index_check import IndexVerifier
from offsetd_coordinator.offline.verification.lost_segments import lost_segments
from offsetd_coordinator.offline.verification.record_check import RecordVerifier
from offsetd_coordinator.offline.verification.timestamp_check import FutureTimestamps

READ_BYTES: Final = 4 << 20

_NO_LEADER_EPOCH: Final = -1
_STOPS: Final = {
    StopReason.INCOMPLETE: "a batch is cut short",
    StopReason.BAD_LENGTH: "a batch has an impossible length",
    StopReason.BAD_MAGIC: "no batch of format v2 is here",
    StopReason.BAD_COUNT: "a batch has an impossible number of records",
    StopReason.BAD_OFFSET: "a batch's offset is not above the offsets before it, or out of range",
    StopReason.BAD_LEADER_EPOCH: "a batch has a lower leader epoch than the batches before it",
    StopReason.BAD_CHECKSUM: "a batch has a wrong checksum",
    StopReason.TOO_LARGE: "a batch is larger than the largest that offsetd reads",
}


class LogVerifier:
    """Checks one log up to the end that its view allows, and counts its batches and records.

    `partitions` is the topic's number of partitions. None means that the records are not those of
    groups, and are not decoded. With `future`, timestamps that block retention are findings, too.
    """

    def __init__(
        self,
        files: Files,
        log: LogView,
        *,
        partitions: int | None,
        future: FutureTimestamps | None = None,
    ) -> None:
        self.batches = 0
        self.records = 0
        self.log_start_offset = 0
        self.offset_next = 0
        self._leader_epoch_last = _NO_LEADER_EPOCH
        self._files = files
        self._log = log
        self._records = (
            None
            if partitions is None
            else RecordVerifier(log.topic_partition.partition, partitions)
        )
        self._partitions = partitions or 1
        self._future = future
        self._scans: dict[int, SegmentScan] = {}

    @property
    def unknown_records(self) -> int:
        """The number of records of types that offsetd does not know."""
        return 0 if self._records is None else self._records.unknown_records

    def findings(self) -> Iterator[Finding]:
        """All problems, in the order of the log."""
        base_offsets = segment_base_offsets(self._files, self._log.folder)
        if not base_offsets:
            yield Finding(file=self._log.folder.name, reason="there is no segment")
            return
        self.log_start_offset = self.offset_next = base_offsets[0]
        for base_offset in base_offsets:
            file = self._files.open(segment_path(self._log.folder, base_offset), read_only=True)
            try:
                yield from self._segment(file, base_offset, is_last=base_offset == base_offsets[-1])
            finally:
                file.close()
        yield from self._leader_epochs()
        yield from lost_segments(self._files, self._log, self._scans)

    def _segment(self, file: File, base_offset: int, *, is_last: bool) -> Iterator[Finding]:
        size = file.size()
        readable_bytes = self._log.readable_bytes(base_offset, size)
        scan = scan_segment(
            file,
            size=readable_bytes,
            base_offset=base_offset,
            offset_min=self.offset_next,
            leader_epoch_min=self._leader_epoch_last,
        )
        self._scans[base_offset] = scan
        self.batches += scan.batches
        self.records += scan.records
        self.offset_next = max(self.offset_next, scan.offset_next)
        self._leader_epoch_last = max(self._leader_epoch_last, scan.leader_epoch_last)
        yield from self._contents(file, base_offset, scan.valid_bytes)
        if self._future is not None and scan.largest_timestamp_ms > self._future.latest_ms:
            path = segment_path(self._log.folder, base_offset)
            for position, reason in self._future.reasons(
                file, scan.valid_bytes, modified_ms=self._files.modified_ms(path)
            ):
                found = self._finding(base_offset, position, reason)
                yield attrs.evolve(found, is_warning=True)
        if scan.stop is not None:
            stop = (scan.stop.position, scan.stop.reason)
            yield from self._damage(file, base_offset, stop, readable_bytes, is_last=is_last)
        elif readable_bytes == size:
            yield from IndexVerifier(
                self._files, self._log.folder, base_offset, file, scan
            ).findings()

    def _contents(self, file: File, base_offset: int, valid_bytes: int) -> Iterator[Finding]:
        """Checks the records of the batches below byte `valid_bytes`, which are all valid."""
        if self._records is None:
            return
        partition = self._log.topic_partition.partition
        buffer = padded_buffer(READ_BYTES)
        position = 0
        while position < valid_bytes:
            wanted = min(buffer.size - PADDING_BYTES, valid_bytes - position)
            end = file.pread_into(buffer, wanted, position)
            start = skip_plain_batches(buffer, 0, end, partition, self._partitions)
            while start < end:
                batch = _batch_at(buffer, start, end)
                if batch is None and start > 0:
                    break  # The batch does not end in the buffer: the next read begins with it.
                if batch is None:
                    batch = next(whole_batches(file, valid_bytes, position))[1]
                yield from self._record_findings(base_offset, position + start, batch)
                start += len(batch)
                if start < end:
                    start = skip_plain_batches(buffer, start, end, partition, self._partitions)
            position += start

    def _record_findings(self, base_offset: int, position: int, batch: bytes) -> Iterator[Finding]:
        if self._records is not None:
            for reason in self._records.reasons(batch):
                yield self._finding(base_offset, position, reason)

    def _damage(
        self,
        file: File,
        base_offset: int,
        stop: tuple[int, StopReason],
        size: int,
        *,
        is_last: bool,
    ) -> Iterator[Finding]:
        """The damage at `stop`, and all problems between it and byte `size`."""
        while stop[0] < size:
            position, reason = stop
            try:
                after = valid_batch_after(file, position, size=size, offset_min=base_offset)
            except CorruptBatch as error:
                yield self._finding(base_offset, position, f"{_STOPS[reason]}; then {error}")
                return
            if after is None:
                tail = f"the {size - position} bytes up to the end hold no valid batch"
                if is_last:
                    tail += ", as after a torn write"
                yield self._finding(base_offset, position, f"{_STOPS[reason]}; {tail}")
                return
            found = f"the next valid batch is at byte {after}"
            yield self._finding(base_offset, position, f"{_STOPS[reason]}; {found}")
            stop = yield from self._walk(file, base_offset, after, size)

    def _walk(
        self, file: File, base_offset: int, start: int, size: int
    ) -> Generator[Finding, None, tuple[int, StopReason]]:
        """Checks the batches after byte `start`, and returns the position and reason of the stop.

        The position is `size` if all batches are valid. This is slow, and used only after damage.
        """
        position = start
        for position, batch in whole_batches(file, size, start):
            flaw = self._flaw(batch)
            if flaw is not None:
                return position, flaw
            yield from self._record_findings(base_offset, position, batch)
            position += len(batch)  # noqa: PLW2901
        return position, StopReason.INCOMPLETE

    def _flaw(self, batch: bytes) -> StopReason | None:
        """The flaw of a batch; None if it is valid. Then it is counted as part of the log."""
        try:
            header = batch_header(batch)
        except CorruptBatch:
            return StopReason.BAD_MAGIC
        if computed_crc(batch) != header.crc:
            return StopReason.BAD_CHECKSUM
        if header.base_offset < self.offset_next:
            return StopReason.BAD_OFFSET
        if 0 <= header.partition_leader_epoch < self._leader_epoch_last:
            return StopReason.BAD_LEADER_EPOCH
        self.batches += 1
        self.records += header.count
        self.offset_next = header.last_offset + 1
        self._leader_epoch_last = max(self._leader_epoch_last, header.partition_leader_epoch)
        return None

    def _leader_epochs(self) -> Iterator[Finding]:
        path = self._log.folder / LEADER_EPOCHS_FILE
        name = f"{self._log.folder.name}/{LEADER_EPOCHS_FILE}"
        try:
            epochs = read_leader_epochs(self._files, path)
        except CorruptCheckpoint as error:
            yield Finding(file=name, reason=str(error).removeprefix(f"{path}: "))
            return
        last = epochs[-1][0] if epochs else _NO_LEADER_EPOCH
        if last < self._leader_epoch_last:
            reason = f"leader epoch {self._leader_epoch_last}, which the log has, is missing"
            yield Finding(file=name, reason=reason)
        for epoch, start_offset in epochs:
            if start_offset > self.offset_next and self._log.recovery_point is None:
                reason = f"leader epoch {epoch} begins at {start_offset}, above the log's end"
                yield Finding(file=name, reason=f"{reason} {self.offset_next}")

    def _finding(self, base_offset: int, position: int, reason: str) -> Finding:
        name = segment_path(self._log.folder, base_offset).name
        return Finding(file=f"{self._log.folder.name}/{name}", position=position, reason=reason)


def _batch_at(buffer: npt.NDArray[np.uint8], start: int, end: int) -> bytes | None:
    """The batch at `start`; None if it ends after `end`, or its header is not valid."""
    try:
        header = batch_header(buffer.data[:end], start)
    except CorruptBatch:
        return None
    batch_end = start + header.size_bytes
    return buffer[start:batch_end].tobytes() if batch_end <= end else None
