"""Commits that change nothing: which are answered without a record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from offsetd_coordinator.errors import UnknownMemberId
from offsetd_coordinator.requests import (
    CommitReply,
    DeleteOffsets,
    Precondition,
    UpdateGroup,
)
from offsetd_storage.offsets_topic.schemas.group_metadata import GroupMember, GroupMetadataValue
from shards import (
    COLLIDING_SEEDS,
    NOW_MS,
    answer,
    ask,
    batch_of,
    commit,
    end_of_transaction,
    entry,
    fetched,
    group_key,
    new_shard,
    offset_key,
    offset_value,
    replay,
    state_of,
)

if TYPE_CHECKING:
    from offsetd_coordinator.shard.shard import Shard

pytestmark = pytest.mark.kernel

WINDOW_MS = 60_000
STORED = (
    entry("t", 0, 5, leader_epoch=3, metadata=b"host-7"),
    entry("t", 1, 0),
    entry("u", 0, 2**63 - 1, metadata="größe".encode()),
)


def guarded(unchanged_ms: int = WINDOW_MS, **config: Any) -> Shard:
    """A shard in which STORED is committed at NOW_MS, as its records 0 to 2."""
    shard = new_shard(**config)
    shard.unchanged_ms = unchanged_ms
    answer(shard, commit("g", *STORED))
    return shard


@pytest.mark.parametrize("seeds", [COLLIDING_SEEDS, (1, 2, 3, 4)])
@pytest.mark.parametrize("rows", [(0,), (1,), (2, 0), (0, 1, 2)])
def test_what_is_stored_is_answered_with_its_newest_revision(
    rows: tuple[int, ...], seeds: tuple[int, ...]
) -> None:
    shard = guarded(hash_seeds=seeds)
    before = state_of(shard)
    request = commit("g", *(STORED[row] for row in rows), request_id=b"again")
    decision = ask(shard, request, NOW_MS + WINDOW_MS - 1)
    assert decision.reply == CommitReply(max(rows))
    assert (decision.batch, decision.refusal, decision.is_unchanged) == (None, None, True)
    assert state_of(shard) == before, "also its commit time"


CHANGES = {
    "another offset": {"offset": 6},
    "another leader epoch": {"leader_epoch": 4},
    "no leader epoch": {"leader_epoch": -1},
    "other metadata": {"metadata": b"host-8"},
    "longer metadata": {"metadata": b"host-70"},
    "no metadata": {"metadata": b""},
    "another partition": {"partition": 9},
    "a precondition that holds": {
        "precondition": Precondition.EXPECTED_OFFSET,
        "expected": 5,
    },
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_differs_in_one_partition_is_written_as_a_whole(case: str) -> None:
    shard = guarded()
    fields = {"partition": 0, "offset": 5, "leader_epoch": 3, "metadata": b"host-7"}
    fields |= CHANGES[case]  # type: ignore[arg-type]
    changed = entry("t", **fields)  # type: ignore[arg-type]
    decision = ask(shard, commit("g", STORED[1], changed, STORED[2]))
    assert decision.reply == CommitReply(5)
    assert decision.batch is not None


@pytest.mark.parametrize(
    ("age_ms", "unchanged_ms", "is_written"),
    [
        (0, 0, True),
        (0, 1, False),
        (1, 1, True),
        (WINDOW_MS - 1, WINDOW_MS, False),
        (WINDOW_MS, WINDOW_MS, True),
        (-1, WINDOW_MS, True),  # The clock was set back.
    ],
)
def test_only_what_was_committed_a_moment_ago_is_not_written_again(
    age_ms: int, unchanged_ms: int, is_written: bool
) -> None:
    shard = guarded(unchanged_ms)
    decision = ask(shard, commit("g", *STORED), NOW_MS + age_ms)
    assert (decision.batch is not None) is is_written
    assert decision.is_unchanged is not is_written


def test_the_oldest_of_its_partitions_says_whether_a_commit_is_written() -> None:
    shard = guarded()
    answer(shard, commit("g", entry("t", 1, 1)), NOW_MS + WINDOW_MS - 1)
    both = commit("g", STORED[0], entry("t", 1, 1))
    assert ask(shard, both, NOW_MS + WINDOW_MS - 1).reply == CommitReply(3)
    assert ask(shard, both, NOW_MS + WINDOW_MS).batch is not None


@pytest.mark.parametrize("retention_ms", [1, WINDOW_MS * 100])
def test_a_retention_of_its_own_is_always_written(retention_ms: int) -> None:
    shard = guarded()
    again = commit("g", *STORED, retention_ms=retention_ms)
    assert ask(shard, again).batch is not None
    assert ask(shard, again).batch is not None, "later, it expires later"
    assert ask(shard, commit("g", *STORED)).batch is not None, "it expires no more by itself"
    assert ask(shard, commit("g", *STORED)).is_unchanged


@pytest.mark.parametrize(
    ("retention", "unchanged_ms"),
    [
        ({"retention_ms": 100_000}, 10_000),
        ({"retention_ms": 5}, 0),
        ({"retention_ms": 10 * WINDOW_MS}, WINDOW_MS),
        ({"never_expires": True}, WINDOW_MS),
        ({"retention_ms": None}, WINDOW_MS),
    ],
)
def test_it_is_at_most_a_tenth_of_the_groups_retention(
    retention: dict[str, Any], unchanged_ms: int
) -> None:
    shard = guarded()
    answer(shard, UpdateGroup(group_id=b"g", **retention))
    if unchanged_ms:
        assert ask(shard, commit("g", *STORED), NOW_MS + unchanged_ms - 1).is_unchanged
    assert ask(shard, commit("g", *STORED), NOW_MS + unchanged_ms).batch is not None


def test_beside_an_open_transaction_everything_is_written() -> None:
    shard = guarded()
    pending = batch_of(
        3,
        (offset_key("g"), offset_value(77)),
        producer_id=1,
        producer_epoch=0,
        is_transactional=True,
    )
    replay(shard, pending)
    assert ask(shard, commit("g", STORED[0])).batch is not None
    replay(shard, end_of_transaction(shard.offset_next, 1, commit=True))
    assert fetched(shard, b"g", [(b"t", 0)])[0].offset == 5, "it was committed last"
    assert ask(shard, commit("g", STORED[0])).is_unchanged


def test_what_is_deleted_or_cannot_be_read_is_written() -> None:
    shard = guarded()
    answer(shard, DeleteOffsets(group_id=b"g", partitions=((b"t", 0),)))
    assert ask(shard, commit("g", *STORED)).batch is not None
    replay(shard, batch_of(shard.offset_next, (offset_key("g", "t", 1), b"\0\x63")))
    assert ask(shard, commit("g", *STORED)).batch is not None


def test_a_request_that_wrote_nothing_is_judged_again_and_one_that_wrote_is_known() -> None:
    shard = guarded()
    moved = commit("g", entry("t", 0, 6), request_id=b"b")
    assert ask(shard, commit("g", STORED[0], request_id=b"a")).is_unchanged
    first = answer(shard, moved)
    assert ask(shard, commit("g", STORED[0], request_id=b"a")).batch is not None
    again = ask(shard, moved)
    assert (again.reply, again.batch, again.is_unchanged) == (first, None, False)


def test_reported_ends_are_noted() -> None:
    shard = guarded()
    assert ask(shard, commit("g", entry("t", 1, 0, end_offset=900))).is_unchanged
    assert fetched(shard, b"g", [(b"t", 1)])[0].end_offset == 900


def test_who_may_not_commit_is_refused_first() -> None:
    member = GroupMember(
        member_id="m",
        client_id="c",
        client_host="/127.0.0.1",
        session_timeout_ms=1,
        subscription=b"",
        assignment=b"",
    )
    shard = guarded()
    value = GroupMetadataValue(protocol_type="consumer", generation=1, members=(member,))
    replay(shard, batch_of(3, (group_key("g"), value.encode())))
    decision = ask(shard, commit("g", *STORED))
    assert isinstance(decision.refusal, UnknownMemberId)
    assert (decision.reply, decision.is_unchanged) == (None, False)


def test_a_monotonic_commit_of_the_same_offset_changes_nothing() -> None:
    assert ask(guarded(), commit("g", entry("t", 1, 0, monotonic=True))).is_unchanged
