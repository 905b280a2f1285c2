"""GroupService's methods for leases and for the settings of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from offsetd.v1 import group_service_pb2, types_pb2

from offsetd_coordinator.calls import current_call
from offsetd_coordinator.messages import lease_validation, validation
from offsetd_coordinator.messages.timestamps import set_duration, set_time
from offsetd_coordinator.requests import LeaseReply, ReleaseGroupReply, UpdateGroupReply
from offsetd_coordinator.services.durable_answers import changed_group, once_durable

if TYPE_CHECKING:
    from offsetd_storage.offsets_topic.schemas.group_settings import GroupSettings, Lease

    from offsetd_coordinator.messages.lease_validation import TtlBounds
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.requests import AcquireGroup, ReleaseGroup, Reply

_log = structlog.get_logger(__name__)


class GroupSettingsService:
    """The methods: each takes a request's bytes and returns the answer's bytes."""

    def __init__(self, node: Node, bounds: TtlBounds) -> None:
        self._node = node
        self._bounds = bounds

    async def update_group(self, message: bytes) -> bytes:
        """Changes a group's retention; answers once the change is durable."""
        received = validation.parse(group_service_pb2.UpdateGroupRequest, message)
        request = lease_validation.update_group(received)
        what = {"retention_ms": "never" if request.never_expires else request.retention_ms}
        reply = await changed_group(self._node, received, request, UpdateGroupReply, lambda _: what)
        response = group_service_pb2.UpdateGroupResponse()
        if reply.last_offset is not None:
            response.revision.CopyFrom(self._revision(request.group_id, reply.last_offset))
        return response.SerializeToString()

    async def acquire_group(self, message: bytes) -> bytes:
        """Acquires the lease; answers once the change is durable."""
        received = validation.parse(group_service_pb2.AcquireGroupRequest, message)
        request = lease_validation.acquire_group(received, self._bounds)
        quotas = current_call.quotas()
        if quotas is not None:
            quotas.check_lease(request.group_id, self._node.serving().holds_lease)
        if request.force:
            what = {"holder": request.holder, "force": True}
            reply = await changed_group(self._node, received, request, LeaseReply, lambda _: what)
        else:
            submitted = await self._submitted(request)
            assert isinstance(submitted, LeaseReply)
            reply = submitted
        if quotas is not None:
            quotas.note_lease(request.group_id, reply.lease.epoch)
        if reply.deadline_ms >= 0:
            _log.info(
                "lease acquired",
                group=received.group_id,
                holder=request.holder,
                epoch=reply.lease.epoch,
                is_taken=reply.is_taken,
                reason=received.reason,
            )
        return group_service_pb2.AcquireGroupResponse(
            revision=self._revision(request.group_id, reply.last_offset),
            lease=lease_message(reply.lease, reply.expire_ms),
        ).SerializeToString()

    async def renew_group(self, message: bytes) -> bytes:
        """Extends the lease; answers once the acquisition of the lease is durable."""
        runtime = self._node.serving()
        received = validation.parse(group_service_pb2.RenewGroupRequest, message)
        request = lease_validation.renew_group(received, self._bounds)
        reply = await once_durable(runtime, *runtime.renew_lease(request))
        return group_service_pb2.RenewGroupResponse(
            lease=lease_message(reply.lease, reply.expire_ms)
        ).SerializeToString()

    async def release_group(self, message: bytes) -> bytes:
        """Releases the lease; answers once the change is durable."""
        received = validation.parse(group_service_pb2.ReleaseGroupRequest, message)
        request = lease_validation.release_group(received)
        reply = await self._submitted(request)
        assert isinstance(reply, ReleaseGroupReply)
        return group_service_pb2.ReleaseGroupResponse(
            revision=self._revision(request.group_id, reply.last_offset)
        ).SerializeToString()

    async def _submitted(self, request: AcquireGroup | ReleaseGroup) -> Reply:
        runtime = self._node.serving()
        return await once_durable(runtime, *runtime.submit(request))

    def _revision(self, group_id: bytes, log_offset: int) -> types_pb2.Revision:
        assert self._node.runtime is not None, "the node has accepted the request"
        partition = self._node.runtime.partition_of(group_id)
        return types_pb2.Revision(log_partition=partition, log_offset=log_offset)


def lease_message(lease: Lease, expire_ms: int) -> group_service_pb2.Lease:
    """A lease as a message. Times below 0 are left out."""
    message = group_service_pb2.Lease(holder=lease.holder, epoch=lease.epoch)
    set_time(message.grant_time, lease.granted_ms)
    set_duration(message.ttl, lease.ttl_ms)
    set_time(message.expire_time, expire_ms)
    return message


def set_retention(
    message: group_service_pb2.Group | group_service_pb2.GroupListing,
    settings: GroupSettings | None,
) -> None:
    """Sets a group's retention, unless it has the server's."""
    if settings is None:
        return
    if settings.never_expires:
        message.retention.never = True
    elif settings.retention_ms is not None:
        set_duration(message.retention.duration, settings.retention_ms)
