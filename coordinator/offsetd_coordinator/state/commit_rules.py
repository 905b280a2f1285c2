"""Authorisation of commits, and how kernel verdicts become errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_coordinator.committed_offsets import undecodable_offset
from offsetd_coordinator.errors import (
    Conflict,
    GroupIdNotFound,
    InvalidCommitSize,
    OffsetConflict,
    OffsetNotMonotonic,
    RecordUndecodable,
)
from offsetd_coordinator.kernels import columns
from offsetd_coordinator.membership.refusals import commits_from_outside, unknown_member

if TYPE_CHECKING:
    from offsetd_storage.offsets_topic.group_records import GroupRecords

    from offsetd_coordinator.errors import CoordinatorError
    from offsetd_coordinator.kernels.columns import Bytes, Int64s
    from offsetd_coordinator.membership.member_requests import MemberIdentity
    from offsetd_coordinator.requests import CommitOffsets


UNCHANGED_SHARE: Final = 10
"""Of a retention, the part by which an offset may be older than its last commit says."""


def unchanged_ms_of(unchanged_ms: int, records: GroupRecords | None) -> int:
    """For how long a group's commits need not be written while they change nothing.

    At most that part of the group's own retention, so that nothing expires for it.
    """
    settings = None if records is None else records.settings
    if settings is None or settings.retention_ms is None:
        return unchanged_ms
    return min(unchanged_ms, settings.retention_ms // UNCHANGED_SHARE)


def as_arguments(commit: CommitOffsets) -> tuple[Bytes, Int64s, int, int, int, int]:
    """A commit as kernels take it: the fields of `kernels.columns.Commit`."""
    return (
        commit.names,
        commit.columns,
        commit.group_start,
        len(commit.group_id),
        commit.request_id_start,
        len(commit.request_id),
    )


def check_commit(
    group_id: bytes,
    records: GroupRecords | None,
    member: MemberIdentity | None,
    *,
    has_group: bool,
) -> None:
    """Whether a commit may go to a group of which nobody lives in memory; the order is Kafka's.

    Raises RecordUndecodable, UnknownMemberId, GroupIdNotFound.
    """
    if records is not None:
        if not records.is_readable:
            raise RecordUndecodable(
                "a record of group {group!r} cannot be read: it may have members, or a lease",
                group=group_id,
            )
        if records.has_members:
            raise commits_from_outside(group_id)
    if member is None or member.generation < 0:
        return
    if not has_group:
        raise GroupIdNotFound("there is no group {group!r}", group=group_id)
    raise unknown_member(group_id, member.member_id)


def commit_refusal(
    commit: CommitOffsets, outcome: int, verdict: Int64s, conflicts: Int64s, bytes_max: int
) -> CoordinatorError:
    """Why `kernels.records.commit_batch.decide_commit` wrote no batch, from what it returned and
    filled.
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
        return OffsetConflict(
            "preconditions do not hold: {conflict_count} of {offset_count}",
            listed,
            total,
            offset_count=len(commit.columns),
        )
    return OffsetNotMonotonic(
        "offsets would go back: {conflict_count} of {offset_count}",
        listed,
        total,
        offset_count=len(commit.columns),
    )


def _partition_of(commit: CommitOffsets, row: int) -> tuple[bytes, int]:
    start, size = commit.columns[row, [columns.TOPIC_START, columns.TOPIC_SIZE]].tolist()
    return commit.names[start : start + size].tobytes(), int(commit.columns[row, columns.PARTITION])
