"""The brokers compact the topic: what was deleted goes with its tombstones, and the state stays."""

from __future__ import annotations

import shutil
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest
from cluster.test_moving_in_and_out import state
from cluster.test_nodes import FIRST, SECONDS_MAX, Nodes
from cluster.topic_log import committed
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from offsetd_clients import OffsetClient, TopicPartition
from server_process import poll

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.real_cluster import RealCluster

pytestmark = pytest.mark.kafka

SECOND: Final = TopicPartition("orders", 1)
KEPT: Final = [f"kept-{number}" for number in range(5)]
DELETED: Final = [f"deleted-{number}" for number in range(5)]
EXPIRED: Final = [f"expired-{number}" for number in range(5)]
LEASED: Final = "leased"
ROLLS: Final = "rolls"  # Commits to this group end the segment that is written to.
NODE: Final = {
    "offsets.topic.num.partitions": 1,
    "offsets.retention.check.interval.ms": 200,
    "history.ms": 0,
}
# The topic as nodes ask for it, and so that the brokers compact at once. Nodes look at their start.
ASKED_FOR: Final = {"min.compaction.lag.ms": "60000", "delete.retention.ms": "86400000"}
AT_ONCE: Final = {
    "min.compaction.lag.ms": "0",
    "delete.retention.ms": "0",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "100",
}


@pytest.fixture
def nodes(real_cluster: RealCluster, tmp_path: Path, cluster_id: str) -> Nodes:
    return Nodes(real_cluster, tmp_path, cluster_id)


def alter(nodes: Nodes, settings: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": nodes.cluster.addresses})
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    name = f"__{nodes.cluster_id}_offsets"
    topic = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    [done] = admin.incremental_alter_configs([topic]).values()
    done.result(SECONDS_MAX)


def fill(client: OffsetClient) -> int:
    """Groups that stay, and others that are deleted or expire. Returns the last revision."""
    for group in KEPT:
        for value in range(3):
            client.commit(group, {FIRST: value, SECOND: 10 + value})
    client.delete_offsets(KEPT[0], [SECOND])
    lease = client.acquire_group(LEASED, "host-1", ttl=timedelta(hours=2))
    client.commit(LEASED, {FIRST: 3}, epoch=lease.epoch)
    client.commit(ROLLS, {FIRST: 0})
    for group in EXPIRED:
        client.commit(group, {FIRST: 1}, retention=timedelta(milliseconds=1))
    for group in DELETED:
        client.commit(group, {FIRST: 1, SECOND: 1})
    poll(lambda: not any(client.fetch(group) for group in EXPIRED), SECONDS_MAX)
    deleted = [client.delete_group(group) for group in DELETED]
    return max(each.revision.log_offset for each in deleted if each.revision is not None)


def found(client: OffsetClient) -> dict[str, Any]:
    groups = [*KEPT, LEASED, ROLLS]
    return {
        "listed": sorted(each.group_id for each in client.list_groups()),
        "offsets": {each: client.fetch(each) for each in [*groups, *DELETED, *EXPIRED]},
        "states": {each: state(client, each) for each in groups},
    }


def traces(nodes: Nodes) -> tuple[int, int]:
    """How many records the topic has of groups that are gone, and how many of them delete."""
    topic = f"__{nodes.cluster_id}_offsets"
    names = [each.encode() for each in [*DELETED, *EXPIRED]]
    records = [
        each
        for each in committed(nodes.cluster.addresses, topic, [0])
        if any(name in each.key for name in names)
    ]
    return len(records), sum(each.value is None for each in records)


def test_a_node_without_a_copy_loads_the_same_from_a_topic_that_was_compacted(
    nodes: Nodes,
) -> None:
    node = nodes.add("n1", **NODE)
    node.start()
    with nodes.client() as client:
        last = fill(client)
        records, tombstones = traces(nodes)
        assert records > tombstones >= len(DELETED) + len(EXPIRED)
        alter(nodes, AT_ONCE)

        def is_compacted() -> bool:
            last_of_segment = client.fetch(ROLLS)[FIRST].offset
            client.commit(ROLLS, {FIRST: last_of_segment + 1})
            return traces(nodes) == (0, 0)

        poll(is_compacted, SECONDS_MAX, lambda: traces(nodes))
        before = found(client)
        assert before["listed"] == sorted([*KEPT, LEASED, ROLLS])
        assert node.stop() == 0
        alter(nodes, ASKED_FOR)
        shutil.rmtree(node.data_folder)
        node.start()
        assert found(client) == before
        newest = client.fetch(ROLLS)[FIRST].revision
        later = client.commit(DELETED[0], {FIRST: 1}).log_offset
    assert later > max(last, newest), "no revision is given out again"
