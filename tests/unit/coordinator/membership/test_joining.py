"""Ways into a group: classic blocks of Kafka's GroupMetadataManagerTest, in our words.

docs/conformance/classic-groups.md maps Kafka's cases to these.
"""

from __future__ import annotations

from typing import Any

import pytest
from classic_groups import DELAY_MS, GROUP, REBALANCE_MS, SESSION_MS, Calls
from offsetd_coordinator.membership.member_requests import Joined
from offsetd_storage.offsets_topic.group_listing import GroupState

EMPTY, PREPARING = GroupState.EMPTY, GroupState.PREPARING_REBALANCE
COMPLETING, STABLE = GroupState.COMPLETING_REBALANCE, GroupState.STABLE
NEW_JOIN_MS = 300_000
OTHER = (("range", b"other"),)


def rejoined(calls: Calls, *member_ids: str, **more: Any) -> list[Any]:
    """All join again; their answers."""
    tokens = [calls.join(each, **more) for each in member_ids]
    return [calls.outcome(token) for token in tokens]


def test_a_new_member_is_told_its_id_first() -> None:
    calls = Calls()
    assert calls.outcome(calls.join(client_id="me")) == "MEMBER_ID_REQUIRED"
    assert calls.group.promised_ids == {"me-id1"}
    assert calls.group.state is EMPTY
    token = calls.join("me-id1")
    calls.advance(DELAY_MS)
    joined = calls.outcome(token)
    assert (joined.member_id, joined.generation, joined.leader_id) == ("me-id1", 1, "me-id1")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"session_timeout_ms": 5999}, "INVALID_SESSION_TIMEOUT"),
        ({"session_timeout_ms": 1_800_001}, "INVALID_SESSION_TIMEOUT"),
        ({"session_timeout_ms": 6000}, "MEMBER_ID_REQUIRED"),
        ({"session_timeout_ms": 1_800_000}, "MEMBER_ID_REQUIRED"),
        ({"member_id": "made-up"}, "UNKNOWN_MEMBER_ID"),
        ({"member_id": "made-up", "instance_id": "i"}, "UNKNOWN_MEMBER_ID"),
        ({"protocols": ()}, "INCONSISTENT_GROUP_PROTOCOL"),
        ({"protocol_type": ""}, "INCONSISTENT_GROUP_PROTOCOL"),
    ],
)
def test_what_an_absent_group_answers_to_a_join(more: dict[str, Any], reason: str) -> None:
    calls = Calls()
    assert calls.outcome(calls.join(**more)) == reason


@pytest.mark.parametrize(
    "more",
    [{"protocol_type": "connect"}, {"protocols": (("sticky", b""),)}],
)
def test_a_member_that_cannot_agree_with_the_others_is_refused(more: dict[str, Any]) -> None:
    calls = Calls()
    (leader,) = calls.stable_group("a")
    assert calls.outcome(calls.join(**more)) == "INCONSISTENT_GROUP_PROTOCOL"
    assert calls.outcome(calls.join("nobody", **more)) == "INCONSISTENT_GROUP_PROTOCOL"
    assert calls.heartbeat(leader, 1) == ""


def test_the_first_rebalance_waits_and_waits_longer_for_each_who_comes() -> None:
    calls = Calls()
    rebalance_ms = 3 * DELAY_MS
    tokens = [calls.come_in(rebalance_timeout_ms=rebalance_ms)[1]]
    calls.advance(DELAY_MS - 1)
    assert calls.outcome(tokens[0]) is None
    tokens.append(calls.come_in(rebalance_timeout_ms=rebalance_ms)[1])
    calls.advance(DELAY_MS)
    assert calls.outcome(tokens[0]) is None
    tokens.append(calls.come_in(rebalance_timeout_ms=rebalance_ms)[1])
    calls.advance(DELAY_MS)
    assert calls.outcome(tokens[0]) is None
    tokens.append(calls.come_in(rebalance_timeout_ms=rebalance_ms)[1])
    calls.advance(1)  # The rebalance timeout is over, whoever came meanwhile.
    outcomes = [calls.outcome(token) for token in tokens]
    assert [each.generation for each in outcomes] == [1, 1, 1, 1]
    assert len(outcomes[0].members) == 4
    assert [len(each.members) for each in outcomes[1:]] == [0, 0, 0]


def test_a_group_that_had_members_waits_only_for_them() -> None:
    calls = Calls()
    a, b = calls.stable_group("a", "b")
    newcomer, token = calls.come_in()
    assert calls.group.state is PREPARING
    assert rejoined(calls, a) == [None]
    first = rejoined(calls, b)[0]
    assert (first.generation, first.leader_id) == (2, a)
    assert calls.outcome(token).generation == 2
    assert calls.group.members.keys() == {a, b, newcomer}


def test_a_new_member_waits_five_minutes_at_the_most() -> None:
    calls = Calls()
    a, b = calls.stable_group("a", "b", rebalance_timeout_ms=1_000_000, session_timeout_ms=900_000)
    newcomer, token = calls.come_in(session_timeout_ms=6000)
    calls.advance(NEW_JOIN_MS - 1)
    assert calls.outcome(token) is None
    calls.advance(1)
    assert calls.outcome(token) == "UNKNOWN_MEMBER_ID"
    assert newcomer not in calls.group.members
    assert [each.generation for each in rejoined(calls, a, b)] == [2, 2]


def test_a_promised_id_that_nobody_comes_back_with_is_void_after_the_session_timeout() -> None:
    calls = Calls()
    (a,) = calls.stable_group("a")
    calls.join()
    (promised,) = calls.group.promised_ids
    assert calls.outcome(calls.join(a)) is None  # The leader asks for a rebalance.
    assert calls.group.state is PREPARING  # Which waits for who was promised an id.
    calls.advance(SESSION_MS)
    assert calls.group.state is COMPLETING
    assert calls.outcome(calls.join(promised)) == "UNKNOWN_MEMBER_ID"


def test_a_rebalance_goes_on_without_those_who_do_not_join_again_in_time() -> None:
    """Static members are kept."""
    calls = Calls()
    more = {"session_timeout_ms": 4 * REBALANCE_MS}
    a, b = calls.stable_group("a", "b", **more)
    static, token = "i-id3", calls.join(instance_id="i", **more)
    rejoined(calls, a, b, **more)
    calls.settle(a, b, static)
    assert isinstance(calls.outcome(token), Joined)
    token = calls.join(a, protocols=OTHER, **more)
    calls.advance(REBALANCE_MS - 1)
    assert calls.outcome(token) is None
    calls.advance(1)
    joined = calls.outcome(token)
    assert {each.member_id for each in joined.members} == {a, static}
    assert calls.outcome(calls.join(b)) == "UNKNOWN_MEMBER_ID"


def test_another_member_leads_if_the_leader_does_not_join_again() -> None:
    calls = Calls()
    a, b = calls.stable_group("a", "b")
    token = calls.join(b, protocols=OTHER)
    for _ in range(REBALANCE_MS // 5000 - 1):  # The leader is alive, and does not join.
        calls.advance(5000)
        assert calls.heartbeat(a, 1) == "REBALANCE_IN_PROGRESS"
    calls.advance(5000)
    joined = calls.outcome(token)
    assert (joined.leader_id, joined.generation) == (b, 2)
    assert [each.member_id for each in joined.members] == [b]


def test_static_members_alone_that_stay_away_are_waited_for_until_their_sessions_end() -> None:
    calls = Calls()
    long_ms = 5 * REBALANCE_MS
    token = calls.join(instance_id="i", session_timeout_ms=long_ms)
    dynamic, dynamic_token = calls.come_in()
    calls.advance(2 * DELAY_MS)
    static = calls.outcome(token).member_id
    assert isinstance(calls.outcome(dynamic_token), Joined)
    calls.settle(static, dynamic)
    calls.leave((dynamic, None))
    calls.advance(2 * REBALANCE_MS)
    assert calls.group.state is PREPARING
    calls.advance(long_ms)
    assert GROUP not in calls.membership.groups
    assert not calls.written[-1][1].members


def test_a_join_that_is_made_again_is_answered_as_it_was_while_the_group_completes() -> None:
    """With other protocols it is a rebalance."""
    calls = Calls()
    joins = [calls.come_in(client_id=name) for name in "ab"]
    calls.advance(3 * DELAY_MS)
    (a, _), (b, _) = joins
    first = [calls.outcome(token) for _, token in joins]
    assert rejoined(calls, a, b) == first
    assert calls.outcome(calls.join(b, protocols=OTHER)) is None
    assert calls.group.state is PREPARING


def test_who_joins_a_stable_group_again_as_it_was_is_answered_so_but_the_leader_rebalances() -> (
    None
):
    calls = Calls()
    a, b = calls.stable_group("a", "b")
    (same,) = rejoined(calls, b)
    assert (same.generation, same.members) == (1, ())
    assert calls.group.state is STABLE
    assert rejoined(calls, b, protocols=OTHER) == [None]
    assert calls.group.state is PREPARING
    assert rejoined(calls, a)[0].generation == 2
    calls.settle(a, b)
    assert rejoined(calls, a) == [None]
    assert calls.group.state is PREPARING


def test_the_later_of_two_joins_of_one_member_counts() -> None:
    calls = Calls()
    a, _ = calls.stable_group("a", "b")
    first, second = calls.join(a), calls.join(a)
    assert calls.outcome(first) == "REBALANCE_IN_PROGRESS"
    assert calls.outcome(second) is None


# How large a group may be.


def test_a_full_group_takes_nobody_but_its_members() -> None:
    calls = Calls(size_max=2)
    a, b = calls.stable_group("a", "b")
    assert calls.outcome(calls.join()) == "GROUP_MAX_SIZE_REACHED"
    assert calls.outcome(calls.join(instance_id="i")) == "GROUP_MAX_SIZE_REACHED"
    assert rejoined(calls, a) == [None]
    assert rejoined(calls, b)[0].generation == 2


def test_those_who_joined_in_time_count_while_a_group_rebalances() -> None:
    calls = Calls(size_max=2)
    a, b = calls.stable_group("a", "b")
    calls.leave((b, None))
    rejoined(calls, a)
    calls.settle(a)
    c, c_token = calls.come_in()
    d, d_token = calls.come_in(client_id="d")
    assert calls.outcome(c_token) is None
    assert calls.outcome(d_token) is None
    assert calls.outcome(calls.join(a)) == "GROUP_MAX_SIZE_REACHED"
    assert isinstance(calls.outcome(c_token), Joined)
    assert calls.group.members.keys() == {c, d}


def test_a_group_that_is_larger_than_it_may_be_after_a_restart_rebalances() -> None:
    calls = Calls()
    calls.stable_group("a", "b", "c")
    calls.config = Calls(size_max=2).config
    calls.restart()
    assert calls.group.state is PREPARING


# Static members.


def test_a_static_member_that_comes_back_is_in_the_generation_at_once() -> None:
    """And the record says so."""
    calls = Calls()
    tokens = [calls.join(instance_id=each) for each in ("i", "j")]
    calls.advance(2 * DELAY_MS)
    leader, follower = (calls.outcome(token).member_id for token in tokens)
    calls.settle(leader, follower)
    writes = len(calls.written)
    again = calls.outcome(calls.join(instance_id="j"))
    assert (again.generation, again.leader_id, again.members) == (1, leader, ())
    assert not again.skips_assignment
    assert calls.outcome(calls.sync(again.member_id, 1, instance_id="j")).assignment == (
        follower.encode()
    )
    again_leads = calls.outcome(calls.join(instance_id="i"))
    assert again_leads.leader_id == again_leads.member_id
    assert again_leads.skips_assignment
    assert {each.member_id for each in again_leads.members} == {
        again.member_id,
        again_leads.member_id,
    }
    assert calls.group.state is STABLE
    assert len(calls.written) == writes + 2
    assert [each.member_id for each in calls.written[-1][1].members] == [
        each.member_id for each in calls.group.members.values()
    ]
    assert calls.heartbeat(leader, 1, "i") == "FENCED_INSTANCE_ID"
    assert calls.heartbeat(leader, 1) == "UNKNOWN_MEMBER_ID"
    assert calls.commit(follower, 1, "j") == "FENCED_INSTANCE_ID"
    assert calls.outcome(calls.join(follower, instance_id="j")) == "FENCED_INSTANCE_ID"
    assert calls.outcome(calls.sync(follower, 1, instance_id="j")) == "FENCED_INSTANCE_ID"


def test_a_static_member_that_comes_back_with_another_protocol_rebalances() -> None:
    calls = Calls()
    tokens = [
        calls.join(instance_id=each, protocols=(("range", b""), ("roundrobin", b"")))
        for each in ("i", "j")
    ]
    calls.advance(2 * DELAY_MS)
    leader, follower = (calls.outcome(token).member_id for token in tokens)
    calls.settle(leader, follower)
    assert calls.outcome(calls.join(instance_id="j", protocols=(("roundrobin", b""),))) is None
    assert calls.group.state is PREPARING


def test_a_static_member_that_comes_back_while_the_group_completes_rebalances() -> None:
    """The calls of its old self are fenced."""
    calls = Calls()
    tokens = [calls.join(instance_id=each) for each in ("i", "j")]
    calls.advance(2 * DELAY_MS)
    follower = calls.outcome(tokens[1]).member_id
    waiting = calls.sync(follower, 1, instance_id="j")
    assert calls.outcome(calls.join(instance_id="j")) is None
    assert calls.outcome(waiting) == "FENCED_INSTANCE_ID"
    assert calls.group.state is PREPARING


def test_a_static_member_that_joins_twice_fences_its_first_join() -> None:
    calls = Calls()
    first, second = calls.join(instance_id="i"), calls.join(instance_id="i")
    assert calls.outcome(first) == "FENCED_INSTANCE_ID"
    calls.advance(2 * DELAY_MS)
    assert len(calls.outcome(second).members) == 1


def test_a_static_member_keeps_its_old_id_if_the_new_one_cannot_be_written() -> None:
    calls = Calls()
    token = calls.join(instance_id="i")
    calls.advance(DELAY_MS)
    old = calls.outcome(token).member_id
    calls.settle(old)
    calls.is_full = True
    assert calls.outcome(calls.join(instance_id="i", session_timeout_ms=7000)) == "DISK_FULL"
    assert calls.heartbeat(old, 1, "i") == ""
    assert calls.group.leader_id == old
    assert calls.group.members[old].session_timeout_ms == SESSION_MS
    calls.advance(SESSION_MS - 1)
    assert calls.heartbeat(old, 1, "i") == ""


@pytest.mark.parametrize("is_full", [True, False])
def test_a_replaced_static_member_stays_where_it_was_in_the_order_of_members(is_full: bool) -> None:
    calls = Calls()
    first, second = calls.join(instance_id="i"), calls.join(instance_id="j")
    calls.advance(2 * DELAY_MS)
    calls.settle(*(calls.outcome(token).member_id for token in (first, second)))
    order, record = list(calls.group.members), calls.group.record()
    calls.is_full = is_full
    calls.join(instance_id=calls.group.members[order[0]].instance_id)
    assert list(calls.group.members)[1:] == order[1:]
    assert (calls.group.record() == record) is is_full
    assert calls.records[GROUP].classic == calls.group.record()
