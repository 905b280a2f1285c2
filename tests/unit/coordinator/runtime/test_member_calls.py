"""Members' calls over a runtime: durable before they are answered, timed, refused as a whole."""

from __future__ import annotations

import asyncio

import pytest
from offsetd.v1 import group_service_pb2, offset_service_pb2
from offsetd_coordinator.configuration.dynamic_settings import CommitGuardConfig, ExpiryConfig
from offsetd_coordinator.errors import CoordinatorError
from offsetd_coordinator.services.group_calls import GroupService
from offsetd_storage.offsets_topic.group_listing import GroupState
from serving_members import DELAY_MS, GROUP, Members, reason_of, turn, until
from serving_nodes import commit_request, serving_node


class LowDisk:
    """A disk on which only deletions find room."""

    is_low = True

    def note_full(self, refusal: object) -> None:
        """Nobody looks."""


async def test_a_sync_and_what_rests_on_it_are_answered_once_they_are_durable() -> None:
    async with serving_node(flushing=False) as serving:
        members = Members(serving)
        member_id, task = await members.come_in()
        members.advance(DELAY_MS)
        await until(task)  # Nothing is written yet, so nothing is waited for.
        sync = members.sync(member_id, 1)
        await turn()
        assert members.state() is GroupState.STABLE
        beat = asyncio.ensure_future(members.heartbeat(member_id, 1))
        await turn()
        assert not sync.done()
        assert not beat.done()  # It rests on the group's record, too.
        serving.runtime.start()
        await until(sync)
        assert await until(beat) == ""


async def test_on_a_full_disk_members_join_again_and_nothing_is_half_done() -> None:
    async with serving_node() as serving:
        members = Members(serving)
        member_id, task = await members.come_in()
        members.advance(DELAY_MS)
        await until(task)
        end = {each: shard.offset_next for each, shard in serving.runtime.shards.items()}
        serving.runtime.disk = LowDisk()
        assert await reason_of(members.sync(member_id, 1)) == "DISK_FULL"
        assert members.state() is GroupState.PREPARING_REBALANCE
        assert end == {each: shard.offset_next for each, shard in serving.runtime.shards.items()}
        assert await members.heartbeat(member_id, 1) == "REBALANCE_IN_PROGRESS"
        again = group_service_pb2.JoinGroupResponse.FromString(await until(members.join(member_id)))
        assert again.generation_id == 2
        # A group that empties may say so even then: it takes less room from now on.
        request = group_service_pb2.LeaveGroupRequest(group_id=GROUP)
        request.members.add(member_id=member_id)
        await members.service.leave_group(request.SerializeToString())
        assert members.state() is None
        _, group = serving.runtime.get_group(GROUP.encode())
        assert not isinstance(group, CoordinatorError)
        assert (group.state, group.generation) == (GroupState.EMPTY, 3)


async def test_a_drain_refuses_those_who_wait() -> None:
    async with serving_node() as serving:
        members = Members(serving)
        member_id, joining = await members.come_in()
        serving.node.drain()
        assert await reason_of(joining) == "COORDINATOR_NOT_AVAILABLE"
        assert serving.node.members.waiting == 0
        assert await members.heartbeat(member_id, 0) == "COORDINATOR_NOT_AVAILABLE"


async def test_a_cancelled_call_is_forgotten_and_its_member_is_not() -> None:
    async with serving_node() as serving:
        members = Members(serving)
        member_id, joining = await members.come_in()
        joining.cancel()
        await turn()
        assert serving.node.members.waiting == 0
        members.advance(DELAY_MS)
        assert members.state() is GroupState.COMPLETING_REBALANCE
        # It comes back, and is answered as it would have been.
        again = group_service_pb2.JoinGroupResponse.FromString(await until(members.join(member_id)))
        assert again.generation_id == 1


async def test_a_members_commit_is_a_sign_of_life_and_outsiders_are_refused() -> None:
    async with serving_node() as serving:
        members = Members(serving)
        member_id = await members.stable()
        for _ in range(3):
            members.advance(9_999)
            request = commit_request(GROUP, 5)
            request.member_id, request.generation_id = member_id, 1
            response = await serving.offsets.commit_offsets(request.SerializeToString())
            assert offset_service_pb2.CommitOffsetsResponse.FromString(response).HasField(
                "revision"
            )
        with pytest.raises(CoordinatorError) as refused:
            await serving.commit(GROUP, 6)
        assert refused.value.reason == "UNKNOWN_MEMBER_ID"
        members.advance(10_000)
        assert members.state() is None
        await serving.commit(GROUP, 6)


async def test_a_members_commit_that_is_not_written_is_a_sign_of_life() -> None:
    async with serving_node() as serving:
        serving.runtime.configure(CommitGuardConfig(), ExpiryConfig(unchanged_commit_ms=60_000))
        members = Members(serving)
        member_id = await members.stable()
        request = commit_request(GROUP, 5)
        request.member_id, request.generation_id = member_id, 1
        for _ in range(3):
            await serving.offsets.commit_offsets(request.SerializeToString())
            members.advance(9000)
        assert serving.runtime.commit_guards.unchanged_commits == 2
        assert members.state() is GroupState.STABLE


async def test_a_group_that_has_only_promised_an_id_is_deleted_and_its_promise_is_void() -> None:
    async with serving_node() as serving:
        members = Members(serving)
        with pytest.raises(CoordinatorError) as refused:
            await members.join()
        promised = refused.value.variables["member_id"]
        commit = commit_request(GROUP, 5)
        commit.member_id, commit.generation_id = promised, 3
        committing = serving.offsets.commit_offsets(commit.SerializeToString())
        assert await reason_of(asyncio.ensure_future(committing)) == "UNKNOWN_MEMBER_ID"
        groups = GroupService(serving.node)
        deletion = group_service_pb2.DeleteGroupRequest(group_id=GROUP, request_id="d")
        tried = group_service_pb2.DeleteGroupRequest(group_id=GROUP, validate_only=True)
        for request in (tried, deletion, deletion):
            answer = await groups.delete_group(request.SerializeToString())
            deleted = group_service_pb2.DeleteGroupResponse.FromString(answer)
            assert deleted.HasField("revision") == (request is deletion)
        assert await reason_of(members.join(promised)) == "UNKNOWN_MEMBER_ID"
        deleting = groups.delete_group(
            group_service_pb2.DeleteGroupRequest(group_id=GROUP).SerializeToString()
        )
        assert await reason_of(asyncio.ensure_future(deleting)) == "GROUP_ID_NOT_FOUND"


async def test_one_timer_is_set_to_the_nearest_deadline() -> None:
    async with serving_node() as serving:
        members = Members(serving)
        await members.stable()
        calls = serving.node.members
        assert calls._timer is not None
        assert calls._timer_ms <= serving.clock.monotonic_ms() + 10_000
        timer = calls._timer
        await members.heartbeat("nobody", 1)
        assert calls._timer is timer
        timer.cancel()
