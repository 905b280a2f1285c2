"""The command line on a cluster: all groups of all nodes, and the state of the cluster."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from io import StringIO
from typing import TYPE_CHECKING

import pytest
from cli_calls import Ended, offsetd_of
from memory_cluster import MemoryCluster, memory_cluster
from memory_nodes import group_in
from offsetd.v1 import admin_service_pb2
from offsetd_clients.cli.printing.cluster_summary import report_cluster
from offsetd_clients.cli.printing.terminal import Terminal
from offsetd_clients.cluster_values import (
    Cluster,
    ClusterNode,
    ClusterPartition,
    LogPartitionState,
    Replication,
)
from offsetd_clients.messages import conversions
from offsetd_coordinator.runtime.node_directory import ClusterReport
from offsetd_coordinator.runtime.node_directory import Replication as ReportedReplication
from patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Command = Callable[..., Awaitable[Ended]]

PARTITIONS = 4
GROUPS = [group_in(partition, 0, PARTITIONS) for partition in range(PARTITIONS)]


@pytest.fixture
async def cluster() -> AsyncIterator[MemoryCluster]:
    """Two nodes, and a group in each partition."""
    async with memory_cluster(2, PARTITIONS) as started:
        for partition, group_id in enumerate(GROUPS):
            owner = started.owner(partition)
            assert owner is not None
            await owner.commit(group_id, partition)
        yield started


@pytest.fixture
def offsetd(cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Calls `offsetd` on the second node, or on the first one if that does not answer."""
    call = offsetd_of(",".join(reversed(cluster.addresses)), monkeypatch)

    async def called(*arguments: object) -> Ended:
        return await asyncio.wait_for(asyncio.to_thread(call, *arguments), PATIENCE_SECONDS)

    return called


def groups_in(ended: Ended) -> list[str]:
    assert ended.code == 0, ended.stderr
    return sorted({json.loads(line)["group"] for line in ended.stdout.splitlines()})


async def test_commands_about_all_groups_ask_all_nodes(offsetd: Command) -> None:
    listed = await offsetd("groups", "list", "-o", "jsonl")
    assert groups_in(listed) == sorted(GROUPS)
    for command in (("fetch",), ("groups", "describe")):
        assert groups_in(await offsetd(*command, "--all-groups", "-o", "jsonl")) == sorted(GROUPS)
    exported = await offsetd("groups", "export", "--format", "jsonl")
    assert groups_in(exported) == sorted(GROUPS)
    history = await offsetd("groups", "history", GROUPS[0], "-o", "jsonl")
    assert groups_in(history) == [GROUPS[0]]


async def test_a_watch_prints_the_events_of_all_nodes(cluster: MemoryCluster) -> None:
    watching = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from offsetd_clients.cli.main import main; main()",
        *("watch", "--from", "oldest", "-o", "jsonl", "--address", cluster.addresses[1]),
        stdout=asyncio.subprocess.PIPE,
    )
    assert watching.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            lines = [await watching.stdout.readline() for _ in GROUPS]
    finally:
        watching.kill()
        await watching.wait()
    assert sorted(json.loads(line)["group"] for line in lines) == sorted(GROUPS)


async def test_the_audit_of_all_nodes_names_them(offsetd: Command) -> None:
    for group_id in GROUPS[:2]:
        assert (await offsetd("groups", "delete", group_id)).code == 0
    ended = await offsetd("admin", "audit", "-o", "jsonl")
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert sorted((row["group"], row["node"]) for row in rows) == sorted(
        [(GROUPS[0], "n1"), (GROUPS[1], "n2")]
    )


async def test_the_status_has_all_log_partitions_and_what_is_in_trouble(
    cluster: MemoryCluster, offsetd: Command
) -> None:
    replication = ReportedReplication("__offsetd_offsets", 3, 2)
    cluster.nodes[0].node.cluster_report = lambda: ClusterReport(replication)
    cluster.nodes[1].node.cluster_report = lambda: ClusterReport(replication, {0: 5})
    cluster.release(3)
    ended = await offsetd("admin", "status", "-o", "json")
    assert ended.code == 1
    rows = json.loads(ended.stdout)
    assert [row["node"] for row in rows] == ["n1", "n2", "n1", None]
    assert [row["problem"] for row in rows] == [None, None, None, "no node serves it"]
    assert rows[0]["copy_lag"] == 5
    assert rows[0]["address"] == cluster.addresses[0]
    assert "2 nodes, 4 log partitions" in ended.stderr
    assert " on this node\n" in ended.stderr
    assert "partition 3" in ended.stderr


class Screen(StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("hidden", [False, True])
def test_counts_that_are_hidden_are_no_zeros(hidden: bool) -> None:
    server = conversions.server_info(
        admin_service_pb2.GetServerInfoResponse(version="9", group_count=41, counts_hidden=hidden)
    )
    node = ClusterNode(node_id="n1", address="a:1", log_partitions=(), server=server)
    cluster = Cluster(cluster_id="c", nodes=(node,), partitions=(), replication=None, problems=())
    stdout = Screen()
    report_cluster(cluster, Terminal(stdout, StringIO()), named=(), all_partitions=False)
    shown = re.sub("\x1b[^m]*m", "", stdout.getvalue()).splitlines()
    heading, row = (line.split() for line in shown[:2])
    assert row[heading.index("GROUPS")] == ("-" if hidden else "41")


def test_the_status_fits_80_columns() -> None:
    stdout, stderr = Screen(), Screen()
    names = [f"node-{number}.offsetd.example.org" for number in range(3)]
    cluster = Cluster(
        cluster_id="Zf3kQe2vT0mX8aB1cD5eFg",
        nodes=tuple(
            ClusterNode(
                node_id=name,
                address=f"{name}:7171",
                log_partitions=tuple(range(number, 50, 3)),
                server=None,
            )
            for number, name in enumerate(names)
        ),
        partitions=tuple(
            ClusterPartition(
                log_partition=number,
                node_id=names[number % 3],
                state=LogPartitionState.LOADING,
                epoch=None,
                copy_lag=1_000_000_000,
            )
            for number in range(50)
        ),
        replication=Replication(
            topic="__offsetd_offsets", replication_factor=3, min_insync_replicas=2
        ),
        problems=("min.insync.replicas is 1, and 2 is asked for",),
    )
    in_trouble = report_cluster(cluster, Terminal(stdout, stderr), named=(), all_partitions=False)
    assert len(in_trouble) == 1 + 3 + 50
    shown = re.sub("\x1b[^m]*m", "", stdout.getvalue()).splitlines()
    assert max(map(len, shown)) <= 80
    assert any("COPY-LAG" in line for line in shown)
    assert "a commit survives the loss of 1 broker" in stderr.getvalue()
