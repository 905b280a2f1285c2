"""Commits, which a kernel deduplicates, against the class that all other requests share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsetd_coordinator.request_dedup import RememberedRequests
from offsetd_coordinator.requests import CommitReply
from shards import NOW_MS, ask, commit, entry, new_shard

pytestmark = pytest.mark.kernel

WINDOW_MS = 100


@given(
    count_max=st.integers(0, 4),
    requests=st.lists(st.tuples(st.integers(0, 60), st.sampled_from(b"abcdef")), max_size=30),
)
def test_the_kernel_of_commits_remembers_requests_as_the_class_does(
    count_max: int, requests: list[tuple[int, int]]
) -> None:
    shard = new_shard(request_id_window_ms=WINDOW_MS, request_ids_per_partition_max=count_max)
    remembered = RememberedRequests[int, int](window_ms=WINDOW_MS, count_max=count_max)
    now_ms = NOW_MS
    for pause_ms, name in requests:
        now_ms += pause_ms
        known = remembered.find(name, now_ms)
        decision = ask(shard, commit("g", entry("t", 0, 1), request_id=bytes([name])), now_ms)
        assert isinstance(decision.reply, CommitReply)
        if known is None:
            assert decision.batch is not None
            remembered.remember(name, decision.reply.last_offset, timestamp_ms=now_ms)
        else:
            assert (decision.batch, decision.reply.last_offset) == (None, known)
