"""Validation of messages about leases and retention: the rules of their fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from offsetd_coordinator.errors import InvalidLease, InvalidRetention
from offsetd_coordinator.messages import validation
from offsetd_coordinator.requests import AcquireGroup, ReleaseGroup, RenewGroup, UpdateGroup

if TYPE_CHECKING:
    from google.protobuf.duration_pb2 import Duration
    from offsetd.v1 import group_service_pb2, offset_service_pb2, types_pb2

HOLDER_UNITS_MAX: Final = 249
TTL_MS_DEFAULT: Final = 30_000
DURATION_SECONDS_MAX: Final = 315_576_000_000  # 10,000 years: the limit of a Duration.


@attrs.frozen(kw_only=True)
class TtlBounds:
    """The shortest and the longest ttl of a lease, in milliseconds."""

    ttl_ms_min: int = 1000
    ttl_ms_max: int = 86_400_000

    @property
    def ttl_ms_default(self) -> int:
        """The ttl of a lease if its request has no ttl."""
        return min(max(TTL_MS_DEFAULT, self.ttl_ms_min), self.ttl_ms_max)


def acquire_group(
    request: group_service_pb2.AcquireGroupRequest, bounds: TtlBounds
) -> AcquireGroup:
    """The checked request. Raises the Invalid… error of the first field that breaks a rule."""
    validation.check_reason(request.reason)
    units = validation.utf16_units(request.holder)
    if not 0 < units <= HOLDER_UNITS_MAX:
        raise InvalidLease(
            "holder",
            "{units} UTF-16 units, not 1 to {units_max}",
            units=units,
            units_max=HOLDER_UNITS_MAX,
        )
    ttl_ms = _ttl_ms(request, bounds)
    return AcquireGroup(
        group_id=validation.written_group_id(request.group_id),
        holder=request.holder,
        ttl_ms=bounds.ttl_ms_default if ttl_ms is None else ttl_ms,
        force=request.force,
        request_id=validation.read_request_id(request.request_id),
    )


def renew_group(request: group_service_pb2.RenewGroupRequest, bounds: TtlBounds) -> RenewGroup:
    """The checked request. Raises the errors of `acquire_group`."""
    return RenewGroup(
        group_id=validation.written_group_id(request.group_id),
        epoch=validation.lease_epoch(request.epoch),
        ttl_ms=_ttl_ms(request, bounds),
    )


def release_group(request: group_service_pb2.ReleaseGroupRequest) -> ReleaseGroup:
    """The checked request. Raises the errors of `acquire_group`."""
    return ReleaseGroup(
        group_id=validation.written_group_id(request.group_id),
        epoch=validation.lease_epoch(request.epoch),
        request_id=validation.read_request_id(request.request_id),
    )


def update_group(request: group_service_pb2.UpdateGroupRequest) -> UpdateGroup:
    """The checked request. Raises the errors of `acquire_group`."""
    validation.check_reason(request.reason)
    retention_ms, never_expires = _retention(request.retention)
    return UpdateGroup(
        group_id=validation.written_group_id(request.group_id),
        retention_ms=retention_ms,
        never_expires=never_expires,
        allow_missing=request.allow_missing,
        request_id=validation.read_request_id(request.request_id),
        validate_only=request.validate_only,
    )


def _retention(retention: types_pb2.Retention) -> tuple[int | None, bool]:
    """The retention in milliseconds, or None, and whether the offsets never expire."""
    kind = retention.WhichOneof("kind")
    if kind == "never":
        if not retention.never:
            raise InvalidRetention("retention.never", "it must be true if it is set")
        return None, True
    if kind is None:
        return None, False
    return retention_ms(retention.duration, "retention.duration"), False


def retention_of(commit: offset_service_pb2.CommitOffsetsRequest) -> int:
    """The retention of a commit's offsets in milliseconds; -1 means the group's retention."""
    if not commit.HasField("retention"):
        return -1
    return retention_ms(commit.retention, "retention")


def retention_ms(duration: Duration, field: str) -> int:
    """A retention, in whole milliseconds. Raises InvalidRetention."""
    milliseconds = duration.seconds * 1000 + duration.nanos // 1_000_000
    if milliseconds < 1 or duration.seconds > DURATION_SECONDS_MAX:
        raise InvalidRetention(
            field,
            "{value_ms} ms is not from 1 ms to 10,000 years",
            value_ms=milliseconds,
        )
    return milliseconds


def _ttl_ms(
    request: group_service_pb2.AcquireGroupRequest | group_service_pb2.RenewGroupRequest,
    bounds: TtlBounds,
) -> int | None:
    if not request.HasField("ttl"):
        return None
    ttl_ms = request.ttl.seconds * 1000 + request.ttl.nanos // 1_000_000
    if not bounds.ttl_ms_min <= ttl_ms <= bounds.ttl_ms_max:
        raise InvalidLease(
            "ttl",
            "{ttl_ms} ms is not from {ttl_ms_min} to {ttl_ms_max}",
            ttl_ms=ttl_ms,
            ttl_ms_min=bounds.ttl_ms_min,
            ttl_ms_max=bounds.ttl_ms_max,
        )
    return ttl_ms
