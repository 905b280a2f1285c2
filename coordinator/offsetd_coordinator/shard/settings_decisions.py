"""Decisions on changes of a group's settings and its lease."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import attrs
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.offsets_topic.schemas.group_settings import OWN_OFFSET, GroupSettings, Lease
from offsetd_storage.offsets_topic.schemas.keys import GroupSettingsKey, encode_key

from offsetd_coordinator.errors import (
    GroupIdNotFound,
    InvalidCommitSize,
)
from offsetd_coordinator.requests import (
    AcquireGroup,
    Decision,
    LeaseReply,
    ReleaseGroup,
    ReleaseGroupReply,
    UpdateGroup,
    UpdateGroupReply,
)
from offsetd_coordinator.state.leases import check_epoch, lease_status
from offsetd_coordinator.state.settings_dedup import ChangeKind, header
from offsetd_coordinator.state.write_authorisation import check_acquisition, check_readable

if TYPE_CHECKING:
    from offsetd_storage.offsets_topic.group_listing import LeaseStatus
    from offsetd_storage.offsets_topic.group_records import GroupRecords

    from offsetd_coordinator.membership.member_requests import Moment
    from offsetd_coordinator.requests import GroupChange, GroupChangeReply
    from offsetd_coordinator.state.replayed_state import ReplayedState

_KINDS = {
    AcquireGroup: ChangeKind.ACQUIRE,
    ReleaseGroup: ChangeKind.RELEASE,
    UpdateGroup: ChangeKind.UPDATE,
}


class Situation(NamedTuple):
    """The facts that a change is decided on, in addition to the replayed state.

    `loaded_ms` is as in `leases`. `has_members` also counts members that are in no record yet.
    """

    now: Moment
    loaded_ms: int
    has_members: bool
    offset_next: int
    leader_epoch: int
    bytes_max: int


class _Change(NamedTuple):
    """The answer, and the new settings; None if nothing has to be written."""

    reply: GroupChangeReply
    settings: GroupSettings | None


def decide_group_change(
    state: ReplayedState, request: GroupChange, situation: Situation
) -> Decision:
    """The batch to write and the answer. Changes nothing.

    Raises GroupIdNotFound, NonEmptyGroup, RecordUndecodable, EpochFenced, LeaseHeld, and
    InvalidCommitSize.
    """
    change = _change(state, request, situation)
    if change.settings is None:
        return Decision(request, change.reply, None)
    batch = _encode(request, change.settings, situation)
    offset, now_ms = situation.offset_next, situation.now.wall_ms
    return Decision(request, change.reply, None, batch, offset, now_ms)


def _change(state: ReplayedState, request: GroupChange, situation: Situation) -> _Change:
    records = state.group_records(request.group_id)
    status = lease_status(records, situation.loaded_ms, situation.now)
    is_tried = isinstance(request, UpdateGroup) and request.validate_only
    if request.request_id and not is_tried:
        known = state.changes.find(
            _KINDS[type(request)], request.group_id, request.request_id, situation.now.wall_ms
        )
        if known is not None:
            return _Change(_reply_again(request, known, status), None)
    match request:
        case AcquireGroup():
            return _acquire(records, request, status, situation)
        case ReleaseGroup():
            return _release(records, request, status, situation)
        case UpdateGroup():
            if not state.has_group(request.group_id) and not request.allow_missing:
                raise GroupIdNotFound("there is no group {group!r}", group=request.group_id)
            return _update(records, request, situation)


def _encode(request: GroupChange, settings: GroupSettings, situation: Situation) -> bytes:
    """The batch of a change: one record, or its tombstone if no setting is left."""
    request_id = request.request_id
    record = Record(
        key=encode_key(GroupSettingsKey(group=request.group_id.decode())),
        value=None if settings.is_default else settings.encode(),
        offset=situation.offset_next,
        timestamp_ms=situation.now.wall_ms,
        headers=(header(_KINDS[type(request)], request_id),) if request_id else (),
    )
    batch = encode_batch(
        [record], base_offset=situation.offset_next, leader_epoch=situation.leader_epoch
    )
    if len(batch) > situation.bytes_max:
        raise InvalidCommitSize(
            "group_id",
            "the record batch exceeds max.message.bytes ({bytes_max})",
            bytes_max=situation.bytes_max,
        )
    return batch


def _reply_again(request: GroupChange, known: int, status: LeaseStatus | None) -> GroupChangeReply:
    """The answer to a repeated request. The first one wrote its record at log offset `known`."""
    match request:
        case AcquireGroup() if status is not None and status.lease.epoch == known:
            return LeaseReply(known, status.lease, status.expire_ms)
        case AcquireGroup():
            return LeaseReply(known, _granted(request, epoch=known, now_ms=-1), -1)
        case ReleaseGroup():
            return ReleaseGroupReply(known)
        case UpdateGroup():
            return UpdateGroupReply(known)


def _acquire(
    records: GroupRecords, request: AcquireGroup, status: LeaseStatus | None, situation: Situation
) -> _Change:
    check_acquisition(records, request, status, has_members=situation.has_members)
    now = situation.now
    settings = attrs.evolve(
        records.settings or GroupSettings(),
        lease=_granted(request, epoch=OWN_OFFSET, now_ms=now.wall_ms),
    )
    reply = LeaseReply(
        situation.offset_next,
        _granted(request, epoch=situation.offset_next, now_ms=now.wall_ms),
        now.wall_ms + request.ttl_ms,
        now.monotonic_ms + request.ttl_ms,
        is_taken=status is not None and status.is_held and status.lease.holder != request.holder,
    )
    return _Change(reply, settings)


def _release(
    records: GroupRecords, request: ReleaseGroup, status: LeaseStatus | None, situation: Situation
) -> _Change:
    check_epoch(request.group_id, status, request.epoch)
    assert records.settings is not None, "a lease is in a group's settings"
    return _Change(
        ReleaseGroupReply(situation.offset_next), attrs.evolve(records.settings, lease=None)
    )


def _update(records: GroupRecords, request: UpdateGroup, situation: Situation) -> _Change:
    check_readable(records)
    before = records.settings or GroupSettings()
    after = attrs.evolve(
        before, retention_ms=request.retention_ms, never_expires=request.never_expires
    )
    if request.validate_only or after == before:
        return _Change(UpdateGroupReply(None), None)
    return _Change(UpdateGroupReply(situation.offset_next), after)


def _granted(request: AcquireGroup, *, epoch: int, now_ms: int) -> Lease:
    return Lease(holder=request.holder, epoch=epoch, granted_ms=now_ms, ttl_ms=request.ttl_ms)
