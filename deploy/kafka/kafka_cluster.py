"""A Kafka cluster on this machine: KRaft nodes, each broker and controller, on fixed ports."""

from __future__ import annotations

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import attrs
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from confluent_kafka.admin import TopicMetadata  # type: ignore[attr-defined]

    from deploy.kafka.kafka_runtime import RunningJvm, Runtime

CLUSTER_ID = "b2Zmc2V0ZC1jbHVzdGVyMQ"
START_S_MAX: Final = 120
CALL_S_MAX: Final = 30
POLL_S: Final = 0.05
HOST: Final = "127.0.0.1"

# Three brokers share a small machine, so each has little memory and few threads.
JAVA_OPTIONS = (
    *("-Xmx256m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    "-Djava.net.preferIPv4Stack=true",
)
CLIENTS, NODES, BROKERS, CONTROLLERS = "CLIENTS", "NODES", "BROKERS", "CONTROLLERS"

SETTINGS: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "5",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "5",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "auto.create.topics.enable": "false",
    # A lost broker is noticed before the nodes' sessions (6 s) are over.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "1000",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": "4194304",
    # A killed broker leaves index files of this size, for each partition.
    "log.index.size.max.bytes": "1048576",
}


class BrokerDoesNotStart(Exception):
    """A broker ended, or did not answer in time. Says what it logged."""


@attrs.frozen(kw_only=True)
class BrokerPorts:
    """Where a broker listens, by listener, and where others reach it if that is elsewhere."""

    listens: Mapping[str, int]
    advertised: Mapping[str, int] = attrs.field(factory=dict)

    def reached(self, listener: str) -> str:
        """HOST:PORT for the others."""
        return f"{HOST}:{self.advertised.get(listener, self.listens[listener])}"


class ClusterBroker:
    """One of the brokers. Its folder holds its properties, its log and its data."""

    def __init__(
        self, runtime: Runtime, folder: Path, node_id: int, ports: BrokerPorts, properties: str
    ) -> None:
        self.node_id = node_id
        self.folder = folder
        self.ports = ports
        self._runtime = runtime
        self._properties = properties
        self._jvm: RunningJvm | None = None
        self._is_paused = False

    def __str__(self) -> str:
        return f"broker {self.node_id} at {self.address}"

    @property
    def address(self) -> str:
        """HOST:PORT, for clients; no proxy is in front of it."""
        return f"{HOST}:{self.ports.listens[CLIENTS]}"

    def process_id(self) -> int | None:
        """Of its process, while it runs."""
        return None if self._jvm is None else self._jvm.pid()

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self._jvm is not None and self._jvm.is_running()

    @property
    def is_paused(self) -> bool:
        """Whether it was stopped with SIGSTOP."""
        return self._is_paused

    def log_text(self) -> str:
        """What it has logged so far, over all its starts."""
        return (self.folder / "broker.log").read_text(errors="replace")

    def format(self) -> None:
        """Makes its folder, unless it was made before; writes its properties in any case."""
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = self.folder / "server.properties"
        properties.write_text(self._properties)
        if not (self.folder / "log" / "meta.properties").exists():
            arguments = ["format", "-t", CLUSTER_ID, "-c", str(properties)]
            self._runtime.run("kafka.tools.StorageTool", arguments, self.folder)

    def launch(self) -> None:
        """Starts the process, and does not wait for it."""
        assert not self.is_running, f"{self} runs already"
        arguments = [str(self.folder / "server.properties")]
        log = self.folder / "broker.log"
        self._jvm = self._runtime.start("kafka.Kafka", arguments, self.folder, log)

    def wait_until_ready(self, start_s_max: float = START_S_MAX) -> None:
        """Returns when it answers clients: the controllers have let it in. Needs two of three."""
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        deadline_s = time.monotonic() + start_s_max
        while not self._answers(admin):
            if not self.is_running or time.monotonic() > deadline_s:
                raise BrokerDoesNotStart(f"{self} does not start:\n{self.log_text()[-4000:]}")

    def start(self) -> None:
        """Starts it, and waits until it is ready."""
        self.launch()
        self.wait_until_ready()

    def stop(self) -> None:
        """SIGTERM: it hands its partitions over and closes its folder."""
        if self._jvm is not None:
            self.resume()
            try:
                self._jvm.terminate()
            except subprocess.TimeoutExpired:  # Without a quorum it may wait in vain.
                self._jvm.kill()
            self._jvm = None

    def kill(self) -> None:
        """Kill -9."""
        if self._jvm is not None:
            self._jvm.kill()
            self._jvm = None
            self._is_paused = False

    def pause(self) -> None:
        """SIGSTOP."""
        assert self._jvm is not None, f"{self} does not run"
        self._jvm.pause()
        self._is_paused = True

    def resume(self) -> None:
        """SIGCONT, if it was paused."""
        if self._jvm is not None and self._is_paused:
            self._jvm.resume()
            self._is_paused = False

    def _answers(self, admin: AdminClient) -> bool:
        try:
            return self.node_id in admin.list_topics(timeout=1).brokers
        except KafkaException:
            return False


class KafkaCluster:
    """Several brokers. Each has a folder of its own in `folder`."""

    def __init__(
        self,
        runtime: Runtime,
        folder: Path,
        ports: Sequence[BrokerPorts],
        *,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.brokers = [
            ClusterBroker(
                runtime,
                folder / f"broker-{node_id}",
                node_id,
                each,
                broker_properties(
                    folder / f"broker-{node_id}", node_id, ports, {**SETTINGS, **(settings or {})}
                ),
            )
            for node_id, each in enumerate(ports, 1)
        ]

    @property
    def addresses(self) -> str:
        """HOST:PORT,…: for clients that no cut may reach."""
        return ",".join(broker.address for broker in self.brokers)

    def broker(self, node_id: int) -> ClusterBroker:
        """By its id, which begins at 1."""
        return self.brokers[node_id - 1]

    def format(self) -> None:
        """Makes the folders that are new, and writes the properties of all brokers."""
        with ThreadPoolExecutor(len(self.brokers)) as threads:
            list(threads.map(ClusterBroker.format, self.brokers))

    def start(self) -> None:
        """Makes the folders that are new, starts all brokers, and waits until they are ready."""
        self.format()
        try:
            for broker in self.brokers:
                broker.launch()
            for broker in self.brokers:
                broker.wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Stops all at once, as an operator would before the machine goes off."""
        with ThreadPoolExecutor(len(self.brokers)) as threads:
            list(threads.map(ClusterBroker.stop, self.brokers))

    def kill(self) -> None:
        """Kill -9 for all."""
        for broker in self.brokers:
            broker.kill()

    def restart_one_by_one(self) -> None:
        """Each is stopped and started; the next one follows when all replicas are in sync."""
        for broker in self.brokers:
            broker.stop()
            broker.start()
            self.wait_until_in_sync()

    def repair(self) -> None:
        """Resumes and starts all that is paused or down; returns when all is in sync."""
        for broker in self.brokers:
            broker.resume()
            if not broker.is_running:
                broker.launch()
        for broker in self.brokers:
            broker.wait_until_ready()
        self.wait_until_in_sync()

    def topics(self) -> dict[str, TopicMetadata]:
        """As a broker that runs has them. Kafka's own topics are there too."""
        admin = AdminClient({"bootstrap.servers": self.addresses, "log_level": 0})
        return admin.list_topics(timeout=CALL_S_MAX).topics

    def wait_until_in_sync(self, seconds_max: float = START_S_MAX) -> None:
        """Returns when each partition has a leader, and all of its replicas are in sync."""
        self._wait(lambda: not self.partitions_out_of_sync(), seconds_max, "out of sync")

    def partitions_out_of_sync(self) -> list[str]:
        """Those without a leader, or with a replica that is behind."""
        try:
            topics = self.topics()
        except KafkaException as error:
            return [str(error)]
        return [
            f"{name}-{partition.id}: leader {partition.leader}, in sync {partition.isrs}"
            for name, topic in topics.items()
            for partition in topic.partitions.values()
            if partition.leader < 0 or len(partition.isrs) < len(partition.replicas)
        ]

    def _wait(self, condition: Callable[[], bool], seconds_max: float, what: str) -> None:
        deadline_s = time.monotonic() + seconds_max
        while not condition():
            if time.monotonic() > deadline_s:
                raise AssertionError(
                    f"after {seconds_max} s {what}: {self.partitions_out_of_sync()}"
                )
            time.sleep(POLL_S)


def broker_properties(
    folder: Path, node_id: int, cluster: Sequence[BrokerPorts], settings: Mapping[str, str]
) -> str:
    """The text of server.properties. Each broker reaches the others where they are advertised."""
    own = cluster[node_id - 1]
    listeners = [*own.listens]
    voters = [f"{each}@{ports.reached(CONTROLLERS)}" for each, ports in enumerate(cluster, 1)]
    between = BROKERS if BROKERS in own.listens else CLIENTS
    lines = {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": ",".join(voters),
        "controller.listener.names": CONTROLLERS,
        "inter.broker.listener.name": between,
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in own.listens.items()),
        "advertised.listeners": ",".join(f"{name}://{own.reached(name)}" for name in listeners),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listeners),
        "log.dirs": str(folder / "log"),
        **settings,
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())
