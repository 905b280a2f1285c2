"""A real Kafka broker for a test: one KRaft node with a folder and ports of its own."""

import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import attrs
from interop.kafka_protocol import KafkaConnection, KafkaOffset
from interop.requirements import no_kafka
from ports import free_ports

from deploy.kafka.kafka_runtime import RunningJvm, Runtime

try:
    from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer
    from confluent_kafka import TopicPartition as KafkaTopicPartition
    from confluent_kafka.admin import (  # type: ignore[attr-defined]
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        NewTopic,
    )
except ModuleNotFoundError:
    no_kafka("confluent-kafka is not installed: make test sets it up")

CLUSTER_ID = "b2Zmc2V0ZC1pbi10ZXN0cw"
OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS = 50
START_S_MAX = 90
CALL_S_MAX = 30

# Data and metadata apart, so that the data folder holds what a broker's data folder holds.
PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}/data
metadata.log.dir={folder}/metadata
offsets.topic.num.partitions=50
offsets.topic.replication.factor=1
offsets.retention.minutes=2147483647
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.cleaner.dedupe.buffer.size=4194304
"""


@attrs.frozen(kw_only=True)
class KafkaGroup:
    """A group as a broker lists it."""

    type: str
    state: str
    is_simple: bool


class KafkaBroker:
    """A broker in `folder`, which holds its properties, log, `data` and `metadata`."""

    def __init__(self, runtime: Runtime, folder: Path) -> None:
        self.folder = folder
        self.data_folder = folder / "data"
        self.address = ""
        self.settings: Mapping[str, str] = {}  # Beside those that every broker here has.
        self._admin: AdminClient  # Of the running broker; one that is let go cancels its calls.
        self._runtime = runtime
        self._jvm: RunningJvm | None = None

    @classmethod
    def format(cls, runtime: Runtime, folder: Path) -> "KafkaBroker":
        """Makes and formats a new folder."""
        folder.mkdir()
        broker = cls(runtime, folder)
        properties = broker._write_properties()
        runtime.run(
            "kafka.tools.StorageTool", ["format", "-t", CLUSTER_ID, "-c", properties], folder
        )
        return broker

    def copy_to(self, folder: Path) -> "KafkaBroker":
        """A second broker with a copy of this stopped one's folder."""
        assert self._jvm is None, "a running broker's folder cannot be copied"
        # A killed broker leaves 20 MiB of preallocated index a partition: holes stay holes.
        subprocess.run(["cp", "-a", "--sparse=always", self.folder, folder], check=True)
        return KafkaBroker(self._runtime, folder)

    def partition_folder(self, partition: int) -> Path:
        """Of the offsets topic."""
        return self.data_folder / f"{OFFSETS_TOPIC}-{partition}"

    def take_offsets_topic(self, data_folder: Path) -> None:
        """Replaces its partitions of the offsets topic by those of another data folder.

        It must be stopped. The topic's id, in partition.metadata, stays its own.
        """
        assert self._jvm is None, "a running broker's folders cannot be replaced"
        for partition in range(OFFSETS_PARTITIONS):
            folder = self.partition_folder(partition)
            topic_id = (folder / "partition.metadata").read_bytes()
            shutil.rmtree(folder)
            shutil.copytree(data_folder / folder.name, folder)
            (folder / "partition.metadata").write_bytes(topic_id)

    def log_text(self) -> str:
        """What it has logged so far."""
        return (self.folder / "broker.log").read_text(errors="replace")

    @contextmanager
    def running(self, *, start_s_max: int = START_S_MAX) -> Iterator["KafkaBroker"]:
        """Started within; stopped cleanly after, unless it was killed."""
        self.start(start_s_max=start_s_max)
        try:
            yield self
        except BaseException:
            self.kill()
            raise
        self.stop()

    def start(self, *, start_s_max: int = START_S_MAX) -> None:
        """Returns when it answers and has loaded all groups. Takes new ports each time."""
        properties = self._write_properties()
        log = self.folder / "broker.log"
        self._jvm = self._runtime.start("kafka.Kafka", [properties], self.folder, log)
        deadline_s = time.monotonic() + start_s_max
        self._admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        while True:
            if self._is_ready():
                return
            is_running = self._jvm.is_running()
            if not is_running or time.monotonic() > deadline_s:
                self.kill()
                raise AssertionError(f"the broker does not start:\n{self.log_text()[-4000:]}")

    def stop(self) -> None:
        """Stops it as an operator would; its folder is then closed clean."""
        if self._jvm is not None:
            self._jvm.terminate()
            self._jvm = None

    def kill(self) -> None:
        """Kill -9."""
        if self._jvm is not None:
            self._jvm.kill()
            self._jvm = None

    def create_topic(
        self, name: str, partitions: int, *, settings: Mapping[str, str] | None = None
    ) -> None:
        """Makes a topic and waits until it can be used."""
        topic = NewTopic(name, partitions, 1, config=dict(settings or {}))
        future = self._admin.create_topics([topic])[name]
        future.result(CALL_S_MAX)

    def set_topic(self, name: str, settings: Mapping[str, str]) -> None:
        """Changes settings of a topic."""
        entries = [
            ConfigEntry(each, value, incremental_operation=AlterConfigOpType.SET)
            for each, value in settings.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=entries)
        self._admin.incremental_alter_configs([resource])[resource].result(CALL_S_MAX)

    def commit(self, group_id: str, offsets: Mapping[tuple[str, int], KafkaOffset]) -> None:
        """Commits for a group without members; returns when the broker has acknowledged.

        Tries again where the broker is not the group's coordinator yet: the first commit of all
        makes the offsets topic.
        """
        deadline_s = time.monotonic() + CALL_S_MAX
        to_commit = [
            KafkaTopicPartition(topic, partition, stored.offset, stored.metadata)
            for (topic, partition), stored in offsets.items()
        ]
        with closing(self.consumer(group_id)) as consumer:
            while True:
                try:
                    committed = consumer.commit(offsets=to_commit, asynchronous=False)
                except KafkaException:
                    if time.monotonic() > deadline_s:
                        raise
                else:
                    assert not any(partition.error for partition in committed or ())
                    return

    def delete_group(self, group_id: str) -> None:
        """Deletes a group with its offsets."""
        self._admin.delete_consumer_groups([group_id])[group_id].result(CALL_S_MAX)

    def consumer(self, group_id: str) -> Consumer:
        """A consumer that never joins its group."""
        return Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": group_id,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )

    def transaction(self, group_id: str, offsets: Mapping[tuple[str, int], int]) -> Producer:
        """A producer within a transaction that holds a commit of the group."""
        producer = Producer(
            {"bootstrap.servers": self.address, "transactional.id": group_id, "log_level": 0}
        )
        producer.init_transactions(CALL_S_MAX)
        producer.begin_transaction()
        with closing(self.consumer(group_id)) as consumer:
            producer.send_offsets_to_transaction(
                [KafkaTopicPartition(*key, offset) for key, offset in offsets.items()],
                consumer.consumer_group_metadata(),
                CALL_S_MAX,
            )
        return producer

    def groups(self) -> dict[str, KafkaGroup]:
        """All groups, by id."""
        listed = self._admin.list_consumer_groups(request_timeout=CALL_S_MAX).result(CALL_S_MAX)
        assert not listed.errors, listed.errors
        return {
            group.group_id: KafkaGroup(
                type=group.type.name,
                state=group.state.name,
                is_simple=group.is_simple_consumer_group,
            )
            for group in listed.valid
        }

    def offsets(self, group_ids: Iterable[str]) -> dict[str, dict[tuple[str, int], KafkaOffset]]:
        """All stored offsets of each group."""
        with KafkaConnection(self.address) as connection:
            return {group_id: connection.offsets(group_id) for group_id in group_ids}

    def admin_offsets(self, group_id: str) -> dict[tuple[str, int], int]:
        """The stored offsets of a group as librdkafka's admin API has them."""
        selection = ConsumerGroupTopicPartitions(group_id)
        futures = self._admin.list_consumer_group_offsets([selection], request_timeout=CALL_S_MAX)
        return {
            (stored.topic, stored.partition): stored.offset
            for stored in futures[group_id].result(CALL_S_MAX).topic_partitions
        }

    def _is_ready(self) -> bool:
        try:
            if not self._admin.list_topics(timeout=1).brokers:
                return False
        except KafkaException:
            return False
        if not self.partition_folder(0).exists():
            return True
        # Listing groups would skip partitions that the broker does not lead yet.
        with KafkaConnection(self.address) as connection:
            return connection.has_loaded_groups(OFFSETS_PARTITIONS)

    def _write_properties(self) -> str:
        port, controller_port = free_ports(2)
        self.address = f"127.0.0.1:{port}"
        properties = self.folder / "server.properties"
        lines = "".join(f"{name}={value}\n" for name, value in self.settings.items())
        properties.write_text(
            PROPERTIES.format(port=port, controller_port=controller_port, folder=self.folder)
            + lines
        )
        return str(properties)
