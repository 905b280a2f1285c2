"""The next step of a consumer in its group, which the background work takes, as values."""

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from offsetd_clients.membership_values import Membership
from offsetd_clients.values import TopicPartition


@attrs.frozen
class Join:
    """Join the group. An empty `member_id` is that of a new member."""

    member_id: str
    protocols: Mapping[str, bytes]


@attrs.frozen
class Sync:
    """Ask for the assignment. The leader passes the assignments of all members."""

    membership: Membership
    assignments: Mapping[str, bytes]


@attrs.frozen
class Acquire:
    """Take the group's lease."""


@attrs.frozen
class Fetch:
    """Fetch the committed offsets of the assigned partitions."""

    topic_partitions: tuple[TopicPartition, ...]


@attrs.frozen
class Heartbeat:
    """Send a heartbeat."""

    membership: Membership


@attrs.frozen
class Renew:
    """Extend the lease."""

    epoch: int


@attrs.frozen
class Leave:
    """Leave the group."""

    member_id: str


@attrs.frozen
class Release:
    """Give the lease up."""

    epoch: int


@attrs.frozen
class Wait:
    """Wait until this time, or until something changes. None means no time limit."""

    until_s: float | None


@attrs.frozen
class End:
    """Stop for ever."""


Farewell: TypeAlias = Leave | Release
Step: TypeAlias = Join | Sync | Acquire | Fetch | Heartbeat | Renew | Farewell | Wait | End
