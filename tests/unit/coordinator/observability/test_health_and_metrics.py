"""A server's health of its cleaner, over gRPC, with a cleaner that is made to fail."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc
from listening_servers import listening
from offsetd.v1 import offset_service_pb2_grpc
from offsetd_coordinator.observability.health_and_metrics import DISK_SERVICE
from offsetd_coordinator.runtime.disk_guard import UnwatchedDisk
from offsetd_storage.cleaner.cleaner_thread import CleanerThread
from serving_nodes import commit_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    import grpc.aio
    import pytest
    from offsetd_storage.cleaner.offset_map import OffsetMap

WAIT_SECONDS = 120
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
CLEANER = "offsetd.cleaner"

untyped_health: Any = health_pb2_grpc.HealthStub
untyped_offsets: Any = offset_service_pb2_grpc.OffsetServiceStub


@asynccontextmanager
async def served(*assignments: str) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to a server that serves from a simulated disk."""
    async with listening(*assignments) as listens:
        await until(listens.channel, "", SERVING)
        yield listens.channel


async def status_of(channel: grpc.aio.Channel, service: str) -> int:
    request = health_pb2.HealthCheckRequest(service=service)
    return int((await untyped_health(channel).Check(request)).status)


async def until(channel: grpc.aio.Channel, service: str, status: int) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while await status_of(channel, service) != status:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def until_told(events: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    """The first event of that name."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            for event in tuple(events):
                if event["event"] == name:
                    return event
            await asyncio.sleep(0.02)


async def test_a_cleaner_that_dies_is_not_serving_until_its_successor_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = True
    make_map = CleanerThread.offset_map

    def fail_while_broken(thread: CleanerThread) -> OffsetMap:
        if broken:
            raise SystemExit("the thread dies of this")
        return make_map(thread)

    monkeypatch.setattr(CleanerThread, "offset_map", fail_while_broken)
    with structlog.testing.capture_logs() as events:
        async with served() as channel:
            await until_told(events, "the cleaner does not work")
            assert await status_of(channel, CLEANER) == NOT_SERVING
            for service in ("", "offsetd.v1.OffsetService"):
                assert await status_of(channel, service) == SERVING
            await untyped_offsets(channel).CommitOffsets(commit_request("g", 1))
            broken = False
            await until(channel, CLEANER, SERVING)
    told = [each["event"] for each in events]
    assert "a thread of the cleaner died and was replaced" in told
    assert told.index("the cleaner does not work") < told.index("the cleaner works again")


async def test_a_cleaner_that_keeps_failing_is_not_serving(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: CleanerThread) -> OffsetMap:
        raise MemoryError

    monkeypatch.setattr(CleanerThread, "offset_map", fail)
    with structlog.testing.capture_logs() as events:
        async with served() as channel:
            told = await until_told(events, "the cleaner does not work")
            assert await status_of(channel, CLEANER) == NOT_SERVING
            assert await status_of(channel, "") == SERVING
    assert "MemoryError" in told["reason"]


async def test_a_round_that_hangs_is_a_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    is_held = False

    def hang(thread: CleanerThread) -> None:
        """The clock goes on, the thread's progress does not."""
        if not is_held:
            note(thread)

    note = CleanerThread.note_progress
    monkeypatch.setattr(CleanerThread, "note_progress", hang)
    async with served("cleaner.stall.ms=1000", "log.cleaner.backoff.ms=10") as channel:
        await until(channel, CLEANER, SERVING)
        is_held = True
        await until(channel, CLEANER, NOT_SERVING)
        is_held = False
        await until(channel, CLEANER, SERVING)


async def test_a_disk_without_room_is_told_when_it_begins_and_when_it_ends() -> None:
    with structlog.testing.capture_logs() as events:
        async with listening() as each:
            await until(each.channel, "", SERVING)
            await until(each.channel, DISK_SERVICE, SERVING)
            runtime = each.server.node.runtime
            assert runtime is not None
            disk = runtime.disk
            runtime.disk = LowDisk()
            await until(each.channel, DISK_SERVICE, NOT_SERVING)
            await until_told(events, "the disk is nearly full: commits are refused")
            runtime.disk = disk
            await until(each.channel, DISK_SERVICE, SERVING)
            await until_told(events, "there is room on the disk again: commits are accepted")


class LowDisk(UnwatchedDisk):
    is_low = True
