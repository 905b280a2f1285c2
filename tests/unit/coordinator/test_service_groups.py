"""Groups listed page by page, described and deleted."""

from __future__ import annotations

from typing import Any

import pytest
from offsetd.v1 import group_service_pb2
from offsetd_coordinator import errors
from offsetd_coordinator.placement import partition_of
from offsetd_coordinator.service.groups import GroupService
from serving_nodes import PARTITIONS, ServingNode, serving_node


async def list_page(serving: ServingNode, **fields: Any) -> group_service_pb2.ListGroupsResponse:
    """One page of groups."""
    request = group_service_pb2.ListGroupsRequest(**fields)
    answer = await GroupService(serving.node).list_groups(request.SerializeToString())
    return group_service_pb2.ListGroupsResponse.FromString(answer)


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
async def test_pages_hold_every_group_once_sorted_by_id(page_size: int) -> None:
    async with serving_node() as serving:
        names = ["g10", "g2", "a", "grüppe", "🚀", "z", "g1", "B", "\x00", "g"]
        for name in names:
            await serving.commit(name, 1)
        listed = await list_all(serving, page_size=page_size)
        assert listed == sorted(names, key=str.encode)


async def test_a_list_is_filtered_by_prefix_state_and_type() -> None:
    async with serving_node() as serving:
        for name in ("app-1", "app-2", "billing"):
            await serving.commit(name, 1)
        assert await list_all(serving, group_id_prefix="app-") == ["app-1", "app-2"]
        assert len(await list_all(serving, states=["GROUP_STATE_EMPTY"])) == 3
        assert await list_all(serving, states=["GROUP_STATE_STABLE"]) == []
        assert len(await list_all(serving, types=["GROUP_TYPE_CLASSIC"])) == 3
        assert await list_all(serving, types=["GROUP_TYPE_CONSUMER"]) == []


async def test_a_page_token_is_good_for_its_own_question_only() -> None:
    async with serving_node() as serving:
        for number in range(5):
            await serving.commit(f"g{number}", 1)
        page = await list_page(serving, page_size=2)
        token = page.next_page_token
        assert [group.group_id for group in page.groups] == ["g0", "g1"]
        other_size = await list_page(serving, page_size=1, page_token=token)
        assert [group.group_id for group in other_size.groups] == ["g2"]
        for fields in ({"group_id_prefix": "g"}, {"states": ["GROUP_STATE_EMPTY"]}):
            with pytest.raises(errors.InvalidPageToken):
                await list_page(serving, page_token=token, **fields)
        for forged in ("n/a", token[4:], "é", "A" * 3, "AAAA"):
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
