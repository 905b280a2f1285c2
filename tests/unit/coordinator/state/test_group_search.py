"""Lists of groups that are narrowed by prefix, topic and lease, and the details of what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from offsetd.v1 import group_service_pb2
from offsetd_coordinator.membership.member_requests import Moment
from offsetd_coordinator.requests import AcquireGroup, ReleaseGroup
from offsetd_coordinator.services.group_calls import GroupService
from offsetd_coordinator.state import group_search
from offsetd_coordinator.state.group_search import GroupSearch
from serving_nodes import serving_node
from shards import answer, commit, entry, listed_groups, new_shard

if TYPE_CHECKING:
    from offsetd_coordinator.shard.shard import Shard

NAMES = ("billing-1", "billing-10", "billing-2", "mail-1", "m", "", "längere-1")


@pytest.fixture(params=[4096, 1])
def shard(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Shard:
    """Groups that read `orders`, every second one `clicks` too; one part, and one part each."""
    monkeypatch.setattr(group_search, "SLICE_ROWS", request.param)
    monkeypatch.setattr(group_search, "_NAMES_DIVISOR", 1)
    made = new_shard()
    for number, name in enumerate(NAMES):
        topics = ("orders", "clicks")[: 1 + number % 2]
        answer(made, commit(name, *(entry(topic, 0, 1) for topic in topics)))
    return made


def found(shard: Shard, **search: Any) -> list[str]:
    return sorted(each.group_id.decode() for each in listed_groups(shard, **search))


def test_a_prefix_is_compared_to_its_last_byte(shard: Shard) -> None:
    assert found(shard) == sorted(NAMES)
    for length in range(11):
        prefix = "billing-10"[:length]
        assert found(shard, prefix=prefix.encode()) == sorted(
            name for name in NAMES if name.startswith(prefix)
        )
    assert found(shard, prefix="längere-".encode()) == ["längere-1"]
    assert found(shard, prefix=b"billing-3") == []
    assert found(shard, prefix=b"xilling-10") == []
    assert found(shard, prefix=b"x" * 32_768) == []


def test_a_topic_narrows_and_several_widen(shard: Shard) -> None:
    clicks = sorted(NAMES[1::2])
    assert found(shard, topics=(b"clicks",)) == clicks
    assert found(shard, topics=(b"clicks", b"none")) == clicks
    assert found(shard, topics=(b"clicks", b"orders")) == sorted(NAMES)
    assert found(shard, topics=(b"none",)) == []
    assert found(shard, topics=(b"clicks",), prefix=b"m") == ["mail-1"]
    # A group with the name of the topic is none of its groups.
    assert found(shard, topics=(b"mail-1",)) == []


def test_a_group_that_lost_its_offsets_of_a_topic_is_not_found_by_it(shard: Shard) -> None:
    shard.offsets.remove(b"mail-1", b"clicks", 0)
    assert "mail-1" not in found(shard, topics=(b"clicks",))
    assert "mail-1" in found(shard)


def test_a_lease_holder_narrows_while_the_lease_is_held(shard: Shard) -> None:
    held = {"mail-1": "host-1", "billing-2": "host-1", "new": "host-2", "m": "host-1"}
    for name, holder in held.items():
        request = AcquireGroup(group_id=name.encode(), holder=holder, ttl_ms=60_000)
        granted = answer(shard, request)
        if name == "m":
            answer(shard, ReleaseGroup(group_id=b"m", epoch=granted.last_offset))
    soon, later = Moment(0, 1), Moment(0, 10**9)
    assert found(shard, lease_holder="host-1", now=soon) == ["billing-2", "mail-1"]
    assert found(shard, lease_holder="host-1", topics=(b"clicks",), now=soon) == ["mail-1"]
    assert found(shard, lease_holder="host-2", now=soon) == ["new"]
    assert found(shard, lease_holder="host-1", prefix=b"mail", now=soon) == ["mail-1"]
    assert found(shard, lease_holder="host-1", now=later) == []


def test_what_is_not_needed_any_more_is_left_out(shard: Shard) -> None:
    search = GroupSearch(below=b"m")
    names = [each.group_id for part in shard.list_groups(search, Moment(0, 0)) for each in part]
    assert sorted(names) == [b"", b"billing-1", b"billing-10", b"billing-2", "längere-1".encode()]


async def test_details_are_those_of_the_group() -> None:
    async with serving_node() as serving:
        for number in range(5):
            await serving.commit(f"g{number}", number + 1)
        service = GroupService(serving.node)
        request = group_service_pb2.ListGroupsRequest(page_size=2, topics=["orders"])
        names = []
        while True:
            # Details may differ between pages.
            request.include_details = not request.include_details
            answered = await service.list_groups(request.SerializeToString())
            page = group_service_pb2.ListGroupsResponse.FromString(answered)
            for each in page.groups:
                names.append(each.group_id)
                assert each.HasField("details") == request.include_details
                if request.include_details:
                    asked = group_service_pb2.GetGroupRequest(group_id=each.group_id)
                    group = group_service_pb2.GetGroupResponse.FromString(
                        await service.get_group(asked.SerializeToString())
                    ).group
                    assert each.details.offset_count == group.offset_count > 0
                    assert each.details.member_count == len(group.members)
            request.page_token = page.next_page_token
            if not page.next_page_token:
                break
        assert sorted(names) == [f"g{number}" for number in range(5)]
