"""Three nodes on three brokers: who serves what, and what becomes of it when a node goes."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from cluster.node_process import NodeProcess
from confluent_kafka.admin import AdminClient
from offsetd_clients import OffsetClient, RetryPolicy, TopicPartition
from offsetd_clients.errors import OffsetdError
from server_process import poll

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.real_cluster import RealCluster

pytestmark = [pytest.mark.kafka, pytest.mark.long(minutes=4)]

SECONDS_MAX = 120
PARTITIONS = 12
GROUPS = [f"group-{number}" for number in range(24)]
FIRST = TopicPartition("orders", 0)
RETRY = RetryPolicy(timeout_s=100, try_timeout_s=10)
PATIENT = RetryPolicy(timeout_s=400, try_timeout_s=10)


class Nodes:
    """The nodes of one cluster, and a client that knows the first of them."""

    def __init__(self, cluster: RealCluster, folder: Path, cluster_id: str) -> None:
        self.cluster = cluster
        self.cluster_id = cluster_id
        self.folder = folder
        self.nodes: list[NodeProcess] = []

    def settings(self, **more: object) -> dict[str, object]:
        return {
            "cluster.bootstrap.servers": self.cluster.node_addresses,
            "cluster.id": self.cluster_id,
            "offsets.topic.num.partitions": PARTITIONS,
            "cluster.session.timeout.ms": 3000,
            "disk.reserve.bytes": 1 << 20,
            **more,
        }

    def add(self, name: str, **more: object) -> NodeProcess:
        node = self.cluster.node(self.folder, name, self.settings(**{"node.id": name, **more}))
        self.nodes.append(node)
        return node

    def start(self, count: int) -> list[NodeProcess]:
        for number in range(1, count + 1):
            self.add(f"n{number}").launch()
        for node in self.nodes:
            node.server.wait_until_serving()
        return self.nodes

    def client(self, node: NodeProcess | None = None) -> OffsetClient:
        return OffsetClient((node or self.nodes[0]).address, retry=RETRY)

    def owners(self) -> dict[int, str]:
        """The node of each partition, as the first node that runs tells."""
        running = next(each for each in self.nodes if each.is_running and not each.is_paused)
        with self.client(running) as client:
            described = client.describe_cluster()
        return {each.log_partition: each.node_id for each in described.partitions if each.node_id}

    def wait_until_shared(self, *names: str) -> None:
        """Returns when these nodes, and no others, own all partitions."""

        def is_shared() -> bool:
            owners = self.owners()
            return len(owners) == PARTITIONS and set(owners.values()) == set(names)

        poll(is_shared, SECONDS_MAX, lambda: self.nodes[0].output[-3000:])


@pytest.fixture
def nodes(real_cluster: RealCluster, tmp_path: Path, cluster_id: str) -> Nodes:
    return Nodes(real_cluster, tmp_path, cluster_id)


def commit_all(client: OffsetClient, value: int) -> None:
    for group in GROUPS:
        client.commit(group, {FIRST: value})


def fetched(client: OffsetClient) -> dict[str, int | None]:
    found = {group: client.fetch(group).get(FIRST) for group in GROUPS}
    return {group: None if each is None else each.offset for group, each in found.items()}


def test_nodes_share_the_partitions_and_each_answers_for_all_groups(nodes: Nodes) -> None:
    started = nodes.start(3)
    nodes.wait_until_shared("n1", "n2", "n3")
    with nodes.client(started[0]) as client:
        commit_all(client, 1)
    for each in started:
        with nodes.client(each) as client:
            assert fetched(client) == dict.fromkeys(GROUPS, 1)


def test_the_groups_of_a_killed_node_are_served_by_the_others(nodes: Nodes) -> None:
    _, second, _ = nodes.start(3)
    nodes.wait_until_shared("n1", "n2", "n3")
    with nodes.client() as client:
        commit_all(client, 1)
        second.kill()
        assert fetched(client) == dict.fromkeys(GROUPS, 1)
        commit_all(client, 2)
        second.start()
        nodes.wait_until_shared("n1", "n2", "n3")
        assert fetched(client) == dict.fromkeys(GROUPS, 2)


def test_a_node_that_leaves_hands_over_and_no_call_fails(nodes: Nodes) -> None:
    _, second = nodes.start(2)
    nodes.wait_until_shared("n1", "n2")
    with nodes.client() as client:
        commit_all(client, 1)
        assert second.stop() == 0
        commit_all(client, 2)
        assert fetched(client) == dict.fromkeys(GROUPS, 2)
    assert nodes.nodes[0].output.count("partitions lost") == 0


def test_a_node_goes_on_with_its_copy_and_without_one(nodes: Nodes) -> None:
    [node] = nodes.start(1)
    with nodes.client() as client:
        revisions = [client.commit(group, {FIRST: 7}) for group in GROUPS]
        node.kill()
        node.start()
        assert fetched(client) == dict.fromkeys(GROUPS, 7)
        assert node.stop() == 0
        subprocess.run(["rm", "-r", node.data_folder], check=True)
        node.start()
        assert fetched(client) == dict.fromkeys(GROUPS, 7)
        later = [client.commit(group, {FIRST: 8}) for group in GROUPS]
    for before, after in zip(revisions, later, strict=True):
        assert after.log_partition == before.log_partition
        assert after.log_offset > before.log_offset, "a log offset is never given out again"


def test_a_stopped_node_that_goes_on_writes_nothing_and_answers_nothing_stale(
    nodes: Nodes,
) -> None:
    _, second = nodes.start(2)
    nodes.wait_until_shared("n1", "n2")
    groups = [each for each in GROUPS if owner_of(nodes, each) == "n2"]
    with nodes.client() as client:
        for group in groups:
            client.commit(group, {FIRST: 1})
        second.pause()
        for group in groups:
            client.commit(group, {FIRST: 2})
        second.resume()
        with nodes.client(second) as late:
            for group in groups:
                if group == groups[0]:
                    late.commit(group, {FIRST: 3})
                found = late.fetch(group)[FIRST].offset
                assert found == (3 if group == groups[0] else 2)


def owner_of(nodes: Nodes, group: str) -> str:
    with nodes.client() as client:
        node_id: str = client.find_coordinator(group).node_id
    return node_id


def test_a_second_process_with_the_same_node_id_fences_the_first(nodes: Nodes) -> None:
    [first] = nodes.start(1)
    with nodes.client() as client:
        commit_all(client, 1)
    again = nodes.cluster.node(nodes.folder, "n1-again", nodes.settings(**{"node.id": "n1"}))
    again.start()
    poll(lambda: not first.is_running, SECONDS_MAX, first.output)
    assert "the node was fenced: another process has its node.id" in first.output
    with nodes.client(again) as client:
        assert fetched(client) == dict.fromkeys(GROUPS, 1)


def test_a_topic_that_is_weaker_than_asked_for_is_refused_with_the_remedy(nodes: Nodes) -> None:
    [node] = nodes.start(1)
    assert node.stop() == 0
    weak = nodes.add("n2", **{"cluster.min.insync.replicas": 3})
    weak.launch()
    poll(lambda: not weak.is_running, SECONDS_MAX)
    assert "has min.insync.replicas=2, and the cluster needs 3: kafka-configs.sh" in weak.output


def test_the_folder_of_a_single_server_is_not_taken_for_a_copy(
    nodes: Nodes, tmp_path: Path
) -> None:
    alone = NodeProcess(tmp_path, "n1", {})
    alone.start()
    assert alone.stop() == 0
    node = nodes.add("n1")
    node.launch()
    poll(lambda: not node.is_running, SECONDS_MAX)
    assert "has the log of a server without a cluster" in node.output
    assert any((tmp_path / "n1").glob("__consumer_offsets-*"))


def test_a_topic_that_is_deleted_under_a_node_is_told(nodes: Nodes) -> None:
    [node] = nodes.start(1)
    topic = f"__{nodes.cluster_id}_offsets"
    admin = AdminClient({"bootstrap.servers": nodes.cluster.addresses})
    admin.delete_topics([topic])[topic].result(60)
    poll(lambda: not node.is_running, SECONDS_MAX)
    assert f"topic {topic} was deleted" in node.output
    assert topic not in admin.list_topics(timeout=60).topics


def test_kafka_settings_pass_through_and_secrets_do_not_show(nodes: Nodes) -> None:
    node = nodes.add("n1", **{"cluster.kafka.client.dns.lookup": "use_all_dns_ips"})
    secret = nodes.folder / "secret"
    secret.write_text("open sesame\n")
    node.settings = {**node.settings, "cluster.kafka.sasl.password.file": secret}
    node.start()
    described = subprocess.run(
        [
            sys.executable,
            "-c",
            "from offsetd_clients.cli.main import main; main()",
            "admin",
            "config",
            "describe",
            "--address",
            node.address,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "sesame" not in node.output + described.stdout + described.stderr


def test_a_node_without_its_brokers_answers_no_reads(nodes: Nodes) -> None:
    [node] = nodes.start(1)
    with nodes.client() as client:
        commit_all(client, 1)
    nodes.cluster.cut_off(node.name)
    quick = RetryPolicy(timeout_s=3)
    time.sleep(1.5)  # Longer than the read lease: it may answer until then.
    with (
        OffsetClient(node.address, retry=quick) as client,
        pytest.raises(OffsetdError),
    ):
        client.fetch(GROUPS[0])
    nodes.cluster.network.heal()
    with nodes.client() as client:
        poll(lambda: fetched(client) == dict.fromkeys(GROUPS, 1), SECONDS_MAX, node.output)


def test_no_node_ends_when_a_broker_is_lost(nodes: Nodes) -> None:
    """Each broker in turn: one of them coordinates the nodes' group, others their transactions."""
    nodes.start(3)
    nodes.wait_until_shared("n1", "n2", "n3")
    with OffsetClient(nodes.nodes[0].address, retry=PATIENT) as client:
        for value, broker in enumerate(nodes.cluster.brokers, 1):
            waiting = [client.commit_soon(group, {FIRST: value}) for group in GROUPS]
            broker.kill()
            for each in waiting:
                each.result(PATIENT.timeout_s)
            commit_all(client, 10 * value)
            assert fetched(client) == dict.fromkeys(GROUPS, 10 * value)
            broker.start()
            nodes.cluster.wait_until_in_sync()
    ended = {each.name: each.output[-3000:] for each in nodes.nodes if not each.is_running}
    assert ended == {}


def test_nodes_go_on_after_all_brokers_were_away(nodes: Nodes) -> None:
    """For longer than a node asks whether a transaction was committed (30 s)."""
    nodes.start(2)
    nodes.wait_until_shared("n1", "n2")
    with OffsetClient(nodes.nodes[0].address, retry=PATIENT) as client:
        commit_all(client, 1)
        # Each node is in the middle of a commit.
        waiting = [client.commit_soon(group, {FIRST: 2}) for group in GROUPS]
        nodes.cluster.kill()
        time.sleep(45)
        assert all(each.is_running for each in nodes.nodes)
        problems = client.describe_cluster().problems
        assert [each.partition(" has not answered for")[0] for each in problems] == [
            f"node {name}: the Kafka cluster" for name in ("n1", "n2")
        ]
        nodes.cluster.repair()
        for each in waiting:
            each.result(PATIENT.timeout_s)
        assert fetched(client) == dict.fromkeys(GROUPS, 2)
        commit_all(client, 3)
        assert fetched(client) == dict.fromkeys(GROUPS, 3)
    assert all(each.is_running for each in nodes.nodes)
