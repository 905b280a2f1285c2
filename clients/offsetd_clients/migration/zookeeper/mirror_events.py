"""What a mirror tells while it runs."""

from enum import StrEnum

import attrs

from offsetd_clients.counts import counted


class MirrorEventKind(StrEnum):
    """What has happened."""

    FOLLOWING = "following"  # The first pass is over.
    STOPPED = "stopped"  # A group is followed no further; the text says why.
    MOVED = "moved"  # A group was cut over, and is not followed any more.
    DELETED = "deleted"  # Offsets of a group, or all of them, are deleted in ZooKeeper.
    RETURNED = "returned"  # Such are there again.
    ABSENT = "absent"  # Somebody has deleted offsets here that ZooKeeper has.
    OVERWRITTEN = "overwritten"  # Commits made here went, as ZooKeeper's were later.
    ZOOKEEPER_LOST = "zookeeper-lost"
    ZOOKEEPER_FOUND = "zookeeper-found"
    SERVER_LOST = "server-lost"
    SERVER_FOUND = "server-found"
    STATUS = "status"  # How it stands, every minute.


@attrs.frozen
class MirrorEvent:
    """One of them. `group_id`, here; empty: it is of no group."""

    kind: MirrorEventKind
    group_id: str = ""
    text: str = ""


@attrs.frozen(kw_only=True)
class MirrorStatus:
    """How a mirror stands. Of groups: how many; of offsets: how many since the mirror began, but
    for `left_count` and `deleted_count`, which are how many there are now.

    `changed_count`: groups that have changed and were not looked at since. `lag_s`: how long ago
    the first of these changes was seen; 0 if there is none.
    """

    followed_count: int
    stopped_count: int
    moved_count: int
    changed_count: int
    stored_count: int
    left_count: int
    deleted_count: int
    lag_s: float
    is_connected: bool

    def __str__(self) -> str:
        connection = "" if self.is_connected else "; ZooKeeper does not answer"
        return (
            f"{counted(self.followed_count, 'group')} followed, {self.stopped_count} stopped, "
            f"{self.moved_count} moved; {counted(self.stored_count, 'offset')} stored, "
            f"{self.left_count} left as they are here, {self.deleted_count} deleted in ZooKeeper; "
            f"{counted(self.changed_count, 'group')} to be looked at, "
            f"lag {self.lag_s:.1f} s{connection}"
        )
