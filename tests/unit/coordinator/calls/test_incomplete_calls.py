"""Calls whose message does not come are counted, and end after a time."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc.aio
import pytest
from offsetd_coordinator.calls.admission import Admission, IncompleteCalls
from offsetd_coordinator.calls.connections import AnswerBudget, Connection
from offsetd_coordinator.counters import MethodCounters
from offsetd_coordinator.errors import DeadlineSpent
from offsetd_coordinator.grpc import unary_calls
from offsetd_coordinator.node import Node
from offsetd_coordinator.status_codes import StatusCode
from patience import PATIENCE_SECONDS

RECEIVE_MS_MAX = 40


class Call:
    """A call whose message comes when the test says so."""

    def __init__(self) -> None:
        self.received: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.code: grpc.StatusCode | None = None

    async def read(self) -> Any:
        return await self.received

    def peer(self) -> str:
        return "ipv4:127.0.0.1:5"

    def set_code(self, code: grpc.StatusCode) -> None:
        self.code = code

    def set_details(self, details: str) -> None:
        assert details

    def set_trailing_metadata(self, trailers: object) -> None:
        assert trailers


@pytest.fixture
def connection() -> Connection:
    return Connection("one", AnswerBudget(1000))


async def test_a_call_is_begun_until_its_message_is_whole(connection: Connection) -> None:
    begun, call = IncompleteCalls(), Call()
    waiting = asyncio.create_task(begun.message(call.read, connection))
    await asyncio.sleep(0)
    assert connection.begun_calls == 1
    call.received.set_result(b"message")
    assert await waiting == b"message"
    assert connection.begun_calls == 0


async def test_a_call_whose_message_does_not_come_in_time_ends(connection: Connection) -> None:
    begun, late, early = IncompleteCalls(RECEIVE_MS_MAX), Call(), Call()
    waiting = asyncio.create_task(begun.message(late.read, connection))
    await asyncio.sleep(RECEIVE_MS_MAX / 1000 / 2)
    early.received.set_result(b"message")
    assert await begun.message(early.read, connection) == b"message"
    with pytest.raises(DeadlineSpent, match="incomplete"):
        await asyncio.wait_for(waiting, PATIENCE_SECONDS)
    assert connection.begun_calls == 0


async def test_after_a_quiet_time_calls_are_looked_at_again(connection: Connection) -> None:
    begun = IncompleteCalls(RECEIVE_MS_MAX)
    for _ in range(2):
        with pytest.raises(DeadlineSpent):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await begun.message(Call().read, connection)
        await asyncio.sleep(RECEIVE_MS_MAX / 1000)


async def test_a_call_that_is_cancelled_is_let_go_of(connection: Connection) -> None:
    begun = IncompleteCalls()
    waiting = asyncio.create_task(begun.message(Call().read, connection))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert connection.begun_calls == 0


async def test_a_call_that_ends_without_a_message_is_not_answered() -> None:
    async def answer(_: bytes) -> bytes:
        raise AssertionError("there is no message")

    admission, counters, call = Admission(100), MethodCounters(), Call()
    node = Node(node_id="n1", address="127.0.0.1:7171", start_ms=0)
    handler: Any = unary_calls.unary(
        answer,
        admission,
        counters,
        load_ended=node.load_ended,
        request_bytes_max=50,
        method_access=None,
    )
    call.received.set_result(grpc.aio.EOF)
    assert await handler.stream_unary(None, call) == b""
    assert call.code is grpc.StatusCode.CANCELLED
    assert counters.codes[StatusCode.CANCELLED] == 1
    assert admission.requests == 0
    [connection] = admission.connections.all()
    assert connection.calls == 0
