"""What happened to offsets, and what a restore makes of them: plain values, no protobuf."""

from datetime import datetime

import attrs

from offsetd_clients.values import Revision, TopicPartition


@attrs.frozen(kw_only=True)
class OffsetEvent:
    """A commit or a deletion of one offset; `offset` None: it was deleted, or expired.

    Where `is_readable` is False, something was written that cannot be read.
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
    """Some events, and the token behind them, of a watcher that has taken them all."""

    events: tuple[OffsetEvent, ...]
    token: str


@attrs.frozen(kw_only=True)
class RestoredOffset:
    """An offset before and after a restore; None: none.

    `revision` is that of the record that says so; None: nothing was written, or by an earlier try
    of the same call.
    """

    topic_partition: TopicPartition
    offset_before: int | None
    offset_after: int | None
    revision: Revision | None = None


@attrs.frozen(kw_only=True)
class RestoredGroup:
    """What changed, or would have; `revision` is None if nothing was written.

    The offsets are what they were before `restored_before` was written.
    """

    revision: Revision | None
    changes: tuple[RestoredOffset, ...]
    restored_before: Revision
