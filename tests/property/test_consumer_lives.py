"""Drawn lives of consumers of one group: whoever comes, goes, dies or is cut off, it holds that

* every item is processed by somebody, and in the end committed;
* what is committed was processed;
* nobody is given an item of a partition that another has by now;
* partitions are revoked, or lost, before others are assigned, and nothing is committed after that.
"""

from __future__ import annotations

import asyncio
import os
import random

import pytest
from consumer_worlds import POLL_S_MAX, SESSION_S, Worker, World
from hypothesis import given, settings
from hypothesis import strategies as st
from offsetd_clients import ConsumerFenced, ConsumerSettings
from virtual_time import run

NIGHTLY = bool(os.environ.get("OFFSETD_NIGHTLY"))
ACTIONS = (
    "come", "come", "close", "kill", "cut", "cut briefly", "mend", "hang", "grow", "more", "lossy",
)  # fmt: skip
STEPS = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 15)), max_size=12)
QUIET_S = 1.0
FEED_S = 1.0
PATIENCE_S = 2000.0


def drawn_settings(rng: random.Random) -> ConsumerSettings:
    return ConsumerSettings(
        acknowledgement=rng.choice(("implicit", "implicit", "explicit")),
        auto_commit_interval_s=rng.choice((0.3, 2.0)),
        assignors=rng.choice((("sticky",), ("sticky", "range"), ("roundrobin", "sticky"))),
        session_timeout_s=SESSION_S,
        heartbeat_interval_s=1.0,
        poll_interval_s_max=POLL_S_MAX,
        source_interval_s=rng.choice((0.5, 5.0)),
        instance_id=None,
    )


def come(world: World) -> Worker:
    worker = Worker(world, drawn_settings(world.rng))
    worker.start()
    world.workers.append(worker)
    return worker


async def do(world: World, action: str, pick: int) -> None:
    """Something happens, to one of those who are there."""
    workers, rng = world.workers, world.rng
    worker = workers[pick % len(workers)] if workers else come(world)
    match action:
        case "come" if len(workers) < 5:
            come(world)
        case "close" | "kill":
            workers.remove(worker)
            await (worker.close() if action == "close" else worker.kill())
        case "cut":
            worker.client.is_cut = True
        case "cut briefly":
            worker.client.is_cut = True
            await asyncio.sleep(SESSION_S / 2)
            worker.client.is_cut = False
        case "mend":
            worker.client.is_cut = False
        case "hang":
            worker.slow_s = POLL_S_MAX + 5.0
            await asyncio.sleep(POLL_S_MAX * rng.random() * 2)
            worker.slow_s = 0.0
        case "grow":
            world.add(f"topic-{pick % 3}", world_partition(world, pick), 1 + pick)
        case "more":
            for each in list(world.ends):
                world.add(each.topic, each.partition, pick)
        case "lossy":
            world.lossy = (pick % 4) * 0.05
    await asyncio.sleep(pick * QUIET_S)


def world_partition(world: World, pick: int) -> int:
    """The next partition that this topic has not."""
    return sum(1 for each in world.ends if each.topic == f"topic-{pick % 3}")


async def feed(world: World) -> None:
    """There is always something to do; never ends."""
    while True:
        await asyncio.sleep(FEED_S)
        for each in list(world.ends):
            world.add(each.topic, each.partition, 1)


async def live(seed: int, steps: list[tuple[str, int]]) -> None:
    loop = asyncio.get_running_loop()
    world = World(random.Random(seed), loop)
    background = [asyncio.ensure_future(world.tick()), asyncio.ensure_future(feed(world))]
    for partition in range(4):
        world.add("topic-0", partition, 10)
    for _ in range(2):
        come(world)
    for action, pick in steps:
        await do(world, action, pick)
        for worker in world.workers:
            worker.check()
    # All is well again: then everything is done, in a time that is generous.
    background.pop().cancel()
    world.lossy = 0.0
    if not world.workers:
        come(world)
    for worker in world.workers:
        worker.client.is_cut = False
    until_s = loop.time() + PATIENCE_S
    while not world.is_done():
        await asyncio.sleep(1.0)
        for worker in world.workers:
            worker.check()
        assert loop.time() < until_s, f"not done: {world.handled} {world.offsets} {world.ends}"
    for worker in list(world.workers):
        await worker.close()
    background.pop().cancel()
    assert world.is_done()
    assert not world.problems


@pytest.mark.slow
@settings(max_examples=1500 if NIGHTLY else 40)
@given(seed=st.integers(0, 2**32), steps=STEPS)
def test_consumers_share_work_whatever_happens_to_them(
    seed: int, steps: list[tuple[str, int]]
) -> None:
    run(live(seed, steps))


@pytest.mark.parametrize("action", sorted(set(ACTIONS)))
def test_consumers_share_work_after_each_thing_that_can_happen(action: str) -> None:
    for seed in range(6):
        run(live(seed, [("come", 3), (action, 7 + seed), (action, 2), ("close", 1)]))


def test_new_partitions_are_had_as_soon_as_they_are_seen() -> None:
    async def grow() -> None:
        world = World(random.Random(7), asyncio.get_running_loop())
        ticking = asyncio.ensure_future(world.tick())
        world.add("topic-0", 0, 1)
        # Neither a heartbeat nor a commit helps it along.
        slow = ConsumerSettings(
            heartbeat_interval_s=20.0, auto_commit_interval_s=60.0, source_interval_s=0.2
        )
        worker = Worker(world, slow)
        worker.start()
        await asyncio.sleep(110.0)  # In the middle between two heartbeats.
        assert world.is_done()
        world.add("topic-0", 1, 1)
        await asyncio.sleep(0.9)  # Looked at after 0.2 s; then some calls, of 15 ms at most each.
        worker.check()
        assert worker.held == set(world.ends)
        await worker.close()
        ticking.cancel()

    run(grow())


def test_who_is_fenced_by_a_commit_in_the_background_is_told_by_its_own() -> None:
    async def fence(seed: int) -> None:
        world = World(random.Random(seed), asyncio.get_running_loop())
        ticking = asyncio.ensure_future(world.tick())
        world.add("topic-0", 0, 50)
        worker = Worker(world, ConsumerSettings(auto_commit_interval_s=60.0))
        worker.make()
        items = await worker.consumer.poll(9, timeout_s=60.0)
        world.handled[items[0].topic_partition].update(range(9))
        worker.consumer.ack(items[0])
        member_id = worker.consumer._role.standing.membership.member_id
        world.calls.leave((member_id, None))
        worker.consumer._keeper.prompt_commit()
        await asyncio.sleep(seed * 0.002)
        with pytest.raises(ConsumerFenced):
            await worker.consumer.commit(items[1])
        assert not worker.held
        await worker.close()
        ticking.cancel()

    for seed in range(20):
        run(fence(seed))
