"""Three real brokers behind doors that can be cut, and nodes of offsetd in front of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cluster.network import Cut, Network
from cluster.node_process import NodeProcess
from ports import free_ports

from deploy.kafka.kafka_cluster import (
    BROKERS,
    CLIENTS,
    CONTROLLERS,
    NODES,
    BrokerPorts,
    KafkaCluster,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from deploy.kafka.kafka_runtime import Runtime

BROKER_COUNT: Final = 3
LISTENERS: Final = (CLIENTS, NODES, BROKERS, CONTROLLERS)

# What takes long with Kafka's defaults takes seconds here: noticing that a broker, a node or a
# transaction is gone, and compaction.
SETTINGS: Final = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "4000",
    "replica.lag.time.max.ms": "4000",
    # Brokers that share a small machine with the tests are slow at times.
    "controller.quorum.fetch.timeout.ms": "3000",
    "leader.imbalance.check.interval.seconds": "5",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "log.cleaner.backoff.ms": "1000",
}


class RealCluster(KafkaCluster):
    """Brokers at doors: `addresses` is for clients of a test, `node_addresses` for nodes.

    Parties of the network are `broker-1` to `broker-3`, and the nodes by their names.
    """

    def __init__(self, runtime: Runtime, folder: Path, network: Network) -> None:
        self.network = network
        self.nodes: dict[str, NodeProcess] = {}
        ports = [_ports_at_doors(network, node_id) for node_id in range(1, BROKER_COUNT + 1)]
        super().__init__(runtime, folder, ports, settings=SETTINGS)
        for broker in self.brokers:
            network.register(f"broker-{broker.node_id}", str(broker.folder / "server.properties"))

    @property
    def node_addresses(self) -> str:
        """HOST:PORT,… for nodes. Between them and each broker is a door."""
        return ",".join(broker.ports.reached(NODES) for broker in self.brokers)

    def node(self, folder: Path, name: str, settings: Mapping[str, object]) -> NodeProcess:
        """A node that is not started yet. It is killed when the test ends."""
        assert name not in self.nodes, f"there is a node {name} already"
        node = NodeProcess(folder, name, settings)
        self.nodes[name] = node
        self.network.register(name, f"data.dir={node.data_folder}")
        return node

    def cut_off(self, party: str, how: Cut = Cut.HOLD) -> None:
        """Cuts a node, or a broker, off from all brokers."""
        for broker in self.brokers:
            if (other := f"broker-{broker.node_id}") != party:
                self.network.cut(party, other, how)

    def end_nodes(self) -> None:
        """Kills and forgets all nodes."""
        for name, node in self.nodes.items():
            node.kill()
            self.network.forget(name)
        self.nodes.clear()

    def repair(self) -> None:
        """Heals all cuts and brings all brokers back."""
        self.network.heal()
        super().repair()


def _ports_at_doors(network: Network, node_id: int) -> BrokerPorts:
    listens = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
    doors = {
        name: network.door(f"broker-{node_id}", port)
        for name, port in listens.items()
        if name != CLIENTS
    }
    return BrokerPorts(listens=listens, advertised=doors)
