"""Long work in turns."""

import asyncio

from offsetd_coordinator.service.turns import ITEMS_PER_TURN, Turns


async def test_others_come_between_after_so_many_items_and_not_sooner() -> None:
    seen: list[int] = []
    done = 0

    async def look() -> None:
        while done < 3 * ITEMS_PER_TURN:
            seen.append(done)
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    await asyncio.sleep(0)
    async for item in Turns().each(range(3 * ITEMS_PER_TURN)):
        done = item + 1
    await looking
    assert seen == [0, ITEMS_PER_TURN, 2 * ITEMS_PER_TURN]


async def test_items_of_several_kinds_are_counted_together() -> None:
    turns, others = Turns(), 0

    async def count() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await asyncio.sleep(0)
    await turns.spend(ITEMS_PER_TURN - 1)
    assert others == 1
    await turns.spend(1)
    assert others == 2
    counting.cancel()
