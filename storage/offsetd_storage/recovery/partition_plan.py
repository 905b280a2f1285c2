"""The plan for the recovery of one partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from offsetd_storage.batch.record_batch import batch_header
from offsetd_storage.recovery.log_reader import NO_LEADER_EPOCH
from offsetd_storage.recovery.segment_comparison import NOTHING_KNOWN, KnownSegments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offsetd_storage.journal.journal_format import RecoveryPoint
    from offsetd_storage.log.segment_scan import SegmentScan
    from offsetd_storage.recovery.repair_plan import MendedSegment, Repair
    from offsetd_storage.recovery.swap_recovery import Settling
    from offsetd_storage.topic_partition import TopicPartition


@attrs.frozen(kw_only=True)
class PartitionPlan:
    """What recovery is going to do with a partition that is not damaged."""

    topic_partition: TopicPartition
    settling: Settling
    scans: Mapping[int, SegmentScan]  # Of the segments that stay, as far as they stay.
    dropped: Sequence[int]  # Base offsets of the segments that go.
    offset_next: int  # The log's end before batches are appended again.
    batches: Sequence[bytes]  # Those.
    bytes_cut: int  # Behind the end, and not among `batches` either.
    bytes_scanned: int
    # The claim's point, where nobody but us has written since: then it says where the log starts,
    # and which leader epoch our batches carry. The checkpoints hold no checksum.
    point: RecoveryPoint | None
    # With what the segments were compared; where that is nothing, they are listed as they are.
    known: KnownSegments = NOTHING_KNOWN
    listed_below: int = 0  # The segments that begin below are as the list says.
    # Of the batches that are cut, and of what is known to be ours: only a broker raises it.
    leader_epoch_cut: int = NO_LEADER_EPOCH
    leader_epoch_known: int = NO_LEADER_EPOCH
    valid_offset_next: int = 0  # Behind those batches.
    repair: Repair | None = None  # The operator's word: what is whole of a damaged log is kept.
    mended: Mapping[int, MendedSegment] = attrs.Factory(dict)  # By base offset; written anew.

    @property
    def recovered_offset_next(self) -> int:
        """The log's end after recovery."""
        return batch_header(self.batches[-1]).last_offset + 1 if self.batches else self.offset_next
