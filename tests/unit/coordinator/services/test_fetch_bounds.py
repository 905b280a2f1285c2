"""FetchBounds: what a cluster tells is passed on, and without one nothing is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from offsetd.v1 import offset_service_pb2
from offsetd_coordinator.errors import InvalidPartition, InvalidTopic, KafkaUnavailable
from offsetd_coordinator.offset_changes import Bounds
from offsetd_coordinator.services.fetch_bounds import BoundsService
from serving_nodes import serving_node

if TYPE_CHECKING:
    from collections.abc import Collection

    from offsetd_coordinator.offset_changes import Partition


class Cluster:
    """Has three partitions, or is not there."""

    def __init__(self, *, is_there: bool = True) -> None:
        self.asked: list[tuple[list[Partition], list[bytes]]] = []
        self._is_there = is_there

    async def bounds(
        self, partitions: Collection[Partition], topics: Collection[bytes], *, timeout_s: float
    ) -> dict[Partition, Bounds]:
        assert timeout_s > 0
        self.asked.append((list(partitions), list(topics)))
        if not self._is_there:
            raise KafkaUnavailable("no answer")
        return {(b"b", 2): Bounds(5, 9), (b"a", 10): Bounds(0, 0), (b"a", 9): Bounds(1, 2)}


async def fetch_bounds(cluster: Any, **fields: Any) -> list[tuple[str, int, int, int]]:
    request = offset_service_pb2.FetchBoundsRequest(**fields).SerializeToString()
    async with serving_node() as serving:
        message = await BoundsService(serving.node, cluster).fetch_bounds(request)
    response = offset_service_pb2.FetchBoundsResponse.FromString(message)
    return [(each.topic, each.partition, each.earliest, each.latest) for each in response.bounds]


async def test_what_the_cluster_tells_is_passed_on_in_order() -> None:
    cluster = Cluster()
    found = await fetch_bounds(cluster, partitions=[{"topic": "b", "partition": 2}], topics=["a"])
    assert found == [("a", 9, 1, 2), ("a", 10, 0, 0), ("b", 2, 5, 9)]
    assert cluster.asked == [([(b"b", 2)], [b"a"])]


async def test_without_a_cluster_nothing_is_known() -> None:
    assert await fetch_bounds(None, topics=["a"]) == []


async def test_the_cluster_is_not_asked_for_nothing() -> None:
    cluster = Cluster()
    assert await fetch_bounds(cluster) == []
    assert not cluster.asked


@pytest.mark.parametrize("cluster", [None, Cluster()])
async def test_what_names_no_partition_is_refused(cluster: Any) -> None:
    with pytest.raises(InvalidPartition):
        await fetch_bounds(cluster, partitions=[{"topic": "a", "partition": -1}])
    with pytest.raises(InvalidTopic):
        await fetch_bounds(cluster, topics=[""])


async def test_a_cluster_that_does_not_answer_is_told() -> None:
    with pytest.raises(KafkaUnavailable):
        await fetch_bounds(Cluster(is_there=False), topics=["a"])
