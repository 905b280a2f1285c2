"""What a restore writes, and what it says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from offsetd_coordinator.errors import LeaseHeld
from offsetd_coordinator.history.offset_events import Change, rows_of_changes
from offsetd_coordinator.kernels.records.change_records import COMMITTED
from offsetd_coordinator.offset_changes import RestoredReply, RestoreOffsets
from offsetd_coordinator.requests import AcquireGroup
from offsetd_storage.batch.record_batch import decode_batch
from shards import ask, batch_of, commit, entry, new_shard, offset_key, replay

if TYPE_CHECKING:
    from offsetd_coordinator.requests import Decision
    from offsetd_coordinator.shard.shard import Shard

GROUP = "g"


def committed(partition: int, offset: int) -> Change:
    return Change(0, 0, GROUP.encode(), b"t", partition, COMMITTED, offset, commit_time_ms=0)


def restore(shard: Shard, then: dict[int, int], *, validate_only: bool = False) -> Decision:
    return shard.decide(
        RestoreOffsets(
            group_id=GROUP.encode(),
            then=rows_of_changes(committed(*each) for each in sorted(then.items())),
            request_id=b"r",
            validate_only=validate_only,
        ),
        0,
    )


def written(decision: Decision) -> dict[int, tuple[bytes | None, bool]]:
    """The key of each record, and whether it is a tombstone, by log offset."""
    batches = decision.batches or ((decision.batch or b"", decision.last_offset),)
    return {
        record.offset: (record.key, record.value is None)
        for batch, _ in batches
        for record in decode_batch(batch).records
    }


@pytest.mark.parametrize(("bytes_max", "batch_count"), [(1 << 20, 1), (400, 4)])
def test_every_change_is_told_with_the_revision_of_its_record(
    bytes_max: int, batch_count: int
) -> None:
    shard = new_shard(message_bytes_max=bytes_max)
    for partition in range(20):  # Those of even partitions are to go.
        ask(shard, commit(GROUP, entry("t", partition, 5)))
    then = dict.fromkeys(range(1, 40, 2), 7)
    dry = restore(shard, then, validate_only=True)
    decision = restore(shard, then)
    assert len(decision.batches or [decision.batch]) == batch_count
    records = written(decision)
    assert isinstance(decision.reply, RestoredReply)
    assert isinstance(dry.reply, RestoredReply)
    changes = decision.reply.changes
    assert [change[:4] for change in changes] == [change[:4] for change in dry.reply.changes]
    assert {change.revision for change in dry.reply.changes} == {None}
    assert [change.partition for change in changes] == [*range(20), *range(21, 40, 2)]
    assert len(records) == len(changes)
    for change in changes:
        assert change.revision is not None
        key = offset_key(GROUP, "t", change.partition)
        assert records[change.revision] == (key, change.partition % 2 == 0)
        assert change.before == (5 if change.partition < 20 else None)
        assert change.after == (None if change.partition % 2 == 0 else 7)
    shard.apply(decision)
    offsets = {offset.partition: offset.offset for offset in shard.fetch(GROUP.encode())}
    assert offsets == then
    assert [offset.revision for offset in shard.fetch(GROUP.encode())] == [
        change.revision for change in changes if change.after is not None
    ]
    # The request is known by its last batch.
    again = restore(shard, then)
    assert isinstance(again.reply, RestoredReply)
    assert again.reply.is_repeated
    assert again.reply.last_offset == decision.last_offset


def test_a_retry_is_answered_also_when_the_group_may_not_be_restored_any_more() -> None:
    shard = new_shard()
    ask(shard, commit(GROUP, entry("t", 1, 5)))
    first = restore(shard, {1: 7})
    shard.apply(first)
    lease = AcquireGroup(group_id=GROUP.encode(), holder="w", ttl_ms=60_000)
    ask(shard, lease, now_ms=0)
    again = restore(shard, {1: 7})
    assert isinstance(again.reply, RestoredReply)
    assert (again.reply.is_repeated, again.reply.last_offset) == (True, first.last_offset)
    assert isinstance(restore(shard, {1: 7}, validate_only=True).refusal, LeaseHeld)


def test_keys_of_other_forms_get_their_tombstones_behind_the_others() -> None:
    old = offset_key(GROUP, "t", 1, version=0)
    shard = replay(new_shard(), batch_of(0, (old, bytes(20))))
    ask(shard, commit(GROUP, entry("t", 1, 5), entry("t", 2, 5)))
    decision = restore(shard, {2: 5, 3: 9})
    assert written(decision) == {
        3: (offset_key(GROUP, "t", 3), False),
        4: (offset_key(GROUP, "t", 1), True),
        5: (old, True),
    }
    assert isinstance(decision.reply, RestoredReply)
    assert [change.revision for change in decision.reply.changes] == [4, 3]
    assert decision.reply.last_offset == 5
