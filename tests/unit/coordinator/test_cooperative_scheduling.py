"""Long work in turns."""

import asyncio

import pytest
from offsetd_coordinator import cooperative_scheduling
from offsetd_coordinator.cooperative_scheduling import ITEMS_PER_TURN, Turns
from patience import PATIENCE_SECONDS


async def test_others_come_between_after_so_many_items_and_not_sooner() -> None:
    seen: list[int] = []
    done = 0

    async def look() -> None:
        while done < 3 * ITEMS_PER_TURN:
            if done not in seen:
                seen.append(done)
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    await asyncio.sleep(0)
    async for item in Turns().each(range(3 * ITEMS_PER_TURN)):
        done = item + 1
    await looking
    assert seen == [0, ITEMS_PER_TURN, 2 * ITEMS_PER_TURN]


async def test_items_of_several_kinds_are_counted_together() -> None:
    counted, others = Turns(), 0

    async def count() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await asyncio.sleep(0)
    await counted.spend(ITEMS_PER_TURN - 1)
    assert others == 1
    await counted.spend(1)
    assert others > 1
    counting.cancel()


async def test_between_two_turns_others_get_as_far_as_several_passes_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cooperative_scheduling, "REST_SECONDS", 0.2)

    async def commit() -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    committing = asyncio.create_task(commit())
    await cooperative_scheduling.next_turn()
    assert committing.done()


async def test_after_the_turn_of_each_long_call_others_get_as_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cooperative_scheduling, "REST_SECONDS", 0.02)
    order: list[str] = []

    async def long_call(name: str) -> None:
        for _ in range(2):
            await cooperative_scheduling.next_turn()
            order.append(name)
            asyncio.get_running_loop().call_later(0.002, order.append, "commit")

    calls = [asyncio.create_task(long_call(name)) for name in ("a", "b", "cancelled", "c")]
    await asyncio.sleep(0)
    calls.pop(2).cancel()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.gather(*calls)
        while len(order) < 12:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    assert order == ["a", "commit", "b", "commit", "c", "commit"] * 2


async def test_long_calls_that_arrive_together_begin_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cooperative_scheduling, "REST_SECONDS", 0.02)
    order: list[str] = []

    async def long_call(name: str) -> None:
        await cooperative_scheduling.first_turn()
        order.append(name)
        asyncio.get_running_loop().call_later(0.002, order.append, "commit")

    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.gather(*map(long_call, "abc"))
        while len(order) < 6:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    assert order == ["a", "commit", "b", "commit", "c", "commit"]


@pytest.mark.parametrize(("turn_seconds", "turns_between"), [(0.0003, 4), (0.0006, 2), (0.01, 1)])
async def test_short_turns_follow_each_other_before_a_rest(
    monkeypatch: pytest.MonkeyPatch, turn_seconds: float, turns_between: int
) -> None:
    now_seconds, ended = 0.0, 0
    rests: list[int] = []

    async def rest() -> None:
        rests.append(ended)

    monkeypatch.setattr(cooperative_scheduling.time, "monotonic", lambda: now_seconds)
    monkeypatch.setattr(cooperative_scheduling, "next_turn", rest)
    turns = Turns()
    while ended < 4 * turns_between:
        ended += 1
        now_seconds += turn_seconds
        await turns.spend(ITEMS_PER_TURN)
    assert rests == [turns_between * each for each in range(1, 5)]
