"""Commits that are not written since they change nothing: nobody can tell, but by their times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsetd_coordinator.requests import CommitReply, DeleteGroup, DeleteOffsets
from shards import (
    NOW_MS,
    ask,
    batch_of,
    commit,
    end_of_transaction,
    entry,
    new_shard,
    offset_key,
    offset_value,
    replay,
    replayed,
    state_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_coordinator.requests import Request

pytestmark = pytest.mark.kernel

WINDOW_MS = 100
GROUPS = ["g", "h"]
PARTITIONS = [("t", 0), ("t", 1), ("g", 0)]


class Pair:
    """Two shards that are asked the same; one does not write what changes nothing."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS
        self.guarded, self.plain = new_shard(), new_shard()
        self.guarded.unchanged_ms = WINDOW_MS
        self.log: list[bytes] = []
        self.unchanged = 0

    def ask(self, request: Request) -> None:
        decision = ask(self.guarded, request, self.now_ms)
        expected = ask(self.plain, request, self.now_ms)
        assert type(decision.refusal) is type(expected.refusal)
        assert type(decision.reply) is type(expected.reply)
        self.unchanged += decision.is_unchanged
        if decision.is_unchanged:
            assert isinstance(decision.reply, CommitReply)
            found = self.guarded.fetch(request.group_id)
            assert decision.reply.last_offset in {each.revision for each in found}
        if decision.batch is not None:
            self.log.append(decision.batch)
        self.log += [batch for batch, _ in decision.batches]

    def append(self, make: Callable[..., bytes], *arguments: Any, **more: Any) -> None:
        self.log.append(make(self.guarded.offset_next, *arguments, **more))
        replay(self.guarded, self.log[-1])
        replay(self.plain, make(self.plain.offset_next, *arguments, **more))

    def check(self) -> None:
        assert state_of(replayed(*self.log)) == state_of(self.guarded)
        for group in GROUPS:
            pairs = zip(
                sorted(self.guarded.fetch(group.encode())),
                sorted(self.plain.fetch(group.encode())),
                strict=True,
            )
            for found, expected in pairs:
                same = {"revision": 0, "commit_timestamp_ms": 0}
                assert found._replace(**same) == expected._replace(**same)
                late_ms = expected.commit_timestamp_ms - found.commit_timestamp_ms
                assert 0 <= late_ms < WINDOW_MS


groups = st.sampled_from(GROUPS)
partitions = st.sampled_from(PARTITIONS)
metadata = st.sampled_from([b"", b"m"])


@st.composite
def commits(draw: st.DrawFn) -> Callable[[Pair], None]:
    entries = [
        entry(
            topic, partition, draw(st.integers(0, 1)), metadata=draw(st.sampled_from([b"", b"m"]))
        )
        for topic, partition in draw(st.lists(partitions, min_size=1, max_size=3, unique=True))
    ]
    request = commit(draw(groups), *entries, retention_ms=draw(st.sampled_from([-1, -1, -1, 500])))
    return lambda pair: pair.ask(request)


@st.composite
def deletions(draw: st.DrawFn) -> Callable[[Pair], None]:
    group_id = draw(groups).encode()
    topic, partition = draw(partitions)
    request = draw(
        st.sampled_from(
            [
                DeleteGroup(group_id=group_id),
                DeleteOffsets(group_id=group_id, partitions=((topic.encode(), partition),)),
            ]
        )
    )
    return lambda pair: pair.ask(request)


@st.composite
def transactions(draw: st.DrawFn) -> Callable[[Pair], None]:
    if draw(st.booleans()):
        is_committed = draw(st.booleans())
        return lambda pair: pair.append(end_of_transaction, 7, commit=is_committed)
    record = (offset_key(draw(groups), *draw(partitions)), offset_value(draw(st.integers(0, 1))))
    return lambda pair: pair.append(
        batch_of, record, producer_id=7, producer_epoch=0, is_transactional=True
    )


def later(ms: int) -> Callable[[Pair], None]:
    def step(pair: Pair) -> None:
        pair.now_ms += ms

    return step


steps = st.lists(
    st.one_of(
        commits(), commits(), commits(), deletions(), transactions(),
        st.sampled_from([1, 50, 99]).map(later),
    ),
    min_size=1,
    max_size=40,
)  # fmt: skip


@given(steps)
def test_only_times_and_revisions_tell_what_was_not_written(
    steps: list[Callable[[Pair], None]],
) -> None:
    pair = Pair()
    for step in steps:
        step(pair)
        pair.check()


def test_that_happens_among_such_steps() -> None:
    pair = Pair()
    for _ in range(3):
        pair.ask(commit("g", entry("t", 0, 1)))
        pair.check()
    assert pair.unchanged == 2
