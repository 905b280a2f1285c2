"""Holds on groups during a large change of them, which is written in slices.

A write to a held group is refused and may be retried, so the state that the change was decided on
does not change. Until the first slice is written, readers see the group as it was before. After
that, reads are refused, too, so that nobody sees a part of the change.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from offsetd_coordinator.errors import CoordinatorLoadInProgress

if TYPE_CHECKING:
    from collections.abc import Iterator


class GroupHold:
    """The hold on one group. `is_writing` is set once a part of the change is written."""

    def __init__(self) -> None:
        self.is_writing = False
        self.ended = asyncio.Event()


class GroupHolds:
    """The held groups of a shard. Empty unless a large change is running."""

    def __init__(self) -> None:
        self.by_group: dict[bytes, GroupHold] = {}  # Public, so that commits can check it fast.

    def __bool__(self) -> bool:
        return bool(self.by_group)

    def __iter__(self) -> Iterator[GroupHold]:
        return iter(tuple(self.by_group.values()))

    def begin(self, group_id: bytes) -> GroupHold:
        """Holds a group. Raises CoordinatorLoadInProgress if it is held."""
        self.check_writer(group_id)
        hold = self.by_group[group_id] = GroupHold()
        return hold

    def end(self, group_id: bytes) -> None:
        """Releases a group."""
        self.by_group.pop(group_id).ended.set()

    def check_writer(self, group_id: bytes) -> None:
        """Raises CoordinatorLoadInProgress for a group that is held."""
        if group_id in self.by_group:
            raise _refusal(group_id)

    def check_reader(self, group_id: bytes) -> None:
        """Raises CoordinatorLoadInProgress if a part of a change of the group is written."""
        hold = self.by_group.get(group_id)
        if hold is not None and hold.is_writing:
            raise _refusal(group_id)

    async def until_whole(self, group_id: bytes) -> None:
        """Returns when no change of the group is partly written."""
        while (hold := self.by_group.get(group_id)) is not None and hold.is_writing:
            await hold.ended.wait()

    async def until_ended(self) -> None:
        """Returns when no group is held."""
        for hold in self:
            await hold.ended.wait()


def _refusal(group_id: bytes) -> CoordinatorLoadInProgress:
    return CoordinatorLoadInProgress("group {group!r} is being changed: come again", group=group_id)
