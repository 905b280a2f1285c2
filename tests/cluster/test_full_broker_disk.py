"""A broker whose disk is full ends. Nodes and clients go on, and the broker comes back later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from cluster.node_process import NodeProcess
from ext4_volumes import fill, mounted_ext4
from offsetd_clients import OffsetClient, OffsetToCommit, RetryPolicy, TopicPartition
from ports import free_ports

from deploy.kafka.kafka_cluster import CLIENTS, CONTROLLERS, BrokerPorts, KafkaCluster

if TYPE_CHECKING:
    from pathlib import Path

    from deploy.kafka.kafka_runtime import Runtime

pytestmark = [pytest.mark.kafka, pytest.mark.root]

DISK_BYTES: Final = 400 << 20
SECONDS_MAX: Final = 120
GROUPS: Final = [f"group-{number}" for number in range(20)]
PARTITIONS: Final = [TopicPartition("orders", number) for number in range(50)]


def commit_all(client: OffsetClient, value: int) -> None:
    """Writes about 4 MB."""
    offsets = {each: OffsetToCommit(value, metadata="m" * 4000) for each in PARTITIONS}
    for future in [client.commit_soon(group_id, offsets) for group_id in GROUPS]:
        future.result(SECONDS_MAX)


def test_commits_go_on_while_the_disk_of_a_broker_is_full(
    kafka_runtime: Runtime, tmp_path: Path, cluster_id: str
) -> None:
    folder = tmp_path / "brokers"
    folder.mkdir()
    ports = [
        BrokerPorts(listens=dict(zip((CLIENTS, CONTROLLERS), free_ports(2), strict=True)))
        for _ in range(3)
    ]
    with mounted_ext4(tmp_path, size_bytes=DISK_BYTES) as volume:
        (folder / "broker-1").symlink_to(volume.folder)
        brokers = KafkaCluster(kafka_runtime, folder, ports)
        settings = {
            "cluster.bootstrap.servers": brokers.addresses,
            "cluster.id": cluster_id,
            "disk.reserve.bytes": 1 << 20,
        }
        try:
            brokers.start()
            with (
                NodeProcess(tmp_path, "n1", settings).start() as node,
                OffsetClient(node.address, retry=RetryPolicy(timeout_s=100)) as client,
            ):
                commit_all(client, 0)
                fill(volume.folder / "filler")
                full, value = brokers.broker(1), 0
                while full.is_running:
                    value += 1
                    assert value < 1000, "the broker does not notice"
                    commit_all(client, value)
                commit_all(client, value + 1)
                (volume.folder / "filler").unlink()
                full.start()
                brokers.wait_until_in_sync()
                commit_all(client, value + 2)
                for group_id in GROUPS:
                    found = client.fetch(group_id)
                    assert {each.offset for each in found.values()} == {value + 2}
                    assert found.keys() == set(PARTITIONS)
                assert node.is_running
        finally:
            brokers.kill()
