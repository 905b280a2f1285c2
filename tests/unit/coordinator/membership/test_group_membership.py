"""Leaving, records, restarts, ends: Kafka's GroupMetadataManagerTest, its classic blocks.

docs/conformance/classic-groups.md maps Kafka's cases to these.
"""

from __future__ import annotations

from typing import Any

from classic_groups import DELAY_MS, GROUP, REBALANCE_MS, SESSION_MS, Calls
from offsetd_coordinator.errors import CoordinatorNotAvailable
from offsetd_coordinator.membership.member_requests import Left
from offsetd_storage.offsets_topic.group_listing import GroupState, GroupType
from offsetd_storage.offsets_topic.group_records import GroupRecords
from offsetd_storage.offsets_topic.schemas.consumer_group import (
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
)
from offsetd_storage.offsets_topic.schemas.group_metadata import GroupMetadataValue
from offsetd_storage.offsets_topic.schemas.keys import ConsumerGroupKey, GroupKey
from offsetd_storage.offsets_topic.schemas.record_layouts import RecordType

EMPTY, PREPARING = GroupState.EMPTY, GroupState.PREPARING_REBALANCE
STABLE = GroupState.STABLE


def rejoined(calls: Calls, *member_ids: str, **more: Any) -> list[Any]:
    """All join again; their answers."""
    tokens = [calls.join(each, **more) for each in member_ids]
    return [calls.outcome(token) for token in tokens]


def left(calls: Calls, *members: tuple[str, str | None]) -> list[str | None]:
    """The reasons, None for those that have left."""
    outcome = calls.outcome(calls.leave(*members))
    assert isinstance(outcome, Left)
    return [None if each.refusal is None else each.refusal.reason for each in outcome.members]


def test_members_leave_each_for_itself() -> None:
    calls = Calls()
    assert left(calls, ("nobody", None)) == ["UNKNOWN_MEMBER_ID"]
    tokens = [calls.join(instance_id=each) for each in ("i", "j")]
    dynamic, _ = calls.come_in()
    calls.advance(4 * DELAY_MS)
    i, j = (calls.outcome(token).member_id for token in tokens)
    calls.settle(i, j, dynamic)
    assert left(calls, ("nobody", None), (i, "j"), (i, "k"), ("", "k")) == [
        "UNKNOWN_MEMBER_ID",
        "FENCED_INSTANCE_ID",
        "UNKNOWN_MEMBER_ID",
        "UNKNOWN_MEMBER_ID",
    ]
    assert calls.group.state is STABLE  # Nobody has left.
    assert left(calls, ("", "i"), (dynamic, None), (dynamic, None)) == [
        None,
        None,
        "UNKNOWN_MEMBER_ID",
    ]
    assert calls.group.members.keys() == {j}
    assert calls.group.state is PREPARING


def test_the_last_one_leaves_an_empty_group_that_is_written_down() -> None:
    calls = Calls()
    (a,) = calls.stable_group("a")
    assert left(calls, (a, None)) == [None]
    group_id, value = calls.written[-1]
    assert (group_id, value.generation, value.members, value.leader) == (GROUP, 2, (), None)
    assert value.protocol_type == "consumer"
    assert value.current_state_timestamp_ms == calls.now.wall_ms
    assert calls.membership.groups == {}
    (again,) = calls.stable_group("b")
    assert calls.heartbeat(again, 3) == ""


def test_a_promised_id_is_given_up_by_leaving() -> None:
    """A rebalance that waited for it goes on."""
    calls = Calls()
    (a,) = calls.stable_group("a")
    calls.join()
    (promised,) = calls.group.promised_ids
    token = calls.join(a)
    assert calls.outcome(token) is None
    assert left(calls, (promised, None)) == [None]
    assert calls.outcome(token).generation == 2


def test_who_leaves_while_it_waits_is_told_that_it_is_gone() -> None:
    calls = Calls()
    a, b = calls.stable_group("a", "b")
    joining = calls.join(a)
    left(calls, (a, None))
    assert calls.outcome(joining) == "UNKNOWN_MEMBER_ID"
    assert rejoined(calls, b)[0].generation == 2
    a, b = (calls.come_in(client_id=name)[0] for name in "ab")
    calls.leave(*((each, None) for each in list(calls.group.members) if each not in (a, b)))
    calls.advance(3 * DELAY_MS)
    syncing = calls.sync(b, calls.group.generation)
    left(calls, (b, None))
    assert calls.outcome(syncing) == "UNKNOWN_MEMBER_ID"


# Records, restarts, ends.


def test_an_empty_group_that_could_not_be_written_is_written_later() -> None:
    """Kafka leaves it at a warning, and the members that are gone come back at a restart."""
    calls = Calls()
    (a,) = calls.stable_group("a")
    calls.is_full = True
    left(calls, (a, None))
    live = calls.membership.live(GROUP)
    assert live is not None
    assert live.state is EMPTY
    assert calls.written[-1][1].members
    calls.advance(60_000)
    calls.is_full = False
    calls.advance(5000)
    assert calls.written[-1][1].members == ()
    assert calls.written[-1][1].generation == 2
    assert calls.membership.groups == {}


def test_groups_come_back_stable_with_fresh_sessions() -> None:
    calls = Calls()
    a, b = calls.stable_group("a", "b")
    calls.advance(SESSION_MS - 1)
    calls.restart()
    assert (calls.group.state, calls.group.leader_id, calls.group.generation) == (STABLE, a, 1)
    assert calls.outcome(calls.sync(b, 1)).assignment == b.encode()
    calls.advance(SESSION_MS - 1)
    assert calls.heartbeat(a, 1) == ""
    calls.advance(1)
    assert calls.group.members.keys() == {a}


def test_a_group_whose_record_cannot_be_read_refuses_everybody() -> None:
    calls = Calls()
    records = calls.records[GROUP] = GroupRecords(GROUP)
    records.put(GroupKey(group="g"), None)
    calls.restart()
    assert calls.outcome(calls.join()) == "RECORD_UNDECODABLE"
    assert calls.outcome(calls.sync("m", 1)) == "RECORD_UNDECODABLE"
    assert calls.heartbeat("m", 1) == "RECORD_UNDECODABLE"
    assert calls.outcome(calls.leave(("m", None))) == "RECORD_UNDECODABLE"
    assert calls.membership.groups == {}


def consumer_group(calls: Calls) -> GroupRecords:
    """A group of KIP-848 with the member "m"."""
    records = calls.records[GROUP] = GroupRecords(GROUP)
    epoch = ConsumerGroupKey(record_type=RecordType.CONSUMER_GROUP_METADATA, group="g")
    records.put(epoch, ConsumerGroupMetadataValue(epoch=4, metadata_hash=0))
    member = ConsumerGroupKey(
        record_type=RecordType.CONSUMER_GROUP_MEMBER_METADATA, group="g", member_id="m"
    )
    subscription = ConsumerGroupMemberMetadataValue(
        instance_id="i",
        rack_id=None,
        client_id="c",
        client_host="/h",
        subscribed_topics=("t",),
        subscribed_regex=None,
        rebalance_timeout_ms=1,
        server_assignor=None,
        classic=None,
    )
    records.put(member, subscription)
    return records


def test_sessions_of_kip_848_members_end_and_classic_members_take_the_group_over() -> None:
    calls = Calls()
    records = consumer_group(calls)
    calls.restart()
    calls.advance(44_999)
    assert records.has_members
    assert calls.outcome(calls.join()) == "INCONSISTENT_GROUP_PROTOCOL"
    assert calls.heartbeat("m", 4) == "UNKNOWN_MEMBER_ID"
    calls.is_full = True
    calls.advance(1)
    assert records.has_members
    calls.is_full = False
    calls.advance(5000)
    assert not records.has_members
    assert records.group_type is GroupType.CONSUMER
    assert records.describe(0).generation == 5
    (a,) = calls.stable_group("a")
    assert records.group_type is GroupType.CLASSIC
    assert calls.heartbeat(a, 1) == ""
    calls.restart()
    assert calls.heartbeat(a, 1) == ""


def test_kip_848_members_whose_records_cannot_be_read_stay() -> None:
    calls = Calls()
    records = consumer_group(calls)
    target = ConsumerGroupKey(
        record_type=RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, group="g", member_id="m"
    )
    records.put(target, None)
    calls.restart()
    calls.advance(100_000)
    assert records.has_members


def test_a_deleted_group_begins_a_new_life() -> None:
    calls = Calls()
    (a,) = calls.stable_group("a")
    left(calls, (a, None))
    calls.join()
    (promised,) = calls.group.promised_ids
    del calls.records[GROUP]
    calls.membership.forget(GROUP)
    assert calls.outcome(calls.join(promised)) == "UNKNOWN_MEMBER_ID"
    (b,) = calls.stable_group("b")
    assert calls.heartbeat(b, 1) == ""


def test_a_record_without_a_generation_of_ours_is_gone_on_from() -> None:
    """A broker's empty group: its generation and protocol type are the group's."""
    calls = Calls()
    records = calls.records[GROUP] = GroupRecords(GROUP)
    records.put(GroupKey(group="g"), GroupMetadataValue(protocol_type="connect", generation=41))
    (a,) = calls.stable_group("a", protocol_type="consumer")
    assert calls.heartbeat(a, 42) == ""
    assert calls.written[-1][1].protocol_type == "consumer"


def test_at_the_end_everybody_who_waits_is_refused_and_nothing_is_written() -> None:
    calls = Calls()
    a, b = calls.stable_group("a", "b")
    joining = calls.join(a)
    writes = len(calls.written)
    for step in calls.membership.close(lambda: CoordinatorNotAvailable("stops"), calls.now):
        assert step.record is None
        for token, outcome in step.answers:
            calls.answers[token] = outcome  # type: ignore[index]
    assert calls.outcome(joining) == "COORDINATOR_NOT_AVAILABLE"
    assert calls.heartbeat(b, 1) == "COORDINATOR_NOT_AVAILABLE"
    assert calls.outcome(calls.join()) == "COORDINATOR_NOT_AVAILABLE"
    calls.advance(10 * REBALANCE_MS)
    assert len(calls.written) == writes
    calls.restart()
    assert calls.group.state is STABLE
