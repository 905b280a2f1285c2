"""What Kafka guarantees of a compacted log, on the real engine, under drawn use and cleaning."""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING

import pytest
from cleaned_stores import DELETE_RETENTION_MS, SEGMENT_BYTES
from compacted_nodes import REQUEST_WINDOW_MS, CompactedNode, NodeLog
from hypothesis import event, given, settings
from hypothesis import strategies as st
from offsetd_coordinator.requests import DeleteGroup
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.simulated_files import SimulatedFiles
from partition_logs import HEADER_BYTES
from shard_steps import any_step
from shards import NOW_MS, commit, entry, offsets_of

if TYPE_CHECKING:
    from collections.abc import Sequence

Act = "Callable[[CompactedNode], object]"


LONG = bool(os.environ.get("OFFSETD_NIGHTLY"))
ROUNDS = 300 if LONG else 40


def new_node(seed: int = 0) -> CompactedNode:
    clock = ManualClock(NOW_MS)
    return CompactedNode(SimulatedFiles(clock=clock), Random(seed), clock)


def clean(node: CompactedNode, slots: int, bitmap_bytes_max: int, *, rolls: bool) -> None:
    if rolls:
        node.roll(0)
        node.advance()
    node.clean(0, slots=slots, bitmap_bytes_max=bitmap_bytes_max)


# Mostly all that there is, in one go.
rounds = st.builds(
    lambda slots, bits, rolls: lambda node: clean(node, slots, bits, rolls=rolls),
    st.sampled_from([1000, 1000, 5, 3, 2]),
    st.sampled_from([1 << 10, 1, 0]),
    st.sampled_from([True, True, False]),
)
# To the edges of what is reckoned with, too.
waits_ms = st.sampled_from([REQUEST_WINDOW_MS + 1, REQUEST_WINDOW_MS, 1, DELETE_RETENTION_MS])
ticks = (waits_ms | st.integers(1, 2 * DELETE_RETENTION_MS)).map(
    lambda milliseconds: lambda node: node.clock.advance(milliseconds)
)
written = any_step.map(lambda step: lambda node: step(NodeLog(node)))
seasons = st.tuples(
    st.lists(written | ticks, min_size=1, max_size=8),
    st.lists(ticks | rounds | st.just(CompactedNode.restart), max_size=2),
    ticks,
    rounds,
).map(lambda drawn: [*drawn[0], *drawn[1], *drawn[2:]])


@pytest.mark.slow
@given(st.lists(seasons, min_size=2, max_size=8), st.integers(0, 2**32))
def test_a_shard_filled_from_a_cleaned_log_is_the_one_that_lived(
    seasons: Sequence[Sequence[Act]], seed: int
) -> None:
    node = new_node(seed)
    for acts in seasons:
        for act in acts:
            act(node)
        node.check()
    event(f"rounds that changed something: {min(node.rounds, 5)}")


@pytest.mark.parametrize("age_ms", [0, REQUEST_WINDOW_MS - 1, REQUEST_WINDOW_MS])
@pytest.mark.parametrize("crashes", [False, True], ids=["stopped", "crashed"])
def test_a_retry_within_the_window_is_answered_after_cleaning_and_a_start(
    age_ms: int, crashes: bool
) -> None:
    node = new_node()
    first = commit("group", entry("topic", 0, 7), request_id=b"id")
    told = node.ask(0, first).reply
    node.ask(0, commit("group", entry("topic", 0, 8)))
    node.clock.advance(age_ms)
    clean(node, 1000, 0, rolls=True)
    if crashes:
        node.crash(node.files.power_cut())
    else:
        node.restart()
    decision = node.ask(0, first)
    assert (decision.reply, decision.batch) == (told, None)
    assert offsets_of(node.shards[0], "group") == {("topic", 0): 8}
    node.clock.advance(REQUEST_WINDOW_MS + 1 - age_ms)
    assert node.ask(0, first).batch is not None
    assert offsets_of(node.shards[0], "group") == {("topic", 0): 7}


# A bounded log ------------------------------------------------------------------------------------


def disk_bytes(node: CompactedNode) -> int:
    """What the log files of partition 0 take, in whatever state they are."""
    folder = node.log(0).folder
    names = node.files.list_folder(folder)
    return sum(node.files.size(folder / name) for name in names if ".log" in name)


@pytest.mark.slow
@given(
    st.integers(1, 4),  # Partitions in each commit.
    st.integers(1, 30),  # Commits before each look of the cleaner.
    st.sampled_from([1000, 8]),  # With room for all keys, or just so.
    st.booleans(),
    st.integers(0, 2**32),
)
@settings(max_examples=60 if LONG else 6)
def test_a_group_that_commits_the_same_offset_for_ever_costs_a_bounded_log(
    partitions: int, commits: int, slots: int, deletes: bool, seed: int
) -> None:
    """By the cleaner's own choice of when: a ratio of 0.5, at most as much dirty as clean."""
    node = new_node(seed)
    entries = [entry("topic", partition, 42) for partition in range(partitions)]
    batch_bytes = 0
    for _ in range(ROUNDS):
        for _ in range(commits):
            decision = node.ask(0, commit("group", *entries))
            batch_bytes = max(batch_bytes, len(decision.batch or b""))
        if deletes:
            node.ask(0, DeleteGroup(group_id=b"group"))
        node.advance()
        node.clock.advance(REQUEST_WINDOW_MS + 1)
        for _ in range(20):  # At most: a due horizon may stay for the round's last batch.
            if not node.found(0).is_due:
                break
            node.clean(0, slots=slots)
        # Whatever was written within a round, and the tombstones that are held since so many.
        written_bytes = commits * (batch_bytes + HEADER_BYTES)
        held_rounds = DELETE_RETENTION_MS // REQUEST_WINDOW_MS + 2 if deletes else 1
        live_bytes = held_rounds * (batch_bytes + HEADER_BYTES)
        assert disk_bytes(node) <= 2 * live_bytes + written_bytes + 3 * SEGMENT_BYTES
    node.check()
