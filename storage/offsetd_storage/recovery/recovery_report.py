"""The report of a recovery: its progress, and its result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from offsetd_storage.recovery.repair_plan import Repair
    from offsetd_storage.topic_partition import TopicPartition


@attrs.frozen(kw_only=True)
class RecoveryProgress:
    """The progress of the check of all batches."""

    partitions_done: int
    partitions: int
    bytes_done: int


@attrs.frozen(kw_only=True)
class PartitionReport:
    """What recovery found and did in one partition."""

    topic_partition: TopicPartition
    offset_next: int
    bytes_scanned: int
    bytes_cut: int  # Bytes of a torn tail, or of batches that were never acknowledged.
    batches_appended_again: int
    # Index files that were made again, and why. After a crash this includes those that were only
    # ahead of the recovery point.
    index_problems: tuple[str, ...]


@attrs.frozen(kw_only=True)
class RecoveryReport:
    """What recovery found and did."""

    closed_clean: bool | None  # Of the journal's last life; None: there was none.
    partitions: tuple[PartitionReport, ...]
    warnings: tuple[str, ...]
    journal_bytes_cut: int = 0  # Of its last frame, if that is torn.
    notes: tuple[str, ...] = ()  # Facts that are not a problem, and are reported once.
    repairs: tuple[Repair, ...] = ()  # Of damaged partitions, at the operator's request.

    @property
    def bytes_cut(self) -> int:
        """Bytes cut in all partitions, and in the journal."""
        return self.journal_bytes_cut + sum(each.bytes_cut for each in self.partitions)

    @property
    def batches_appended_again(self) -> int:
        """The number in all partitions."""
        return sum(each.batches_appended_again for each in self.partitions)
