"""Syncs, heartbeats and sessions: classic blocks of Kafka's GroupMetadataManagerTest, in our words.

docs/conformance/classic-groups.md maps Kafka's cases to these.
"""

from __future__ import annotations

from typing import Any

import pytest
from classic_groups import DELAY_MS, REBALANCE_MS, SESSION_MS, Calls
from offsetd_coordinator.membership.member_requests import Synced
from offsetd_storage.offsets_topic.group_listing import GroupState

EMPTY, PREPARING = GroupState.EMPTY, GroupState.PREPARING_REBALANCE
COMPLETING, STABLE = GroupState.COMPLETING_REBALANCE, GroupState.STABLE


def rejoined(calls: Calls, *member_ids: str, **more: Any) -> list[Any]:
    """All join again; their answers."""
    tokens = [calls.join(each, **more) for each in member_ids]
    return [calls.outcome(token) for token in tokens]


def test_followers_wait_for_the_leader_and_late_ones_do_not() -> None:
    calls = Calls()
    joins = [calls.come_in(client_id=name)[0] for name in "abc"]
    calls.advance(4 * DELAY_MS)
    a, b, c = joins
    waiting = calls.sync(b, 1)
    assert calls.outcome(waiting) is None
    assert calls.written == []
    leaders = calls.sync(a, 1, assignments={a: b"for-a", b: b"for-b"})
    assert calls.outcome(leaders) == Synced("consumer", "range", b"for-a")
    assert calls.outcome(waiting) == Synced("consumer", "range", b"for-b")
    assert calls.outcome(calls.sync(c, 1)) == Synced("consumer", "range", b"")
    assert [member.assignment for member in calls.written[-1][1].members] == [
        b"for-a",
        b"for-b",
        b"",
    ]
    assert calls.group.state is STABLE


def test_who_does_not_sync_in_time_is_removed() -> None:
    calls = Calls()
    a, b = (calls.come_in(client_id=name, session_timeout_ms=300_000)[0] for name in "ab")
    calls.advance(3 * DELAY_MS)
    waiting = calls.sync(b, 1)
    calls.advance(REBALANCE_MS)
    assert calls.outcome(waiting) == "REBALANCE_IN_PROGRESS"
    assert calls.group.members.keys() == {b}
    assert calls.heartbeat(a, 1) == "UNKNOWN_MEMBER_ID"
    assert rejoined(calls, b)[0].leader_id == b
    calls.advance(REBALANCE_MS)
    assert calls.membership.groups == {}  # Nobody synced: nobody is left.
    assert calls.written[-1][1].members == ()


def test_a_follower_that_does_not_sync_is_removed_from_a_stable_group_too() -> None:
    calls = Calls()
    a, b = (calls.come_in(client_id=name, session_timeout_ms=300_000)[0] for name in "ab")
    calls.advance(3 * DELAY_MS)
    calls.sync(a, 1, assignments={})
    assert calls.group.state is STABLE
    calls.advance(REBALANCE_MS)
    assert (calls.group.state, set(calls.group.members)) == (PREPARING, {a})
    assert calls.heartbeat(b, 1) == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize(
    ("protocol_type", "protocol", "reason"),
    [
        (None, None, None),
        ("consumer", "range", None),
        ("connect", "range", "INCONSISTENT_GROUP_PROTOCOL"),
        ("consumer", "sticky", "INCONSISTENT_GROUP_PROTOCOL"),
    ],
)
def test_a_sync_may_say_what_protocol_it_expects(
    protocol_type: str | None, protocol: str | None, reason: str | None
) -> None:
    calls = Calls()
    (a,) = calls.stable_group("a")
    token = calls.sync(a, 1, protocol_type=protocol_type, protocol=protocol)
    outcome = calls.outcome(token)
    assert outcome == reason if reason else isinstance(outcome, Synced)


def test_syncs_that_are_none_of_the_group() -> None:
    calls = Calls()
    (a,) = calls.stable_group("a")
    assert calls.outcome(calls.sync("nobody", 1)) == "UNKNOWN_MEMBER_ID"
    assert calls.outcome(calls.sync(a, 0)) == "ILLEGAL_GENERATION"
    assert calls.outcome(calls.sync(a, 1, group_id=b"absent")) == "UNKNOWN_MEMBER_ID"
    calls.come_in()
    assert calls.outcome(calls.sync(a, 1)) == "REBALANCE_IN_PROGRESS"


def test_members_that_wait_to_sync_are_told_of_a_new_rebalance() -> None:
    calls = Calls()
    a, b = (calls.come_in(client_id=name)[0] for name in "ab")
    calls.advance(3 * DELAY_MS)
    waiting = calls.sync(b, 1)
    calls.come_in(client_id="c")
    assert calls.outcome(waiting) == "REBALANCE_IN_PROGRESS"
    assert calls.group.members.keys() >= {a, b}


def test_assignments_that_could_not_be_written_are_nobodys() -> None:
    calls = Calls()
    a, b = (calls.come_in(client_id=name)[0] for name in "ab")
    calls.advance(3 * DELAY_MS)
    waiting = calls.sync(b, 1)
    calls.is_full = True
    assert calls.outcome(calls.sync(a, 1, assignments={a: b"x", b: b"y"})) == "DISK_FULL"
    assert calls.outcome(waiting) == "DISK_FULL"
    assert calls.group.state is PREPARING
    assert calls.written == []
    calls.is_full = False
    assert [each.generation for each in rejoined(calls, a, b)] == [2, 2]
    calls.settle(a, b)
    assert calls.group.state is STABLE
    assert {m.assignment for m in calls.group.members.values()} == {a.encode(), b.encode()}


# Heartbeats and sessions.


def test_what_a_heartbeat_is_told_in_each_state() -> None:
    calls = Calls()
    assert calls.heartbeat("m", 1) == "UNKNOWN_MEMBER_ID"
    a, token = calls.come_in()
    assert calls.heartbeat(a, 0) == "REBALANCE_IN_PROGRESS"
    calls.advance(DELAY_MS)
    assert calls.outcome(token).generation == 1
    assert calls.heartbeat(a, 1) == ""  # Completing.
    calls.settle(a)
    assert calls.heartbeat(a, 1) == ""
    assert calls.heartbeat(a, 2) == "ILLEGAL_GENERATION"
    assert calls.heartbeat("x", 1) == "UNKNOWN_MEMBER_ID"
    calls.leave((a, None))
    assert calls.heartbeat(a, 1) == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize("sign", ["heartbeat", "commit", "sync"])
def test_every_sign_of_life_begins_the_session_anew(sign: str) -> None:
    calls = Calls()
    (a,) = calls.stable_group("a")
    for _ in range(3):
        calls.advance(SESSION_MS - 1)
        if sign == "heartbeat":
            assert calls.heartbeat(a, 1) == ""
        elif sign == "commit":
            assert calls.commit(a, 1) == ""
        else:
            assert isinstance(calls.outcome(calls.sync(a, 1)), Synced)
    calls.advance(SESSION_MS - 1)
    assert calls.group.state is STABLE
    calls.advance(1)
    assert calls.membership.groups == {}


def test_a_refused_commit_is_no_sign_of_life() -> None:
    calls = Calls()
    (a,) = calls.stable_group("a")
    calls.advance(SESSION_MS - 1)
    assert calls.commit(a, 7) == "ILLEGAL_GENERATION"
    calls.advance(1)
    assert calls.membership.groups == {}


def test_the_others_rebalance_when_a_session_ends() -> None:
    calls = Calls()
    _, b = calls.stable_group("a", "b")
    calls.advance(SESSION_MS - 1)
    assert calls.heartbeat(b, 1) == ""
    calls.advance(1)
    assert (calls.group.state, calls.group.leader_id) == (PREPARING, b)
    assert rejoined(calls, b)[0].generation == 2


def test_who_waits_for_others_needs_no_heartbeat() -> None:
    calls = Calls()
    more = {"session_timeout_ms": 6000}
    a, b = calls.stable_group("a", "b", **more)
    token = calls.join(a, **more)
    for _ in range(10):
        calls.advance(5000)
        assert calls.heartbeat(b, 1) == "REBALANCE_IN_PROGRESS"
    assert calls.outcome(token) is None
    assert rejoined(calls, b, **more)[0].generation == 2
    assert calls.outcome(token).generation == 2
