"""What Kafka guarantees of a compacted log, on the real engine, under drawn use and cleaning."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from cleaned_stores import DELETE_RETENTION_MS
from compacted_nodes import REQUEST_WINDOW_MS, CompactedNode, NodeLog
from hypothesis import event, given
from hypothesis import strategies as st
from offsetd_storage.clock import ManualClock
from offsetd_storage.simulated_files import SimulatedFiles
from shard_steps import any_step
from shards import NOW_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

Act = "Callable[[CompactedNode], object]"


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
