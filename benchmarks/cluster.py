"""Measures nodes on three Kafka brokers, beside Kafka's own groups on the same brokers.

* Commits through one node, beside OffsetCommits of Kafka's groups without members. The generators
  are those of `benchmarks.peers`: for one caller confluent-kafka and our Python client, else the
  program in Go.
* The same commits through two nodes, beside one node, by our Python client, which follows owners.
* A million offsets: the start of a node without its copy, and with it; and the time from kill -9 of
  a node until another one answers for each of its groups.

All runs on one machine, and the brokers use most of it.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from cluster.node_process import NodeProcess
from cluster.real_cluster import BROKER_COUNT, LISTENERS
from confluent_kafka.admin import AdminClient, NewTopic
from offsetd_clients import OffsetClient, RetryPolicy
from ports import free_ports

from benchmarks.harness.rounds import Spread, interleave, ratios
from benchmarks.peers import generators
from benchmarks.peers.generators import Native, Pace, Python
from benchmarks.peers.python_client import TOPIC, group_name
from benchmarks.peers.works import MANY_CALLERS, MANY_PARTITIONS, ONE, Measured
from deploy.kafka.kafka_cluster import JAVA_OPTIONS, BrokerPorts, KafkaCluster
from deploy.kafka.kafka_runtime import find_runtime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.peers.works import Work

PACE = Pace(seconds=5.0, warm_s=2.0)
WARM_UP = Pace(seconds=15.0, warm_s=0.0)
BROKER_SETTINGS = {
    # Kafka's default, and ours. The brokers of the tests have 5.
    "offsets.topic.num.partitions": "50",
    "group.initial.rebalance.delay.ms": "0",
    "log.index.size.max.bytes": "10485760",
}
LARGE_GROUPS, PARTITIONS = 20_000, 50
SAMPLE = 50
_OFFSETS = iter(range(1, 1 << 40, 1 << 20))


@attrs.frozen
class Endpoint:
    """Where a generator connects. The CPU time is not measured."""

    address: str

    def cpu_s(self) -> float:
        """See `Measurable`."""
        return 0.0


def run(*, rounds: int, scale: float) -> dict[str, object]:
    """Measures all, `scale` times a million offsets."""
    generators.build()
    with tempfile.TemporaryDirectory(prefix="offsetd-") as name, _brokers(Path(name)) as brokers:
        return {
            **_beside_kafka(brokers, Path(name), rounds),
            **_of_two_nodes(brokers, Path(name), rounds),
            **_with_many_offsets(brokers, Path(name), rounds, int(LARGE_GROUPS * scale)),
        }


@contextlib.contextmanager
def _brokers(folder: Path) -> Iterator[KafkaCluster]:
    ports = [
        BrokerPorts(listens=dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True)))
        for _ in range(BROKER_COUNT)
    ]
    options = [each for each in JAVA_OPTIONS if not each.startswith(("-Xmx", "-XX:TieredStop"))]
    runtime = find_runtime((*options, "-Xmx1g"))
    cluster = KafkaCluster(runtime, folder, ports, settings=BROKER_SETTINGS)
    try:
        cluster.start()
        admin = AdminClient({"bootstrap.servers": cluster.addresses})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result()
        yield cluster
    finally:
        cluster.kill()


@contextlib.contextmanager
def _nodes(brokers: KafkaCluster, folder: Path, count: int) -> Iterator[list[NodeProcess]]:
    """Nodes of a new cluster, which serve."""
    cluster_id = f"b{uuid.uuid4().hex[:8]}"
    settings = {
        "cluster.id": cluster_id,
        "cluster.bootstrap.servers": brokers.addresses,
        "disk.reserve.bytes": 0,
    }
    nodes = [NodeProcess(folder / cluster_id, f"n{each}", settings) for each in range(count)]
    (folder / cluster_id).mkdir()
    with contextlib.ExitStack() as stack:
        for node in nodes:
            stack.enter_context(node).start()
        yield nodes


def _beside_kafka(brokers: KafkaCluster, folder: Path, rounds: int) -> dict[str, object]:
    kafka, found = Endpoint(brokers.addresses.split(",")[0]), {}
    with _nodes(brokers, folder, 1) as [node]:
        ours = Endpoint(node.address)
        for client, endpoint in (("kafka", kafka), ("offsetd", ours)):  # New JVMs are slow.
            _rate(Native(client=client), endpoint, MANY_PARTITIONS, WARM_UP)
        measured = interleave(
            {
                "kafka": lambda: _measured(Python(client="kafka"), kafka, ONE).p50_us,
                "one node": lambda: _measured(Python(client="offsetd"), ours, ONE).p50_us,
            },
            rounds=rounds,
        )
        found["1 caller: p50 of a commit, µs"] = _shown(measured)
        found["  one node / Kafka (wanted: ≤ 1.5)"] = _ratio(measured, "one node", "kafka")
        for work, wanted in ((MANY_CALLERS, "3"), (MANY_PARTITIONS, "1.5")):
            measured = interleave(
                {
                    "kafka": lambda work=work: _rate(Native(client="kafka"), kafka, work),
                    "one node": lambda work=work: _rate(Native(client="offsetd"), ours, work),
                },
                rounds=rounds,
            )
            found[f"{work}: commits/s"] = _shown(measured)
            ratio = _ratio(measured, "one node", "kafka")
            found[f"  one node / Kafka (wanted: ≥ {wanted}) {work.callers}"] = ratio
    return found


def _of_two_nodes(brokers: KafkaCluster, folder: Path, rounds: int) -> dict[str, object]:
    client = Python(client="offsetd")
    with _nodes(brokers, folder, 1) as one, _nodes(brokers, folder, 2) as two:
        measured = interleave(
            {
                name: lambda nodes=nodes: _rate(client, Endpoint(nodes[0].address), MANY_PARTITIONS)
                for name, nodes in (("one node", one), ("two nodes", two))
            },
            rounds=rounds,
        )
    return {
        f"{MANY_PARTITIONS}, Python: commits/s": _shown(measured),
        "  two nodes / one node": _ratio(measured, "two nodes", "one node"),
    }


def _with_many_offsets(
    brokers: KafkaCluster, folder: Path, rounds: int, groups: int
) -> dict[str, object]:
    with _nodes(brokers, folder, 1) as [node]:
        client = Native(client="offsetd")
        client.commit(
            Endpoint(node.address),
            groups=groups,
            partitions=PARTITIONS,
            commits=groups,
            first=next(_OFFSETS),
        )
        measured = interleave(
            {
                "without a copy": lambda: _start_s(node, loses_copy=True),
                "with a copy": lambda: _start_s(node, loses_copy=False),
            },
            rounds=rounds,
        )
        other = NodeProcess(node.data_folder.parent, "other", node.settings | {"node.id": "other"})
        with other:
            other.start()
            kills = interleave({"after kill -9": lambda: _takeover_s(node, other)}, rounds=rounds)
    return {f"{groups * PARTITIONS:,} offsets: seconds": _shown(measured | kills)}


def _start_s(node: NodeProcess, *, loses_copy: bool) -> float:
    """From exec until all groups are answered."""
    node.stop()
    if loses_copy:
        shutil.rmtree(node.data_folder)
    begun_s = time.monotonic()
    node.start()
    _fetch_all(node)
    return time.monotonic() - begun_s


def _takeover_s(killed: NodeProcess, other: NodeProcess) -> float:
    """From kill -9 until another node answers for all groups; then the killed one is back."""
    time.sleep(5)  # The other one keeps copies.
    begun_s = time.monotonic()
    killed.kill()
    _fetch_all(other)
    seconds = time.monotonic() - begun_s
    killed.start()
    return seconds


def _fetch_all(node: NodeProcess) -> None:
    """Fetches groups of many log partitions; calls wait until a node owns them."""
    with OffsetClient(node.address, retry=RetryPolicy(timeout_s=120.0)) as client:
        for number in range(SAMPLE):
            client.fetch(group_name(number, PARTITIONS))


def _measured(
    client: Native | Python, endpoint: Endpoint, work: Work, pace: Pace = PACE
) -> Measured:
    return client.measure(endpoint, work, pace, first=next(_OFFSETS))


def _rate(client: Native | Python, endpoint: Endpoint, work: Work, pace: Pace = PACE) -> float:
    return _measured(client, endpoint, work, pace).commits_a_second


def _shown(measured: dict[str, list[float]]) -> str:
    return "; ".join(f"{name} {Spread.of(figures)}" for name, figures in measured.items())


def _ratio(measured: dict[str, list[float]], over: str, under: str) -> Spread:
    return ratios(measured[over], measured[under])
