"""Leases: a lease gives one writer the right to write to a group that has no members.

Only the epoch fences. It is the log offset of the record that acquired the lease, so a later lease
has a larger epoch, and only commits with the newest epoch are accepted. The ttl decides only two
things: when another writer may acquire without force, and until when commits without an epoch are
refused. It is measured by a clock that is never set and that excludes the server's pauses. The
deadline is in memory, not in the log: when a shard is loaded, its leases start with their whole
ttl again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_storage.offsets_topic.group_listing import LeaseStatus

from offsetd_coordinator.errors import EpochFenced, LeaseHeld
from offsetd_coordinator.requests import LeaseReply
from offsetd_coordinator.rfc3339 import rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_storage.offsets_topic.group_records import GroupRecords

    from offsetd_coordinator.membership.member_requests import Moment
    from offsetd_coordinator.requests import RenewGroup


def lease_status(records: GroupRecords | None, loaded_ms: int, now: Moment) -> LeaseStatus | None:
    """The newest lease of a group, if there is one that was not released.

    `loaded_ms` is the monotonic time of the load. Leases that were not renewed since start at it.
    """
    settings = None if records is None else records.settings
    if records is None or settings is None or settings.lease is None:
        return None
    deadline_ms = records.lease_deadline_ms
    if deadline_ms is None:
        deadline_ms = loaded_ms + settings.lease.ttl_ms
    remaining_ms = deadline_ms - now.monotonic_ms
    return LeaseStatus(settings.lease, now.wall_ms + remaining_ms, remaining_ms > 0)


class Leases:
    """The leases of one shard. `records` returns the records of a group."""

    def __init__(self, records: Callable[[bytes], GroupRecords | None]) -> None:
        self.loaded_ms = 0
        self._records = records

    def status(self, group_id: bytes, now: Moment) -> LeaseStatus | None:
        """The newest lease of a group, if there is one that was not released."""
        return lease_status(self._records(group_id), self.loaded_ms, now)

    def is_held(self, group_id: bytes, now: Moment) -> bool:
        """Returns whether somebody holds a lease that has not expired."""
        status = self.status(group_id, now)
        return status is not None and status.is_held

    def check_not_held(self, group_id: bytes, now: Moment) -> None:
        """Raises LeaseHeld while somebody holds the lease."""
        check_not_held(group_id, self.status(group_id, now))

    def check_writer(self, group_id: bytes, epoch: int, now: Moment) -> None:
        """Raises EpochFenced, or LeaseHeld for a writer without an epoch (-1)."""
        status = self.status(group_id, now)
        if epoch >= 0:
            check_epoch(group_id, status, epoch)
        else:
            check_not_held(group_id, status)

    def renew(self, request: RenewGroup, now: Moment) -> LeaseReply:
        """Extends the newest lease, in memory. Raises EpochFenced."""
        status = self.status(request.group_id, now)
        check_epoch(request.group_id, status, request.epoch)
        assert status is not None, "an epoch that is not over is that of a lease"
        ttl_ms = status.lease.ttl_ms if request.ttl_ms is None else request.ttl_ms
        reply = LeaseReply(
            status.lease.epoch, status.lease, now.wall_ms + ttl_ms, now.monotonic_ms + ttl_ms
        )
        self.note(request.group_id, reply)
        return reply

    def note(self, group_id: bytes, reply: LeaseReply) -> None:
        """Sets the deadline of a lease that was granted or extended."""
        records = self._records(group_id)
        assert records is not None, "a lease is in a group's records"
        records.lease_deadline_ms = reply.deadline_ms


def check_epoch(group_id: bytes, status: LeaseStatus | None, epoch: int) -> None:
    """Raises EpochFenced unless `epoch` is that of the newest lease, expired or not."""
    if status is not None and status.lease.epoch == epoch:
        return
    if status is None:
        raise EpochFenced(
            "epoch {epoch} of group {group!r} is over: nobody holds its lease",
            group=group_id,
            epoch=epoch,
            holder="",
            holder_epoch="",
            expire_time="",
        )
    raise EpochFenced(
        "epoch {epoch} of group {group!r} is over: {holder!r} has epoch {holder_epoch}, until"
        " {expire_time}",
        group=group_id,
        epoch=epoch,
        **_told(status),
    )


def check_not_held(group_id: bytes, status: LeaseStatus | None) -> None:
    """Raises LeaseHeld while somebody holds the lease."""
    if status is not None and status.is_held:
        raise LeaseHeld(
            "{holder!r} holds the lease of group {group!r} with epoch {holder_epoch}, until"
            " {expire_time}",
            group=group_id,
            **_told(status),
        )


def _told(status: LeaseStatus) -> dict[str, object]:
    return {
        "holder": status.lease.holder,
        "holder_epoch": status.lease.epoch,
        "expire_time": rfc3339(status.expire_ms),
    }
