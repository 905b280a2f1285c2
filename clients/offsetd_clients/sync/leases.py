# Made from aio/leases.py by .ci/sync_from_aio: change that, then run `make sync`.
"""Leases and retention of groups. A lease is for a single writer that never joins the group.

The writer acquires the lease, commits with its epoch, and renews it well before the ttl ends. It
stops when a call raises `EpochFenced`: another writer has taken over. The ttl begins before the
answer arrives, so count it from the start of the call.
"""

from datetime import timedelta
from typing import SupportsIndex

from offsetd_clients.messages import conversions, lease_messages
from offsetd_clients.sync.servers import Calls, new_id
from offsetd_clients.values import Lease, Retention, Revision


class LeaseCalls(Calls):
    """The calls of a client that single writers need."""

    def acquire_group(
        self,
        group_id: str,
        holder: str,
        *,
        ttl: timedelta | None = None,
        force: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> Lease:
        """Takes the group's lease. Raises `LeaseHeld` while another holder has it.

        Each lease has a larger epoch than all leases before it, and fences them. `holder` names the
        caller: the same holder gets a new lease. `force` takes the lease from any holder. Raises
        `GroupNotEmpty` while the group has members.
        """
        request = lease_messages.acquire_request(
            group_id,
            holder,
            ttl=ttl,
            force=force,
            reason=reason,
            request_id=request_id or new_id(),
        )
        return conversions.lease_of((self._call("AcquireGroup", request)).lease)

    def renew_group(
        self, group_id: str, epoch: SupportsIndex, *, ttl: timedelta | None = None
    ) -> Lease:
        """Extends a lease to `ttl` from now. Default: its present ttl. Raises `EpochFenced`."""
        request = lease_messages.renew_request(group_id, epoch, ttl=ttl)
        return conversions.lease_of((self._call("RenewGroup", request)).lease)

    def release_group(
        self, group_id: str, epoch: SupportsIndex, *, request_id: str | None = None
    ) -> Revision:
        """Releases a lease: its epoch is over. Raises `EpochFenced` if it was already over."""
        request = lease_messages.release_request(group_id, epoch, request_id=request_id or new_id())
        return conversions.revision_of((self._call("ReleaseGroup", request)).revision)

    def update_group(
        self,
        group_id: str,
        *,
        retention: Retention,
        allow_missing: bool = False,
        validate_only: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> Revision | None:
        """Sets how long a group's offsets are kept.

        `retention` is a time, "never", or None for the server's setting. Returns None if nothing
        had to change. Raises `GroupNotFound`, unless `allow_missing` is set.
        """
        request = lease_messages.update_group_request(
            group_id,
            retention=retention,
            allow_missing=allow_missing,
            validate_only=validate_only,
            reason=reason,
            request_id=request_id or new_id(),
        )
        response = self._call("UpdateGroup", request)
        return conversions.revision_of(response.revision) if response.HasField("revision") else None
