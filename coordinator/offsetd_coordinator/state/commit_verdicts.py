"""Decides which commits need not be written, and turns kernel verdicts into errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_coordinator.errors import (
    Conflict,
    InvalidCommitSize,
    OffsetNotMonotonic,
    undecodable_offset,
)
from offsetd_coordinator.kernels import columns
from offsetd_coordinator.state.compare_and_set import offset_conflict

if TYPE_CHECKING:
    from offsetd_storage.offsets_topic.group_records import GroupRecords

    from offsetd_coordinator.errors import CoordinatorError
    from offsetd_coordinator.kernels.columns import Int64s
    from offsetd_coordinator.requests import CommitOffsets


UNCHANGED_SHARE: Final = 10
"""The part of a retention (1 / this) by which a suppressed commit may shorten an offset's life."""


def unchanged_ms_of(unchanged_ms: int, records: GroupRecords | None) -> int:
    """The time for which a group's commits that change nothing need not be written.

    It is at most a tenth of the group's own retention, so that nothing expires because of it.
    """
    settings = None if records is None else records.settings
    if settings is None or settings.retention_ms is None:
        return unchanged_ms
    return min(unchanged_ms, settings.retention_ms // UNCHANGED_SHARE)


def commit_refusal(
    commit: CommitOffsets, outcome: int, verdict: Int64s, conflicts: Int64s, bytes_max: int
) -> CoordinatorError:
    """The refusal of a commit for which `kernels.records.commit_batch.decide_commit` wrote no
    batch. `outcome` is the kernel's result; the kernel filled `verdict` and `conflicts`.
    """
    if outcome == columns.TOO_LARGE:
        return InvalidCommitSize(
            "offsets",
            "the record batch exceeds max.message.bytes ({bytes_max})",
            bytes_max=bytes_max,
        )
    if outcome == columns.UNREADABLE:
        row = int(verdict[columns.VERDICT_ROW])
        return undecodable_offset(commit.group_id, *_partition_of(commit, row))
    total = int(verdict[columns.VERDICT_CONFLICTS])
    listed = tuple(
        Conflict(
            topic=topic,
            partition=partition,
            offset=None if revision < 0 else offset,
            revision=None if revision < 0 else revision,
        )
        for row, offset, revision in conflicts[:total].tolist()
        for topic, partition in [_partition_of(commit, row)]
    )
    if outcome == columns.CONFLICTING:
        return offset_conflict(listed, total, offset_count=len(commit.columns))
    return OffsetNotMonotonic(
        "offsets would go back: {conflict_count} of {offset_count}",
        listed,
        total,
        offset_count=len(commit.columns),
    )


def _partition_of(commit: CommitOffsets, row: int) -> tuple[bytes, int]:
    start, size = commit.columns[row, [columns.TOPIC_START, columns.TOPIC_SIZE]].tolist()
    return commit.names[start : start + size].tobytes(), int(commit.columns[row, columns.PARTITION])
