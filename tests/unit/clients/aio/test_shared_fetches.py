"""offsetd_clients.aio.shared_fetches"""

import asyncio
from typing import Any

import attrs
import pytest
from fake_server import FakeServer
from offsetd.v1.offset_service_pb2 import (
    FetchOffsetsRequest,
    FetchOffsetsResponse,
    GroupOffsets,
    GroupSelection,
)
from offsetd_clients import AsyncOffsetClient, GroupRefused, RetryPolicy, TopicPartition
from offsetd_clients.aio import shared_fetches
from offsetd_clients.aio.shared_fetches import SharedFetches
from offsetd_clients.errors import Failure, OffsetdError, closed_while_waiting, error_of

TIMEOUT_S = 10.0


def request(group_id: str, *, require_stable: bool = False) -> FetchOffsetsRequest:
    groups = [GroupSelection(group_id=group_id)]
    return FetchOffsetsRequest(groups=groups, require_stable=require_stable)


def error(code: str, reason: str = "") -> OffsetdError:
    return error_of(Failure(code=code, message="no", reason=reason))


@attrs.define
class Calls:
    """Answers each group with its name's length; a call that has a group of `errors` fails."""

    errors: dict[str, Exception] = attrs.field(factory=dict)
    asked: list[list[str]] = attrs.field(factory=list)
    timeouts_s: list[float] = attrs.field(factory=list)
    takes_s: float = 0.0
    cancelled: int = 0
    begun: asyncio.Event = attrs.field(factory=asyncio.Event)

    async def __call__(self, request: FetchOffsetsRequest, timeout_s: float) -> Any:
        names = [group.group_id for group in request.groups]
        self.asked.append(names)
        self.timeouts_s.append(timeout_s)
        self.begun.set()
        try:
            await asyncio.sleep(self.takes_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        for name in names:
            if name in self.errors:
                raise self.errors[name]
        groups = [GroupOffsets(group_id=name, log_partition=len(name)) for name in names]
        return FetchOffsetsResponse(groups=groups)

    async def fetched(self, *requests: FetchOffsetsRequest) -> list[Any]:
        """All at the same time: the group and the length that were told, or what was raised."""
        fetches = SharedFetches(self)
        found = await asyncio.gather(
            *(fetches.fetch(each, TIMEOUT_S) for each in requests), return_exceptions=True
        )
        return [
            each if isinstance(each, BaseException) else (each.group_id, each.log_partition)
            for each in found
        ]


async def test_fetches_of_one_turn_share_a_call_and_each_has_its_own_answer() -> None:
    calls = Calls()
    assert await calls.fetched(*map(request, ["a", "bb", "ccc"])) == [
        ("a", 1),
        ("bb", 2),
        ("ccc", 3),
    ]
    assert calls.asked == [["a", "bb", "ccc"]]


async def test_a_fetch_that_comes_later_is_not_waited_for() -> None:
    calls = Calls(takes_s=0.01)
    fetches = SharedFetches(calls)
    first = asyncio.create_task(fetches.fetch(request("a"), TIMEOUT_S))
    await calls.begun.wait()
    await fetches.fetch(request("b"), TIMEOUT_S)
    await first
    assert calls.asked == [["a"], ["b"]]


async def test_a_call_names_no_group_twice_and_not_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_fetches, "GROUPS_MAX", 3)
    calls = Calls()
    names = ["a", "b", "a", "c", "d", "e"]
    assert await calls.fetched(*map(request, names)) == [(name, 1) for name in names]
    assert sorted(calls.asked) == [["a", "b"], ["a", "c", "d"], ["e"]]


async def test_who_asks_for_stable_offsets_or_has_little_time_does_not_share_with_others() -> None:
    calls = Calls()
    fetches = SharedFetches(calls)
    await asyncio.gather(
        fetches.fetch(request("a"), TIMEOUT_S),
        fetches.fetch(request("b", require_stable=True), TIMEOUT_S),
        fetches.fetch(request("c"), TIMEOUT_S / 2),
        fetches.fetch(request("d"), 0.9),
        fetches.fetch(request("e"), 0.9),
    )
    assert sorted(calls.asked) == [["a"], ["b"], ["c"], ["d"], ["e"]]


@pytest.mark.parametrize(
    "wrong", [error("DATA_LOSS", "CORRUPT"), error("UNAVAILABLE", "LOADING"), KeyError("defect")]
)
async def test_what_is_wrong_with_one_group_is_nothing_to_the_others(wrong: Exception) -> None:
    calls = Calls(errors={"bb": wrong})
    assert await calls.fetched(*map(request, ["a", "bb", "c"])) == [("a", 1), wrong, ("c", 1)]
    assert calls.asked == [["a", "bb", "c"], ["a"], ["bb"], ["c"]]
    assert all(0 < each <= TIMEOUT_S for each in calls.timeouts_s)


@pytest.mark.parametrize(
    "wrong", [error("UNAVAILABLE"), error("DEADLINE_EXCEEDED"), closed_while_waiting()]
)
async def test_what_no_group_has_to_do_with_is_told_to_all_and_each_has_an_error_of_its_own(
    wrong: OffsetdError,
) -> None:
    calls = Calls(errors={"bb": wrong})
    found = await calls.fetched(*map(request, ["a", "bb"]))
    assert [type(each) for each in found] == [type(wrong)] * 2
    assert [each.failure for each in found] == [wrong.failure] * 2
    assert found[0] is not found[1]
    assert calls.asked == [["a", "bb"]]


async def test_a_second_call_has_only_the_time_that_the_first_has_left() -> None:
    calls = Calls(errors={"b": error("DATA_LOSS", "CORRUPT")}, takes_s=0.05)
    await calls.fetched(*map(request, ["a", "b"]))
    assert calls.timeouts_s[0] == TIMEOUT_S
    assert all(0 < each < TIMEOUT_S - 0.04 for each in calls.timeouts_s[1:])


async def test_who_gives_up_takes_nothing_from_the_others() -> None:
    calls = Calls(takes_s=0.01)
    fetches = SharedFetches(calls)
    tasks = [
        asyncio.create_task(fetches.fetch(request(name), TIMEOUT_S)) for name in ("a", "b", "c")
    ]
    await calls.begun.wait()
    tasks[0].cancel()
    found: list[Any] = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert [each.group_id for each in found[1:]] == ["b", "c"]
    assert calls.asked == [["a", "b", "c"]]


async def test_who_gives_up_before_the_call_is_not_in_it() -> None:
    calls = Calls()
    fetches = SharedFetches(calls)
    tasks = [
        asyncio.create_task(fetches.fetch(request(name), TIMEOUT_S)) for name in ("a", "b", "c")
    ]
    asyncio.get_running_loop().call_soon(tasks[0].cancel)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert calls.asked == [["b", "c"]]


async def test_a_fetch_that_is_alone_ends_its_call_when_it_is_given_up() -> None:
    calls = Calls(takes_s=60.0)
    task = asyncio.create_task(SharedFetches(calls).fetch(request("a"), TIMEOUT_S))
    await calls.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert calls.cancelled == 1


async def test_a_shared_call_that_somebody_cancels_is_made_by_each() -> None:
    calls = Calls(takes_s=0.01)
    before = asyncio.all_tasks()
    fetching = asyncio.create_task(calls.fetched(*map(request, ["a", "b"])))
    await calls.begun.wait()
    (sharing,) = [
        each
        for each in asyncio.all_tasks() - before
        if each.get_coro().__qualname__ == "SharedFetches._share"  # type: ignore[union-attr]
    ]
    sharing.cancel()
    assert await fetching == [("a", 1), ("b", 1)]
    assert calls.asked == [["a", "b"], ["a"], ["b"]]


async def test_the_client_shares_calls_and_each_caller_has_its_own_failure(
    fake_server: FakeServer, failed: Any
) -> None:
    def answer(asked: FetchOffsetsRequest) -> Any:
        names = [group.group_id for group in asked.groups]
        if "bad" in names:
            return failed("FAILED_PRECONDITION", "NEWER_THAN_THIS_CLIENT")
        groups = [GroupOffsets(group_id=name) for name in names]
        for each in groups:
            each.offsets.add(topic="orders", offset=len(each.group_id))
        return FetchOffsetsResponse(groups=groups)

    fake_server.answer_each = answer
    retry = RetryPolicy(timeout_s=60.0)
    async with AsyncOffsetClient(fake_server.address, retry=retry) as client:
        names = ["a", "bad", "ccc"]
        found: list[Any] = await asyncio.gather(*map(client.fetch, names), return_exceptions=True)
        assert isinstance(found[1], GroupRefused)
        assert [found[at][TopicPartition("orders", 0)].offset for at in (0, 2)] == [1, 3]
        assert [len(each.groups) for each in fake_server.requests] == [3, 1, 1, 1]
        await asyncio.gather(*map(client.fetch, ["d", "e"]))
        assert [len(each.groups) for each in fake_server.requests[4:]] == [2]
