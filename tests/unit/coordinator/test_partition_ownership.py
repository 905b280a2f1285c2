"""The whole coordinator on a log in memory: partitions fail, load, go and come one by one."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from chance import seed_of
from memory_commit_log import MemoryTopic
from memory_nodes import PARTITIONS, MemoryNode, group_in
from offsetd.v1 import group_service_pb2, history_pb2, offset_service_pb2
from offsetd_coordinator.changes import large_decisions
from offsetd_coordinator.cooperative_scheduling import SLICE_ROWS
from offsetd_coordinator.errors import (
    CoordinatorError,
    CoordinatorLoadInProgress,
    LogPartitionQuarantined,
    NotCoordinator,
    StorageUnavailable,
)
from offsetd_coordinator.history.offset_history import state_at
from offsetd_coordinator.large_groups.group_reading import read_group
from offsetd_coordinator.requests import DeleteGroup
from offsetd_coordinator.services.group_calls import GroupService
from offsetd_coordinator.services.membership_calls import MembershipService
from offsetd_storage.errors import StorageFailed
from refusals import details
from serving_nodes import WAIT_SECONDS, commit_request

if TYPE_CHECKING:
    from collections.abc import Callable

ALL = range(PARTITIONS)
GONE = 1
HERE = 2
GROUP_GONE = group_in(GONE)
GROUP_HERE = group_in(HERE)


def begin_load(node: MemoryNode) -> None:
    node.lose(GONE)
    node.log.begin_load(GONE)


ENDINGS: dict[str, tuple[Callable[[MemoryNode], None], type[CoordinatorError], grpc.StatusCode]] = {
    "released": (
        lambda node: node.release(GONE),
        NotCoordinator,
        grpc.StatusCode.UNAVAILABLE,
    ),
    "lost": (lambda node: node.lose(GONE), NotCoordinator, grpc.StatusCode.UNAVAILABLE),
    "loading": (begin_load, CoordinatorLoadInProgress, grpc.StatusCode.UNAVAILABLE),
    "damaged": (
        lambda node: node.log.damage_partition(GONE),
        LogPartitionQuarantined,
        grpc.StatusCode.DATA_LOSS,
    ),
}
EACH_ENDING = pytest.mark.parametrize(
    ("end", "refusal", "code"), ENDINGS.values(), ids=list(ENDINGS)
)


def a_node() -> MemoryNode:
    """A node that owns all partitions."""
    return MemoryNode(MemoryTopic(PARTITIONS), ALL)


def waiting(node: MemoryNode, group_id: str, value: int) -> asyncio.Task[Any]:
    return asyncio.ensure_future(node.commit(group_id, value))


async def turns() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def until(task: asyncio.Future[Any]) -> Any:
    return await asyncio.wait_for(task, WAIT_SECONDS)


async def test_a_commit_and_a_read_of_it_wait_for_the_flush() -> None:
    node = a_node()
    node.log.holds = True
    commit = waiting(node, GROUP_HERE, 7)
    await turns()
    fetch = asyncio.ensure_future(node.fetch(GROUP_HERE))
    await turns()
    assert not commit.done()
    assert not fetch.done()
    assert await node.fetch(GROUP_GONE) == [None], "rests on another partition only"
    node.log.flush()
    await until(commit)
    assert await until(fetch) == [7]


@EACH_ENDING
async def test_a_partition_that_does_not_serve_refuses_and_the_others_serve(
    end: Callable[[MemoryNode], None], refusal: type[CoordinatorError], code: grpc.StatusCode
) -> None:
    node = a_node()
    for group_id in (GROUP_GONE, GROUP_HERE):
        await node.commit(group_id, 1)
    end(node)
    join = group_service_pb2.JoinGroupRequest(group_id=GROUP_GONE, protocol_type="consumer")
    join.session_timeout.FromMilliseconds(10_000)
    join.protocols.add(name="range")
    get = group_service_pb2.GetGroupRequest(group_id=GROUP_GONE)
    for refused in (
        node.commit(GROUP_GONE, 2),
        node.fetch(GROUP_HERE, GROUP_GONE),
        MembershipService(node.node).join_group(join.SerializeToString()),
        GroupService(node.node).get_group(get.SerializeToString()),
        state_at(node.runtime, GROUP_GONE.encode(), revision=0),
    ):
        with pytest.raises(refusal):
            await refused
    await node.commit(GROUP_HERE, 2)
    assert await node.fetch(GROUP_HERE) == [2]


@EACH_ENDING
async def test_over_grpc_each_state_has_its_status(
    end: Callable[[MemoryNode], None], refusal: type[CoordinatorError], code: grpc.StatusCode
) -> None:
    node = a_node()
    end(node)
    async with node.stubs() as stubs:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stubs.offsets.CommitOffsets(commit_request(GROUP_GONE, 1))
        assert details(refused.value)[:2] == (code, refusal.reason)
        await stubs.offsets.CommitOffsets(commit_request(GROUP_HERE, 1))
        results = await streamed(stubs, (GROUP_GONE, GROUP_HERE))
        assert [each.HasField("committed") for each in results] == [False, True]
        assert results[0].error.code == code.value[0]


def stream_message(
    group_ids: tuple[str, ...], value: int = 5
) -> offset_service_pb2.StreamCommitsRequest:
    """One message with a commit of each group."""
    return offset_service_pb2.StreamCommitsRequest(
        commits=[
            offset_service_pb2.SequencedCommit(sequence=at, commit=commit_request(group_id, value))
            for at, group_id in enumerate(group_ids)
        ]
    )


async def streamed(stubs: Any, group_ids: tuple[str, ...], value: int = 5) -> list[Any]:
    """The results of one message of commits, in order; raises what ends the call."""
    call = stubs.offsets.StreamCommits(iter([stream_message(group_ids, value)]))
    return [result async for response in call for result in response.results]


@EACH_ENDING
async def test_what_waits_ends_with_its_partition_and_the_others_wait_on(
    end: Callable[[MemoryNode], None], refusal: type[CoordinatorError], code: grpc.StatusCode
) -> None:
    node = a_node()
    await node.commit(GROUP_GONE, 1)
    node.log.holds = True
    gone, here = waiting(node, GROUP_GONE, 2), waiting(node, GROUP_HERE, 2)
    await turns()
    reads = [asyncio.ensure_future(node.fetch(*ids)) for ids in BOTH_ORDERS]
    await turns()
    end(node)
    await turns()
    if end is ENDINGS["released"][0]:  # What waits is flushed before.
        for each in (gone, here, *reads):
            await until(each)
        return
    lost = LogPartitionQuarantined if refusal is LogPartitionQuarantined else NotCoordinator
    with pytest.raises(lost):
        await until(gone)
    assert not here.done()
    assert not any(each.done() for each in reads)
    node.log.flush()
    await until(here)
    for each in reads:
        with pytest.raises(lost):
            await until(each)
    assert await node.fetch(GROUP_HERE) == [2]


BOTH_ORDERS = ((GROUP_GONE, GROUP_HERE), (GROUP_HERE, GROUP_GONE))


async def test_what_was_not_durable_is_gone_when_the_partition_is_taken_again() -> None:
    node = a_node()
    await node.commit(GROUP_GONE, 1)
    node.log.holds = True
    lost = waiting(node, GROUP_GONE, 2)
    await turns()
    node.lose(GONE)
    with pytest.raises(NotCoordinator):
        await until(lost)
    node.take(GONE)
    assert await node.fetch(GROUP_GONE) == [1]
    again = waiting(node, GROUP_GONE, 3)
    await turns()
    node.log.flush()
    await until(again)
    assert await node.fetch(GROUP_GONE) == [3]


async def test_another_node_goes_on_where_the_first_one_was_released() -> None:
    topic = MemoryTopic(PARTITIONS)
    first, second = MemoryNode(topic, ALL), MemoryNode(topic, (), name="n2")
    before = await first.commit(GROUP_GONE, 1)
    with pytest.raises(NotCoordinator):
        await second.commit(GROUP_GONE, 2)
    first.release(GONE)
    second.take(GONE)
    assert await second.fetch(GROUP_GONE) == [1]
    after = await second.commit(GROUP_GONE, 2)
    assert after.revision.log_offset > before.revision.log_offset
    with pytest.raises(NotCoordinator):
        await first.fetch(GROUP_GONE)
    await first.commit(GROUP_HERE, 1)
    second.release(GONE)
    first.take(GONE)
    assert await first.fetch(GROUP_GONE, GROUP_HERE) == [2, 1]


async def test_commits_of_a_message_go_together_after_a_partition_came_back() -> None:
    node = a_node()
    groups = (GROUP_GONE, GROUP_HERE, GROUP_GONE, GROUP_HERE)
    async with node.stubs() as stubs:
        await streamed(stubs, groups)
        before = node.runtime.shards[GONE]  # Kept: its memory is not the next one's.
        node.release(GONE)
        await streamed(stubs, (GROUP_HERE,))
        node.take(GONE)
        results = await streamed(stubs, groups, value=6)
    assert all(each.HasField("committed") for each in results)
    assert await node.fetch(GROUP_GONE, GROUP_HERE) == [6, 6]
    assert before.offset_next == 2
    assert node.runtime.shards[GONE].offset_next == node.log.durable_end(GONE) == 4


async def test_a_stream_with_commits_of_a_lost_partition_ends_and_another_goes_on() -> None:
    node = a_node()
    node.log.holds = True
    async with node.stubs() as stubs:
        both = asyncio.ensure_future(streamed(stubs, (GROUP_GONE, GROUP_HERE)))
        here = asyncio.ensure_future(streamed(stubs, (GROUP_HERE,)))
        async with asyncio.timeout(WAIT_SECONDS):
            while node.log.batches_not_durable < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        node.lose(GONE)
        node.log.flush()
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await until(both)
        assert details(ended.value)[1] == NotCoordinator.reason
        [result] = await until(here)
        assert result.HasField("committed")


async def test_a_stream_accepts_no_commits_behind_those_that_were_lost() -> None:
    node = a_node()
    node.log.holds = True
    async with node.stubs() as stubs:
        call = stubs.offsets.StreamCommits()
        # The first commit's partition stays: the stream hears of the loss only after its flush.
        for appended, group_id in enumerate((GROUP_HERE, GROUP_GONE), start=1):
            await call.write(stream_message((group_id,)))
            async with asyncio.timeout(WAIT_SECONDS):
                while node.log.batches_not_durable < appended:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
        node.lose(GONE)
        node.take(GONE)
        await call.write(stream_message((GROUP_GONE,), value=6))
        for _ in range(3):  # Behind it on the same connection: so it is read before the flush.
            await stubs.offsets.FetchOffsets(
                offset_service_pb2.FetchOffsetsRequest(
                    groups=[offset_service_pb2.GroupSelection(group_id=group_in(0))]
                )
            )
        node.log.flush()
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            async for _ in call:
                pass
    assert details(ended.value)[1] == NotCoordinator.reason
    assert await node.fetch(GROUP_GONE) == [None]


async def test_a_large_change_ends_when_its_partition_goes_and_spares_what_comes_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(large_decisions, "fit_one_batch", lambda *_: False)
    node = a_node()
    await node.commit(GROUP_GONE, 1, partitions=2 * SLICE_ROWS)
    node.log.holds = True
    request = DeleteGroup(group_id=GROUP_GONE.encode())
    change = asyncio.ensure_future(node.large_changes.submit(request))
    async with asyncio.timeout(WAIT_SECONDS):
        while not node.log.batches_not_durable:  # noqa: ASYNC110
            await asyncio.sleep(0)
    node.lose(GONE)
    node.take(GONE)
    with pytest.raises(NotCoordinator):
        await until(change)
    node.log.holds = False
    shard = node.runtime.shards[GONE]
    assert shard.offsets.count(GROUP_GONE.encode()) == 2 * SLICE_ROWS
    assert not shard.holds
    await node.commit(GROUP_GONE, 2)


async def test_a_large_read_ends_when_its_partition_goes() -> None:
    node = a_node()
    await node.commit(GROUP_GONE, 1, partitions=2 * SLICE_ROWS)
    node.log.holds = True
    pending = waiting(node, GROUP_GONE, 2)  # The read waits for it, or for its slices.
    await turns()
    read = asyncio.ensure_future(read_group(node.runtime, GROUP_GONE.encode()))
    await asyncio.sleep(0)
    node.lose(GONE)
    node.take(GONE)
    with pytest.raises(NotCoordinator):
        await until(read)
    with pytest.raises(NotCoordinator):
        await until(pending)
    assert len(await read_group(node.runtime, GROUP_GONE.encode())) == 2 * SLICE_ROWS


@pytest.mark.parametrize("end", [node_end for node_end, *_ in ENDINGS.values()][:2])
async def test_a_member_that_waits_is_refused_when_its_partition_goes(
    end: Callable[[MemoryNode], None],
) -> None:
    node = a_node()
    service = MembershipService(node.node)

    def join(member_id: str) -> asyncio.Task[Any]:
        request = group_service_pb2.JoinGroupRequest(
            group_id=GROUP_GONE, member_id=member_id, protocol_type="consumer"
        )
        request.session_timeout.FromMilliseconds(10_000)
        request.protocols.add(name="range")
        return asyncio.ensure_future(service.join_group(request.SerializeToString()))

    with pytest.raises(CoordinatorError) as required:
        await join("")
    joining = join(required.value.variables["member_id"])
    await turns()
    assert node.node.members.waiting == 1
    end(node)
    with pytest.raises(NotCoordinator):
        await until(joining)
    assert node.node.members.waiting == 0
    node.take(GONE)
    with pytest.raises(CoordinatorError) as required:
        await join("")
    assert required.value.reason == "MEMBER_ID_REQUIRED"


async def test_groups_of_all_that_serve_are_listed() -> None:
    node = a_node()
    for partition in ALL:
        await node.commit(group_in(partition), 1)
    node.release(GONE)
    node.log.damage_partition(3)
    with pytest.raises(NotCoordinator):
        await GroupService(node.node).list_groups(b"")
    request = group_service_pb2.ListGroupsRequest(this_node_only=True)
    answer = await GroupService(node.node).list_groups(request.SerializeToString())
    response = group_service_pb2.ListGroupsResponse.FromString(answer)
    listed = {each.group_id for each in response.groups}
    assert listed == {group_in(0), group_in(HERE)}
    assert list(response.unreachable_log_partitions) == [3]


async def test_history_is_read_up_to_what_is_durable() -> None:
    node = a_node()
    first = await node.commit(GROUP_HERE, 1)
    await node.commit(GROUP_HERE, 2)
    _, rows = await state_at(node.runtime, GROUP_HERE.encode(), revision=first.revision.log_offset)
    assert len(rows) == 1
    async with node.stubs() as stubs:
        request = history_pb2.ListOffsetHistoryRequest(group_id=GROUP_HERE)
        response = await stubs.offsets.ListOffsetHistory(request)
    assert [each.committed.offset for each in response.events] == [2, 1]


async def test_when_the_whole_log_fails_nothing_is_acknowledged() -> None:
    node = a_node()
    node.log.holds = True
    commit = waiting(node, GROUP_HERE, 1)
    await turns()
    node.log.fail(StorageFailed("gone"))
    for each in (commit, node.commit(GROUP_GONE, 1), node.fetch(GROUP_HERE)):
        with pytest.raises(StorageUnavailable):
            await each


class Cluster:
    """Two nodes that share a topic, and what their clients know of some groups."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.topic = MemoryTopic(PARTITIONS)
        self.nodes = [MemoryNode(self.topic, ALL), MemoryNode(self.topic, (), name="n2")]
        self.owners: dict[int, MemoryNode] = dict.fromkeys(ALL, self.nodes[0])
        self.groups = [group_in(partition, number) for partition in ALL for number in range(2)]
        self.acknowledged = dict.fromkeys(self.groups, 0)
        self.value = 0
        self.commits: list[tuple[MemoryNode, int, asyncio.Task[Any]]] = []

    def partition_of(self, group_id: str) -> int:
        return self.nodes[0].runtime.partition_of(group_id.encode())

    async def commit(self, group_id: str) -> None:
        self.value += 1
        value, partition = self.value, self.partition_of(group_id)
        node = self.random.choice([*self.nodes, *[self.owners.get(partition, self.nodes[0])] * 4])

        async def committed() -> None:
            try:
                await node.commit(group_id, value)
            except NotCoordinator:
                return
            assert self.acknowledged[group_id] < value, "answered in the order of the commits"
            self.acknowledged[group_id] = value

        self.commits.append((node, partition, asyncio.ensure_future(committed())))
        await asyncio.sleep(0)

    async def move(self, partition: int) -> None:
        owner = self.owners.pop(partition, None)
        if owner is None:
            node = self.random.choice(self.nodes)
            node.take(partition)
            self.owners[partition] = node
            await self.check(partition)
        elif self.random.random() < 0.5:
            owner.release(partition)
        else:
            await turns()
            others = [
                task
                for node, where, task in self.commits
                if (node, where) != (owner, partition) and not task.done()
            ]
            owner.lose(partition)
            await turns()
            if owner.log.holds and self.nodes[1 - self.nodes.index(owner)].log.holds:
                assert not any(task.done() for task in others), "the others wait on"

    async def check(self, partition: int) -> None:
        """What was acknowledged is there: all else that is durable is newer."""
        await turns()
        for group_id in self.groups:
            if self.partition_of(group_id) == partition:
                [found] = await self.owners[partition].fetch(group_id)
                assert (found or 0) >= self.acknowledged[group_id]

    async def step(self) -> None:
        chance = self.random.random()
        if chance < 0.6:
            await self.commit(self.random.choice(self.groups))
        elif chance < 0.75:
            await self.move(self.random.choice(ALL))
        else:
            node = self.random.choice(self.nodes)
            node.log.holds = self.random.random() < 0.7
            if not node.log.holds:
                node.log.flush()
            await turns()

    async def end(self) -> None:
        for node in self.nodes:
            node.log.holds = False
            node.log.flush()
        for _, _, task in self.commits:
            await until(task)
        for partition in ALL:
            if partition not in self.owners:
                await self.move(partition)
            await self.check(partition)


@pytest.mark.parametrize("number", range(20))
async def test_nothing_acknowledged_is_lost_while_partitions_go_and_come(number: int) -> None:
    cluster = Cluster(Random(seed_of("partition ownership", number)))
    for _ in range(150):
        await cluster.step()
    await cluster.end()
    assert any(cluster.acknowledged.values())
