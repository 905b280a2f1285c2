"""Leases and retention of groups: for a writer that never joins, and is to be the only one.

It acquires, commits with the lease's epoch, renews well within the ttl, and stops when a call
raises `EpochFenced`: then another has taken over. The ttl begins before the answer arrives, so it
is counted from before the call.
"""

import operator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, SupportsIndex
from uuid import uuid4

from offsetd.v1 import group_service_pb2
from offsetd.v1.group_service_pb2_grpc import GroupServiceStub

from offsetd_clients import messages
from offsetd_clients.values import Lease, Retention, Revision

if TYPE_CHECKING:
    import grpc


class LeaseCalls:
    """The part of a client that single writers need."""

    _groups: GroupServiceStub

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
        """Takes the group's lease; raises `LeaseHeld` while another holder has it.

        Each lease has a larger epoch than all before it, and fences them. `holder` says who this
        is: the same holder gets the lease anew. `force` takes it from whoever has it. Raises
        `GroupNotEmpty` while the group has members.
        """
        with messages.building("acquire"):
            request = group_service_pb2.AcquireGroupRequest(
                group_id=group_id,
                holder=holder,
                ttl=ttl,
                force=force,
                reason=reason,
                request_id=request_id or uuid4().hex,
            )
        return messages.lease_of(self._call(self._groups.AcquireGroup, request).lease)

    def renew_group(
        self, group_id: str, epoch: SupportsIndex, *, ttl: timedelta | None = None
    ) -> Lease:
        """Extends a lease, from now on, by `ttl` or else its own; raises `EpochFenced`."""
        with messages.building("renew"):
            request = group_service_pb2.RenewGroupRequest(
                group_id=group_id, epoch=operator.index(epoch), ttl=ttl
            )
        return messages.lease_of(self._call(self._groups.RenewGroup, request).lease)

    def release_group(
        self, group_id: str, epoch: SupportsIndex, *, request_id: str | None = None
    ) -> Revision:
        """Gives a lease up: its epoch is over. Raises `EpochFenced` if it was before."""
        with messages.building("release"):
            request = group_service_pb2.ReleaseGroupRequest(
                group_id=group_id,
                epoch=operator.index(epoch),
                request_id=request_id or uuid4().hex,
            )
        return messages.revision_of(self._call(self._groups.ReleaseGroup, request).revision)

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
        """Sets how long a group's offsets are kept: a time, "never", or None for the server's.

        Returns None if nothing was to change. Raises `GroupNotFound` unless it may be missing.
        """
        with messages.building("update group"):
            request = group_service_pb2.UpdateGroupRequest(
                group_id=group_id,
                retention=messages.retention_message(retention),
                allow_missing=allow_missing,
                validate_only=validate_only,
                reason=reason,
                request_id=request_id or uuid4().hex,
            )
        response = self._call(self._groups.UpdateGroup, request)
        return messages.revision_of(response.revision) if response.HasField("revision") else None

    def _call(self, method: "grpc.UnaryUnaryMultiCallable[Any, Any]", request: Any) -> Any:
        raise NotImplementedError
