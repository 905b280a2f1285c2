"""What a plan, or a source as it is now, has, beside what is stored here."""

from collections.abc import Iterable, Mapping
from enum import StrEnum

import attrs

from offsetd_clients import Bounds, CommittedOffset, TopicPartition
from offsetd_clients.migration.values import FoundOffset

Stored = Mapping[TopicPartition, CommittedOffset]


GONE = Bounds(0, -1)
"""What a partition has that is not there: no offset at all."""


class State(StrEnum):
    """How what is stored here stands to the source's offset."""

    MISSING = "missing"  # Nothing is stored here.
    EQUAL = "equal"
    BEHIND = "behind"  # A smaller offset is.
    AHEAD = "ahead"  # A larger one is.
    CONFLICT = "conflict"  # The same, with another leader epoch or other metadata.
    OUT_OF_BOUNDS = "out-of-bounds"  # The partition has not the source's offset.
    DELETED = "deleted"  # The source has it no more, and it is stored here.


@attrs.frozen(kw_only=True)
class Difference:
    """One partition of a group, by its id here."""

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
    """One for each of `offsets`, in their order. What is stored beside them is no difference."""
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
    """One for each planned offset that the source has no more, and that is stored here."""
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
    """What lies outside is said, never moved to the nearest end: that skips, or reads again."""
    return (bounds.earliest is None or bounds.earliest <= offset) and (
        bounds.latest is None or offset <= bounds.latest
    )
