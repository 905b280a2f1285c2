"""Members of a group of a serving node, without gRPC: joins that wait, in tasks of their own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from offsetd.v1 import group_service_pb2
from offsetd_coordinator.errors import CoordinatorError
from offsetd_coordinator.services.membership_calls import MembershipService
from serving_nodes import WAIT_SECONDS

if TYPE_CHECKING:
    from offsetd_storage.offsets_topic.group_listing import GroupState
    from serving_nodes import ServingNode

GROUP = "g"
DELAY_MS = 3000


class Members:
    """Members of one group of a node, through the service."""

    def __init__(self, serving: ServingNode) -> None:
        self.serving = serving
        self.service = MembershipService(serving.node)

    def join(self, member_id: str = "", **more: Any) -> asyncio.Task[Any]:
        """A join that may wait."""
        request = group_service_pb2.JoinGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            client_id="c",
            protocol_type="consumer",
            protocols=[group_service_pb2.GroupProtocol(name="range", metadata=b"m")],
            **more,
        )
        request.session_timeout.FromMilliseconds(10_000)
        return asyncio.ensure_future(self.service.join_group(request.SerializeToString()))

    async def come_in(self) -> tuple[str, asyncio.Task[Any]]:
        """The member's id, and its join, which waits."""
        with pytest.raises(CoordinatorError) as refused:
            await self.join()
        member_id = refused.value.variables["member_id"]
        task = self.join(member_id)
        await turn()
        return member_id, task

    def sync(self, member_id: str, generation: int, **assignments: bytes) -> asyncio.Task[Any]:
        """A sync that may wait."""
        request = group_service_pb2.SyncGroupRequest(
            group_id=GROUP, member_id=member_id, generation_id=generation
        )
        for each, assignment in assignments.items():
            request.assignments.add(member_id=each.replace("_", "-"), assignment=assignment)
        return asyncio.ensure_future(self.service.sync_group(request.SerializeToString()))

    async def heartbeat(self, member_id: str, generation: int) -> str:
        """The refusal's reason, or nothing."""
        request = group_service_pb2.HeartbeatRequest(
            group_id=GROUP, member_id=member_id, generation_id=generation
        )
        try:
            await self.service.heartbeat(request.SerializeToString())
        except CoordinatorError as error:
            return error.reason
        return ""

    def advance(self, milliseconds: int) -> None:
        """Time passes, and the runtime looks at its deadlines."""
        self.serving.clock.advance(milliseconds)
        self.serving.node.members.expire()

    async def stable(self) -> str:
        """A group of one member; its id."""
        member_id, task = await self.come_in()
        self.advance(DELAY_MS)
        joined = group_service_pb2.JoinGroupResponse.FromString(await until(task))
        await until(self.sync(member_id, joined.generation_id))
        return member_id

    def state(self) -> GroupState | None:
        """What the shard says of the group."""
        runtime = self.serving.runtime
        shard = runtime.shards[runtime.partition_of(GROUP.encode())]
        return shard.live_group_state(GROUP.encode())


async def until(task: asyncio.Task[Any]) -> bytes:
    """What a call that may wait answers."""
    return await asyncio.wait_for(task, WAIT_SECONDS)


async def turn() -> None:
    """Lets what was begun go as far as it can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def reason_of(task: asyncio.Task[Any]) -> str:
    """Why a call is refused."""
    with pytest.raises(CoordinatorError) as refused:
        await until(task)
    return refused.value.reason
