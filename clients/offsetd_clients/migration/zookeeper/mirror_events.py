"""The events of a running mirror."""

from enum import StrEnum

import attrs

from offsetd_clients.plurals import counted


class MirrorEventKind(StrEnum):
    """The kinds of events."""

    FOLLOWING = "following"  # The first pass is over.
    STOPPED = "stopped"  # A group is no longer followed; the text says why.
    MOVED = "moved"  # A group was cut over, and is no longer followed.
    DELETED = "deleted"  # Some or all offsets of a group are deleted in ZooKeeper.
    RETURNED = "returned"  # Deleted offsets are there again.
    ABSENT = "absent"  # Others have deleted offsets in offsetd that ZooKeeper has.
    OVERWRITTEN = "overwritten"  # Commits to offsetd were replaced, because ZooKeeper's were later.
    ZOOKEEPER_LOST = "zookeeper-lost"
    ZOOKEEPER_FOUND = "zookeeper-found"
    SERVER_LOST = "server-lost"
    SERVER_FOUND = "server-found"
    STATUS = "status"  # The status, every minute.


@attrs.frozen
class MirrorEvent:
    """One event. `group_id` is the group's id in offsetd; empty if it belongs to no group."""

    kind: MirrorEventKind
    group_id: str = ""
    text: str = ""


@attrs.frozen(kw_only=True)
class MirrorStatus:
    """The status of a mirror.

    Counts of groups are present values. Counts of offsets are totals since the mirror began, except
    `left_count` and `deleted_count`, which are present values.

    `changed_count`: groups that have changed and wait for a pass.
    `lag_s`: seconds since the first of these changes was seen; 0 if there is none.
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
