"""Conversions of values to messages, without IO: leases and settings of groups."""

from datetime import timedelta
from typing import SupportsIndex

from offsetd.v1 import group_service_pb2

from offsetd_clients.messages.conversions import building, retention_message, text_of
from offsetd_clients.values import Retention, whole


def acquire_request(
    group_id: str,
    holder: str,
    *,
    ttl: timedelta | None,
    force: bool,
    reason: str,
    request_id: str,
) -> group_service_pb2.AcquireGroupRequest:
    """An AcquireGroupRequest."""
    with building("acquire"):
        return group_service_pb2.AcquireGroupRequest(
            group_id=text_of("group_id", group_id),
            holder=holder,
            ttl=ttl,
            force=force,
            reason=reason,
            request_id=request_id,
        )


def renew_request(
    group_id: str, epoch: SupportsIndex, *, ttl: timedelta | None
) -> group_service_pb2.RenewGroupRequest:
    """A RenewGroupRequest."""
    with building("renew"):
        return group_service_pb2.RenewGroupRequest(
            group_id=text_of("group_id", group_id), epoch=whole(epoch), ttl=ttl
        )


def release_request(
    group_id: str, epoch: SupportsIndex, *, request_id: str
) -> group_service_pb2.ReleaseGroupRequest:
    """A ReleaseGroupRequest."""
    with building("release"):
        return group_service_pb2.ReleaseGroupRequest(
            group_id=text_of("group_id", group_id), epoch=whole(epoch), request_id=request_id
        )


def update_group_request(
    group_id: str,
    *,
    retention: Retention,
    allow_missing: bool,
    validate_only: bool,
    reason: str,
    request_id: str,
) -> group_service_pb2.UpdateGroupRequest:
    """An UpdateGroupRequest."""
    with building("update group"):
        return group_service_pb2.UpdateGroupRequest(
            group_id=text_of("group_id", group_id),
            retention=retention_message(retention),
            allow_missing=allow_missing,
            validate_only=validate_only,
            reason=reason,
            request_id=request_id,
        )
