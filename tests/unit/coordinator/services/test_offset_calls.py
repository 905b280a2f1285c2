"""Commits, fetches and deletions, from a request's bytes to those of its answer."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Any

import pytest
from offsetd.v1 import offset_service_pb2, types_pb2
from offsetd_coordinator import errors
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from offsetd_storage.offsets_topic.placement import partition_of
from serving_nodes import PARTITIONS, WAIT_SECONDS, ServingNode, commit_request, serving_node

if TYPE_CHECKING:
    from offsetd_coordinator.requests import CommitOffsets

PARTITIONS_OF_MANY = 1000


async def test_a_commit_is_answered_with_its_revision_and_can_be_fetched() -> None:
    async with serving_node() as serving:
        first = await serving.commit("g", 5, partitions=3)
        second = await serving.commit("g", 6)
        assert first.revision.log_partition == partition_of("g", PARTITIONS)
        assert (first.revision.log_offset, second.revision.log_offset) == (2, 3)
        [group] = await serving.fetch("g")
        assert group.log_partition == partition_of("g", PARTITIONS)
        assert [(each.partition, each.offset, each.revision) for each in group.offsets] == [
            (0, 6, 3),
            (1, 5, 1),
            (2, 5, 2),
        ]
        now_ms = serving.clock.now_ms()
        assert group.offsets[0].commit_time.ToMilliseconds() == now_ms


async def test_what_was_not_given_is_absent_from_a_fetch() -> None:
    async with serving_node() as serving:
        await serving.commit("g", 5)
        [group] = await serving.fetch("g")
        [offset] = group.offsets
        for field in ("leader_epoch", "end_offset"):
            assert not offset.HasField(field)
        full = offset_service_pb2.OffsetCommit(
            topic="orders", partition=0, offset=0, leader_epoch=0, end_offset=0, metadata="m"
        )
        request = offset_service_pb2.CommitOffsetsRequest(group_id="g", offsets=[full])
        await serving.offsets.commit_offsets(request.SerializeToString())
        [group] = await serving.fetch("g")
        [offset] = group.offsets
        assert (offset.leader_epoch, offset.end_offset, offset.metadata) == (0, 0, "m")
        assert offset.HasField("leader_epoch")
        assert offset.HasField("end_offset")


async def test_many_groups_are_fetched_in_the_order_asked() -> None:
    async with serving_node() as serving:
        for number in range(20):
            await serving.commit(f"g{number}", number)
        names = [f"g{number}" for number in (7, 3, 99, 19)]
        groups = await serving.fetch(*names)
        assert [group.group_id for group in groups] == names
        assert [[each.offset for each in group.offsets] for group in groups] == [
            [7],
            [3],
            [],
            [19],
        ]


async def test_a_group_named_twice_is_refused() -> None:
    async with serving_node() as serving:
        with pytest.raises(errors.InvalidGroupId, match="'a' is named twice") as caught:
            await serving.fetch("a", "b", "a")
        assert caught.value.field == "groups[2].group_id"


@pytest.mark.parametrize(("groups", "size"), [(500, 1), (5, 12_000)])
async def test_others_have_their_turn_while_much_is_fetched(groups: int, size: int) -> None:
    async with serving_node() as serving:
        names = [f"g{number}" for number in range(groups)]
        commits = (serving.commit(name, 2**62, partitions=size) for name in names)
        await asyncio.gather(*commits)
        fetching = asyncio.create_task(serving.fetch(*names))
        turns = 0
        while not fetching.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns >= 5, "after each large group, and after some small ones"
        assert [len(group.offsets) for group in await fetching] == [size] * len(names)


async def test_a_group_that_changes_while_others_are_fetched_is_read_at_one_moment() -> None:
    async with serving_node() as serving:
        for name in ("a", "b"):
            await serving.commit(name, 0, partitions=3 * PARTITIONS_OF_MANY)
        fetching = asyncio.create_task(serving.fetch("a", "b"))
        value = 0
        while not fetching.done():
            value += 1
            for name in ("a", "b"):
                serving.runtime.submit(plain_commit(serving, name, value))
            await asyncio.sleep(0)
        for group in await fetching:
            assert len({each.offset for each in group.offsets}) == 1


def plain_commit(serving: ServingNode, name: str, value: int) -> CommitOffsets:
    request = commit_request(name, value, partitions=3 * PARTITIONS_OF_MANY)
    return serving.parser.parse(request.SerializeToString())


async def test_chosen_partitions_are_fetched_and_what_is_absent_is_absent() -> None:
    async with serving_node() as serving:
        await serving.commit("g", 5, partitions=5)
        selection = offset_service_pb2.GroupSelection(
            group_id="g",
            partitions=[
                types_pb2.TopicPartition(topic="orders", partition=partition)
                for partition in (4, 1, 77)
            ],
        )
        request = offset_service_pb2.FetchOffsetsRequest(groups=[selection])
        response = offset_service_pb2.FetchOffsetsResponse.FromString(
            await serving.offsets.fetch_offsets(request.SerializeToString())
        )
        assert [each.partition for each in response.groups[0].offsets] == [1, 4]


async def test_nothing_leaves_before_it_is_durable() -> None:
    async with serving_node(flushing=False) as serving:
        conditional = commit_request("g", 6)
        conditional.offsets[0].expected_offset = 99
        waiting: list[asyncio.Task[Any]] = [asyncio.create_task(serving.commit("g", 5))]
        while not serving.store._pending_frames:  # noqa: ASYNC110
            await asyncio.sleep(0)
        waiting.append(asyncio.create_task(serving.fetch("g")))
        lost = serving.offsets.commit_offsets(conditional.SerializeToString())
        waiting.append(asyncio.create_task(lost))
        done, _ = await asyncio.wait(waiting, timeout=0.1)
        assert not done, "an answer left before the flush"
        serving.runtime.start()
        outcomes: list[Any] = await asyncio.wait_for(
            asyncio.gather(*waiting, return_exceptions=True), WAIT_SECONDS
        )
        assert outcomes[1][0].offsets[0].offset == 5
        assert isinstance(outcomes[2], errors.OffsetConflict)


async def test_a_lost_condition_says_what_is_stored() -> None:
    async with serving_node() as serving:
        await serving.commit("g", 5)
        conditional = commit_request("g", 6)
        conditional.offsets[0].must_not_exist = True
        with pytest.raises(errors.OffsetConflict) as caught:
            await serving.offsets.commit_offsets(conditional.SerializeToString())
        [conflict] = caught.value.conflicts
        assert (conflict.topic, conflict.offset, conflict.revision) == (b"orders", 5, 0)


async def test_a_request_id_is_answered_as_before_and_not_applied_again() -> None:
    async with serving_node() as serving:
        request = commit_request("g", 5)
        request.request_id = "once"
        first = await serving.offsets.commit_offsets(request.SerializeToString())
        await serving.commit("g", 6)
        again = await serving.offsets.commit_offsets(request.SerializeToString())
        assert again == first
        [group] = await serving.fetch("g")
        assert group.offsets[0].offset == 6


async def test_offsets_are_deleted_by_partition_and_by_topic() -> None:
    async def delete(serving: ServingNode, **fields: Any) -> Any:
        request = offset_service_pb2.DeleteOffsetsRequest(group_id="g", **fields)
        answer = await serving.offsets.delete_offsets(request.SerializeToString())
        return offset_service_pb2.DeleteOffsetsResponse.FromString(answer)

    async with serving_node() as serving:
        await serving.commit("g", 5, partitions=3)
        await serving.commit("g", 5, partitions=2, topic="clicks")
        one = types_pb2.TopicPartition(topic="orders", partition=1)
        looked = await delete(serving, partitions=[one], validate_only=True)
        assert list(looked.deleted) == [one]
        assert not looked.HasField("revision")
        deleted = await delete(serving, partitions=[one], topics=["clicks"])
        assert len(deleted.deleted) == 3
        assert deleted.revision.log_offset == 7
        nothing = await delete(serving, partitions=[one])
        assert not nothing.HasField("revision")
        [group] = await serving.fetch("g")
        assert [(each.topic, each.partition) for each in group.offsets] == [
            ("orders", 0),
            ("orders", 2),
        ]


async def test_a_disk_that_fails_leaves_the_caller_in_doubt_and_says_so() -> None:
    async with serving_node() as serving:
        await serving.commit("g", 5)
        serving.files.faults.append(Fault(kind=OperationKind.SYNC, errno=errno.EIO))
        with pytest.raises(errors.StorageUnavailable):
            await serving.commit("g", 6)
        with pytest.raises(errors.StorageUnavailable):
            await serving.fetch("g")
        assert len(serving.failures) == 1
