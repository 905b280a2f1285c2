"""What a consumer's part in its group has to be done next, in the background, as values."""

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from offsetd_clients.membership_values import Membership
from offsetd_clients.values import TopicPartition


@attrs.frozen
class Join:
    """Join the group; an empty `member_id` is a new member's."""

    member_id: str
    protocols: Mapping[str, bytes]


@attrs.frozen
class Sync:
    """Ask for the assignment; the leader brings those of all."""

    membership: Membership
    assignments: Mapping[str, bytes]


@attrs.frozen
class Acquire:
    """Take the group's lease."""


@attrs.frozen
class Fetch:
    """Ask what is committed of the partitions that are assigned."""

    topic_partitions: tuple[TopicPartition, ...]


@attrs.frozen
class Heartbeat:
    """Give a sign of life."""

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
    """Nothing, until this time, or something changes; None: until something changes."""

    until_s: float | None


@attrs.frozen
class End:
    """Nothing ever again."""


Farewell: TypeAlias = Leave | Release
Step: TypeAlias = Join | Sync | Acquire | Fetch | Heartbeat | Renew | Farewell | Wait | End
