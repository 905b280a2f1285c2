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
    """The findings and changes of a recovery in one partition."""

    topic_partition: TopicPartition
    offset_next: int
    bytes_scanned: int
    bytes_cut: int  # The bytes of a torn tail, or of batches that were never acknowledged.
    batches_appended_again: int
    # The index files that were made again, with the reasons. After a crash, they include the files
    # that were only ahead of the recovery point.
    index_problems: tuple[str, ...]


@attrs.frozen(kw_only=True)
class RecoveryReport:
    """The findings and changes of a recovery."""

    closed_clean: bool | None  # Whether the journal's last life was closed; None without a life.
    partitions: tuple[PartitionReport, ...]
    warnings: tuple[str, ...]
    journal_bytes_cut: int = 0  # The bytes of the journal's last frame, if that is torn.
    notes: tuple[str, ...] = ()  # Facts that are not a problem, and are reported once.
    repairs: tuple[Repair, ...] = ()  # The repairs that the operator requested.

    @property
    def bytes_cut(self) -> int:
        """Bytes cut in all partitions, and in the journal."""
        return self.journal_bytes_cut + sum(each.bytes_cut for each in self.partitions)

    @property
    def batches_appended_again(self) -> int:
        """The number of batches appended again in all partitions."""
        return sum(each.batches_appended_again for each in self.partitions)
