"""The history of offsets, and the result of a restore: plain values, no protobuf."""

from datetime import datetime

import attrs

from offsetd_clients.values import Revision, TopicPartition


@attrs.frozen(kw_only=True)
class OffsetEvent:
    """A commit or a deletion of one offset. `offset` is None if it was deleted, or expired.

    `is_readable` is False if the record cannot be decoded.
    """

    group_id: str
    topic_partition: TopicPartition
    revision: Revision
    time: datetime
    offset: int | None
    leader_epoch: int | None = None
    metadata: str = ""
    commit_time: datetime | None = None
    expire_time: datetime | None = None
    is_readable: bool = True


@attrs.frozen(kw_only=True)
class OffsetEvents:
    """Some events, and the token with which to continue after them."""

    events: tuple[OffsetEvent, ...]
    token: str


@attrs.frozen(kw_only=True)
class RestoredOffset:
    """An offset before and after a restore. An offset is None if none was stored.

    `revision` is that of the record that the restore wrote. It is None if nothing was written, or
    if an earlier attempt of the same call wrote it.
    """

    topic_partition: TopicPartition
    offset_before: int | None
    offset_after: int | None
    revision: Revision | None = None


@attrs.frozen(kw_only=True)
class RestoredGroup:
    """The offsets that a restore changed, or would change.

    They are restored to their values before `restored_before` was written. `revision` is None if
    nothing was written.
    """

    revision: Revision | None
    changes: tuple[RestoredOffset, ...]
    restored_before: Revision
