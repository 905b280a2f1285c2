"""The repair of a damaged partition at an operator's request: the plan, and the resulting log.

Making the plan only reads files. `apply_plan` carries it out, like any other plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from offsetd_storage.errors import CorruptBatch, is_unreadable, words_of
from offsetd_storage.log.segment_files import segment_path
from offsetd_storage.recovery.log_scanner import LogScanner
from offsetd_storage.recovery.partition_plan import PartitionPlan
from offsetd_storage.recovery.partition_recovery import PartitionPlanner
from offsetd_storage.recovery.quarantine import Damage, DamageFound
from offsetd_storage.recovery.repair_plan import (
    Bounds,
    KeptSegment,
    MendedSegment,
    Repair,
    bytes_beside,
    continued,
    mended_segment,
)
from offsetd_storage.recovery.segment_comparison import differences, known_segments

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from offsetd_storage.configuration.log_config import LogConfig
    from offsetd_storage.disk.files import Files
    from offsetd_storage.log.segment_scan import SegmentScan
    from offsetd_storage.recovery.quarantine import Claim


class RepairingPlanner(PartitionPlanner):
    """Plans recoveries, and also repairs of partitions that are damaged."""

    def plan_repair(
        self, damage: Damage, claim: Claim | None, config: LogConfig
    ) -> PartitionPlan | Damage:
        """The plan that keeps all valid batches, or Damage if they cannot be determined."""
        topic_partition = damage.topic_partition
        log_folder = self._data_folder / topic_partition.folder_name
        try:
            reader = LogScanner(self._files, log_folder, config, self._buffer)
            return _PlannedRepair(self._files, log_folder, reader, claim, config).plan(damage)
        except DamageFound as found:
            return found.of(topic_partition)
        except CorruptBatch as error:
            return DamageFound(str(error)).of(topic_partition)
        except OSError as error:
            if not is_unreadable(error):
                raise
            return DamageFound(f"it cannot be read: {words_of(error)}").of(topic_partition)


class _PlannedRepair:
    """The repair of one partition: the parts of each segment that are kept."""

    def __init__(
        self,
        files: Files,
        log_folder: Path,
        reader: LogScanner,
        claim: Claim | None,
        config: LogConfig,
    ) -> None:
        self._files = files
        self._log_folder = log_folder
        self._reader = reader
        self._claim = claim
        self._config = config
        self._is_crashed = claim is not None and not claim.closed_clean
        # The claim has the log's end, if no broker has written since.
        is_known = claim is not None and (self._is_crashed or reader.is_as_closed(claim))
        self._known = claim.point if claim is not None and is_known else None
        self.scans: dict[int, SegmentScan] = {}
        self.mended: dict[int, MendedSegment] = {}

    def plan(self, damage: Damage) -> PartitionPlan:
        """Reads all segments and makes the plan."""
        bases = self._bases()
        for place, base_offset in enumerate(bases):
            self._keep_of(base_offset, bases[place + 1] if place + 1 < len(bases) else None)
        dropped = [each for each in self._reader.base_offsets if each not in self.scans]
        claim = self._claim
        offset_next = max((each.offset_next for each in self.scans.values()), default=0)
        if claim is not None:
            offset_next = max(offset_next, claim.point.offset)
        batches = continued(claim.batches if claim else (), offset_next)
        self._keep_beside(dropped, batches)
        return PartitionPlan(
            topic_partition=damage.topic_partition,
            swap_plan=self._reader.swap_plan,
            scans=self.scans,
            dropped=dropped,
            offset_next=offset_next,
            batches=batches,
            bytes_cut=0,
            bytes_scanned=self._reader.bytes_scanned,
            point=self._known,
            mended=self.mended,
            repair=Repair(
                topic_partition=damage.topic_partition,
                damage=str(damage),
                bytes_kept=sum(each.valid_bytes for each in self.scans.values()),
                bad=tuple(bad for each in self.mended.values() for bad in each.bad),
                missing=self._missing(),
                kept=tuple(self._kept(base) for base in sorted(self.scans)),
                appended=tuple(batches),
            ),
        )

    def _kept(self, base_offset: int) -> KeptSegment:
        mended = self.mended.get(base_offset)
        return KeptSegment(
            base_offset=base_offset,
            valid_bytes=self.scans[base_offset].valid_bytes,
            content=None if mended is None else mended.content,
        )

    def _bases(self) -> list[int]:
        """The segments that may hold durable batches. After a crash there may be others."""
        bases = self._reader.base_offsets
        if self._claim is None or not self._is_crashed:
            return bases
        return [each for each in bases if each <= self._claim.point.offset]

    def _limit(self, base_offset: int) -> int:
        size = self._reader.size(base_offset)
        point = self._known
        if point is None or not self._is_crashed:
            return size
        if base_offset == point.segment_base_offset:
            return min(size, point.segment_bytes)
        return 0 if base_offset == point.offset else size

    def _keep_of(self, base_offset: int, following: int | None) -> None:
        before = self.scans[max(self.scans)] if self.scans else None
        ends = [] if self._known is None else [self._known.offset]
        ends += [] if following is None else [following]
        bounds = Bounds(
            offset_min=before.offset_next if before else 0,
            epoch_min=before.leader_epoch_last if before else -1,
            epoch_max=None if self._known is None else self._known.leader_epoch,
        )
        if ends:
            bounds = attrs.evolve(bounds, offset_end=min(ends))
        limit = self._limit(base_offset)
        scan = self._reader.scan(base_offset, before, limit=limit)
        if bounds.take(scan):
            self.scans[base_offset] = scan
            return
        content = self._files.read_bytes(self._reader.path(base_offset))[:limit]
        interval = self._config.index_interval_bytes
        mended = mended_segment(content, base_offset, bounds, index_interval_bytes=interval)
        self.mended[base_offset] = mended
        if mended.content:
            self.scans[base_offset] = mended.scan

    def _keep_beside(self, dropped: Sequence[int], appended: Sequence[bytes]) -> None:
        """Keeps copies of segments above the recovery point: the journal may be an old copy."""
        for base_offset in dropped:
            if base_offset not in self.mended and self._reader.size(base_offset):
                nothing = mended_segment(
                    b"", base_offset, Bounds(offset_min=0), index_interval_bytes=0
                )
                content = self._files.read_bytes(self._reader.path(base_offset))
                bad = bytes_beside(content, base_offset, appended)
                self.mended[base_offset] = attrs.evolve(nothing, bad=bad)

    def _missing(self) -> tuple[str, ...]:
        claim = self._claim
        if claim is None or not self._files.exists(self._log_folder):
            return ()
        known = known_segments(self._files, self._log_folder, claim.point)
        flaws = dict(differences(known, self.scans, claim.point))
        held_by = claim.point.segment_base_offset
        if held_by not in self._reader.base_offsets and claim.point.offset > 0:
            flaws.setdefault(held_by, "the segment is missing")
        return tuple(
            f"{segment_path(self._log_folder, base).name}: {reason}"
            for base, reason in sorted(flaws.items())
            if base not in self.mended
        )
