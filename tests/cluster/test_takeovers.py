"""Takeovers of partitions whose former owner has left a transaction open, on real brokers."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from cluster.test_nodes import FIRST, SECONDS_MAX, Nodes
from confluent_kafka import Producer
from offsetd_coordinator.cluster.topic_records import topic_records
from offsetd_coordinator.requests import CommitOffsets, OffsetEntry
from offsetd_coordinator.shard.shard import Shard, ShardConfig
from server_process import poll

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cluster.real_cluster import RealCluster
    from offsetd_clients import Revision

pytestmark = pytest.mark.kafka

GROUP = "group-0"
BEFORE, LATER = 1, 2


@pytest.fixture
def nodes(real_cluster: RealCluster, tmp_path: Path, cluster_id: str) -> Nodes:
    return Nodes(real_cluster, tmp_path, cluster_id)


def killed_after_a_commit(nodes: Nodes) -> Revision:
    """A node commits, and is killed. Returns the revision of its commit."""
    [node] = nodes.start(1)
    with nodes.client() as client:
        revision: Revision = client.commit(GROUP, {FIRST: BEFORE})
    node.kill()
    nodes.nodes.clear()
    return revision


@contextmanager
def open_transaction(nodes: Nodes, transactional_id: str, behind: Revision) -> Iterator[Producer]:
    """A transaction with a commit of `LATER` behind that revision, left open."""
    shard = Shard(behind.log_partition, ShardConfig())
    shard.end_load(offset_next=behind.log_offset + 1, leader_epoch=0)
    entry = OffsetEntry(topic=FIRST.topic.encode(), partition=FIRST.partition, offset=LATER)
    decision = shard.decide(CommitOffsets.of(GROUP.encode(), (entry,), b""), 1)
    assert decision.batch is not None
    producer = Producer(
        {
            "bootstrap.servers": nodes.cluster.addresses,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    for each in topic_records(decision.batch):
        producer.produce(
            f"__{nodes.cluster_id}_offsets",
            each.value,
            each.key,
            behind.log_partition,
            timestamp=int(time.time() * 1000),
            headers=each.headers,
        )
    assert producer.flush(SECONDS_MAX) == 0
    yield producer


def found(nodes: Nodes) -> int:
    with nodes.client() as client:
        return client.fetch(GROUP)[FIRST].offset


def test_a_node_serves_only_once_all_that_was_written_before_is_decided(nodes: Nodes) -> None:
    """The commit may have been acknowledged: a moment later it is below the last stable offset."""
    revision = killed_after_a_commit(nodes)
    with open_transaction(nodes, f"{nodes.cluster_id}-elsewhere", revision) as producer:
        node = nodes.add("n2")
        node.launch()
        poll(lambda: "partitions assigned" in node.output, SECONDS_MAX, lambda: node.output)
        time.sleep(3)  # A node that does not wait serves meanwhile, without the commit.
        assert "partitions taken over" not in node.output
        producer.commit_transaction(SECONDS_MAX)
        node.server.wait_until_serving()
        assert found(nodes) == LATER


def test_the_open_transaction_of_a_killed_node_is_ended_without_effect(
    nodes: Nodes,
) -> None:
    revision = killed_after_a_commit(nodes)
    with open_transaction(nodes, f"{nodes.cluster_id}-n1-0", revision):
        node = nodes.add("n2")
        node.start()
        assert "ending the transactions of another node" in node.output
        assert found(nodes) == BEFORE
        with nodes.client() as client:
            later = client.commit(GROUP, {FIRST: 5})
        assert later.log_offset > revision.log_offset + 1, "no log offset is given out twice"
