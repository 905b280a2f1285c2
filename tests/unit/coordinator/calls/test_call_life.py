"""What every call goes through: deadline, admission, and errors that become statuses."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from offsetd_coordinator.calls import current_call
from offsetd_coordinator.calls.admission import Admission
from offsetd_coordinator.counters import CODES, MethodCounters
from offsetd_coordinator.errors import GroupIdNotFound, TooManyBytesInFlight
from offsetd_coordinator.grpc import unary_calls
from offsetd_coordinator.node import Node
from patience import PATIENCE_SECONDS

REQUEST_BYTES_MAX = 50


class FakeContext:
    """A call's context, as far as the services use it."""

    def __init__(self, remaining_seconds: float | None = None) -> None:
        self.remaining_seconds = remaining_seconds
        self.code: grpc.StatusCode | None = None
        self.details = ""
        self.message = b""
        self.done_callbacks: list[Any] = []
        self.trailers: tuple[tuple[str, bytes], ...] = ()

    async def read(self) -> bytes:
        return self.message

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    def add_done_callback(self, callback: Any) -> None:
        self.done_callbacks.append(callback)

    def peer(self) -> str:
        return "ipv4:127.0.0.1:5"

    def time_remaining(self) -> float | None:
        return self.remaining_seconds

    def set_code(self, code: grpc.StatusCode) -> None:
        self.code = code

    def set_details(self, details: str) -> None:
        self.details = details

    def set_trailing_metadata(self, trailers: tuple[tuple[str, bytes], ...]) -> None:
        self.trailers = trailers

    @property
    def status(self) -> Status:
        return Status.FromString(dict(self.trailers)["grpc-status-details-bin"])


async def called(
    answer: Any,
    admission: Admission,
    context: FakeContext,
    message: bytes,
    counters: MethodCounters | None = None,
) -> bytes:
    """What a handler makes of a message."""
    node = Node(node_id="n1", address="127.0.0.1:7171", start_ms=0)
    handler: Any = unary_calls.unary(
        answer,
        admission,
        counters or MethodCounters(),
        load_ended=node.load_ended,
        request_bytes_max=REQUEST_BYTES_MAX,
        method_access=None,
    )
    context.message = message
    response: bytes = await handler.stream_unary(None, context)
    return response


async def test_a_call_gets_its_answer_and_is_counted_while_it_waits() -> None:
    admission, context = Admission(100), FakeContext(5.0)

    async def answer(message: bytes) -> bytes:
        assert (admission.requests, admission.bytes_taken) == (1, 5)
        return message.upper()

    assert await called(answer, admission, context, b"hello") == b"HELLO"
    assert context.code is None
    assert (admission.requests, admission.bytes_taken) == (0, 0)


async def test_a_deadline_that_is_spent_does_nothing() -> None:
    async def answer(_: bytes) -> bytes:
        raise AssertionError("nothing may be done")

    context = FakeContext(0.0)
    assert await called(answer, Admission(100), context, b"x") == b""
    assert context.code is grpc.StatusCode.DEADLINE_EXCEEDED


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (GroupIdNotFound("no such group"), grpc.StatusCode.NOT_FOUND),
        (ValueError("a secret of the inside"), grpc.StatusCode.INTERNAL),
        (MemoryError(), grpc.StatusCode.INTERNAL),
    ],
)
async def test_an_error_becomes_a_status_and_gives_back_what_was_taken(
    error: Exception, code: grpc.StatusCode
) -> None:
    async def answer(_: bytes) -> bytes:
        raise error

    admission, context = Admission(100), FakeContext()
    assert await called(answer, admission, context, b"x") == b""
    assert context.code is code
    assert context.status.code == code.value[0]
    assert context.status.message == context.details
    assert "secret" not in context.details
    assert admission.requests == 0


async def test_a_call_that_is_cancelled_gives_back_what_was_taken() -> None:
    admission = Admission(100)

    async def answer(_: bytes) -> bytes:
        await asyncio.Event().wait()
        return b""

    task = asyncio.create_task(called(answer, admission, FakeContext(), b"x"))
    await asyncio.sleep(0)
    assert admission.requests == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (admission.requests, admission.bytes_taken) == (0, 0)


@pytest.mark.parametrize(
    ("error", "size", "code"),
    [
        (None, 1, "OK"),
        (GroupIdNotFound("no such group"), 1, "NOT_FOUND"),
        (ValueError("a defect"), 1, "INTERNAL"),
        (asyncio.CancelledError(), 1, "CANCELLED"),
        (None, REQUEST_BYTES_MAX + 1, "RESOURCE_EXHAUSTED"),
    ],
)
async def test_a_call_is_counted_once_by_the_code_it_ends_with(
    error: BaseException | None, size: int, code: str
) -> None:
    async def answer(_: bytes) -> bytes:
        if error is not None:
            raise error
        return b""

    counters = MethodCounters()
    with contextlib.suppress(asyncio.CancelledError):
        await called(answer, Admission(100), FakeContext(), bytes(size), counters)
    assert {name: count for name, count in zip(CODES, counters.codes, strict=True) if count} == {
        code: 1
    }
    assert sum(counters.durations.counts) == 1


async def test_a_call_beyond_the_budget_is_refused_before_it_is_read() -> None:
    admission, context = Admission(10), FakeContext()
    admission.take(8)

    async def answer(_: bytes) -> bytes:
        raise AssertionError("nothing may be done")

    assert await called(answer, admission, context, b"xyz") == b""
    assert context.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert admission.bytes_taken == 8


@pytest.mark.parametrize(("size", "answered"), [(REQUEST_BYTES_MAX, 1), (REQUEST_BYTES_MAX + 1, 0)])
async def test_a_message_over_the_limit_is_refused_and_told_both_sizes(
    size: int, answered: int
) -> None:
    answers = []

    async def answer(message: bytes) -> bytes:
        answers.append(message)
        return b""

    admission, context = Admission(100), FakeContext()
    await called(answer, admission, context, bytes(size))
    assert len(answers) == answered
    assert admission.requests == 0
    if not answered:
        assert context.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        info = ErrorInfo()
        context.status.details[0].Unpack(info)
        assert info.reason == "REQUEST_TOO_LARGE"
        assert dict(info.metadata) == {"size_bytes": "51", "bytes_max": "50"}


def test_a_lone_request_is_taken_whatever_its_size() -> None:
    admission = Admission(10)
    admission.take(1000)
    with pytest.raises(TooManyBytesInFlight):
        admission.take(1)
    admission.give_back(1000)
    admission.take(1)


async def test_who_waits_is_taken_in_turn_as_soon_as_there_is_room() -> None:
    admission = Admission(10)
    admission.take(8)
    admission.take(2)
    order: list[str] = []

    async def take(name: str, size: int) -> None:
        await admission.take_in_turn(size)
        order.append(name)

    tasks = [asyncio.create_task(take("a", 9))]
    await asyncio.sleep(0)
    admission.give_back(2)
    tasks += [asyncio.create_task(take(name, 1)) for name in ("b", "c")]
    await asyncio.sleep(0)
    assert order == [], "b would fit, and stands behind a"
    admission.give_back(8)
    await asyncio.gather(*tasks[:2])
    await asyncio.sleep(0)
    assert order == ["a", "b"]
    admission.give_back(9)
    await tasks[2]
    assert (admission.requests, admission.bytes_taken) == (2, 2)


async def test_who_stops_waiting_lets_the_next_in_that_there_is_room_for() -> None:
    admission = Admission(10)
    admission.take(5)
    first = asyncio.create_task(admission.take_in_turn(20))
    second = asyncio.create_task(admission.take_in_turn(4))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait_for(second, PATIENCE_SECONDS)
    assert (admission.requests, admission.bytes_taken) == (2, 9)


@pytest.mark.parametrize("given_room", [False, True])
async def test_who_stops_waiting_leaves_its_turn_to_the_next(given_room: bool) -> None:
    admission = Admission(10)
    admission.take(10)
    first = asyncio.create_task(admission.take_in_turn(20))
    second = asyncio.create_task(admission.take_in_turn(4))
    await asyncio.sleep(0)
    if given_room:
        admission.give_back(10)  # Just before it is cancelled.
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    if not given_room:
        admission.give_back(10)
    await asyncio.wait_for(second, PATIENCE_SECONDS)
    assert (admission.requests, admission.bytes_taken) == (1, 4)


async def test_whoever_answers_a_call_can_ask_who_made_it() -> None:
    async def answer(_: bytes) -> bytes:
        return current_call.caller().address.encode()

    assert current_call.caller().address == ""
    assert await called(answer, Admission(100), FakeContext(5.0), b"x") == b"ipv4:127.0.0.1:5"
