"""Nodes that share the log partitions: each answers for its own, and says where the others are."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from memory_cluster import CLUSTER_ID, MemoryCluster, memory_cluster
from memory_commit_log import MemoryTopic
from memory_nodes import PARTITIONS, MemoryNode, group_in
from offsetd.v1 import admin_service_pb2 as admin
from offsetd.v1 import group_service_pb2 as groups
from offsetd.v1 import history_pb2 as history
from offsetd.v1 import offset_service_pb2 as offsets
from offsetd_coordinator.errors import CoordinatorError, CoordinatorNotAvailable, NotCoordinator
from offsetd_coordinator.runtime.node_directory import ClusterReport, Replication
from offsetd_coordinator.services.cluster_calls import ClusterService
from offsetd_coordinator.services.group_calls import GroupService
from offsetd_coordinator.services.offset_exports import ExportService
from offsetd_coordinator.services.server_admin import AdminService
from refusals import details
from server_process import Stubs
from serving_nodes import WAIT_SECONDS, commit_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ALL = range(PARTITIONS)
OWN = [0, 2]
OTHERS = [1, 3]
JSONL = admin.OFFSET_FORMAT_JSONL


@pytest.fixture
async def cluster() -> AsyncIterator[MemoryCluster]:
    """Two nodes, and a group in each partition."""
    async with memory_cluster(2) as started:
        for partition in ALL:
            owner = started.owner(partition)
            assert owner is not None
            await owner.commit(group_in(partition), partition)
        yield started


async def listed(node: MemoryNode, **fields: Any) -> groups.ListGroupsResponse:
    request = groups.ListGroupsRequest(**fields)
    answer = await GroupService(node.node).list_groups(request.SerializeToString())
    return groups.ListGroupsResponse.FromString(answer)


async def exported(node: MemoryNode, **fields: Any) -> list[admin.ExportOffsetsResponse]:
    request = admin.ExportOffsetsRequest(format=JSONL, **fields)
    pieces = ExportService(node.node).export_offsets(request.SerializeToString())
    return [admin.ExportOffsetsResponse.FromString(each) async for each in pieces]


async def described(node: MemoryNode) -> admin.DescribeClusterResponse:
    answer = await ClusterService(node.node).describe_cluster(b"")
    return admin.DescribeClusterResponse.FromString(answer)


def ids(response: groups.ListGroupsResponse) -> list[str]:
    return [each.group_id for each in response.groups]


async def test_a_single_server_is_a_cluster_of_one_node_and_says_nothing_of_others() -> None:
    node = MemoryNode(MemoryTopic(PARTITIONS), ALL)
    response = await described(node)
    assert not response.cluster_id
    assert [(each.node_id, list(each.log_partitions)) for each in response.nodes] == [
        ("n1", [*ALL])
    ]
    assert {each.state for each in response.partitions} == {admin.LOG_PARTITION_STATE_SERVING}
    assert not (await listed(node, this_node_only=True)).HasField("cluster")
    assert not (await exported(node, this_node_only=True))
    info = await AdminService(node.node).get_server_info(b"")
    assert not admin.GetServerInfoResponse.FromString(info).other_addresses


async def test_each_node_describes_all_and_knows_the_states_of_its_own(
    cluster: MemoryCluster,
) -> None:
    first, second = cluster.nodes
    first.node.cluster_report = lambda: ClusterReport(
        Replication("__offsetd_offsets", 3, 2), {0: 17}, problems=("a broker is away",)
    )
    cluster.release(3)
    second.log.begin_load(3)
    ours, theirs = await described(first), await described(second)
    assert ours.cluster_id == theirs.cluster_id == CLUSTER_ID
    assert [(each.node_id, each.address) for each in ours.nodes] == [
        ("n1", cluster.addresses[0]),
        ("n2", cluster.addresses[1]),
    ]
    assert [each.node_id for each in ours.partitions] == ["n1", "n2", "n1", "n2"]
    serving, loading = admin.LOG_PARTITION_STATE_SERVING, admin.LOG_PARTITION_STATE_LOADING
    assert [each.state for each in ours.partitions] == [serving, 0, serving, 0]
    assert [each.state for each in theirs.partitions] == [0, serving, 0, loading]
    assert [each.HasField("epoch") for each in theirs.partitions] == [False, True, False, False]
    assert ours.partitions[0].copy_lag == 17
    assert not ours.partitions[2].HasField("copy_lag")
    assert (ours.replication.replication_factor, ours.replication.min_insync_replicas) == (3, 2)
    assert list(ours.problems) == ["a broker is away"]


async def test_who_does_not_ask_for_one_node_only_is_refused_and_hears_what_to_do(
    cluster: MemoryCluster,
) -> None:
    first = cluster.nodes[0]
    async with grpc.aio.insecure_channel(first.node.address) as channel:
        untyped: Any = channel
        stubs = Stubs(untyped)
        calls = (
            stubs.groups.ListGroups(groups.ListGroupsRequest()),
            stubs.admin.ExportOffsets(admin.ExportOffsetsRequest(format=JSONL)).read(),
            stubs.offsets.WatchOffsets(history.WatchOffsetsRequest()).read(),
        )
        for call in calls:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call
            assert details(refused.value)[1] == NotCoordinator.reason
            assert "this_node_only" in (refused.value.details() or "")


async def test_a_node_lists_its_own_groups_and_names_the_owners_of_the_others(
    cluster: MemoryCluster,
) -> None:
    first, second = cluster.nodes
    cluster.release(3)
    response = await listed(first, this_node_only=True)
    assert ids(response) == [group_in(each) for each in OWN]
    assert list(response.cluster.log_partitions) == OWN
    elsewhere = {each.address: list(each.log_partitions) for each in response.cluster.elsewhere}
    assert elsewhere == {second.node.address: [1], "": [3]}
    assert ids(await listed(second, log_partitions=[1])) == [group_in(1)]
    with pytest.raises(NotCoordinator) as refused:
        await listed(first, log_partitions=[0, 1])
    assert refused.value.variables["address"] == second.node.address


async def test_pages_of_one_node_go_on_at_another(cluster: MemoryCluster) -> None:
    first, second = cluster.nodes
    for number in range(1, 4):
        await first.commit(group_in(2, number), 1)
    page = await listed(first, this_node_only=True, page_size=3)
    assert page.next_log_partition == 2
    cluster.move(2, 1)
    rest = await listed(second, log_partitions=[2], page_token=page.next_page_token)
    found = [*ids(page), *ids(rest)]
    assert sorted(found) == sorted([group_in(0), *(group_in(2, number) for number in range(4))])


@pytest.mark.parametrize("named", [[4], [-1], [0, 0]])
async def test_log_partitions_that_are_none_are_refused(
    cluster: MemoryCluster, named: list[int]
) -> None:
    with pytest.raises(CoordinatorError) as refused:
        await listed(cluster.nodes[0], log_partitions=named)
    assert refused.value.reason == "INVALID_REQUEST"


async def test_an_export_says_which_log_partitions_are_complete(cluster: MemoryCluster) -> None:
    first, second = cluster.nodes
    begin, *pieces = await exported(first, this_node_only=True)
    assert list(begin.cluster.log_partitions) == OWN
    assert not begin.content
    assert [each.completed_log_partition for each in pieces] == OWN
    assert [each.content.count(b"\n") for each in pieces] == [1, 1]
    _, piece = await exported(second, log_partitions=[3])
    assert group_in(3).encode() in piece.content
    [alone] = await exported(first, group_ids=[group_in(0)])
    assert not alone.HasField("completed_log_partition")


async def rest_of(call: Any) -> None:
    while await call.read():
        pass


async def test_a_watch_of_one_node_sends_its_events_and_ends_when_a_partition_leaves(
    cluster: MemoryCluster,
) -> None:
    first, second = cluster.nodes
    async with grpc.aio.insecure_channel(first.node.address) as channel:
        untyped: Any = channel
        request = history.WatchOffsetsRequest(this_node_only=True, from_oldest=True)
        call = Stubs(untyped).offsets.WatchOffsets(request)
        begin = await call.read()
        assert list(begin.cluster.log_partitions) == OWN
        assert [each.address for each in begin.cluster.elsewhere] == [second.node.address]
        async with asyncio.timeout(WAIT_SECONDS):
            events = [*(await call.read()).events, *(await call.read()).events]
            assert [each.group_id for each in events] == [group_in(each) for each in OWN]
            cluster.move(0, 1)
            with pytest.raises(grpc.aio.AioRpcError) as ended:
                await rest_of(call)
        assert details(ended.value)[1] == NotCoordinator.reason


async def test_a_watch_of_groups_of_others_only_ends_at_once(cluster: MemoryCluster) -> None:
    async with grpc.aio.insecure_channel(cluster.addresses[0]) as channel:
        untyped: Any = channel
        request = history.WatchOffsetsRequest(this_node_only=True, group_ids=[group_in(1)])
        call = Stubs(untyped).offsets.WatchOffsets(request)
        [only] = [each async for each in call]
        assert not only.cluster.log_partitions
        assert list(only.cluster.elsewhere[0].log_partitions) == [1]


async def test_a_stream_ends_before_commits_behind_a_refused_one_are_accepted(
    cluster: MemoryCluster,
) -> None:
    first = cluster.nodes[0]
    async with grpc.aio.insecure_channel(first.node.address) as channel:
        untyped: Any = channel
        call = Stubs(untyped).offsets.StreamCommits()

        async def send(sequence: int, partition: int) -> None:
            commit = commit_request(group_in(partition), sequence)
            sequenced = offsets.SequencedCommit(sequence=sequence, commit=commit)
            await call.write(offsets.StreamCommitsRequest(commits=[sequenced]))

        await send(1, 1)
        [refused] = (await call.read()).results
        assert refused.HasField("error")
        await send(2, 0)
        [accepted] = (await call.read()).results
        assert accepted.HasField("committed"), "other log partitions go on"
        cluster.move(1, 0)
        await send(3, 1)
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await call.read()
        assert details(ended.value)[1] == CoordinatorNotAvailable.reason
    assert await first.fetch(group_in(1)) == [1], "it has what it had"
