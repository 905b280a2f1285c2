"""Disk room for the runtime: whether it may write, and the reaction to a full disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from offsetd_coordinator.errors import DiskFull
from offsetd_coordinator.requests import DeleteGroup, DeleteOffsets, EndConsumerMembers, WriteGroup

if TYPE_CHECKING:
    from offsetd_storage.errors import StorageFull

    from offsetd_coordinator.requests import Request


class DiskGuard(Protocol):
    """The part of `offsetd_storage.disk.disk_space.DiskSpace` that the runtime uses."""

    @property
    def is_low(self) -> bool:
        """Whether the room that is left is only for deletions and cleaning."""

    def note_full(self, refusal: StorageFull) -> None:
        """Notes that an append found no room."""


class UnwatchedDisk:
    """The disk of a node without upkeep."""

    is_low = False

    def note_full(self, refusal: StorageFull) -> None:
        pass


def refuse_unless_it_deletes(request: Request) -> None:
    """On a low disk, refuses a request that needs room. Duplicates and refusals write nothing."""
    if isinstance(request, WriteGroup) and not request.value.members:
        return
    if not isinstance(request, DeleteOffsets | DeleteGroup | EndConsumerMembers):
        raise DiskFull("the disk is nearly full: nothing was written; reads and deletes go on")
