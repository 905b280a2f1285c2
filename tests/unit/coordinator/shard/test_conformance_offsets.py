"""Commits, fetches and deletions of offsets as Kafka decides them: its cases, in tables of ours.

docs/conformance.md says which case of Kafka's stands in which row.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from group_nodes import SESSION_MS, GroupNode
from offsetd_coordinator.errors import CoordinatorError
from offsetd_coordinator.membership.member_requests import JoinGroup, MemberIdentity, SyncGroup
from offsetd_coordinator.requests import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    OffsetEntry,
)
from shards import batch_of, end_of_transaction, fetched, offset_key, offset_value, offsets_of

SUBSCRIPTION = bytes.fromhex("0000 00000001 0006") + b"orders" + bytes.fromhex("ffffffff")


class Group:
    """A group "g" brought into a state; "member" and "i" are its members' names in the tables."""

    def __init__(self, state: str) -> None:
        self.node = GroupNode(Random(0))
        self.member_id = ""
        self.generation = -1
        if state != "absent":
            getattr(self, state)()

    def simple(self) -> None:
        assert self.commit() == ""

    def preparing(self) -> None:
        self.stable()
        self._join("j")

    def completing(self) -> None:
        joined = self._answer(self._join("i"))
        self.member_id, self.generation = joined.member_id, joined.generation

    def stable(self) -> None:
        self.completing()
        request = SyncGroup(group_id=b"g", member=self.identity("member", 0, "i"))
        self.node.call(lambda groups, *call: groups.sync(request, *call))

    def emptied(self) -> None:
        self.stable()
        self.node.wait(2 * SESSION_MS)

    def identity(
        self, member: str = "", generation_behind: int | None = None, instance: str | None = None
    ) -> MemberIdentity:
        member_id = self.member_id if member == "member" else member
        generation = -1 if generation_behind is None else self.generation - generation_behind
        return MemberIdentity(member_id, generation, instance)

    def commit(self, member: MemberIdentity | None = None, value: int = 100) -> str:
        entry = OffsetEntry(topic=b"orders", partition=0, offset=value)
        outcome = self.node.do(CommitOffsets.of(b"g", [entry], member=member))
        return outcome.reason if isinstance(outcome, CoordinatorError) else ""

    def _join(self, instance_id: str) -> int:
        request = JoinGroup(
            group_id=b"g",
            instance_id=instance_id,
            client_id="c",
            client_host="",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            protocol_type="consumer",
            protocols=(("range", SUBSCRIPTION),),
        )
        return self.node.call(lambda groups, *call: groups.join(request, *call))

    def _answer(self, token: int) -> Any:
        self.node.wait(1000)
        return self.node.outcomes[token]


NOBODY: tuple[Any, ...] = ()
TOMBSTONE = b""


@pytest.mark.parametrize(
    ("state", "who", "reason"),
    [
        ("absent", NOBODY, ""),
        ("absent", ("member", 0), ""),  # Generation -1: it makes a simple group.
        ("absent", ("member", -11), "GROUP_ID_NOT_FOUND"),
        ("simple", NOBODY, ""),
        ("simple", ("", None, "i"), ""),
        ("simple", ("x", None), ""),
        ("simple", ("x", -11), "UNKNOWN_MEMBER_ID"),
        ("emptied", NOBODY, ""),
        ("emptied", ("member", 0, "i"), "UNKNOWN_MEMBER_ID"),
        ("stable", ("member", 0, "i"), ""),
        ("stable", NOBODY, "UNKNOWN_MEMBER_ID"),
        ("stable", ("x", 0), "UNKNOWN_MEMBER_ID"),
        ("stable", ("member", 0, "unknown"), "UNKNOWN_MEMBER_ID"),
        ("stable", ("old", 0, "i"), "FENCED_INSTANCE_ID"),
        ("stable", ("member", 1, "i"), "ILLEGAL_GENERATION"),
        ("stable", ("member", -1, "i"), "ILLEGAL_GENERATION"),
        # The instance is looked at before the member, and that before the generation.
        ("stable", ("x", 5, "unknown"), "UNKNOWN_MEMBER_ID"),
        ("stable", ("old", 5, "i"), "FENCED_INSTANCE_ID"),
        ("stable", ("x", 5), "UNKNOWN_MEMBER_ID"),
        ("completing", ("member", 0, "i"), "REBALANCE_IN_PROGRESS"),
        ("completing", ("member", 1, "i"), "ILLEGAL_GENERATION"),
        ("completing", NOBODY, "UNKNOWN_MEMBER_ID"),
        ("preparing", ("member", 0, "i"), ""),
        ("preparing", NOBODY, "UNKNOWN_MEMBER_ID"),
    ],
)
def test_who_may_commit_to_a_group_in_which_state(
    state: str, who: tuple[Any, ...], reason: str
) -> None:
    group = Group(state)
    before = offsets_of(group.node.shard, "g")
    assert group.commit(group.identity(*who) if who else None, value=777) == reason
    after = offsets_of(group.node.shard, "g")
    assert after == (before if reason else {("orders", 0): 777})


@pytest.mark.parametrize(("state", "stays"), [("stable", True), ("preparing", True)])
def test_a_commit_is_a_sign_of_life(state: str, stays: bool) -> None:
    group = Group(state)
    member = group.identity("member", 0, "i")
    for _ in range(5):
        group.node.wait(SESSION_MS - 2000)
        if group.commit(member):
            break  # The rebalance went on without it.
        group.node.membership.note_commit(b"g", member, group.node.moment)
    members = group.node.membership.groups[b"g"].members
    assert (group.member_id in members) == stays


@pytest.mark.parametrize("partitions", [None, [(b"orders", 0), (b"orders", 9)]])
def test_of_a_group_or_a_partition_that_is_not_there_nothing_is_fetched(
    partitions: list[tuple[bytes, int]] | None,
) -> None:
    group = Group("absent")
    assert fetched(group.node.shard, b"g", partitions) == []
    group.simple()
    assert [each.offset for each in fetched(group.node.shard, b"g", partitions)] == [100]
    assert group.commit(value=101) == ""
    assert [each.offset for each in fetched(group.node.shard, b"g", partitions)] == [101]


@pytest.mark.parametrize(
    ("state", "topic", "reason", "left"),
    [
        ("absent", "orders", "", {}),
        ("simple", "orders", "", {}),
        ("simple", "others", "", {("orders", 0): 100}),
        ("stable", "orders", "GROUP_SUBSCRIBED_TO_TOPIC", {}),
        ("stable", "others", "", {}),
        ("emptied", "orders", "", {}),
    ],
)
def test_which_offsets_may_be_deleted(
    state: str, topic: str, reason: str, left: dict[tuple[str, int], int]
) -> None:
    group = Group(state)
    request = DeleteOffsets(group_id=b"g", partitions=((topic.encode(), 0),))
    outcome = group.node.do(request)
    assert (outcome.reason if isinstance(outcome, CoordinatorError) else "") == reason
    assert offsets_of(group.node.shard, "g") == left


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("absent", "GROUP_ID_NOT_FOUND"),
        ("simple", ""),
        ("emptied", ""),
        ("completing", "NON_EMPTY_GROUP"),
        ("preparing", "NON_EMPTY_GROUP"),
        ("stable", "NON_EMPTY_GROUP"),
    ],
)
def test_which_groups_may_be_deleted(state: str, reason: str) -> None:
    group = Group(state)
    outcome = group.node.do(DeleteGroup(group_id=b"g"))
    assert (outcome.reason if isinstance(outcome, CoordinatorError) else "") == reason
    assert reason or not group.node.shard._state.has_group(b"g")


@pytest.mark.parametrize(
    ("commits", "between", "expected"),
    [
        (True, None, 200),
        (False, None, 100),
        # What was written after the transaction's record stays.
        (True, offset_value(300), 300),
        (False, offset_value(300), 300),
        # A tombstone takes what is pending along.
        (True, TOMBSTONE, None),
    ],
)
def test_what_is_left_when_a_transaction_ends(
    commits: bool, between: bytes | None, expected: int | None
) -> None:
    group = Group("absent")
    key = offset_key("g", "orders")
    batches = [
        batch_of(0, (key, offset_value(100))),
        batch_of(1, (key, offset_value(200)), producer_id=5, is_transactional=True),
    ]
    if between is not None:
        batches.append(batch_of(2, (key, between or None)))
    batches.append(end_of_transaction(len(batches), 5, commit=commits))
    for batch in batches:
        group.node.append(0, lambda _, batch=batch: batch)
    assert offsets_of(group.node.shard, "g").get(("orders", 0)) == expected
