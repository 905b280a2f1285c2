"""Disk room as the runtime sees it: whether it may write, and what to do on a full disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from offsetd_coordinator.errors import DiskFull
from offsetd_coordinator.requests import DeleteGroup, DeleteOffsets, EndConsumerMembers, WriteGroup

if TYPE_CHECKING:
    from offsetd_storage.errors import StorageFull

    from offsetd_coordinator.requests import Request


class DiskGuard(Protocol):
    """What the runtime asks of `offsetd_storage.disk.disk_space.DiskSpace`."""

    @property
    def is_low(self) -> bool:
        """Whether what room is left is for deletions and for cleaning."""

    def note_full(self, refusal: StorageFull) -> None:
        """An append found no room."""


class UnwatchedDisk:
    """The disk of a node that nobody looks after."""

    is_low = False

    def note_full(self, refusal: StorageFull) -> None:
        pass


def refuse_unless_it_deletes(request: Request) -> None:
    """On a low disk. Behind the decision: a duplicate and a refusal write nothing."""
    if isinstance(request, WriteGroup) and not request.value.members:
        return
    if not isinstance(request, DeleteOffsets | DeleteGroup | EndConsumerMembers):
        raise DiskFull("the disk is nearly full: nothing was written; reads and deletes go on")
