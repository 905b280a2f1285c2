"""What a consumer under a lease asks of a client, answered from memory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from offsetd_clients import CommittedOffset, Lease, OffsetToCommit, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping


class OffsetsInMemory:
    """Of one group, whose lease anybody gets."""

    def __init__(self, stored: Mapping[TopicPartition, int] | None = None) -> None:
        self.stored = dict(stored or {})

    def with_retry(self, _policy: object) -> Self:
        return self

    def get_server_info(self) -> None:
        pass

    def acquire_group(self, _group_id: str, holder: str, *, ttl: timedelta) -> Lease:
        return Lease(holder=holder, epoch=1, ttl=ttl, grant_time=None, expire_time=None)

    def renew_group(self, _group_id: str, _epoch: int) -> None:
        pass

    def release_group(self, _group_id: str, _epoch: int) -> None:
        pass

    def fetch(
        self, _group_id: str, topic_partitions: Any, *, require_stable: bool
    ) -> dict[TopicPartition, CommittedOffset]:
        assert require_stable
        return {
            each: CommittedOffset(
                offset=self.stored[each],
                leader_epoch=None,
                metadata="",
                commit_time=datetime(2026, 1, 1, tzinfo=UTC),
                expire_time=None,
                revision=1,
                end_offset=None,
            )
            for each in topic_partitions
            if each in self.stored
        }

    def commit(
        self, _group_id: str, offsets: Mapping[TopicPartition, OffsetToCommit], **_by: object
    ) -> None:
        self.stored.update({each: offset.offset for each, offset in offsets.items()})
