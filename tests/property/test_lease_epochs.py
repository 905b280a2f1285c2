"""Epochs only grow and old ones never commit: whatever is asked, deleted, compacted, or lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from offsetd_coordinator.errors import EpochFenced, LeaseHeld
from offsetd_coordinator.membership.member_requests import Moment
from offsetd_coordinator.requests import (
    AcquireGroup,
    DeleteGroup,
    DeleteOffsets,
    LeaseReply,
    ReleaseGroup,
    RenewGroup,
    UpdateGroup,
)
from offsetd_storage.batch.record_batch import decode_batch, encode_batch
from shards import NOW_MS, commit, entry, new_shard, offsets_of, replay, state_of

pytestmark = pytest.mark.slow

TTL_MS = 1000
GROUPS = [b"g", b"h"]

groups = st.sampled_from(GROUPS)
holders = st.sampled_from(["a", "b"])


class Leases(RuleBasedStateMachine):
    """A shard, and its log, of which what is not flushed may be lost.

    The model: by group, the epochs that were told to somebody, and when the newest one ends. What
    is told is flushed first.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shard = new_shard()
        self.batches: list[bytes] = []
        self.flushed = 0
        self.monotonic_ms = 0
        self.told: dict[bytes, list[int]] = {group: [] for group in GROUPS}
        self.newest: dict[bytes, int | None] = dict.fromkeys(GROUPS)
        self.deadline_ms: dict[bytes, int] = dict.fromkeys(GROUPS, 0)
        self.held_by: dict[bytes, str] = {}

    def ask(self, request: Any) -> Any:
        """The reply, or the refusal; what is written waits to be flushed."""
        decision = self.shard.decide(request, NOW_MS + self.monotonic_ms, self.monotonic_ms)
        self.shard.apply(decision)
        if decision.batch is not None:
            self.batches.append(decision.batch)
        return decision.reply or decision.refusal

    def is_held(self, group: bytes) -> bool:
        return self.newest[group] is not None and self.monotonic_ms < self.deadline_ms[group]

    @rule()
    def flush(self) -> None:
        self.flushed = len(self.batches)

    @rule(group=groups, holder=holders, force=st.booleans())
    def acquire(self, group: bytes, holder: str, force: bool) -> None:
        is_free = not self.is_held(group) or self.held_by[group] == holder or force
        outcome = self.ask(AcquireGroup(group_id=group, holder=holder, ttl_ms=TTL_MS, force=force))
        assert isinstance(outcome, LeaseReply if is_free else LeaseHeld)
        if isinstance(outcome, LeaseReply):
            self.flush()
            epoch = outcome.lease.epoch
            assert all(epoch > before for before in self.told[group])
            self.told[group].append(epoch)
            self.newest[group], self.held_by[group] = epoch, holder
            self.deadline_ms[group] = self.monotonic_ms + TTL_MS

    @rule(group=groups, holder=holders, more_ms=st.integers(1, TTL_MS))
    def acquire_and_lose(self, group: bytes, holder: str, more_ms: int) -> None:
        """The server crashes before the answer could leave: nobody knows of this epoch."""
        self.flush()
        self.ask(AcquireGroup(group_id=group, holder=holder, ttl_ms=TTL_MS, force=True))
        self.crash(more_ms)

    @rule(group=groups, data=st.data())
    def commit_with_an_epoch(self, group: bytes, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from([*self.told[group], 10**6]))
        before = offsets_of(self.shard, group.decode())
        outcome = self.ask(commit(group.decode(), entry("t", 0, chosen), epoch=chosen))
        if chosen == self.newest[group]:
            assert outcome.last_offset == self.shard.offset_next - 1
        else:
            assert isinstance(outcome, EpochFenced)
            assert offsets_of(self.shard, group.decode()) == before

    @rule(group=groups)
    def commit_without(self, group: bytes) -> None:
        outcome = self.ask(commit(group.decode(), entry("t", 0, 7)))
        assert isinstance(outcome, LeaseHeld) == self.is_held(group)

    @rule(group=groups, data=st.data())
    def release(self, group: bytes, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from([*self.told[group], 10**6]))
        outcome = self.ask(ReleaseGroup(group_id=group, epoch=chosen))
        assert isinstance(outcome, EpochFenced) == (chosen != self.newest[group])
        if chosen == self.newest[group]:
            self.flush()
            self.newest[group] = None

    @rule(group=groups, data=st.data())
    def renew(self, group: bytes, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from([*self.told[group], 10**6]))
        now = Moment(NOW_MS + self.monotonic_ms, self.monotonic_ms)
        request = RenewGroup(group_id=group, epoch=chosen)
        if chosen == self.newest[group]:
            self.shard.leases.renew(request, now)
            self.deadline_ms[group] = self.monotonic_ms + TTL_MS
        else:
            with pytest.raises(EpochFenced):
                self.shard.leases.renew(request, now)

    @rule(group=groups, never=st.booleans())
    def update(self, group: bytes, never: bool) -> None:
        self.ask(UpdateGroup(group_id=group, never_expires=never, allow_missing=True))

    @rule(group=groups)
    def delete(self, group: bytes) -> None:
        outcome = self.ask(DeleteGroup(group_id=group))
        assert isinstance(outcome, LeaseHeld) == self.is_held(group)
        if not isinstance(outcome, Exception):
            self.flush()
            self.newest[group] = None

    @rule(group=groups)
    def delete_offsets(self, group: bytes) -> None:
        outcome = self.ask(DeleteOffsets(group_id=group, topics=(b"t",)))
        assert isinstance(outcome, LeaseHeld) == self.is_held(group)

    @rule(elapsed_ms=st.integers(1, TTL_MS))
    def wait(self, elapsed_ms: int) -> None:
        self.monotonic_ms += elapsed_ms

    @rule()
    def compact(self) -> None:
        """All that is superseded goes, and every tombstone; the log's end stays."""
        self.flush()
        batches = [decode_batch(batch) for batch in self.batches]
        newest = {record.key: record.offset for batch in batches for record in batch.records}
        self.batches = [
            encode_batch(
                [
                    record
                    for record in batch.records
                    if newest[record.key] == record.offset and record.value is not None
                ],
                base_offset=batch.base_offset,
                last_offset=batch.last_offset,
            )
            for batch in batches
        ]
        self.flush()

    @rule(more_ms=st.integers(0, 10 * TTL_MS))
    def crash(self, more_ms: int) -> None:
        """What was not flushed is gone; every lease runs once more for its whole ttl."""
        del self.batches[self.flushed :]
        self.shard = replay(new_shard(), *self.batches)
        self.monotonic_ms += more_ms
        self.shard.restore_members(Moment(NOW_MS + self.monotonic_ms, self.monotonic_ms))
        for group in GROUPS:
            self.deadline_ms[group] = self.monotonic_ms + TTL_MS

    @invariant()
    def live_is_a_replay(self) -> None:
        assert state_of(self.shard) == state_of(replay(new_shard(), *self.batches))

    @invariant()
    def the_newest_lease_is_the_one_that_is_known(self) -> None:
        now = Moment(NOW_MS + self.monotonic_ms, self.monotonic_ms)
        for group in GROUPS:
            status = self.shard.leases.status(group, now)
            assert (status and status.lease.epoch) == self.newest[group]
            assert self.shard.leases.is_held(group, now) == self.is_held(group)


TestLeases = Leases.TestCase
