"""Live state equals a replay of the log, also of the log as any legal compaction leaves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest
from expiries import batches_of, slices
from hypothesis import given
from hypothesis import strategies as st
from offsetd_storage.batch.record_batch import RecordBatch, decode_batch, encode_batch
from shard_steps import steps
from shards import COLLIDING_SEEDS, NOW_MS, ask, new_shard, replay, replayed, state_of, told

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_coordinator.expiry.expiry_rules import ExpiryTerms
    from offsetd_coordinator.expiry.expiry_sweep import SliceLimits
    from offsetd_coordinator.requests import Request
    from shard_steps import Step

pytestmark = pytest.mark.kernel


class Log:
    """A shard that lives, and the batches that were appended for it."""

    def __init__(self, message_bytes_max: int) -> None:
        self.shard = new_shard(message_bytes_max=message_bytes_max)
        self.batches: list[bytes] = []
        self.answered: list[tuple[Request, Any]] = []

    def ask(self, request: Request) -> None:
        """What a client asks; whatever is written is in the log."""
        decision = ask(self.shard, request)
        if decision.batch is not None:
            self.batches.append(decision.batch)
            self.answered.append((request, decision.reply))
        elif decision.batches:
            self.batches += [batch for batch, _ in decision.batches]
            self.answered.append((request, decision.reply))

    def expire(self, terms: ExpiryTerms, limits: SliceLimits) -> None:
        """A whole sweep, now."""
        for _, decision in slices(self.shard, NOW_MS, terms, limits=limits):
            if decision is not None:
                self.batches += batches_of(decision)

    def append(self, make: Callable[..., bytes], *arguments: Any, **more: Any) -> None:
        """What a broker wrote before us."""
        batch = make(self.shard.offset_next, *arguments, **more)
        self.batches.append(batch)
        replay(self.shard, batch)


# Into the smaller go commits of one partition or two, and as many tombstones.
bytes_of_batches = st.sampled_from([200, 1_048_588])


def written(steps: list[Step], message_bytes_max: int) -> Log:
    log = Log(message_bytes_max)
    for step in steps:
        step(log)
    return log


@given(steps, bytes_of_batches)
def test_a_replay_of_the_log_is_the_live_state(steps: list[Step], message_bytes_max: int) -> None:
    log = written(steps, message_bytes_max)
    restarted = replayed(*log.batches)
    assert state_of(restarted) == state_of(log.shard)
    assert state_of(replayed(*log.batches, hash_seeds=COLLIDING_SEEDS)) == state_of(log.shard)
    assert restarted.offset_next == log.shard.offset_next
    assert restarted.counters() == attrs.evolve(
        log.shard.counters(), table_bytes=restarted.counters().table_bytes
    )
    for request, reply in log.answered:
        if request.request_id:
            for shard in (log.shard, restarted):
                again = shard.decide(request, NOW_MS)
                assert (told(again.reply), again.refusal) == (told(reply), None)
                assert (again.batch, again.batches) == (None, ())


@given(steps, bytes_of_batches, st.data())
def test_any_legal_compaction_replays_to_the_same_state(
    steps: list[Step], message_bytes_max: int, data: st.DataObject
) -> None:
    log = written(steps, message_bytes_max)
    batches = [decode_batch(batch) for batch in log.batches]
    compacted = compact(batches, data.draw)
    restarted = replayed(*compacted)
    assert state_of(restarted) == state_of(log.shard)
    assert restarted.offset_next == log.shard.offset_next


def compact(batches: list[RecordBatch], draw: Callable[..., Any]) -> list[bytes]:
    """The log with superseded records taken out here and there, as the cleaner may leave it.

    Nothing at or above the first offset of an open transaction is touched; records of aborted
    transactions go as a whole; a tombstone may go once nothing before it has its key.
    """
    aborted, first_open = transactions(batches)
    cleanable = [
        (batch, record)
        for batch in batches
        if not batch.is_control and batch.last_offset < first_open
        for record in batch.records
    ]
    newest = {
        record.key: record.offset
        for batch, record in cleanable
        if batch.base_offset not in aborted and record.key is not None
    }
    dropped = set()
    kept_keys = set()
    for batch, record in cleanable:
        superseded = record.offset < newest.get(record.key, -1)
        needless = record.value is None and record.key not in kept_keys
        if batch.base_offset in aborted or ((superseded or needless) and draw(st.booleans())):
            dropped.add(record.offset)
        else:
            kept_keys.add(record.key)
    return [rewritten(batch, dropped) for batch in batches]


def transactions(batches: list[RecordBatch]) -> tuple[set[int], int]:
    """Base offsets of the batches of aborted transactions; where the first open one begins."""
    aborted: set[int] = set()
    open_batches: dict[int, list[RecordBatch]] = {}
    for batch in batches:
        if batch.is_control:
            ended = open_batches.pop(batch.producer_id, [])
            if batch.records[0].key == bytes(4):
                aborted.update(each.base_offset for each in ended)
        elif batch.is_transactional:
            open_batches.setdefault(batch.producer_id, []).append(batch)
    still_open = [each.base_offset for open_ in open_batches.values() for each in open_]
    return aborted, min(still_open, default=2**62)


def rewritten(batch: RecordBatch, dropped: set[int]) -> bytes:
    """The batch without the dropped records, with the offsets it had."""
    return encode_batch(
        [record for record in batch.records if record.offset not in dropped],
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        leader_epoch=batch.partition_leader_epoch,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        compression=batch.compression,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
    )
