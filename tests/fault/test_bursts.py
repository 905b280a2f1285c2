"""Many calls at one moment, as when all clients of a fleet come back: none gets an odd answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import grpc
import grpc.aio
from offsetd.v1 import offset_service_pb2
from offsetd_clients import AsyncOffsetClient, TopicPartition
from server_process import ServerProcess

if TYPE_CHECKING:
    from pathlib import Path

CONNECTIONS = 40
CALLS_OF_EACH = 75  # Below connection.calls.max: they are all open at once.
METHOD = "/offsetd.v1.OffsetService/CommitOffsets"
WAIT_SECONDS = 120


async def outcomes_of_burst(address: str) -> Counter[str]:
    """What all calls came to, of connections that were there before."""
    options = (("grpc.use_local_subchannel_pool", 1),)
    channels = [grpc.aio.insecure_channel(address, options=options) for _ in range(CONNECTIONS)]
    await asyncio.gather(*(channel.channel_ready() for channel in channels))

    async def commit(number: int) -> str:
        request = offset_service_pb2.CommitOffsetsRequest(
            group_id=f"group-{number}",
            offsets=[offset_service_pb2.OffsetCommit(topic="orders", partition=0, offset=number)],
        )
        call = channels[number % CONNECTIONS].unary_unary(METHOD)
        try:
            await call(request.SerializeToString(), timeout=WAIT_SECONDS)
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name}: {error.details()}"
        return "OK"

    try:
        return Counter(await asyncio.gather(*map(commit, range(CONNECTIONS * CALLS_OF_EACH))))
    finally:
        await asyncio.gather(*(channel.close() for channel in channels))


async def test_thousands_of_calls_at_once_are_all_answered(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        address = server.wait_until_serving().address
        outcomes = await outcomes_of_burst(address)
        assert outcomes == {"OK": CONNECTIONS * CALLS_OF_EACH}
        assert server.stop() == 0, server.log


async def test_our_client_waits_where_it_has_more_callers_than_a_connection_has_calls(
    tmp_path: Path,
) -> None:
    callers, partition = 200, TopicPartition("orders", 0)
    with ServerProcess(tmp_path / "data", settings={"connection.calls.max": 16}) as server:
        address = server.wait_until_serving().address
        async with AsyncOffsetClient(address, stream_commits=False) as client:

            async def commit_twice(number: int) -> None:
                for offset in (1, 2):
                    await client.commit(f"group-{number}", {partition: offset})

            await asyncio.gather(*map(commit_twice, range(callers)))
        assert server.stop() == 0, server.log
