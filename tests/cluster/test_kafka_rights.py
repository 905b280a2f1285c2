"""Nodes with a user of Kafka that has the rights that the guide lists, and no others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from cluster.node_process import NodeProcess
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from offsetd_clients import OffsetClient, RetryPolicy, TopicPartition
from ports import free_ports
from server_process import START_SECONDS_MAX, poll

from deploy.kafka.kafka_cluster import (
    BROKERS,
    CLIENTS,
    CONTROLLERS,
    NODES,
    BrokerPorts,
    KafkaCluster,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deploy.kafka.kafka_runtime import Runtime

pytestmark = pytest.mark.kafka

GUIDE: Final = Path(__file__).parents[2] / "docs" / "guides" / "several-nodes.md"
LISTENERS: Final = (CLIENTS, NODES, BROKERS, CONTROLLERS)
USER, PASSWORD = "offsetd", "sesame"
# Whoever comes through another listener than that of the nodes may do everything.
SETTINGS: Final = {
    "listener.security.protocol.map": ",".join(
        f"{each}:{'SASL_PLAINTEXT' if each == NODES else 'PLAINTEXT'}" for each in LISTENERS
    ),
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.nodes.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        f' user_{USER}="{PASSWORD}";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
}
KINDS: Final = {
    "topics": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional ids": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.BROKER,
}
GROUPS: Final = [f"group-{number}" for number in range(12)]
WHERE: Final = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def brokers(
    kafka_runtime: Runtime, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaCluster]:
    ports = BrokerPorts(listens=dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True)))
    cluster = KafkaCluster(
        kafka_runtime, tmp_path_factory.mktemp("secured"), [ports], settings=SETTINGS
    )
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


def guide_rights(cluster_id: str) -> list[AclBinding]:
    """The rows of the guide's table: a resource, its name or the prefix of it, and operations."""
    rows = re.findall(
        rf"^\| ({'|'.join(KINDS)})(?: with the prefix)?(?: `(\S+)`)? \| (.+) \|$",
        GUIDE.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert [kind for kind, *_ in rows] == list(KINDS)
    return [
        AclBinding(
            KINDS[kind],
            name.replace("ID", cluster_id) if name else "kafka-cluster",
            ResourcePatternType.LITERAL
            if kind in ("group", "cluster")
            else ResourcePatternType.PREFIXED,
            f"User:{USER}",
            "*",
            getattr(AclOperation, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper()),
            AclPermissionType.ALLOW,
        )
        for kind, name, operations in rows
        for operation in operations.split(", ")
    ]


def secured_node(brokers: KafkaCluster, folder: Path, name: str, cluster_id: str) -> NodeProcess:
    password_file = folder / "password"
    password_file.write_text(PASSWORD)
    return NodeProcess(
        folder,
        name,
        {
            "cluster.bootstrap.servers": brokers.brokers[0].ports.reached(NODES),
            "cluster.id": cluster_id,
            "cluster.replication.factor": 1,
            "cluster.min.insync.replicas": 1,
            "cluster.session.timeout.ms": 3000,
            "cluster.kafka.security.protocol": "SASL_PLAINTEXT",
            "cluster.kafka.sasl.mechanism": "PLAIN",
            "cluster.kafka.sasl.username": USER,
            "cluster.kafka.sasl.password.file": password_file,
            "disk.reserve.bytes": 1 << 20,
        },
    )


def test_the_rights_of_the_guide_are_enough(
    brokers: KafkaCluster, tmp_path: Path, cluster_id: str
) -> None:
    admin = AdminClient({"bootstrap.servers": brokers.addresses})
    for future in admin.create_acls(guide_rights(cluster_id)).values():
        future.result(30)
    nodes = [secured_node(brokers, tmp_path, name, cluster_id) for name in ("n1", "n2")]
    with nodes[0], nodes[1]:
        for node in nodes:
            node.start()
        addresses = ",".join(node.address for node in nodes)
        with OffsetClient(addresses, retry=RetryPolicy(timeout_s=100)) as client:
            for group_id in GROUPS:
                client.commit(group_id, {WHERE: 1})
            poll(
                lambda: len({each.node_id for each in client.describe_cluster().partitions}) == 2,
                START_SECONDS_MAX,
            )
            # The other node ends the transactions of this one, and takes its partitions.
            nodes[1].kill()
            for group_id in GROUPS:
                assert client.fetch(group_id)[WHERE].offset == 1
                client.commit(group_id, {WHERE: 2})


def test_without_the_rights_a_node_says_what_it_may_not(
    brokers: KafkaCluster, tmp_path: Path, cluster_id: str
) -> None:
    with secured_node(brokers, tmp_path, "n1", cluster_id) as node:
        node.launch()
        assert node.server.wait_for_exit() != 0
        assert "authoriz" in node.output.lower()
        assert PASSWORD not in node.output
