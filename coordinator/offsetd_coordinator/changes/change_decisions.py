"""A shard's decisions on changes of offsets: resets, clones, imports and restores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_coordinator.changes.restoration import restored
from offsetd_coordinator.errors import (
    GroupExists,
    GroupIdNotFound,
)
from offsetd_coordinator.offset_changes import (
    EndCounts,
    OffsetsChangedReply,
    PutChanges,
    PutColumns,
    PutOffsets,
    RestoredReply,
    RestoreOffsets,
    TargetKind,
    end_counts,
    reset_offsets,
)
from offsetd_coordinator.requests import Decision
from offsetd_coordinator.state.compare_and_set import check_expected
from offsetd_coordinator.state.offset_batches import (
    PutRows,
    answered_before,
    check_expiry,
    encode_offsets,
    known_id,
)

if TYPE_CHECKING:
    from offsetd_coordinator.membership.member_requests import Moment
    from offsetd_coordinator.offset_changes import OffsetsChange
    from offsetd_coordinator.state.offset_batches import Encoder
    from offsetd_coordinator.state.replayed_state import ReplayedState
    from offsetd_coordinator.state.write_authorisation import WriteAuthorisation


def decide_offsets_change(
    state: ReplayedState,
    request: OffsetsChange,
    encoder: Encoder,
    writers: WriteAuthorisation,
    now: Moment,
) -> Decision:
    """The batch to write and the answer.

    Raises the refusal: GroupIdNotFound, GroupExists, NonEmptyGroup, LeaseHeld, OffsetConflict,
    InvalidCommitSize, InvalidRetention, RecordUndecodable, and the errors of
    `offset_changes.reset_offsets`.
    """
    group_id, request_id = request.group_id, _request_id(request)
    answered = check_change(request, encoder, writers, now)
    if answered is not None:
        return answered
    if isinstance(request, PutOffsets):
        assert isinstance(request.offsets, PutColumns), "rows are written in slices"
        written, is_splittable = request.offsets, not request.expected
        ends = EndCounts()
    else:
        stored = state.offsets.read_columns(group_id)
        written, is_splittable = reset_offsets(request, stored), False
        ends = end_counts(request, written, stored)
    rows = PutRows.of(group_id, request_id, written)
    if isinstance(request, PutOffsets) and request.expected:
        check_expected(state.offsets, request.expected, written, rows)
    check_expiry(encoder, rows)
    batches = encode_offsets(encoder, rows, is_splittable=is_splittable)
    if request.validate_only:
        batches = ()
    before = state.offsets.offsets_at(rows.names, rows.group_size, rows.keys)
    reply = OffsetsChangedReply(
        batches[-1][1] if batches else None,
        PutChanges(
            puts=written,
            before=before,
            first_revision=encoder.base_offset if batches else None,
        ),
        stored_count=state.offsets.count(group_id),
        replaced_count=len(before) - before.count(None),
        moved_count=sum(
            was is not None and was != offset
            for was, offset in zip(before, written.offsets, strict=True)
        ),
        ends=ends,
    )
    return Decision.of_batches(request, reply, batches, encoder.now_ms)


def decide_restoration(
    state: ReplayedState,
    request: RestoreOffsets,
    encoder: Encoder,
    writers: WriteAuthorisation,
    now: Moment,
) -> Decision:
    """The batches to write for a restore, and the answer.

    Raises NonEmptyGroup, LeaseHeld, RecordUndecodable, and the errors of `restoration.restored`.
    """
    answered = check_change(request, encoder, writers, now)
    if answered is not None:
        return answered
    reply, batches = restored(state, request, encoder, _request_id(request))
    return Decision.of_batches(request, reply, batches, encoder.now_ms)


def check_change(
    request: OffsetsChange | RestoreOffsets,
    encoder: Encoder,
    writers: WriteAuthorisation,
    now: Moment,
) -> Decision | None:
    """The decision for a repeated request: the reply of the first try. None for a new request.

    Raises GroupIdNotFound, GroupExists, NonEmptyGroup, LeaseHeld, RecordUndecodable.
    """
    group_id = request.group_id
    answered = answered_before(encoder, group_id, _request_id(request))
    if answered is not None:
        reply_type = RestoredReply if isinstance(request, RestoreOffsets) else OffsetsChangedReply
        return Decision(request, reply_type(answered, (), is_repeated=True), None)
    if not isinstance(request, RestoreOffsets):
        _check_presence(request, exists=writers.has_group(group_id))
    writers.check_change(request, now)
    return None


def _request_id(request: OffsetsChange | RestoreOffsets) -> bytes:
    """The request id that the batches carry, if any are written."""
    return b"" if request.validate_only else known_id(request.call, request.request_id)


def _check_presence(request: OffsetsChange, *, exists: bool) -> None:
    group_id = request.group_id
    if isinstance(request, PutOffsets):
        if request.is_new and exists:
            raise GroupExists("there is a group {group!r}", group=group_id)
    elif not exists and not request.partitions and request.kind is not TargetKind.EXPLICIT:
        raise GroupIdNotFound("there is no group {group!r}", group=group_id)
