"""The plan for the recovery of one partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from offsetd_storage.batch.record_batch import batch_header
from offsetd_storage.recovery.log_scanner import NO_LEADER_EPOCH
from offsetd_storage.recovery.segment_comparison import NOTHING_KNOWN, KnownSegments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offsetd_storage.journal.journal_format import RecoveryPoint
    from offsetd_storage.log.segment_scan import SegmentScan
    from offsetd_storage.recovery.repair_plan import MendedSegment, Repair
    from offsetd_storage.recovery.swap_recovery import SwapPlan
    from offsetd_storage.topic_partition import TopicPartition


@attrs.frozen(kw_only=True)
class PartitionPlan:
    """The changes that recovery makes to a partition that is not damaged."""

    topic_partition: TopicPartition
    swap_plan: SwapPlan
    scans: Mapping[int, SegmentScan]  # The scans of the segments that stay, up to the cut.
    dropped: Sequence[int]  # Base offsets of the segments that are removed.
    offset_next: int  # The log's end before `batches` are appended.
    batches: Sequence[bytes]  # The journal's batches, to be appended again.
    bytes_cut: int  # The bytes after the end, without those that `batches` restore.
    bytes_scanned: int
    # The claim's recovery point, if no broker has written to the log since. It gives the log's
    # start and the leader epoch of our batches, because the checkpoints have no checksum.
    point: RecoveryPoint | None
    # The segments that the log should have. If nothing is known, the segments found are listed.
    known: KnownSegments = NOTHING_KNOWN
    listed_below: int = 0  # Segments that begin below this match the list.
    # The highest leader epoch in the batches that are cut, and the highest that is known to be
    # ours. If the first is above the second, a broker has written them.
    leader_epoch_cut: int = NO_LEADER_EPOCH
    leader_epoch_known: int = NO_LEADER_EPOCH
    valid_offset_next: int = 0  # The end of the valid batches that are cut.
    # The repair that keeps the valid batches of a damaged log, if the operator requested one.
    repair: Repair | None = None
    # Segments to write again, by base offset.
    mended: Mapping[int, MendedSegment] = attrs.Factory(dict)

    @property
    def recovered_offset_next(self) -> int:
        """The log's end after recovery."""
        return batch_header(self.batches[-1]).last_offset + 1 if self.batches else self.offset_next
