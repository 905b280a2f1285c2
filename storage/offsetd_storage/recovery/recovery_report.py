"""The report of a recovery: its progress, and its result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from offsetd_storage.recovery.repair_plan import Repair
    from offsetd_storage.topic_partition import TopicPartition


@attrs.frozen(kw_only=True)
class RecoveryProgress:
    """How far the check of all batches is."""

    partitions_done: int
    partitions: int
    bytes_done: int


@attrs.frozen(kw_only=True)
class PartitionReport:
    """What recovery found and did in one partition."""

    topic_partition: TopicPartition
    offset_next: int
    bytes_scanned: int
    bytes_cut: int  # Of a torn tail, or of batches that were never acknowledged.
    batches_appended_again: int
    # Index files that were made anew, and why; after a crash also where they only ran ahead of R.
    index_problems: tuple[str, ...]


@attrs.frozen(kw_only=True)
class RecoveryReport:
    """What recovery found and did."""

    closed_clean: bool | None  # The last life of the journal; None: there was none.
    partitions: tuple[PartitionReport, ...]
    warnings: tuple[str, ...]
    journal_bytes_cut: int = 0  # Of its last frame, where that is not whole.
    notes: tuple[str, ...] = ()  # What is as it may be, and is told once.
    repairs: tuple[Repair, ...] = ()  # Of partitions that were damaged, as it was asked.

    @property
    def bytes_cut(self) -> int:
        """In all partitions, and of the journal."""
        return self.journal_bytes_cut + sum(each.bytes_cut for each in self.partitions)

    @property
    def batches_appended_again(self) -> int:
        """In all partitions."""
        return sum(each.batches_appended_again for each in self.partitions)
