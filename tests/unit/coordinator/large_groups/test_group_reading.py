"""Large groups are read slice by slice: others work meanwhile, and no reader sees half a change."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import pytest
from offsetd.v1 import group_service_pb2, offset_service_pb2, types_pb2
from offsetd_coordinator.large_groups import group_reading
from offsetd_coordinator.runtime.runtime import Runtime
from offsetd_coordinator.services.group_calls import GroupService
from serving_nodes import WAIT_SECONDS, ServingNode, serving_node

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

SLICE = 64
OFFSETS = 10 * SLICE
TOPICS = 10
Stored = dict[tuple[str, int], int]


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_reading, "SLICE_ROWS", SLICE)
    monkeypatch.setitem(Runtime.fetch_into.__kwdefaults__, "offsets_max", SLICE)
    monkeypatch.setattr(group_reading, "SLICE_BLOCKS", 8)


async def commit(serving: ServingNode, value: int, *places: int) -> None:
    """Commits a value to some of the partitions of the large group, in one batch."""
    await serving.commit_offsets(
        "large",
        *({"topic": f"t{place % TOPICS}", "partition": place, "offset": value} for place in places),
    )


async def delete(serving: ServingNode, *places: int) -> None:
    request = offset_service_pb2.DeleteOffsetsRequest(
        group_id="large",
        partitions=[
            types_pb2.TopicPartition(topic=f"t{place % TOPICS}", partition=place)
            for place in places
        ],
    )
    await serving.offsets.delete_offsets(request.SerializeToString())


async def fetched(serving: ServingNode) -> Stored:
    [group] = await serving.fetch("large")
    return {(each.topic, each.partition): each.offset for each in group.offsets}


async def fetched_by_name(serving: ServingNode) -> Stored:
    """Those that are named, which are all that there ever are."""
    named = [
        types_pb2.TopicPartition(topic=f"t{place % TOPICS}", partition=place)
        for place in reversed(range(OFFSETS + TOPICS))
    ]
    request = offset_service_pb2.FetchOffsetsRequest(
        groups=[offset_service_pb2.GroupSelection(group_id="large", partitions=named)]
    )
    answer = await serving.offsets.fetch_offsets(request.SerializeToString())
    [group] = offset_service_pb2.FetchOffsetsResponse.FromString(answer).groups
    return {(each.topic, each.partition): each.offset for each in group.offsets}


async def one_page(serving: ServingNode) -> Stored:
    request = group_service_pb2.GetGroupRequest(
        group_id="large", include_offsets=True, page_size=2 * OFFSETS
    )
    answer = await GroupService(serving.node).get_group(request.SerializeToString())
    response = group_service_pb2.GetGroupResponse.FromString(answer)
    return {(each.topic, each.partition): each.offset for each in response.offsets}


READS = pytest.mark.parametrize("read", [fetched, fetched_by_name, one_page])


@READS
async def test_others_work_between_the_slices_of_a_read(
    read: Callable[[ServingNode], Awaitable[Stored]],
) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with serving_node(partitions=1) as serving:
        await commit(serving, 1, *range(OFFSETS))
        counting = asyncio.create_task(count())
        stored = await asyncio.wait_for(read(serving), WAIT_SECONDS)
        counting.cancel()
        assert len(stored) == OFFSETS
        assert turns >= OFFSETS // SLICE


@pytest.mark.slow
@READS
async def test_no_read_sees_half_of_a_change(
    read: Callable[[ServingNode], Awaitable[Stored]],
) -> None:
    """All changes touch the first and the last partition of the table, in one batch each."""
    async with serving_node(partitions=1) as serving:
        await commit(serving, 0, *range(OFFSETS))
        ends = [("t0", 0), (f"t{(OFFSETS - 1) % TOPICS}", OFFSETS - 1)]
        done, is_over = 0, False

        async def change() -> None:
            nonlocal done
            while not is_over:
                done += 1
                # Rarely, because a read waits for the end of a deletion: most would see only that.
                if done % 50:
                    await commit(serving, done, 0, OFFSETS - 1)
                else:
                    await delete(serving, 0, OFFSETS - 1)

        changing = asyncio.create_task(change())
        seen: set[int | None] = set()
        for number in itertools.count():
            if number >= 20 and len(seen) > 1:
                break
            before = done
            stored = await asyncio.wait_for(read(serving), WAIT_SECONDS)
            first, last = (stored.get(each) for each in ends)
            assert first == last
            assert first is None or before - 1 <= first <= done
            assert len(stored) == OFFSETS - 2 * (first is None)
            seen.add(first)
        is_over = True
        await changing


@READS
async def test_a_read_has_what_came_and_not_what_went_while_it_read(
    read: Callable[[ServingNode], Awaitable[Stored]],
) -> None:
    async with serving_node(partitions=1) as serving:
        await commit(serving, 0, *range(OFFSETS))
        reading = asyncio.create_task(read(serving))
        await asyncio.sleep(0)
        changed = asyncio.create_task(delete(serving, *range(100)))
        added = asyncio.create_task(commit(serving, 7, OFFSETS, OFFSETS + 1))
        stored = await asyncio.wait_for(reading, WAIT_SECONDS)
        await asyncio.gather(changed, added)
        assert len(stored) == OFFSETS - 100 + 2
        assert stored == await read(serving)


@pytest.mark.slow
@pytest.mark.parametrize("page_size", [1, 7, SLICE, 200])
async def test_pages_of_a_large_group_are_all_of_it_in_order(page_size: int) -> None:
    async with serving_node(partitions=1) as serving:
        for first in range(0, OFFSETS, 160):
            await commit(serving, 3, *reversed(range(first, first + 160)))
        found: list[tuple[str, int]] = []
        token = ""
        while True:
            request = group_service_pb2.GetGroupRequest(
                group_id="large", include_offsets=True, page_size=page_size, page_token=token
            )
            answer = await GroupService(serving.node).get_group(request.SerializeToString())
            page = group_service_pb2.GetGroupResponse.FromString(answer)
            found += [(each.topic, each.partition) for each in page.offsets]
            token = page.next_page_token
            if not token:
                break
            assert len(page.offsets) == page_size
        assert found == sorted((f"t{place % TOPICS}", place) for place in range(OFFSETS))
