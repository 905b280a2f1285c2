"""Members of classic groups. All of them run in one event loop, over `grpc.aio`."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import attrs
import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2
from offsetd.v1 import group_service_pb2 as messages
from offsetd.v1 import group_service_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

_CONNECTIONS = 8
_CALL_S_MAX = 300.0
_SESSION_S = 120
_HEARTBEAT_S = 1.0
_REBALANCE_S = 120


@attrs.define(kw_only=True)
class Member:
    """A member, in the newest generation that it has joined."""

    group_id: str
    stub: group_service_pb2_grpc.GroupServiceStub
    member_id: str = ""
    generation_id: int = -1
    # The assignments that a leader must make.
    assignments: dict[str, bytes] = attrs.field(factory=dict)

    @property
    def heartbeat(self) -> bytes:
        """The encoded heartbeat of the member."""
        request = messages.HeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, generation_id=self.generation_id
        )
        encoded: bytes = request.SerializeToString()
        return encoded

    async def join(self) -> None:
        """Joins; returns when the next generation begins. A new member first receives its id."""
        if not self.member_id:
            try:
                await self._join()
            except grpc.aio.AioRpcError as refusal:
                self.member_id = _error_details(refusal).metadata["member_id"]
        joined = await self._join()
        self.generation_id = joined.generation_id
        self.assignments = {each.member_id: b"\0" * 64 for each in joined.members}

    async def sync(self) -> None:
        """Syncs, and returns when the assignments are made."""
        assignments = [
            messages.MemberAssignment(member_id=member_id, assignment=assignment)
            for member_id, assignment in self.assignments.items()
        ]
        request = messages.SyncGroupRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            generation_id=self.generation_id,
            assignments=assignments,
        )
        answer = await self.stub.SyncGroup(request, timeout=_CALL_S_MAX)
        if len(answer.assignment) != 64:
            raise RuntimeError(f"a member of {self.group_id} has no assignment")

    async def settle(self, group: Sequence[Member]) -> None:
        """Joins and syncs again after each rebalance, until all members are in one generation."""
        while True:
            await self.join()
            try:
                await self.sync()
                while any(each.generation_id != self.generation_id for each in group):
                    await asyncio.sleep(_HEARTBEAT_S)
                    await self.stub.Heartbeat(messages.HeartbeatRequest.FromString(self.heartbeat))
            except grpc.aio.AioRpcError as refusal:
                if _error_details(refusal).reason != "REBALANCE_IN_PROGRESS":
                    raise
            else:
                return

    async def _join(self) -> messages.JoinGroupResponse:
        joined: messages.JoinGroupResponse = await self.stub.JoinGroup(
            messages.JoinGroupRequest(
                group_id=self.group_id,
                member_id=self.member_id,
                client_id="benchmark",
                session_timeout=Duration(seconds=_SESSION_S),
                rebalance_timeout=Duration(seconds=_REBALANCE_S),
                protocol_type="consumer",
                protocols=[messages.GroupProtocol(name="range", metadata=b"\0" * 32)],
            ),
            timeout=_CALL_S_MAX,
        )
        return joined


def _error_details(refusal: grpc.aio.AioRpcError) -> error_details_pb2.ErrorInfo:
    """The reason and the metadata of a refusal. A refusal without a reason is raised again."""
    details = dict(refusal.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    assert isinstance(details, bytes)
    for detail in status_pb2.Status.FromString(details).details:
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            return info
    raise refusal


@asynccontextmanager
async def members(
    address: str, *, groups: Sequence[str], size: int
) -> AsyncIterator[list[list[Member]]]:
    """New members of each group, which have not joined yet."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.aio.insecure_channel(address, options=options) for _ in range(_CONNECTIONS)]
    stubs = [
        group_service_pb2_grpc.GroupServiceStub(channel)  # type: ignore[no-untyped-call]
        for channel in channels
    ]
    try:
        yield [
            [Member(group_id=group, stub=stubs[number % len(stubs)]) for number in range(size)]
            for group in groups
        ]
    finally:
        for channel in channels:
            await channel.close()


async def settle(group: Sequence[Member]) -> None:
    """Lets all members join and sync, until they are in one generation."""
    await asyncio.gather(*(member.settle(group) for member in group))


async def rebalance(group: Sequence[Member]) -> float:
    """Rebalances a settled group: returns the seconds from the first rejoin to the last sync."""
    leader = next(member for member in group if member.assignments)
    started = time.perf_counter()
    await asyncio.gather(leader.join(), *(each.join() for each in group if each is not leader))
    await asyncio.gather(*(member.sync() for member in group))
    seconds = time.perf_counter() - started
    if len({member.generation_id for member in group}) != 1:
        raise RuntimeError("the group fell apart into several generations")
    return seconds
