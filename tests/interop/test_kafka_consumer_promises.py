"""What the guide "Kafka data with offsets here" promises, where no other test asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cli_calls import offsetd_of
from confluent_kafka import Producer
from interop.kafka_topic import KafkaTopic
from offsetd_clients import ConsumerFenced, ConsumerSettings, LeaseTerms, OffsetClient
from offsetd_clients.kafka import KafkaConsumer, PositionGone
from promised import promised_by
from server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from interop.kafka_broker import KafkaBroker

pytestmark = pytest.mark.kafka

promised = promised_by("docs/guides/kafka-data-offsets-here.md")
SECONDS_MAX = 60


@pytest.fixture(scope="module")
def broker(
    used_broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaBroker]:
    copy = used_broker.copy_to(tmp_path_factory.mktemp("kept-here") / "broker")
    with copy.running():
        yield copy


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OffsetClient]:
    settings = {"group.initial.rebalance.delay.ms": 100}
    with (
        ServerProcess(tmp_path_factory.mktemp("offsets") / "data", settings=settings) as server,
        OffsetClient(server.wait_until_serving().address) as client,
    ):
        yield client


def consumer(client: OffsetClient, topic: KafkaTopic, **changed: object) -> KafkaConsumer:
    settings = {"lease": LeaseTerms(holder="host-1"), "idle_wait_s": 0.01, **changed}
    config = {"bootstrap.servers": topic.address, "log_level": 0}
    return KafkaConsumer(client, topic.name, [topic.name], config, ConsumerSettings(**settings))


@promised(
    "Kafka keeps no offsets for this consumer and does not know its group.",
    "Commits carry the leader epoch of the last message and the end of its partition, so that "
    "`offsetd groups describe` can show the lag.",
    "(The marker at the end of a transaction has an offset, but it is not a message: after it, "
    "the lag stays at 1 until the next message comes.)",
)
def test_a_transactions_marker_is_the_lag_that_is_left(
    broker: KafkaBroker, client: OffsetClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = KafkaTopic(broker.address, 1, name="in-transactions")
    producer = Producer(
        {"bootstrap.servers": broker.address, "transactional.id": "t", "log_level": 0}
    )
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    for value in ("a", "b"):
        producer.produce(topic.name, value, partition=0)
    producer.commit_transaction(SECONDS_MAX)
    with consumer(client, topic) as reading:
        for item in reading:
            if item.value.value() == b"b":
                reading.ack(item)
                break
    stored = client.fetch(topic.name)[topic.at(0)]
    assert (stored.offset, stored.leader_epoch, stored.end_offset) == (2, 0, 3)
    offsetd = offsetd_of(client.address, monkeypatch)
    told = offsetd("groups", "describe", topic.name, "-o", "csv").stdout.splitlines()[1]
    assert told.split(",")[3:6] == ["2", "3", "1"]
    assert topic.name not in broker.groups()


@promised(
    "If another consumer takes the lease by force, the next commit of the first one raises "
    "`ConsumerFenced` and changes nothing.",
    "The committed offsets stay, until you reset the group, or `seek` each of the partitions",
)
def test_what_is_committed_stays_whatever_goes_wrong(
    broker: KafkaBroker, client: OffsetClient, tmp_path: Path
) -> None:
    topic = KafkaTopic(broker.address, 1, name="kept")
    topic.produce(0, ["a", "b", "c", "d"])
    with consumer(client, topic, auto_commit_interval_s=None) as reading:
        item = next(iter(reading))
        reading.commit(item)
        assert client.fetch(topic.name)[topic.at(0)].offset == 1
        item = next(iter(reading))
        other = client.acquire_group(topic.name, "host-2", force=True)
        with pytest.raises(ConsumerFenced):
            reading.commit(item)
        assert client.fetch(topic.name)[topic.at(0)].offset == 1
    client.release_group(topic.name, other.epoch)
    topic.delete_before(0, 3)
    for _ in range(2):  # By default, every time.
        with consumer(client, topic) as reading, pytest.raises(PositionGone) as gone:
            next(iter(reading))
        [reset] = gone.value.resets
        assert (reset.topic_partition, reset.earliest) == (topic.at(0), 3)
        assert client.fetch(topic.name)[topic.at(0)].offset == 1
