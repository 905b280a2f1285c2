"""The page of a cluster: nodes that answer and one that does not, owners, copies' lag."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

import attrs
from offsetd_clients.cluster_values import (
    Cluster,
    ClusterNode,
    ClusterPartition,
    LogPartitionState,
    Replication,
)
from offsetd_clients.values import ServerInfo, ServerState
from offsetd_clients.web.pages import cluster as page
from offsetd_clients.web.rendering import environment

if TYPE_CHECKING:
    from offsetd_clients import AsyncOffsetClient

SERVER = ServerInfo(
    version="0.2.0",
    folder_id="f",
    node_id="a",
    start_time=datetime(2026, 11, 28, tzinfo=UTC),
    log_partitions=4,
    state=ServerState.SERVING,
    group_count=12_345,
    offset_count=67_890,
    unknown_record_count=0,
    undecodable_record_count=0,
    quarantined_partitions=(),
)


def partition(number: int, node_id: str, lag: int | None = None) -> ClusterPartition:
    state = LogPartitionState.SERVING if node_id else LogPartitionState.UNKNOWN
    return ClusterPartition(
        log_partition=number, node_id=node_id, state=state, epoch=7, copy_lag=lag
    )


CLUSTER = Cluster(
    cluster_id="c",
    nodes=(
        ClusterNode(
            node_id="a",
            address="one:7171",
            log_partitions=(0, 1, 2),
            server=SERVER,
            copy_lag=4321,
        ),
        ClusterNode(node_id="<b>", address="two:7171", log_partitions=(), server=None),
    ),
    partitions=(
        partition(0, "a", 5),
        partition(1, "a"),
        partition(2, "a"),
        partition(3, ""),
    ),
    replication=Replication(topic="offsets", replication_factor=3, min_insync_replicas=2),
    problems=("a broker is away",),
)


@attrs.frozen
class OneCluster:
    """A client that knows this cluster."""

    async def describe_cluster(self) -> Cluster:
        return CLUSTER


async def shown(**parameters: str) -> str:
    client = cast("AsyncOffsetClient", OneCluster())
    texts = dict.fromkeys(("server", "version", "logout"), "")
    frame = {"sections": (), "path": "/cluster", "here": "/cluster", "changes": (), **texts}
    template = environment().get_template("cluster.html")
    return template.render(**frame, **await page.view(client, parameters))


async def test_nodes_owners_and_copies_are_told() -> None:
    text = re.sub(r"\s+", " ", await shown())
    for told in ("12,345", "67,890", "0\N{EN DASH}2", "4,321", "a broker is away", "no answer"):
        assert told in text
    assert "<b>1</b><span>that no node serves" in text
    assert "&lt;b&gt;" in text
    assert '<tr class="bad"><td class="n">3</td><td><span class="tag v-err">no node' in text
    assert "single server" not in text
