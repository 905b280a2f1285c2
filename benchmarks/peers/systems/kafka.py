"""Kafka with its own groups.

A commit is an OffsetCommit of a group without members, which consumers make that assign themselves
their partitions. A fetch is an OffsetFetch.

There is one node, broker and controller, with the settings of its `config/server.properties` and
the heap of its start script. By default it does not sync the commits that it acknowledges: the
offsets are in the page cache, and are lost after a power failure. (With replicas on other machines
that is Kafka's design.)

From Go, franz-go has a connection for each caller, like consumers, up to 256: a broker answers the
requests of a connection one after the other. From Python, confluent-kafka has a consumer and a
thread for each caller; for more than 256 callers, it has admin clients, which were slower.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from ports import free_ports

from benchmarks.peers.python_client import TOPIC, BlockingClient, PythonClient, group_name
from benchmarks.peers.server import Server, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from confluent_kafka import Consumer, TopicPartition
    from confluent_kafka.admin import AdminClient

    from deploy.kafka.kafka_runtime import LocalRuntime

CALL_S_MAX = 60
CONNECTIONS_MAX = 256
CLUSTER_ID = "b2Zmc2V0ZC1wZWVycy0wMQ"
JAVA_OPTIONS = (
    *("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
)
PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs={folder}/logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


class KafkaServer(Server):
    """Kafka's jars from Maven Central, run by the installed Java."""

    name = "kafka"
    acknowledged = "in the page cache, not fsynced"
    is_durable = False
    is_java = True

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, settings)
        self._controller_port = free_ports(2)[1]

    @classmethod
    def find(cls) -> str:
        from deploy.kafka.kafka_runtime import KAFKA_VERSION

        cls._runtime()
        return f"Kafka {KAFKA_VERSION}"

    @staticmethod
    def _runtime() -> LocalRuntime:
        from deploy.kafka.kafka_runtime import KafkaUnavailable, LocalRuntime

        try:
            return LocalRuntime(LocalRuntime.install().jars, JAVA_OPTIONS)
        except KafkaUnavailable as unavailable:
            raise Unavailable(str(unavailable)) from None

    def make(self) -> None:
        text = PROPERTIES.format(
            port=self.port, controller_port=self._controller_port, folder=self.folder
        )
        text += "".join(f"{name}={value}\n" for name, value in self.settings.items())
        (self.folder / "server.properties").write_text(text)
        arguments = ["format", "-t", CLUSTER_ID, "-c", "server.properties"]
        self._runtime().run("kafka.tools.StorageTool", arguments, self.folder)

    def command(self) -> list[str]:
        runtime = self._runtime()
        logging = f"-Dlog4j2.configurationFile={runtime.jars}/log4j2.properties"
        command = ["java", *runtime.java_options, logging, "-cp", f"{runtime.jars}/*"]
        return [*command, "kafka.Kafka", "server.properties"]


class KafkaConsumers(BlockingClient):
    """confluent-kafka's consumers, one for each caller, as in usual programs.

    Each has its own connection and threads. A process cannot have 1,024 of them.
    """

    def __init__(self, consumers: list[Consumer]) -> None:
        self._consumers = consumers

    @classmethod
    def connect(cls, address: str, callers: int, partitions: int) -> Self:
        from confluent_kafka import Consumer

        settings = {"bootstrap.servers": address, "enable.auto.commit": False, "log_level": 0}
        return cls(
            [
                Consumer({**settings, "group.id": group_name(caller, partitions)})
                for caller in range(callers)
            ]
        )

    def commit(self, caller: int, group: str, partitions: int, offset: int) -> None:
        from confluent_kafka import TopicPartition

        offsets = [TopicPartition(TOPIC, partition, offset) for partition in range(partitions)]
        answer = self._consumers[caller].commit(offsets=offsets, asynchronous=False)
        _check(group, answer)

    def fetch(self, caller: int, group: str, partitions: int) -> list[int]:
        from confluent_kafka import TopicPartition

        wanted = [TopicPartition(TOPIC, partition) for partition in range(partitions)]
        answer = self._consumers[caller].committed(wanted, timeout=CALL_S_MAX)
        _check(group, answer)
        return [each.offset for each in answer]

    def close(self) -> None:
        for consumer in self._consumers:
            consumer.close()


class KafkaAdmins(PythonClient):
    """confluent-kafka's admin clients, whose calls are futures: one for each caller, up to 256."""

    def __init__(self, clients: list[AdminClient]) -> None:
        self._clients = clients

    @classmethod
    async def connect(cls, address: str, callers: int) -> Self:
        from confluent_kafka.admin import AdminClient

        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": address,
            "log_level": 0,
        }
        return cls([AdminClient(settings) for _ in range(min(callers, CONNECTIONS_MAX))])

    async def commit(self, caller: int, group: str, partitions: int, offset: int) -> None:
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

        offsets = [TopicPartition(TOPIC, partition, offset) for partition in range(partitions)]
        wanted = ConsumerGroupTopicPartitions(group, offsets)
        client = self._clients[caller % len(self._clients)]
        futures = client.alter_consumer_group_offsets([wanted], request_timeout=CALL_S_MAX)
        answer = await asyncio.wrap_future(futures[group])
        _check(group, answer.topic_partitions)

    async def fetch(self, caller: int, group: str, partitions: int) -> list[int]:
        from confluent_kafka import ConsumerGroupTopicPartitions

        client = self._clients[caller % len(self._clients)]
        futures = client.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)], request_timeout=CALL_S_MAX
        )
        answer = await asyncio.wrap_future(futures[group])
        return [each.offset for each in answer.topic_partitions]

    async def close(self) -> None:
        pass


def _check(group: str, answered: list[TopicPartition]) -> None:
    for each in answered:
        if each.error is not None:
            raise RuntimeError(f"{group} {each.topic} {each.partition}: {each.error}")


def python_client(callers: int) -> type[KafkaConsumers | KafkaAdmins]:
    """The faster of the two that can serve this number of callers."""
    return KafkaConsumers if callers <= CONNECTIONS_MAX else KafkaAdmins
