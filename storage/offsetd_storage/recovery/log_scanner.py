"""Finds and scans the segments of one log for recovery. It changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_storage.errors import CorruptBatch
from offsetd_storage.log.segment_files import segment_base_offsets, segment_path
from offsetd_storage.log.segment_scan import SegmentScan, scan_file
from offsetd_storage.recovery.quarantine import DamageFound
from offsetd_storage.recovery.swap_recovery import plan_swaps
from offsetd_storage.recovery.tail_comparison import Stretch, is_of_journal
from offsetd_storage.recovery.tail_search import is_valid_batch_at, valid_batch_after

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from offsetd_storage.configuration.log_config import LogConfig
    from offsetd_storage.disk.files import Files
    from offsetd_storage.journal.journal_format import RecoveryPoint
    from offsetd_storage.recovery.quarantine import Claim

NO_LEADER_EPOCH = -1
# Positions in a segment are 32-bit numbers. Kafka opens no larger segment.
_SEGMENT_BYTES_MAX = 2**31 - 1


def is_as_closed(files: Files, folder: Path, point: RecoveryPoint) -> bool:
    """Returns whether a log ends at the point of its close, so that nothing was appended since."""
    last = max(segment_base_offsets(files, folder), default=None)
    return (
        last == point.segment_base_offset
        and files.size(segment_path(folder, last)) == point.segment_bytes
    )


class LogScanner:
    """The segments of one log folder, and how many bytes of them were scanned."""

    def __init__(
        self, files: Files, folder: Path, config: LogConfig, buffer: npt.NDArray[np.uint8]
    ) -> None:
        self._files = files
        self._folder = folder
        self._config = config
        self._buffer = buffer
        self.bytes_scanned = 0
        self.swap_plan = plan_swaps(files, folder)
        # The segments that the folder has once unfinished swaps are settled.
        self.base_offsets = sorted(self.swap_plan.log_names)

    def is_as_closed(self, claim: Claim) -> bool:
        """Returns whether the log ends at the claim's point, at which it was closed."""
        return bool(self.base_offsets) and is_as_closed(self._files, self._folder, claim.point)

    def is_shorter(self, point: RecoveryPoint) -> bool:
        """Returns whether the log ends, in bytes, before a recovery point."""
        last = max(self.base_offsets)
        size = self.size(last)
        return (last, size) < (point.segment_base_offset, point.segment_bytes)

    def path(self, base_offset: int) -> Path:
        """The present path of a segment's log file."""
        return self._folder / self.swap_plan.log_names[base_offset]

    def size(self, base_offset: int) -> int:
        """The size of a segment's log file, in bytes. Raises DamageFound above 2 GiB."""
        size = self._files.size(self.path(base_offset))
        if size > _SEGMENT_BYTES_MAX:
            raise DamageFound(f"it has {size} bytes, more than a segment", base_offset=base_offset)
        return size

    def scan(
        self, base_offset: int, before: SegmentScan | None, *, limit: int | None = None
    ) -> SegmentScan:
        """Checks the batches of a segment, up to `limit` bytes.

        `before` is the scan of the previous segment. Raises DamageFound if this one begins below
        its end.
        """
        if before is not None and base_offset < before.offset_next:
            raise DamageFound(
                f"it begins below {before.offset_next}, where the one before it ends",
                base_offset=base_offset,
            )
        size = self.size(base_offset) if limit is None else limit
        self.bytes_scanned += size
        return scan_file(
            self._files,
            self.path(base_offset),
            size=size,
            base_offset=base_offset,
            leader_epoch_min=before.leader_epoch_last if before else NO_LEADER_EPOCH,
            index_interval_bytes=self._config.index_interval_bytes,
            buffer=self._buffer,
        )

    def scan_up_to(self, point: RecoveryPoint) -> SegmentScan:
        """Checks the segment that held a point, up to the point.

        Raises DamageFound if it is missing.
        """
        last = point.segment_base_offset
        if last not in self.base_offsets:
            raise DamageFound("the segment is missing", base_offset=last, position=None)
        return self.scan(last, None, limit=min(self.size(last), point.segment_bytes))

    def is_of_journal(
        self,
        scans: Mapping[int, SegmentScan],
        starts: Mapping[int, int],
        batches: Sequence[bytes],
    ) -> bool:
        """Returns whether the valid batches of these segments after `starts` are the journal's."""
        stretches = [
            Stretch(self.path(each), starts.get(each, 0), scan.valid_bytes)
            for each, scan in sorted(scans.items())
        ]
        return is_of_journal(self._files, stretches, batches)

    def has_valid_batch(self, base_offset: int, position: int) -> bool:
        """Returns whether a valid batch is, or may be, at or after `position` of a segment."""
        size = self.size(base_offset)
        file = self._files.open(self.path(base_offset), read_only=True)
        try:
            return (
                is_valid_batch_at(file, position, size=size)
                or valid_batch_after(file, position - 1, size=size, offset_min=base_offset)
                is not None
            )
        except CorruptBatch:
            return True  # This is unknown, so nothing may be cut.
        finally:
            file.close()
