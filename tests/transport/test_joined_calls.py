"""Handlers of `offsetd_wire` that get the calls of one turn of the event loop together."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest
from patience import PATIENCE_SECONDS

wire = pytest.importorskip("offsetd_wire", reason="offsetd-wire is not installed")

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

METHOD = "/test.Joined/Unary"


class Joined:
    """Keeps the calls it is given until `answer`. It leaves some, and fails at others."""

    def __init__(self) -> None:
        self.turns: list[list[bytes]] = []
        self.alone: list[bytes] = []
        self.kept: list[tuple[Any, bytes]] = []

    def join(self, calls: list[tuple[Any, bytes]]) -> list[Any]:
        self.turns.append([message for _, message in calls])
        if any(message == b"defect" for _, message in calls):
            raise RuntimeError("a defect")
        self.kept += [each for each in calls if each[1] != b"leave"]
        return [call for call, message in calls if message == b"leave"]

    async def one(self, message: bytes, _: object) -> bytes:
        self.alone.append(message)
        return b"alone"

    def answer(self) -> None:
        for call, message in self.kept:
            call.answer(message)

    async def until_kept(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.kept) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def _serving(joined: Joined) -> AsyncIterator[tuple[Any, Any]]:
    """The server, and a client's method."""
    server = wire.Server(())
    handler: Any = grpc.unary_unary_rpc_method_handler(joined.one)
    handler.join = joined.join
    methods = {"Unary": handler}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Joined", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield server, channel.unary_unary(METHOD)
    await server.stop(0)


async def test_calls_that_arrive_together_are_given_together() -> None:
    joined = Joined()
    async with _serving(joined) as (_, unary):
        calls = [unary(b"%d" % number) for number in range(100)]
        await joined.until_kept(100)
        assert len(joined.turns) < 100, "some calls came in one turn"
        joined.answer()
        assert [await call for call in calls] == [b"%d" % number for number in range(100)]
        assert not joined.alone


async def test_a_call_that_is_left_is_answered_alone() -> None:
    joined = Joined()
    async with _serving(joined) as (_, unary):
        first, left = unary(b"first"), unary(b"leave")
        assert await left == b"alone"
        await joined.until_kept(1)
        joined.answer()
        assert await first == b"first"
        assert joined.alone == [b"leave"]


async def test_a_compressed_message_is_answered_alone() -> None:
    joined = Joined()
    async with _serving(joined) as (_, unary):
        assert await unary(bytes(1000), compression=grpc.Compression.Gzip) == b"alone"
        assert joined.alone == [bytes(1000)]


async def test_a_defect_ends_the_calls_of_its_turn_only() -> None:
    joined = Joined()
    async with _serving(joined) as (_, unary):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await unary(b"defect")
        assert caught.value.code() is grpc.StatusCode.UNKNOWN
        later = unary(b"later")
        await joined.until_kept(1)
        joined.answer()
        assert await later == b"later"


async def test_a_call_whose_deadline_passes_ends_without_an_answer() -> None:
    joined = Joined()
    async with _serving(joined) as (_, unary):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await unary(b"late", timeout=0.2)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        if joined.kept:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not joined.kept[0][0].done():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        joined.answer()


async def test_the_stop_of_a_server_waits_for_calls_that_it_has_given() -> None:
    joined = Joined()
    async with _serving(joined) as (server, unary):
        call = unary(b"kept")
        await joined.until_kept(1)
        stopping = asyncio.create_task(server.stop(PATIENCE_SECONDS))
        await asyncio.sleep(0.1)
        assert not stopping.done()
        joined.answer()
        assert await call == b"kept"
        await stopping
