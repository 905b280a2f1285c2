"""A consumer's part in its group, step by step: what is asked for, and what comes of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import attrs
import pytest
from offsetd_clients import (
    ConsumerFenced,
    ConsumerSettings,
    JoinedGroup,
    JoinedMember,
    Lease,
    LeaseTerms,
    Membership,
    OffsetdError,
    PollIntervalExceeded,
    TopicPartition,
)
from offsetd_clients.consumer.group_role import AGAIN_AFTER_S, Phase, Standing
from offsetd_clients.consumer.lease_role import LeaseRole
from offsetd_clients.consumer.member_role import MemberRole
from offsetd_clients.consumer.steps import (
    Acquire,
    End,
    Fetch,
    Heartbeat,
    Join,
    Leave,
    Release,
    Renew,
    Sync,
    Wait,
)
from offsetd_clients.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from offsetd_clients.errors import Failure, error_of

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
SETTINGS = ConsumerSettings(
    session_timeout_s=10, heartbeat_interval_s=2, poll_interval_s_max=60, assignors=("range",)
)
LEASED = attrs.evolve(SETTINGS, lease=LeaseTerms(holder="me", ttl_s=8))
FENCING = ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID")


def refusal(reason: str, code: str = "FAILED_PRECONDITION", **details: str) -> OffsetdError:
    return error_of(Failure(code=code, message=reason, reason=reason, details=details))


REBALANCE = refusal("REBALANCE_IN_PROGRESS", "ABORTED")
UNAVAILABLE = refusal("", "UNAVAILABLE")
DAMAGED = refusal("PARTITION_QUARANTINED", "DATA_LOSS")


def membership(generation_id: int = 1) -> Membership:
    return Membership(group_id="g", member_id="me", generation_id=generation_id)


def joined(step: Join, generation_id: int = 1, leader_id: str = "me") -> JoinedGroup:
    members = (JoinedMember(member_id="me", instance_id=None, metadata=step.protocols["range"]),)
    return JoinedGroup(
        membership=membership(generation_id),
        protocol_type="consumer",
        protocol="range",
        leader_id=leader_id,
        members=members if leader_id == "me" else (),
        skip_assignment=False,
    )


def settled(role: MemberRole, now_s: float = 0.0, generation_id: int = 1) -> None:
    """Through all steps until partitions have arrived."""
    if role.phase is Phase.APART:
        role.enter({"a": 2})
    join = role.next_step(now_s)
    assert isinstance(join, Join)
    role.note_answer(join, joined(join, generation_id), now_s, now_s)
    sync = role.next_step(now_s)
    assert isinstance(sync, Sync)
    role.note_answer(sync, sync.assignments["me"], now_s, now_s)
    fetch = role.next_step(now_s)
    assert fetch == Fetch((A0, A1))
    role.note_answer(fetch, {}, now_s, now_s)
    assert role.phase is Phase.ARRIVED


def holding(settings: ConsumerSettings = SETTINGS) -> MemberRole:
    role = MemberRole(settings)
    settled(role)
    assert role.take()
    return role


def test_what_is_sought_before_partitions_are_held_is_of_these_and_no_later_ones() -> None:
    role = MemberRole(SETTINGS)
    assert not role.seek(A0, 5)
    settled(role)
    assert role.seek(A0, 5)
    assert not role.seek(TopicPartition("b", 0), 5)
    assert role.sought == {A0: 5}
    role.refused(Standing(membership=membership()), REBALANCE, 0.0)
    assert not role.seek(A0, 6)
    settled(role, generation_id=2)
    assert role.sought == {}
    assert role.take()
    assert not role.seek(A0, 5)


def test_a_member_joins_syncs_fetches_and_then_holds_its_partitions() -> None:
    role = MemberRole(SETTINGS)
    assert role.next_step(0.0) == Wait(None)
    role.enter({"a": 2})
    required = role.next_step(0.0)
    assert isinstance(required, Join)
    assert required.member_id == ""
    assert decode_subscription(required.protocols["range"]).topics == ["a"]
    role.note_refusal(required, refusal("MEMBER_ID_REQUIRED", member_id="me"), 0.0, 0.0)
    join = role.next_step(0.0)
    assert isinstance(join, Join)
    assert join.member_id == "me"
    role.note_answer(join, joined(join), 0.0, 1.0)
    sync = role.next_step(1.0)
    assert isinstance(sync, Sync)
    assert decode_assignment(sync.assignments["me"]) == [A0, A1]
    role.note_answer(sync, encode_assignment([A1]), 1.0, 2.0)
    assert role.next_step(2.0) == Fetch((A1,))
    role.note_answer(Fetch((A1,)), {}, 2.0, 2.0)
    assert not role.may_give(2.0)
    assert role.take()
    assert role.may_give(10.9)
    assert not role.may_give(11.0), "the session may be over, counted from before the sync"
    assert role.standing == Standing(membership=membership())


def test_signs_of_life_are_sent_in_time_and_lengthen_the_session() -> None:
    role = holding()
    assert role.next_step(1.9) == Wait(2.0)
    beat = role.next_step(2.0)
    assert beat == Heartbeat(membership())
    role.note_refusal(beat, UNAVAILABLE, 2.0, 5.0)
    assert role.next_step(5.0) == Wait(7.0)
    assert not role.may_give(10.0)
    role.note_answer(Heartbeat(membership()), None, 7.0, 7.1)
    assert role.may_give(16.9)
    role.committed_with(Standing(membership=membership()), 8.0)
    assert role.may_give(17.9)
    role.committed_with(Standing(membership=membership(0)), 9.0)
    assert not role.may_give(18.0), "of another generation"


def test_a_rebalance_is_followed_after_partitions_are_revoked() -> None:
    role = holding()
    role.note_refusal(role.next_step(2.0), REBALANCE, 2.0, 2.1)
    assert role.phase is Phase.YIELDING
    assert not role.may_give(2.2)
    assert role.next_step(2.2) == Wait(4.1), "it does not join before it has given up"
    assert role.begin_revoke()
    role.revoked()
    assert role.phase is Phase.APART
    role.enter({"a": 2})
    join = role.next_step(2.3)
    assert isinstance(join, Join)
    subscription = decode_subscription(join.protocols["range"])
    assert (join.member_id, subscription.generation_id) == ("me", 1)
    assert list(subscription.owned) == [A0, A1]


@pytest.mark.parametrize("reason", FENCING)
def test_who_is_fenced_has_lost_its_partitions_and_says_why(reason: str) -> None:
    role = holding()
    role.note_refusal(role.next_step(2.0), refusal(reason), 2.0, 2.1)
    assert role.phase is Phase.LOST
    assert role.standing is None
    assert role.topic_partitions == (A0, A1)
    problem = role.let_go()
    assert isinstance(problem, ConsumerFenced)
    assert (problem.reason, problem.partitions) == (reason, (A0, A1))
    if reason == "FENCED_INSTANCE_ID":
        assert role.phase is Phase.LOST, "for good"
        assert role.let_go() is problem
        return
    role.enter({"a": 2})
    join = role.next_step(3.0)
    assert isinstance(join, Join)
    assert join.member_id == ("me" if reason == "ILLEGAL_GENERATION" else "")
    assert not decode_subscription(join.protocols["range"]).owned


@pytest.mark.parametrize("reason", FENCING[:2])
@pytest.mark.parametrize("is_told", [True, False])
def test_who_is_fenced_while_it_yields_has_lost_what_is_not_told_as_revoked(
    reason: str, is_told: bool
) -> None:
    role = holding()
    role.note_refusal(role.next_step(2.0), REBALANCE, 2.0, 2.1)
    assert not is_told or role.begin_revoke()
    role.refused(Standing(membership=membership()), refusal(reason), 2.2)
    if is_told:
        role.revoked()
        assert role.phase is Phase.APART
    else:
        assert not role.begin_revoke()
        assert role.phase is Phase.LOST


@pytest.mark.parametrize("reason", FENCING[:2])
@pytest.mark.parametrize("step", ["join", "sync", "fetch", "arrived"])
def test_who_is_refused_before_it_holds_anything_joins_again(reason: str, step: str) -> None:
    role = MemberRole(SETTINGS)
    role.enter({"a": 2})
    current = role.next_step(0.0)
    if step != "join":
        assert isinstance(current, Join)
        role.note_answer(current, joined(current), 0.0, 0.0)
        current = role.next_step(0.0)
    if step in ("fetch", "arrived"):
        assert isinstance(current, Sync)
        role.note_answer(current, current.assignments["me"], 0.0, 0.0)
        if step == "arrived":
            role.note_answer(role.next_step(0.0), {}, 0.0, 0.0)
        current = role.next_step(2.0)
        assert isinstance(current, Heartbeat)
    role.note_refusal(current, refusal(reason), 2.0, 2.0)
    again = role.next_step(2.0)
    assert isinstance(again, Join)
    assert role.phase is Phase.ENTERING
    settled(role, 3.0, generation_id=2)
    assert not role.take() or role.standing == Standing(membership=membership(2))


def test_what_does_not_pass_is_told_and_what_does_is_tried_again() -> None:
    role = MemberRole(SETTINGS)
    role.enter({"a": 2})
    role.note_refusal(role.next_step(0.0), UNAVAILABLE, 0.0, 30.0)
    assert role.next_step(30.0) == Wait(30.0 + AGAIN_AFTER_S)
    role.note_refusal(role.next_step(31.0), DAMAGED, 31.0, 31.0)
    assert role.phase is Phase.LOST
    assert role.topic_partitions == ()
    assert role.let_go() is DAMAGED
    assert role.phase is Phase.APART


def test_an_answer_to_what_is_over_changes_nothing() -> None:
    role = holding()
    late = role.next_step(2.0)
    role.refused(Standing(membership=membership()), refusal(FENCING[0]), 2.0)
    role.let_go()
    settled(role, 3.0, generation_id=2)
    assert role.take()
    for answer in (REBALANCE, refusal(FENCING[0])):
        role.note_refusal(late, answer, 2.0, 4.0)
        role.refused(Standing(membership=membership()), answer, 4.0)
    assert role.phase is Phase.HOLDING


def test_who_is_not_asked_for_items_leaves() -> None:
    role = holding()
    role.away_since_s = 5.0
    role.note_beat(64.0)
    assert role.next_step(64.9) == Wait(65.0)
    assert role.next_step(65.0) == Leave("me")
    assert role.phase is Phase.LOST
    assert role.next_step(65.0) == Wait(None)
    problem = role.let_go()
    assert isinstance(problem, PollIntervalExceeded)
    assert problem.partitions == (A0, A1)


def test_a_member_leaves_at_the_end_also_when_it_was_let_in_after_it() -> None:
    role = holding()
    assert role.close() == Leave("me")
    assert role.next_step(1.0) == End()
    late = MemberRole(SETTINGS)
    late.enter({"a": 2})
    join = late.next_step(0.0)
    assert isinstance(join, Join)
    assert late.close() is None
    late.note_answer(join, joined(join), 0.0, 1.0)
    assert late.next_step(1.0) == Leave("me")
    assert late.next_step(1.0) == End()
    static = holding(attrs.evolve(SETTINGS, instance_id="host-1"))
    assert static.close() is None
    assert static.next_step(1.0) == End()


@pytest.mark.parametrize(
    ("leader_id", "counts", "is_outdated"),
    [
        ("me", {"a": 2}, False),
        ("me", {"a": 3}, True),
        ("other", {"a": 3}, False),
        ("me", {"a": 2, "b": 1}, True),
        ("other", {"a": 2, "b": 1}, True),
        ("other", {}, True),
    ],
)
def test_what_the_source_has_now_may_take_a_rebalance(
    leader_id: str, counts: dict[str, int], is_outdated: bool
) -> None:
    role = MemberRole(SETTINGS)
    role.enter({"a": 2})
    join = role.next_step(0.0)
    assert isinstance(join, Join)
    role.note_answer(join, joined(join, leader_id=leader_id), 0.0, 0.0)
    role.note_answer(role.next_step(0.0), encode_assignment([A0]), 0.0, 0.0)
    role.note_answer(role.next_step(0.0), {}, 0.0, 0.0)
    assert role.take()
    role.note_source(counts)
    assert role.phase is (Phase.YIELDING if is_outdated else Phase.HOLDING)


def lease(epoch: int) -> Lease:
    return Lease(
        holder="me", epoch=epoch, ttl=timedelta(seconds=8), grant_time=None, expire_time=None
    )


def leased() -> LeaseRole:
    assert LEASED.lease is not None
    role = LeaseRole(LEASED, LEASED.lease)
    role.enter({"a": 2})
    return role


def test_one_takes_the_lease_and_has_everything() -> None:
    role = leased()
    held = refusal("LEASE_HELD")
    role.note_refusal(role.next_step(0.0), held, 0.0, 0.0)
    assert role.next_step(0.0) == Wait(2.0), "it stands by"
    assert role.next_step(2.0) == Acquire()
    role.note_answer(Acquire(), lease(5), 2.0, 2.5)
    assert role.next_step(2.5) == Fetch((A0, A1))
    role.note_answer(Fetch((A0, A1)), {}, 2.5, 2.5)
    assert role.take()
    assert role.standing == Standing(epoch=5)
    assert role.may_give(9.9)
    assert not role.may_give(10.0)
    assert role.next_step(4.0) == Renew(5)
    role.committed_with(Standing(epoch=5), 4.0)
    assert not role.may_give(10.0), "a commit renews no lease"
    role.note_answer(Renew(5), lease(5), 4.0, 4.1)
    assert role.may_give(11.9)
    role.note_source({"a": 3})
    assert role.begin_revoke()
    role.revoked()
    role.enter({"a": 3})
    assert isinstance(role.next_step(4.2), Fetch), "it keeps its lease"
    assert role.close() == Release(5)


def test_whose_lease_is_anothers_has_lost() -> None:
    role = leased()
    role.note_answer(Acquire(), lease(5), 0.0, 0.0)
    role.note_answer(Fetch((A0, A1)), {}, 0.0, 0.0)
    assert role.take()
    role.note_refusal(Renew(5), refusal("EPOCH_FENCED"), 2.0, 2.0)
    problem: Any = role.let_go()
    assert (problem.reason, problem.partitions) == ("EPOCH_FENCED", (A0, A1))
    assert role.close() is None


def test_a_lease_that_came_after_the_end_is_given_back() -> None:
    role = leased()
    assert role.close() is None
    role.note_answer(Acquire(), lease(5), 0.0, 1.0)
    assert role.next_step(1.0) == Release(5)
    assert role.next_step(1.0) == End()
