"""A shard's changes of offsets other than commits: decided at once, or in slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_storage.kernels import padded_buffer
from offsetd_storage.offsets_topic.schemas.keys import encode_key

from offsetd_coordinator.changes import large_decisions
from offsetd_coordinator.changes.change_decisions import (
    check_change,
    decide_offsets_change,
    decide_restoration,
)
from offsetd_coordinator.offset_changes import PutOffsets, ResetOffsets, RestoreOffsets
from offsetd_coordinator.requests import (
    Decision,
    DeleteGroup,
    DeleteGroupReply,
    DeleteOffsets,
    DeleteOffsetsReply,
)
from offsetd_coordinator.state.offset_batches import BatchForm, Encoder, known_id
from offsetd_coordinator.state.offset_deletion import (
    group_to_delete,
    offsets_to_delete,
)
from offsetd_coordinator.state.tombstone_batches import encode_tombstones

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_coordinator.committed_offsets import OffsetRows
    from offsetd_coordinator.membership.member_requests import Moment
    from offsetd_coordinator.offset_changes import OffsetsChange
    from offsetd_coordinator.state.replayed_state import ReplayedState
    from offsetd_coordinator.state.write_authorisation import WriteAuthorisation

LargeRequest = PutOffsets | ResetOffsets | RestoreOffsets | DeleteOffsets | DeleteGroup


class OffsetChangeDecisions:
    """The changes of one shard. Changes nothing itself."""

    def __init__(self, state: ReplayedState, writers: WriteAuthorisation, form: BatchForm) -> None:
        self._state = state
        self._writers = writers
        self._form = form

    def encoder(self, now_ms: int) -> Encoder:
        """The encoder for batches of offsets at this time."""
        return Encoder(
            self._state.offsets.arrays,
            now_ms,
            self._state.offset_next,
            self._state.leader_epoch,
            *self._form,
        )

    def decide(self, request: OffsetsChange | RestoreOffsets, now: Moment) -> Decision:
        """Decides on a change at once. Raises the refusal."""
        encoder, writers = self.encoder(now.wall_ms), self._writers
        if isinstance(request, RestoreOffsets):
            return decide_restoration(self._state, request, encoder, writers, now)
        return decide_offsets_change(self._state, request, encoder, writers, now)

    def decide_deletion(self, request: DeleteOffsets | DeleteGroup, now: Moment) -> Decision:
        """Decides on a deletion at once. Raises the refusal."""
        state, now_ms = self._state, now.wall_ms
        known = self._known_deletion(request, now)
        if known is not None:
            return known
        if isinstance(request, DeleteGroup):
            deletion = group_to_delete(state, request, self._writers)
        else:
            deletion = offsets_to_delete(state, request, self._writers)
        if request.validate_only or not deletion.ends.size:
            return Decision(request, deletion.reply, None)
        batches = encode_tombstones(
            deletion.keys,
            deletion.ends,
            request_id=request.request_id,
            now_ms=now_ms,
            base_offset=self._state.offset_next,
            leader_epoch=self._state.leader_epoch,
            out=self._form.out,
        )
        reply = deletion.reply._replace(last_offset=batches[-1][1])
        return Decision.of_batches(request, reply, batches, now_ms)

    def _known_deletion(self, request: DeleteOffsets | DeleteGroup, now: Moment) -> Decision | None:
        """The decision on a repeated deletion, or None. Raises the error of the group's lease."""
        if not request.validate_only:
            kind = DeleteGroupReply if isinstance(request, DeleteGroup) else DeleteOffsetsReply
            deletions = self._state.deletions
            known = deletions.find(kind, request.group_id, request.request_id, now.wall_ms)
            if known is not None:
                return Decision(request, known, None)
        self._writers.check_deletion_lease(request, now)
        return None

    # Large changes: see `large_changes` --------------------------------------------------------

    def has_foreign_records(self, group_id: bytes) -> bool:
        """Returns whether a group has records that only brokers write: transactions, old keys."""
        return bool(self._state.pending.partitions(group_id) or self._state.other_keys(group_id))

    def check_large(self, request: LargeRequest, now: Moment) -> Decision | None:
        """The decision for a repeated large change; None for a new one. Raises if it is refused."""
        if isinstance(request, DeleteOffsets | DeleteGroup):
            known = self._known_deletion(request, now)
            if known is None and isinstance(request, DeleteGroup):
                self._writers.check_group_deletable(request.group_id)
            elif known is None and isinstance(request, DeleteOffsets):
                self._writers.check_offsets_deletable(request)
            return known
        answered = check_change(request, self.encoder(now.wall_ms), self._writers, now)
        if answered is None and isinstance(request, ResetOffsets):
            named = len(request.partitions) + len(request.explicit)
            if not named and not request.topics:
                named = self._state.offsets.count(request.group_id)
            large_decisions.check_size(named, request.group_id, self._form.bytes_max)
        return answered

    def large_decision(
        self, request: LargeRequest, now: Moment
    ) -> Callable[[OffsetRows], large_decisions.LargeChange]:
        """A function for a thread that decides on a large change of the stored offsets."""
        group_id = request.group_id
        if isinstance(request, DeleteGroup):
            records = self._state.group_records(group_id)
            keys = [encode_key(key) for key in records.tombstone_keys()]
            return lambda stored: large_decisions.group_deletion(
                request, stored, keys, self._form.bytes_max
            )
        if isinstance(request, DeleteOffsets):
            return lambda stored: large_decisions.deletion(request, stored, self._form.bytes_max)
        # A buffer of its own: the shard's buffer belongs to the thread that writes.
        out = padded_buffer(self._form.bytes_max)
        encoder = self.encoder(now.wall_ms)._replace(out=out)
        request_id = known_id(request.call, request.request_id)
        if isinstance(request, RestoreOffsets):
            return lambda stored: large_decisions.restoration(
                request, request.then, stored, encoder, request_id
            )
        if isinstance(request, ResetOffsets):
            return lambda stored: large_decisions.reset(request, stored, encoder, request_id)
        return lambda stored: large_decisions.put_change(request, stored, encoder, request_id)
