"""ListOffsetHistory and RestoreGroup, from bytes to bytes, over a simulated disk."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from offsetd.v1 import history_pb2, offset_service_pb2, types_pb2
from offsetd_coordinator.errors import (
    CoordinatorError,
    GroupIdNotFound,
    InvalidPageToken,
    InvalidRequest,
    LeaseHeld,
)
from offsetd_coordinator.history.history_errors import HistoryCompacted
from offsetd_coordinator.history.offset_history import state_at
from offsetd_coordinator.requests import AcquireGroup
from offsetd_coordinator.services.history_calls import HistoryService
from patience import PATIENCE_SECONDS
from serving_nodes import ServingNode, serving_node

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from offsetd.v1.history_pb2 import OffsetEvent

GROUP = "g"
LIST = history_pb2.ListOffsetHistoryRequest
RESTORE = history_pb2.RestoreGroupRequest


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, PATIENCE_SECONDS))


async def history(node: ServingNode, **fields: Any) -> history_pb2.ListOffsetHistoryResponse:
    request = LIST(group_id=fields.pop("group_id", GROUP), **fields)
    answer = await HistoryService(node.node).list_offset_history(request.SerializeToString())
    return history_pb2.ListOffsetHistoryResponse.FromString(answer)


async def restore(node: ServingNode, **fields: Any) -> history_pb2.RestoreGroupResponse:
    request = RESTORE(group_id=fields.pop("group_id", GROUP), **fields)
    answer = await HistoryService(node.node).restore_group(request.SerializeToString())
    return history_pb2.RestoreGroupResponse.FromString(answer)


async def delete(node: ServingNode, partition: int) -> None:
    request = offset_service_pb2.DeleteOffsetsRequest(
        group_id=GROUP, partitions=[types_pb2.TopicPartition(topic="orders", partition=partition)]
    )
    await node.offsets.delete_offsets(request.SerializeToString())


async def stored(node: ServingNode) -> dict[int, int]:
    (group,) = await node.fetch(GROUP)
    return {each.partition: each.offset for each in group.offsets}


def told(events: Any) -> list[tuple[int, int, int | None]]:
    """Log offset, partition, and the offset that was committed."""

    def of(event: OffsetEvent) -> tuple[int, int, int | None]:
        change = event.WhichOneof("change")
        offset = event.committed.offset if change == "committed" else None
        return event.revision.log_offset, event.partition, offset

    return [of(each) for each in events]


async def written(node: ServingNode) -> None:
    """Log offsets 0 and 1: 10; 2 and 3: 20; 4: a deletion. A second between them."""
    await node.commit(GROUP, 10, partitions=2)
    node.clock.advance(1000)
    await node.commit(GROUP, 20, partitions=2)
    node.clock.advance(1000)
    await delete(node, 1)


ALL = [(0, 0, 10), (1, 1, 10), (2, 0, 20), (3, 1, 20), (4, 1, None)]


def without_revisions(
    response: history_pb2.RestoreGroupResponse,
) -> list[history_pb2.RestoredOffset]:
    for change in response.changes:
        change.ClearField("revision")
    return list(response.changes)


def test_history_tells_commits_and_deletions_of_one_group() -> None:
    async def test() -> None:
        async with serving_node(partitions=1) as node:
            begun_ms = node.clock.now_ms()
            await written(node)
            await node.commit("other", 1)
            found = await history(node)
            assert told(found.events) == ALL[::-1]
            assert {each.group_id for each in found.events} == {GROUP}
            assert found.oldest_revision.log_offset == 0
            times = [each.time.ToMilliseconds() - begun_ms for each in found.events]
            assert times == [2000, 1000, 1000, 0, 0]
            first = found.events[-1].committed
            assert first.commit_time.ToMilliseconds() == begun_ms
            assert not first.HasField("leader_epoch")

    run(test())


def test_history_of_a_group_that_nobody_knows_is_not_found() -> None:
    async def test() -> None:
        async with serving_node(partitions=1) as node:
            await written(node)
            with pytest.raises(GroupIdNotFound):
                await history(node, group_id="nobody")

    run(test())


def test_history_of_a_deleted_group_is_there_also_where_nothing_is_asked_of_it() -> None:
    async def test() -> None:
        async with serving_node(partitions=1) as node:
            await written(node)
            await delete(node, 0)
            assert told((await history(node)).events)[0] == (5, 0, None)
            assert told((await history(node, from_revision=6)).events) == []

    run(test())


def test_a_group_without_offsets_has_no_history_and_is_found() -> None:
    async def test() -> None:
        async with serving_node(partitions=1) as node:
            node.runtime.submit(AcquireGroup(group_id=b"held", holder="w", ttl_ms=60_000))
            assert told((await history(node, group_id="held")).events) == []

    run(test())


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"from_revision": 2}, [2, 3, 4]),
        ({"to_revision": 2}, [0, 1, 2]),
        ({"from_revision": 1, "to_revision": 3}, [1, 2, 3]),
        ({"from_revision": 9}, []),
        ({"from": 1000}, [2, 3, 4]),
        ({"from": 1001}, [4]),
        ({"from": 9000}, []),
        ({"to": 0}, [0, 1]),
        ({"to": 999}, [0, 1]),
        ({"from": 1, "to": 1000}, [2, 3]),
        ({"partitions": [types_pb2.TopicPartition(topic="orders", partition=1)]}, [1, 3, 4]),
    ],
)
def test_history_is_asked_for_by_revision_by_time_and_by_partition(
    asked: dict[str, Any], expected: list[int]
) -> None:
    async def test() -> None:
        async with serving_node() as node:
            begun_ms = node.clock.now_ms()
            await written(node)
            fields = {name: each for name, each in asked.items() if name not in ("from", "to")}
            request = LIST(group_id=GROUP, oldest_first=True, **fields)
            for name in ("from", "to"):
                if name in asked:
                    getattr(request, f"{name}_time").FromMilliseconds(begun_ms + asked[name])
            service = HistoryService(node.node)
            for page_size in (0, 1, 2):
                request.page_size, request.page_token = page_size, ""
                found: list[int] = []
                while True:
                    encoded = await service.list_offset_history(request.SerializeToString())
                    answer = history_pb2.ListOffsetHistoryResponse.FromString(encoded)
                    found += [each.revision.log_offset for each in answer.events]
                    request.page_token = answer.next_page_token
                    if not request.page_token:
                        break
                assert found == expected

    run(test())


def test_pages_also_come_newest_first() -> None:
    async def test() -> None:
        async with serving_node() as node:
            await written(node)
            found = []
            token = ""
            while True:
                page = await history(node, page_size=2, page_token=token)
                found += told(page.events)
                assert len(page.events) <= 2
                token = page.next_page_token
                if not token:
                    break
            assert found == ALL[::-1]

    run(test())


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"page_token": "?"}, InvalidPageToken),
        ({"page_token": "AAAAAAAAAAAAAAAA"}, InvalidPageToken),
        ({"page_size": -1}, InvalidRequest),
        ({"from_revision": -1}, InvalidRequest),
        ({"to_revision": 1 << 62}, InvalidRequest),
        ({"from_time": {"seconds": -5}}, InvalidRequest),
        ({"to_time": {"seconds": 5, "nanos": -1}}, InvalidRequest),
    ],
)
def test_what_is_no_question_is_refused(
    fields: dict[str, Any], error: type[CoordinatorError]
) -> None:
    async def test() -> None:
        async with serving_node() as node:
            with pytest.raises(error):
                await history(node, **fields)

    run(test())


def test_a_group_is_restored_to_a_revision_and_that_is_undone() -> None:
    async def test() -> None:
        async with serving_node() as node:
            await written(node)
            assert await stored(node) == {0: 20}
            dry = await restore(node, revision=1, validate_only=True)
            assert not dry.HasField("revision")
            done = await restore(node, revision=1, reason="why not")
            assert [each.revision.log_offset for each in done.changes] == [5, 6]
            assert without_revisions(done) == without_revisions(dry)
            changes = [
                (each.partition, each.offset_before, each.HasField("offset_before"))
                for each in done.changes
            ]
            assert changes == [(0, 20, True), (1, 0, False)]
            assert [each.offset_after for each in done.changes] == [10, 10]
            assert done.restored_before.log_offset == 2
            assert done.revision.log_offset == 6
            assert await stored(node) == {0: 10, 1: 10}
            undone = await restore(node, revision=4)
            assert not undone.changes[1].HasField("offset_after")
            assert await stored(node) == {0: 20}
            nothing = await restore(node, revision=4)
            assert not nothing.changes
            assert not nothing.HasField("revision")

    run(test())


async def offsets_at(node: ServingNode, time_ms: int) -> dict[tuple[bytes, int], int]:
    _, then = await state_at(node.runtime, GROUP.encode(), time_ms=time_ms)
    return {(each.topic, each.partition): each.offset for each in then.committed()}


def test_a_group_is_restored_to_a_time() -> None:
    async def test() -> None:
        async with serving_node() as node:
            begun_ms = node.clock.now_ms()
            await written(node)
            assert await offsets_at(node, begun_ms - 1) == {}
            at = {(b"orders", partition): 20 for partition in range(2)}
            assert await offsets_at(node, begun_ms + 1999) == at
            request = RESTORE(group_id=GROUP)
            request.time.FromMilliseconds(begun_ms + 1000)
            service = HistoryService(node.node)
            await service.restore_group(request.SerializeToString())
            assert await stored(node) == {0: 20, 1: 20}
            request.time.FromMilliseconds(begun_ms - 1)
            await service.restore_group(request.SerializeToString())
            assert await stored(node) == {}

    run(test())


def test_a_deleted_group_comes_back_with_metadata_and_epochs() -> None:
    async def test() -> None:
        async with serving_node() as node:
            commit = offset_service_pb2.CommitOffsetsRequest(group_id=GROUP)
            commit.offsets.add(topic="t", partition=3, offset=7, leader_epoch=2, metadata="früh")
            await node.offsets.commit_offsets(commit.SerializeToString())
            request = offset_service_pb2.DeleteOffsetsRequest(group_id=GROUP, topics=["t"])
            await node.offsets.delete_offsets(request.SerializeToString())
            assert await stored(node) == {}
            await restore(node, revision=0)
            ((offset,),) = [each.offsets for each in await node.fetch(GROUP)]
            assert (offset.topic, offset.partition, offset.offset) == ("t", 3, 7)
            assert (offset.leader_epoch, offset.metadata) == (2, "früh")

    run(test())


def test_a_repeated_restore_is_answered_as_the_first_one_and_changes_nothing() -> None:
    async def test() -> None:
        async with serving_node() as node:
            await written(node)
            first = await restore(node, revision=1, request_id="r")
            await node.commit(GROUP, 99)
            again = await restore(node, revision=1, request_id="r")
            assert without_revisions(again) == without_revisions(first)
            assert again.revision == first.revision
            assert await stored(node) == {0: 99, 1: 10}

    run(test())


def test_a_repeated_restore_is_not_answered_with_another_groups_changes() -> None:
    async def test() -> None:
        async with serving_node() as node:
            await written(node)
            await node.commit("other", 3, topic="others")
            await restore(node, revision=1, request_id="r")
            request = RESTORE(group_id="other", request_id="r")
            request.time.FromMilliseconds(node.clock.now_ms() - 1)
            await HistoryService(node.node).restore_group(request.SerializeToString())
            again = await restore(node, revision=1, request_id="r")
            assert {change.topic for change in again.changes} <= {"orders"}

    run(test())


def test_what_was_committed_at_once_is_not_restored_in_part() -> None:
    async def test() -> None:
        async with serving_node() as node:
            await written(node)
            whole = await restore(node, revision=1, validate_only=True)
            part = await restore(node, revision=0, validate_only=True)
            assert part == whole
            assert part.restored_before.log_offset == 2

    run(test())


def test_a_group_that_nobody_knows_is_not_restored() -> None:
    async def test() -> None:
        async with serving_node(partitions=1) as node:
            await written(node)
            with pytest.raises(GroupIdNotFound):
                await restore(node, revision=1, group_id="nobody")
            with pytest.raises(GroupIdNotFound):
                await restore(node, revision=1000, group_id="nobody")

    run(test())


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"revision": -1},
        {"revision": 5},
        {"time": {"seconds": -1}},
        {"time": {"seconds": 4_000_000_000}},
    ],
)
def test_a_restore_to_nowhere_is_refused(fields: dict[str, Any]) -> None:
    async def test() -> None:
        async with serving_node() as node:
            await written(node)
            with pytest.raises(InvalidRequest):
                await restore(node, **fields)

    run(test())


def test_a_group_whose_lease_is_held_is_restored_only_by_force() -> None:
    async def test() -> None:
        async with serving_node() as node:
            await written(node)
            lease = AcquireGroup(group_id=GROUP.encode(), holder="w", ttl_ms=60_000)
            node.runtime.submit(lease)
            for fields in ({}, {"validate_only": True}):
                with pytest.raises(LeaseHeld):
                    await restore(node, revision=1, **fields)
            assert await stored(node) == {0: 20}
            await restore(node, revision=1, force=True)
            assert await stored(node) == {0: 10, 1: 10}

    run(test())


def test_what_was_cleaned_away_is_said_to_be() -> None:
    async def test() -> None:
        async with serving_node(cleaning=True) as node:
            begun_ms = node.clock.now_ms()
            await written(node)
            partition = node.runtime.partition_of(GROUP.encode())
            (log_partition,) = [
                each
                for each in node.store.logs
                if each.topic == "__consumer_offsets" and each.partition == partition
            ]
            node.clock.advance(120_000)
            found = node.upkeep.cleaner.compact([log_partition], rolls_active=True)
            await asyncio.wrap_future(found[log_partition])
            await node.commit(GROUP, 30)
            with pytest.raises(HistoryCompacted) as refused:
                await history(node, from_revision=0)
            oldest = refused.value.oldest_revision
            assert 0 < oldest <= 5
            for fields in ({"revision": 0}, {"time": {"seconds": begun_ms // 1000 - 1}}):
                with pytest.raises(HistoryCompacted):
                    await restore(node, **fields)
            assert await stored(node) == {0: 30}
            kept = await history(node)
            assert kept.oldest_revision.log_offset == oldest
            assert told(kept.events)[0] == (5, 0, 30)
            await restore(node, revision=4)
            assert await stored(node) == {0: 20}

    run(test())
