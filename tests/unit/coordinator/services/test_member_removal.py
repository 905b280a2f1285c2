"""An operator removes members: who is named, what is recorded, what a retry does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from offsetd.v1 import group_service_pb2
from offsetd_coordinator.cooperative_scheduling import Turns
from offsetd_coordinator.errors import (
    CoordinatorError,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    InvalidField,
)
from offsetd_coordinator.requests import (
    Decision,
    EndConsumerMembers,
    EndConsumerMembersReply,
)
from offsetd_coordinator.services.member_removal import METHOD, MemberRemoval, _named_now
from offsetd_storage.offsets_topic.group_listing import GroupState
from offsetd_storage.offsets_topic.schemas.layout import write_versioned
from offsetd_storage.offsets_topic.schemas.record_layouts import VALUE_LAYOUTS, RecordType
from serving_members import DELAY_MS, GROUP, Members, reason_of, until
from serving_nodes import ServingNode, serving_node
from shards import NOW_MS, batch_of, consumer_group_key

CONSUMER_EPOCH = bytes.fromhex("0000 00000001 00")


async def remove(
    serving: ServingNode, *members: dict[str, Any], group_id: str = GROUP, **fields: Any
) -> group_service_pb2.RemoveMembersResponse:
    request = group_service_pb2.RemoveMembersRequest(group_id=group_id, **fields)
    for each in members:
        request.members.add(**each)
    answer = await MemberRemoval(serving.node).remove_members(request.SerializeToString())
    return group_service_pb2.RemoveMembersResponse.FromString(answer)


async def group_of_two(members: Members) -> tuple[str, str]:
    """A settled group of a dynamic member and of the static one "i"; their ids, that one's last."""
    static = members.join(instance_id="i")
    dynamic_id, dynamic = await members.come_in()
    members.advance(DELAY_MS)
    members.advance(DELAY_MS)
    joined = group_service_pb2.JoinGroupResponse.FromString(await until(static))
    await until(dynamic)
    leader_id = joined.leader_id
    await until(members.sync(leader_id, joined.generation_id))
    return dynamic_id, joined.member_id


def removed(serving: ServingNode, request_id: str) -> dict[str, Any] | None:
    """What the audit log has of a removal."""
    known = serving.administration.find(METHOD, request_id)
    return None if known is None else dict(known.event.what)


async def test_members_go_by_id_and_by_instance_and_that_is_recorded() -> None:
    async with serving_node() as serving:
        members = Members(serving)
        dynamic_id, static_id = await group_of_two(members)
        response = await remove(
            serving,
            {"member_id": "nobody"},
            {"instance_id": "i"},
            {"member_id": dynamic_id},
            request_id="r1",
            reason="stuck",
        )
        assert [each.HasField("error") for each in response.members] == [True, False, False]
        assert [each.member_id for each in response.members] == ["nobody", "", dynamic_id]
        assert removed(serving, "r1") == {
            "group": GROUP,
            "members": {static_id: "i", dynamic_id: None},
        }
        known = serving.administration.find(METHOD, "r1")
        assert known is not None
        assert known.event.reason == "stuck"
        assert response.revision.log_offset == known.offset
        assert members.state() is None
        _, group = serving.runtime.get_group(GROUP.encode())
        assert not isinstance(group, CoordinatorError)
        assert group.state is GroupState.EMPTY


async def test_those_who_stay_rebalance() -> None:
    async with serving_node() as serving:
        members = Members(serving)
        dynamic_id, _ = await group_of_two(members)
        await remove(serving, {"member_id": dynamic_id})
        assert members.state() is GroupState.PREPARING_REBALANCE
        assert await members.heartbeat(dynamic_id, 1) == "UNKNOWN_MEMBER_ID"


async def test_all_are_those_there_are_when_it_is_asked_for_first() -> None:
    async with serving_node() as serving:
        members = Members(serving)
        dynamic_id, static_id = await group_of_two(members)
        first = await remove(serving, all=True, request_id="r1")
        assert {each.member_id for each in first.members} == {dynamic_id, static_id}
        newcomer_id = await members.stable()
        again = await remove(serving, all=True, request_id="r1")
        assert again == first
        named = [{"instance_id": "i"}, {"member_id": dynamic_id}, {"member_id": newcomer_id}]
        third = await remove(serving, *named, request_id="r1")
        assert [each.HasField("error") for each in third.members] == [False, False, True]
        assert members.state() is GroupState.STABLE
        assert [each.member_id for each in (await remove(serving, all=True)).members] == [
            newcomer_id
        ]
        assert members.state() is None


async def test_what_would_change_nothing_leaves_no_record() -> None:
    async with serving_node() as serving:
        members = Members(serving)
        dynamic_id, static_id = await group_of_two(members)
        end = await serving.administration.audited()
        response = await remove(serving, all=True, validate_only=True, request_id="r1")
        assert {each.member_id for each in response.members} == {dynamic_id, static_id}
        assert not response.HasField("revision")
        response = await remove(serving, {"member_id": "nobody"}, request_id="r1")
        assert [each.HasField("error") for each in response.members] == [True]
        assert members.state() is GroupState.STABLE
        await serving.commit("simple", 1)
        assert not (await remove(serving, group_id="simple", all=True)).members
        assert await serving.administration.audited() == end


async def test_a_drain_refuses_the_call_and_not_each_member() -> None:
    async with serving_node() as serving:
        members = Members(serving)
        member_id = await members.stable()
        removing = asyncio.ensure_future(remove(serving, {"member_id": member_id}))
        serving.node.drain()
        assert await reason_of(removing) == "COORDINATOR_NOT_AVAILABLE"
        drained = serving.runtime.membership_of(GROUP.encode())
        with pytest.raises(CoordinatorNotAvailable):
            await _named_now(drained, GROUP.encode(), [(member_id, None)], Turns())


async def test_what_no_operator_can_mean_is_refused() -> None:
    async with serving_node() as serving:
        with pytest.raises(GroupIdNotFound):
            await remove(serving, all=True)
        with pytest.raises(InvalidField):
            await remove(serving)
        with pytest.raises(InvalidField):
            await remove(serving, {"member_id": "m"}, all=True)
        with pytest.raises(InvalidField):
            await remove(serving, {})
        with pytest.raises(InvalidField):
            await remove(serving, all=True, reason="x" * 1025)


async def test_members_of_kip_848_are_removed_by_id_and_by_instance() -> None:
    async with serving_node() as serving:
        partition, shard = serving.runtime.shard_of(b"new")
        member = RecordType.CONSUMER_GROUP_MEMBER_METADATA
        records = [
            (consumer_group_key("new", member, member_id=member_id), consumer_member(instance_id))
            for member_id, instance_id in (("a", "i"), ("b", None), ("c", None))
        ]
        epoch = consumer_group_key("new", RecordType.CONSUMER_GROUP_METADATA), CONSUMER_EPOCH
        batch, last_offset = batch_of(shard.offset_next, *records, epoch), shard.offset_next + 3
        request = EndConsumerMembers(group_id=b"new", member_ids=())  # None of ours writes these.
        decision = Decision(
            request, EndConsumerMembersReply(last_offset), None, batch, last_offset, NOW_MS
        )
        serving.runtime.write(partition, shard, decision)
        response = await remove(
            serving,
            {"instance_id": "i"},
            {"member_id": "nobody"},
            {"member_id": "b", "instance_id": "other"},
            group_id="new",
            request_id="r1",
        )
        assert [each.HasField("error") for each in response.members] == [False, True, True]
        again = await remove(serving, {"instance_id": "i"}, group_id="new", request_id="r1")
        assert [each.HasField("error") for each in again.members] == [False]
        _, group = serving.runtime.get_group(b"new")
        assert not isinstance(group, CoordinatorError)
        assert [each.member_id for each in group.members] == ["b", "c"]
        rest = await remove(serving, group_id="new", all=True)
        assert [each.member_id for each in rest.members] == ["b", "c"]
        _, group = serving.runtime.get_group(b"new")
        assert not isinstance(group, CoordinatorError)
        assert (group.state, group.generation, group.members) == (GroupState.EMPTY, 3, ())


def consumer_member(instance_id: str | None) -> bytes:
    fields: dict[str, object] = {
        "instanceId": instance_id,
        "rackId": None,
        "clientId": "c",
        "clientHost": "/h",
        "subscribedTopicNames": ["t"],
        "subscribedTopicRegex": None,
        "rebalanceTimeoutMs": 1,
        "serverAssignor": None,
        "classicMemberMetadata": None,
    }
    return write_versioned(VALUE_LAYOUTS[RecordType.CONSUMER_GROUP_MEMBER_METADATA], fields, 0)
