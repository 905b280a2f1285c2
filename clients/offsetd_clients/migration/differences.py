"""Compares a plan, or the present state of a source, with the stored offsets."""

from collections.abc import Iterable, Mapping
from enum import StrEnum

import attrs

from offsetd_clients import Bounds, CommittedOffset, TopicPartition
from offsetd_clients.migration.values import FoundOffset

Stored = Mapping[TopicPartition, CommittedOffset]


GONE = Bounds(0, -1)
"""The bounds of a partition that does not exist: no offset is in range."""


class State(StrEnum):
    """The state of a stored offset, compared with that of the source."""

    MISSING = "missing"  # No offset is stored.
    EQUAL = "equal"
    BEHIND = "behind"  # A smaller offset is stored.
    AHEAD = "ahead"  # A larger offset is stored.
    CONFLICT = "conflict"  # The same offset is stored, with another leader epoch or other metadata.
    OUT_OF_BOUNDS = "out-of-bounds"  # The source's offset is outside the partition's range.
    DELETED = "deleted"  # offsetd has the offset, and the source no longer has it.


@attrs.frozen(kw_only=True)
class Difference:
    """The difference of one partition. `group_id` is the group's id in offsetd."""

    group_id: str
    found: FoundOffset
    stored: CommittedOffset | None
    state: State
    bounds: Bounds | None = None


def differences(
    group_id: str,
    offsets: Iterable[FoundOffset],
    stored: Stored,
    bounds: Mapping[TopicPartition, Bounds] | None = None,
) -> list[Difference]:
    """One difference for each of `offsets`, in their order.

    Other stored offsets are not compared.
    """
    known = bounds or {}
    return [
        Difference(
            group_id=group_id,
            found=found,
            stored=stored.get(found.topic_partition),
            state=_state(
                found, stored.get(found.topic_partition), known.get(found.topic_partition)
            ),
            bounds=known.get(found.topic_partition),
        )
        for found in offsets
    ]


def deletions(
    group_id: str,
    planned: Iterable[FoundOffset],
    now: Iterable[FoundOffset],
    stored: Stored,
) -> list[Difference]:
    """One difference for each planned offset that the source no longer has and that is stored."""
    there = {each.topic_partition for each in now}
    return [
        Difference(
            group_id=group_id,
            found=each,
            stored=stored[each.topic_partition],
            state=State.DELETED,
        )
        for each in planned
        if each.topic_partition not in there and each.topic_partition in stored
    ]


def _state(found: FoundOffset, stored: CommittedOffset | None, bounds: Bounds | None) -> State:
    if bounds is not None and not is_within(found.offset, bounds):
        return State.OUT_OF_BOUNDS
    if stored is None:
        return State.MISSING
    if stored.offset != found.offset:
        return State.BEHIND if stored.offset < found.offset else State.AHEAD
    is_same = (stored.leader_epoch, stored.metadata) == (found.leader_epoch, found.metadata)
    return State.EQUAL if is_same else State.CONFLICT


def is_within(offset: int, bounds: Bounds) -> bool:
    """Whether an offset is in range.

    An offset that is not in range is reported, and never moved to the nearest end: that would skip
    records, or read some again.
    """
    return (bounds.earliest is None or bounds.earliest <= offset) and (
        bounds.latest is None or offset <= bounds.latest
    )
