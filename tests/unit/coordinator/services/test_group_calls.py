"""Groups listed page by page, described and deleted."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from memory_commit_log import MemoryTopic
from memory_nodes import MemoryNode
from offsetd.v1 import group_service_pb2
from offsetd_coordinator import cooperative_scheduling, errors
from offsetd_coordinator.services import group_calls
from offsetd_coordinator.services.group_calls import GroupService
from offsetd_coordinator.state import group_search
from offsetd_storage.log_store import OFFSETS_TOPIC
from offsetd_storage.offsets_topic.placement import partition_of
from offsetd_storage.recovery.quarantine import Damage
from offsetd_storage.topic_partition import TopicPartition
from serving_nodes import PARTITIONS, WAIT_SECONDS, ServingNode, serving_node


async def list_page(serving: ServingNode, **fields: Any) -> group_service_pb2.ListGroupsResponse:
    """One page of groups."""
    request = group_service_pb2.ListGroupsRequest(**fields)
    answer = await GroupService(serving.node).list_groups(request.SerializeToString())
    return group_service_pb2.ListGroupsResponse.FromString(answer)


def log_order(group_id: str) -> tuple[int, bytes]:
    """What groups are sorted by."""
    return partition_of(group_id, PARTITIONS), group_id.encode()


async def list_all(serving: ServingNode, **fields: Any) -> list[str]:
    """The ids of all pages."""
    ids: list[str] = []
    token = ""
    while True:
        page = await list_page(serving, page_token=token, **fields)
        ids += [group.group_id for group in page.groups]
        token = page.next_page_token
        if not token:
            return ids


@pytest.mark.parametrize("page_size", [1, 3, 9, 10, 11, 0])
async def test_pages_hold_every_group_once_by_log_partition_and_id(page_size: int) -> None:
    async with serving_node() as serving:
        names = ["g10", "g2", "a", "grüppe", "🚀", "z", "g1", "B", "\x00", "g"]
        for name in names:
            await serving.commit(name, 1)
        listed = await list_all(serving, page_size=page_size)
        assert listed == sorted(names, key=log_order)


async def test_a_page_walks_no_log_partition_that_it_does_not_need() -> None:
    async with serving_node() as serving:
        walked: list[int] = []
        list_groups = serving.runtime.list_groups

        def noted(partition: int, search: object) -> Any:
            walked.append(partition)
            return list_groups(partition, search)

        serving.runtime.__dict__["list_groups"] = noted
        for number in range(40):
            await serving.commit(f"g{number}", 1)
        token, before = "", 0
        for _ in range(8):
            page = await list_page(serving, page_size=5, page_token=token)
            token = page.next_page_token
            needed = {partition_of(group.group_id, PARTITIONS) for group in page.groups}
            # And that of the page before, and one to know whether there is another page.
            assert needed <= set(walked) <= {before, *needed, max(needed) + 1}
            before = max(needed)
            walked.clear()
        assert token == ""


async def test_others_work_while_many_groups_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """And each group that is there all the time is listed once."""
    monkeypatch.setattr(cooperative_scheduling, "ITEMS_PER_TURN", 10)
    monkeypatch.setattr(cooperative_scheduling.Turns, "items_max", 10)
    monkeypatch.setattr(cooperative_scheduling, "REST_SECONDS", 0)
    monkeypatch.setattr(group_search, "SLICE_ROWS", 40)
    async with serving_node(partitions=1) as serving:
        names = [f"g{number:03}" for number in range(100)]
        for name in names:
            await serving.commit(name, 1)
        listing = asyncio.create_task(list_page(serving, page_size=1000))
        shard, turns = serving.runtime.shards[0], 0
        while not listing.done():
            shard.offsets.store(
                f"new{turns}".encode(),
                b"t",
                0,
                revision=turns,
                offset=1,
                leader_epoch=-1,
                metadata=b"",
                commit_timestamp_ms=0,
                expire_timestamp_ms=-1,
            )
            turns += 1
            await asyncio.sleep(0)
        listed = [each.group_id for each in (await listing).groups]
        assert [each for each in listed if each.startswith("g")] == names
        assert len(set(listed)) == len(listed)
        # Once while they are searched, and once while the answer is made.
        assert turns >= 3 * len(names) // 20


async def test_every_page_names_the_damaged_log_partitions() -> None:
    async with serving_node() as serving:
        names = sorted((f"g{number}" for number in range(20)), key=log_order)
        for name in names:
            await serving.commit(name, 1)
        damaged = partition_of(names[0], PARTITIONS)
        where = TopicPartition(OFFSETS_TOPIC, damaged)
        serving.store.quarantined[where] = Damage(
            topic_partition=where, segment_base_offset=None, position=0, reason="rot"
        )
        served = [name for name in names if partition_of(name, PARTITIONS) != damaged]
        assert await list_all(serving, page_size=3) == served
        token = ""
        while True:
            page = await list_page(serving, page_size=3, page_token=token)
            assert list(page.unreachable_log_partitions) == [damaged]
            token = page.next_page_token
            if not token:
                break


async def test_a_list_is_filtered_by_prefix_state_and_type() -> None:
    async with serving_node() as serving:
        for name in ("app-1", "app-2", "billing"):
            await serving.commit(name, 1)
        listed = await list_all(serving, group_id_prefix="app-")
        assert sorted(listed) == ["app-1", "app-2"]
        assert len(await list_all(serving, states=["GROUP_STATE_EMPTY"])) == 3
        assert await list_all(serving, states=["GROUP_STATE_STABLE"]) == []
        assert len(await list_all(serving, types=["GROUP_TYPE_CLASSIC"])) == 3
        assert await list_all(serving, types=["GROUP_TYPE_CONSUMER"]) == []


async def test_a_page_token_is_good_for_its_own_question_only() -> None:
    async with serving_node() as serving:
        names = sorted((f"g{number}" for number in range(5)), key=log_order)
        for name in names:
            await serving.commit(name, 1)
        page = await list_page(serving, page_size=2)
        token = page.next_page_token
        assert [group.group_id for group in page.groups] == names[:2]
        other_size = await list_page(serving, page_size=1, page_token=token)
        assert [group.group_id for group in other_size.groups] == names[2:3]
        for fields in ({"group_id_prefix": "g"}, {"states": ["GROUP_STATE_EMPTY"]}):
            with pytest.raises(errors.InvalidPageToken):
                await list_page(serving, page_token=token, **fields)
        digest = base64.urlsafe_b64decode(token)[:8]
        nowhere = base64.urlsafe_b64encode(digest + PARTITIONS.to_bytes(4, "big")).decode()
        short = base64.urlsafe_b64encode(digest + bytes(3)).decode()
        for forged in ("n/a", token[4:], "é", "A" * 3, "AAAA", nowhere, short):
            with pytest.raises(errors.InvalidPageToken):
                await list_page(serving, page_token=forged)


async def test_a_group_is_described() -> None:
    async with serving_node() as serving:
        await serving.commit("g", 1, partitions=3)
        service = GroupService(serving.node)
        request = group_service_pb2.GetGroupRequest(group_id="g")
        answer = await service.get_group(request.SerializeToString())
        group = group_service_pb2.GetGroupResponse.FromString(answer).group
        assert group.group_id == "g"
        assert group.offset_count == 3
        assert group.type == group_service_pb2.GROUP_TYPE_CLASSIC
        assert group.state == group_service_pb2.GROUP_STATE_EMPTY
        assert group.protocol_type == ""
        assert group.log_partition == partition_of("g", PARTITIONS)
        with pytest.raises(errors.GroupIdNotFound):
            await service.get_group(b"\x0a\x06nobody")


async def test_a_group_is_deleted_with_its_offsets() -> None:
    async with serving_node() as serving:
        await serving.commit("g", 1, partitions=3)
        service = GroupService(serving.node)

        async def delete(**fields: Any) -> group_service_pb2.DeleteGroupResponse:
            request = group_service_pb2.DeleteGroupRequest(group_id="g", **fields)
            answer = await service.delete_group(request.SerializeToString())
            return group_service_pb2.DeleteGroupResponse.FromString(answer)

        looked = await delete(validate_only=True)
        assert looked.offset_count == 3
        assert not looked.HasField("revision")
        assert len(await list_all(serving)) == 1
        deleted = await delete(request_id="once")
        assert deleted.offset_count == 3
        assert deleted.HasField("revision")
        assert await list_all(serving) == []
        assert await delete(request_id="once") == deleted
        with pytest.raises(errors.GroupIdNotFound):
            await delete()


async def get(serving: ServingNode, **fields: Any) -> group_service_pb2.GetGroupResponse:
    """A group, with a page of its offsets."""
    request = group_service_pb2.GetGroupRequest(**fields)
    answer = await GroupService(serving.node).get_group(request.SerializeToString())
    return group_service_pb2.GetGroupResponse.FromString(answer)


@pytest.mark.parametrize("page_size", [1, 2, 5, 6, 0])
async def test_a_group_comes_with_its_offsets_page_by_page_if_asked(page_size: int) -> None:
    async with serving_node() as serving:
        await serving.commit("g", 7, partitions=3)
        await serving.commit("g", 8, partitions=2, topic="früh")
        assert not (await get(serving, group_id="g")).offsets
        found, token = [], ""
        while True:
            page = await get(
                serving, group_id="g", include_offsets=True, page_size=page_size, page_token=token
            )
            assert page.group.offset_count == 5
            found += [(each.topic, each.partition, each.offset) for each in page.offsets]
            assert all(each.HasField("commit_time") for each in page.offsets)
            token = page.next_page_token
            if not token:
                break
        assert found == [
            *(("früh", partition, 8) for partition in range(2)),
            *(("orders", partition, 7) for partition in range(3)),
        ]
        await serving.commit("h", 1, partitions=2)
        token = (
            await get(serving, group_id="h", include_offsets=True, page_size=1)
        ).next_page_token
        with pytest.raises(errors.InvalidPageToken):
            await get(serving, group_id="g", include_offsets=True, page_token=token)


@pytest.mark.parametrize("asked", ["details", "lags of a list", "lags of a group"])
async def test_what_a_later_turn_reads_waits_for_its_own_flush(
    asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = MemoryNode(MemoryTopic(PARTITIONS), range(PARTITIONS))
    await node.commit("g", 5)
    node.log.holds = True
    late = list[Any]()
    name = "details_of" if asked == "details" else "lag_of"
    read = getattr(group_calls, name)

    async def read_late(*arguments: Any) -> Any:
        late.append(asyncio.ensure_future(node.commit("g", 6, partitions=2)))
        await asyncio.sleep(0)
        return await read(*arguments)

    monkeypatch.setattr(group_calls, name, read_late)
    service = GroupService(node.node)
    if asked == "lags of a group":
        request: Any = group_service_pb2.GetGroupRequest(group_id="g")
        answer = asyncio.ensure_future(service.get_group(request.SerializeToString()))
    else:
        request = group_service_pb2.ListGroupsRequest(
            include_details=asked == "details", include_lag_verdicts=asked != "details"
        )
        answer = asyncio.ensure_future(service.list_groups(request.SerializeToString()))
    done, _ = await asyncio.wait([answer], timeout=0.1)
    assert late
    assert not done, "it left before the commit that it read was durable"
    node.log.holds = False
    node.log.flush()
    await asyncio.wait_for(asyncio.gather(answer, *late), WAIT_SECONDS)
