"""Answers count from when they are built until they are taken, and others wait for room."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from offsetd.v1 import (
    admin_service_pb2,
    group_service_pb2,
    history_pb2,
    offset_service_pb2,
)
from offsetd_coordinator.calls import answer_reservations, connections, current_call
from offsetd_coordinator.calls.admission import Admission
from offsetd_coordinator.calls.connections import COPIES, Answer, AnswerBudget, Connection
from offsetd_coordinator.errors import TooManyBytesInFlight
from offsetd_coordinator.large_groups.group_reading import SLICE_ROWS
from offsetd_coordinator.services.group_calls import GroupService
from offsetd_coordinator.services.history_calls import HistoryService
from offsetd_coordinator.services.offset_exports import ExportService
from patience import PATIENCE_SECONDS
from serving_nodes import ServingNode, serving_node

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@pytest.fixture
def budget() -> AnswerBudget:
    return AnswerBudget(1000)


def connection(budget: AnswerBudget, peer: str) -> Connection:
    return Connection(peer, budget)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_an_answer_counts_while_it_is_built_and_until_it_is_taken(
    budget: AnswerBudget,
) -> None:
    one = connection(budget, "one")
    answer = Answer(budget, one)
    await answer.reserve(900)
    assert (budget.bytes_held, one.answer_bytes, one.unread_answers) == (900, 900, 0)
    answer.send(100)
    assert (budget.bytes_held, one.answer_bytes, one.unread_answers) == (200, 200, 1)
    answer.end()
    answer.end()
    assert (budget.bytes_held, one.answer_bytes, one.unread_answers) == (0, 0, 0)


async def test_who_finds_no_room_waits_and_who_holds_least_is_next(budget: AnswerBudget) -> None:
    greedy, modest = connection(budget, "greedy"), connection(budget, "modest")
    first = Answer(budget, greedy)
    await first.reserve(900)
    second = Answer(budget, greedy)
    third = Answer(budget, modest)
    waiting = [asyncio.create_task(each.reserve(800)) for each in (second, third)]
    await settled()
    assert budget.waiting == 2
    first.count(-100)
    await settled()
    assert budget.waiting == 2
    more = Answer(budget, greedy)
    more.count(100)
    first.end()
    await settled()
    assert [each.done() for each in waiting] == [False, True]
    third.end()
    more.end()
    await asyncio.gather(*waiting)
    assert budget.bytes_held == 800


async def test_an_answer_that_is_alone_may_be_larger_and_none_beside_it(
    budget: AnswerBudget,
) -> None:
    large, small = (Answer(budget, connection(budget, "one")) for _ in range(2))
    await large.reserve(5000)
    await large.reserve(5000)
    with pytest.raises(TooManyBytesInFlight):
        small.send(10)
    large.end()
    small.send(10)
    assert budget.bytes_held == COPIES * 10


async def test_who_holds_some_is_refused_more_so_that_nobody_waits_for_another(
    budget: AnswerBudget,
) -> None:
    one, two = (Answer(budget, connection(budget, "one")) for _ in range(2))
    await one.reserve(500)
    await two.reserve(500)
    with pytest.raises(TooManyBytesInFlight):
        await one.reserve(1)


async def test_who_waits_too_long_is_refused(
    budget: AnswerBudget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "WAIT_SECONDS_MAX", 0.01)
    one, two = (Answer(budget, connection(budget, "one")) for _ in range(2))
    await one.reserve(1000)
    with pytest.raises(TooManyBytesInFlight):
        await two.reserve(1)
    assert budget.waiting == 0
    assert budget.bytes_held == 1000


@pytest.mark.parametrize("given_room", [False, True])
async def test_who_gives_up_while_it_waits_holds_nothing(
    budget: AnswerBudget, given_room: bool
) -> None:
    one, two = (Answer(budget, connection(budget, "one")) for _ in range(2))
    await one.reserve(1000)
    waiting = asyncio.create_task(two.reserve(10))
    await settled()
    if given_room:
        one.end()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    one.end()
    assert (budget.bytes_held, budget.waiting) == (0, 0)


async def test_answers_leave_half_of_the_budget_to_requests() -> None:
    admission = Admission(1000)
    answer = Answer(admission.answers, connection(admission.answers, "one"))
    await answer.reserve(5000)  # Alone, and so allowed.
    for _ in range(5):
        admission.take(100)
    with pytest.raises(TooManyBytesInFlight):
        admission.take(100)


async def test_a_stream_that_waits_goes_on_when_an_answer_was_taken() -> None:
    admission = Admission(1000)
    answer = Answer(admission.answers, connection(admission.answers, "one"))
    await answer.reserve(500)
    admission.take(500)
    waiting = asyncio.create_task(admission.take_in_turn(100))
    await settled()
    assert not waiting.done()
    answer.end()
    await waiting


async def test_what_comes_from_inside_needs_no_room() -> None:
    await answer_reservations.reserve(1 << 40)


async def test_what_a_call_reserved_is_let_go_of_when_it_fails(budget: AnswerBudget) -> None:
    async def call() -> Any:
        current_call.note_connection(connection(budget, "one"))
        await answer_reservations.reserve(100)
        assert budget.bytes_held == 100
        answer_reservations.let_go()

    await asyncio.create_task(call())
    assert budget.bytes_held == 0


def fetched(serving: ServingNode) -> Awaitable[object]:
    return serving.offsets.fetch_offsets(
        offset_service_pb2.FetchOffsetsRequest(
            groups=[offset_service_pb2.GroupSelection(group_id="g")]
        ).SerializeToString()
    )


def page(serving: ServingNode) -> Awaitable[object]:
    request = group_service_pb2.GetGroupRequest(group_id="g", include_offsets=True)
    return GroupService(serving.node).get_group(request.SerializeToString())


def history(serving: ServingNode) -> Awaitable[object]:
    request = history_pb2.ListOffsetHistoryRequest(group_id="g")
    return HistoryService(serving.node).list_offset_history(request.SerializeToString())


def export(serving: ServingNode) -> Awaitable[object]:
    request = admin_service_pb2.ExportOffsetsRequest(
        group_ids=["g"], format=admin_service_pb2.OFFSET_FORMAT_KAFKA_CSV
    )
    service = ExportService(serving.node)

    async def pieces() -> list[bytes]:
        return [each async for each in service.export_offsets(request.SerializeToString())]

    return pieces()


@pytest.mark.parametrize("call", [fetched, page, history, export])
async def test_calls_that_read_much_wait_for_room_before_they_read(
    call: Callable[[ServingNode], Awaitable[object]],
) -> None:
    budget = AnswerBudget(1000)
    other = Answer(budget, connection(budget, "other"))
    await other.reserve(1000)
    async with serving_node() as serving:
        for number in range(SLICE_ROWS // 1000 + 1):
            await serving.commit("g", 1, partitions=1000, topic=f"orders{number}")

        async def made() -> object:
            current_call.note_connection(connection(budget, "one"))
            return await call(serving)

        calling = asyncio.create_task(made())
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not budget.waiting:  # noqa: ASYNC110  It is not to be told.
                await asyncio.sleep(0.001)
            assert not calling.done()
            other.end()
            assert await calling


def test_a_stream_s_small_message_counts_as_unread_and_has_no_bytes(budget: AnswerBudget) -> None:
    one = connection(budget, "one")
    end = answer_reservations.hold_small(one, 20)
    assert (one.unread_answers, one.answer_bytes, budget.bytes_held) == (1, 0, 0)
    end()
    assert one.unread_answers == 0
    end = answer_reservations.hold_small(one, 5000)
    assert (one.unread_answers, one.answer_bytes) == (1, COPIES * 5000)
    end()
    assert (one.unread_answers, one.answer_bytes, budget.bytes_held) == (0, 0, 0)
