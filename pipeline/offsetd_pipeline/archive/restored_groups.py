"""A group's offsets at some time, and the outcome of their restore."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING

import attrs
from offsetd_clients import CommittedOffset, TopicPartition

if TYPE_CHECKING:
    from datetime import datetime

    from offsetd_clients import OffsetdError

    from offsetd_pipeline.archive.manifests import Gap


@attrs.frozen(kw_only=True)
class PastOffset:
    """An offset at that time. `offset` is None if the value cannot be decoded."""

    topic: str
    partition: int
    offset: int | None
    leader_epoch: int | None
    metadata: str
    commit_time_ms: int | None
    expire_time_ms: int | None

    @property
    def topic_partition(self) -> TopicPartition:
        """Its topic and partition."""
        return TopicPartition(self.topic, self.partition)

    def is_stored_as(self, stored: CommittedOffset | None) -> bool:
        """Whether the stored offset already equals this one. The commit time does not matter."""
        return stored is not None and (stored.offset, stored.leader_epoch, stored.metadata) == (
            self.offset,
            self.leader_epoch,
            self.metadata,
        )

    def expires_ms(self, retention_ms: int | None) -> int | None:
        """The time at which it expires in a simple group; None if it never expires."""
        if self.expire_time_ms is not None:
            return self.expire_time_ms
        if retention_ms is None or self.commit_time_ms is None:
            return None
        return self.commit_time_ms + retention_ms


@attrs.frozen(kw_only=True)
class PastGroup:
    """A group's offsets at some time."""

    group_id: str
    offsets: tuple[PastOffset, ...]

    def problem(self) -> str:
        """The reason why no server can store all of them; empty if there is none."""
        for each in self.offsets:
            if each.offset is None:
                return f"the offset of {each.topic_partition} cannot be read"
            if each.offset < 0:
                return f"the offset of {each.topic_partition} is {each.offset}"
        return ""


def import_line(group_id: str, offset: PastOffset) -> str:
    """A line of the file to import."""
    line: dict[str, object] = {
        "group": group_id,
        "topic": offset.topic,
        "partition": offset.partition,
        "offset": offset.offset,
        "leader_epoch": offset.leader_epoch,
        "metadata": offset.metadata,
        "commit_timestamp_ms": offset.commit_time_ms,
        "expire_timestamp_ms": offset.expire_time_ms,
    }
    known = {name: value for name, value in line.items() if value is not None}
    return json.dumps(known, ensure_ascii=False) + "\n"


class Outcome(StrEnum):
    """The outcome of a group; in a dry run, the outcome that an execution would have."""

    RESTORED = "restored"
    UNCHANGED = "unchanged"  # Its offsets are already as they were then.
    KEPT = "kept"  # It had no offsets then, and keeps its present ones.
    DELETED = "deleted"  # It had no offsets then, and has none now.
    FAILED = "failed"  # None of its offsets was restored.


@attrs.frozen(kw_only=True)
class RestoredGroup:
    """The outcome for one group.

    `offset_count`: its offsets at that time; `written_count` of them differed from the present
    ones.
    `other_count`: its present offsets that it did not have at that time; `deleted_count` of them
    were deleted.
    `expiring_count`: written offsets that the server's retention removes at once.
    """

    group_id: str
    outcome: Outcome
    offset_count: int = 0
    written_count: int = 0
    other_count: int = 0
    deleted_count: int = 0
    expiring_count: int = 0
    problem: str = ""


@attrs.frozen(kw_only=True)
class Restored:
    """The outcome of a restore: each group, by id.

    `gaps`: the gaps of the archive that contain that time.
    `begins_later`: the archive has nothing from that time or before.
    `archive_latest`: the archive's latest timestamp.
    `damaged_bytes`: the number of skipped bytes; their content is not in the archive.
    `other_source`: the archive's source, if that is not the server's folder.
    `stopped_by`: the reason why the groups after the last one were not tried.
    """

    at: datetime | None
    archive_latest: datetime | None
    groups: tuple[RestoredGroup, ...]
    gaps: tuple[Gap, ...]
    is_dry_run: bool
    begins_later: bool = False
    damaged_bytes: int = 0
    other_source: str | None = None
    stopped_by: OffsetdError | None = None

    def count(self, *outcomes: Outcome) -> int:
        """The number of groups with one of these outcomes."""
        return sum(each.outcome in outcomes for each in self.groups)

    @property
    def ends_before(self) -> bool:
        """Whether the archive has nothing from that time or later."""
        return (
            self.at is not None
            and self.archive_latest is not None
            and self.archive_latest < self.at
        )
