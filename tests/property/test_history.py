"""History against a model that has recorded everything, under cleaning, restarts and crashes."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from compacted_nodes import REQUEST_WINDOW_MS, CompactedNode
from hypothesis import given, settings
from hypothesis import strategies as st
from offsetd_coordinator.history import offset_events
from offsetd_coordinator.history.history_errors import HistoryCompacted
from offsetd_coordinator.history.history_rows import rows_before
from offsetd_coordinator.history.offset_events import Change
from offsetd_coordinator.kernels.records.change_records import COMMITTED, DELETED
from offsetd_coordinator.requests import DeleteGroup, DeleteOffsets
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.offsets_topic.schemas.keys import OffsetKey, decode_key
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from shards import NOW_MS, commit, entry

if TYPE_CHECKING:
    from offsetd_coordinator.committed_offsets import CommittedOffset
    from offsetd_storage.batch.record_batch import Record
    from offsetd_storage.log.partition_log import PartitionLog

GROUPS = ("a", "b", "c")

STEPS = st.one_of(
    st.tuples(st.just("commit"), st.sampled_from(GROUPS), st.integers(0, 2), st.integers(0, 99)),
    st.tuples(st.just("commit"), st.sampled_from(GROUPS), st.integers(0, 2), st.integers(0, 99)),
    st.tuples(st.just("delete"), st.sampled_from(GROUPS), st.integers(0, 2)),
    st.tuples(st.just("drop"), st.sampled_from(GROUPS)),
    st.tuples(st.just("roll")),
    st.tuples(st.just("clean")),
    st.tuples(st.just("wait"), st.sampled_from((1, REQUEST_WINDOW_MS, 5000))),
    st.tuples(st.just("restart")),
)


def change_of(record: Record) -> Change | None:
    """The same by the slow decoders; None if it is about no offset."""
    key = decode_key(record.key or b"")
    if not isinstance(key, OffsetKey):
        return None
    names = key.group.encode(), key.topic.encode(), key.partition
    if record.value is None:
        return Change(record.offset, record.timestamp_ms, *names, DELETED)
    value = OffsetCommitValue.decode(record.value)
    return Change(
        record.offset,
        record.timestamp_ms,
        *names,
        COMMITTED,
        value.offset,
        value.leader_epoch,
        value.metadata.encode(),
        value.commit_timestamp_ms,
        value.expire_timestamp_ms,
    )


def take(node: CompactedNode, step: tuple[object, ...]) -> None:
    """One step; what it writes is durable."""
    match step:
        case "commit", str(group), int(partition), int(offset):
            node.ask(0, commit(group, entry("t", partition, offset, metadata=b"m")))
        case "delete", str(group), int(partition):
            node.ask(0, DeleteOffsets(group_id=group.encode(), partitions=((b"t", partition),)))
        case "drop", str(group):
            node.ask(0, DeleteGroup(group_id=group.encode()))
        case ("roll",):
            node.roll(0)
        case ("clean",):
            node.roll(0)
            node.advance()
            node.clean(0)
        case "wait", int(ms):
            node.clock.advance(ms)
        case _:
            node.restart()
    node.flush()


def watched_from(log: PartitionLog, start: int, end: int) -> list[Change]:
    """What a watcher sees, stretch by stretch."""
    seen: list[Change] = []
    while start < end:
        stretch = offset_events.next_stretch(log, start, end, None, chunk_bytes=200)
        assert start < stretch.offset_next <= end
        seen += stretch.changes
        start = stretch.offset_next
    return seen


def stored_change(group_id: bytes, stored: CommittedOffset) -> Change:
    """The change that a stored offset comes from; its record's own time is not stored."""
    return Change(
        log_offset=stored.revision,
        time_ms=0,
        group_id=group_id,
        topic=stored.topic,
        partition=stored.partition,
        kind=COMMITTED,
        offset=stored.offset,
        leader_epoch=stored.leader_epoch,
        metadata=stored.metadata,
        commit_time_ms=stored.commit_timestamp_ms,
        expire_time_ms=stored.expire_timestamp_ms,
    )


def check(node: CompactedNode) -> int:
    """Compares all there is to ask; returns how many questions were answered."""
    log, end = node.log(), node.log().offset_next
    everything = map(change_of, node.appended[0].records(end).values())
    model = [each for each in everything if each is not None]
    oldest = log.gapless_from
    whole = [each for each in model if each.log_offset >= oldest]
    assert list(offset_events.changes(log, oldest, end, chunk_bytes=200)) == whole
    for start in range(oldest, end + 1):
        assert watched_from(log, start, end) == [each for each in whole if each.log_offset >= start]
    answered = 0
    refused: list[tuple[int, int]] = []
    for group in GROUPS:
        group_id = group.encode()
        of_group = [each for each in model if each.group_id == group_id]
        found = [each for each in of_group if each.log_offset >= oldest]
        assert offset_events.whole_changes(log, None, end, group_id) == (oldest, found)
        for limit in range(end + 1):
            try:
                state = rows_before(log, limit, end, group_id)
            except HistoryCompacted as refusal:
                refused += [(limit, refusal.oldest_revision)]
                continue
            known = {each.partition: each for each in of_group if each.log_offset < limit}
            kept = {each: change for each, change in known.items() if change.kind != DELETED}
            stored = {each.partition: stored_change(group_id, each) for each in state.committed()}
            assert stored == {each: change._replace(time_ms=0) for each, change in kept.items()}
            answered += 1
    assert all(limit < oldest <= end for limit, oldest in refused)
    return answered


@pytest.mark.slow
@settings(deadline=None)
@given(steps=st.lists(STEPS, max_size=30), seed=st.integers(0, 1000))
def test_history_is_what_a_model_recorded_or_says_that_it_is_gone(
    steps: list[tuple[object, ...]], seed: int
) -> None:
    clock = ManualClock(NOW_MS)
    node = CompactedNode(SimulatedFiles(clock=clock), Random(seed), clock)
    for step in steps:
        take(node, step)
    answered = check(node)
    assert answered >= len(GROUPS)  # The end, of all groups.
