"""Files of offsets go between offsetd and Kafka's own tool; resets ask a cluster for its bounds."""

import csv
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_sessions import Shell
from interop.kafka_broker import KafkaBroker
from interop.served_folder import ServedFolder
from offsetd_clients import (
    Bounds,
    OffsetClient,
    OffsetFormat,
    OffsetOutOfRange,
    ResetTo,
    ShiftBy,
    ToOffset,
    TopicPartition,
)

from deploy.kafka.kafka_runtime import Runtime

pytestmark = pytest.mark.kafka

CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
RECORDS = 10
PARTITIONS = 3
OURS = {TopicPartition("orders", 0): 3, TopicPartition("orders", 1): 5}


@pytest.fixture(scope="module")
def broker(
    used_broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaBroker]:
    """With a few records in each partition: Kafka's tool moves what lies outside."""
    from confluent_kafka import Producer

    broker = used_broker.copy_to(tmp_path_factory.mktemp("files") / "broker")
    with broker.running():
        producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})
        for number in range(RECORDS * PARTITIONS):
            producer.produce("orders", b"record", partition=number % PARTITIONS)
        assert producer.flush(30) == 0
        yield broker


@pytest.fixture(scope="module")
def client(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OffsetClient]:
    folder = tmp_path_factory.mktemp("ours") / "data"
    setting = f"kafka.bootstrap.servers={broker.address}"
    with ServedFolder(folder, settings=(setting,)).running() as client:
        yield client


def consumer_groups(runtime: Runtime, broker: KafkaBroker, *arguments: str) -> str:
    asked = ["--bootstrap-server", broker.address, *arguments]
    return runtime.run(CONSUMER_GROUPS, asked, broker.folder).stdout


def reset_in_kafka(runtime: Runtime, broker: KafkaBroker, *arguments: str) -> str:
    return consumer_groups(runtime, broker, "--reset-offsets", *arguments)


def stored(client: OffsetClient, group_id: str) -> dict[tuple[str, int], int]:
    return {
        (each.topic, each.partition): offset.offset
        for each, offset in client.fetch(group_id).items()
    }


@pytest.mark.parametrize("groups", [["one"], ["several", "others"]])
def test_kafkas_tool_takes_our_file_and_we_take_its(
    kafka_runtime: Runtime, broker: KafkaBroker, client: OffsetClient, groups: list[str]
) -> None:
    for group_id in groups:
        client.commit(group_id, OURS)
    path = Path(broker.folder) / f"{groups[0]}.csv"
    path.write_bytes(b"".join(client.export_offsets(OffsetFormat.KAFKA_CSV, groups)))
    named = [part for group_id in groups for part in ("--group", group_id)]
    reset_in_kafka(kafka_runtime, broker, *named, "--from-file", path.name, "--execute")
    for group_id in groups:
        assert broker.admin_offsets(group_id) == stored(client, group_id)
    exported = reset_in_kafka(
        *(kafka_runtime, broker, *named, "--all-topics", "--shift-by", "1", "--export", "--dry-run")
    )
    lines = [line for line in exported.splitlines() if "orders" in line]
    assert {len(row) for row in csv.reader(lines)} == {3 if len(groups) == 1 else 4}
    imported = client.import_offsets(
        "\n".join(lines).encode(),
        OffsetFormat.KAFKA_CSV,
        group_id=groups[0] if len(groups) == 1 else "",
    )
    assert sorted(each.group_id for each in imported) == sorted(groups)
    assert all(each.error is None for each in imported)
    for group_id in groups:
        assert stored(client, group_id) == {("orders", 0): 4, ("orders", 1): 6}


def test_the_cluster_tells_what_its_partitions_have(client: OffsetClient) -> None:
    every = {TopicPartition("orders", number): Bounds(0, RECORDS) for number in range(PARTITIONS)}
    assert client.fetch_bounds(topics=["orders", "no-such-topic"]) == every
    assert client.fetch_bounds([TopicPartition("orders", 1), TopicPartition("orders", 99)]) == {
        TopicPartition("orders", 1): Bounds(0, RECORDS)
    }
    client.commit("bounded", OURS)
    for target, expected in ((ResetTo.EARLIEST, 0), (ResetTo.LATEST, RECORDS)):
        answer = client.reset_offsets("bounded", target, topics=["orders"])
        assert [(change.topic_partition.partition, change.after) for change in answer.changes] == [
            (partition, expected) for partition in range(PARTITIONS)
        ]
    before = stored(client, "bounded")
    with pytest.raises(OffsetOutOfRange) as refused:
        client.reset_offsets("bounded", ShiftBy(1))
    assert refused.value.partitions[0] == {
        "topic": "orders",
        "partition": 0,
        "offset": RECORDS + 1,
        "earliest": 0,
        "latest": RECORDS,
        "earliest_source": "kafka",
        "latest_source": "kafka",
    }
    with pytest.raises(OffsetOutOfRange):
        client.reset_offsets("bounded", ToOffset(RECORDS + 1))
    assert stored(client, "bounded") == before


def test_describe_and_export_print_what_kafkas_tool_does(
    kafka_runtime: Runtime, broker: KafkaBroker, client: OffsetClient
) -> None:
    client.commit("described", OURS)
    path = Path(broker.folder) / "described.csv"
    path.write_bytes(b"".join(client.export_offsets(OffsetFormat.KAFKA_CSV, ["described"])))
    named = ("--group", "described")
    reset_in_kafka(kafka_runtime, broker, *named, "--from-file", path.name, "--execute")
    shell = Shell(folder=Path(broker.folder), environment={"OFFSETD_ADDRESS": client.address})

    theirs = consumer_groups(kafka_runtime, broker, "--describe", *named)
    ours = shell.piped("offsetd groups describe --group described")
    told = "group described: empty, no active members; total lag 12\n"
    assert (ours.code, ours.stderr) == (0, told)
    assert cells(ours.stdout)[0][-1] == "VERDICT"  # The one column that is ours.
    rows = [row[:-1] for row in cells(ours.stdout)]
    assert rows == cells(theirs)
    assert rows[1][3:6] == ["3", "10", "7"]

    asked = (*named, "--all-topics", "--to-earliest", "--export", "--dry-run")
    theirs = reset_in_kafka(kafka_runtime, broker, *asked)
    ours = shell.piped(shlex.join(["offsetd", "groups", "reset", *asked]))
    assert ours.code == 0
    assert sorted(ours.stdout.splitlines()) == sorted(cells_of_csv(theirs))


def cells(table: str) -> list[list[str]]:
    """The lines of a table, sorted below its header."""
    header, *lines = (line.split() for line in table.splitlines() if line.strip())
    return [header, *sorted(lines)]


def cells_of_csv(said: str) -> list[str]:
    """Without what the tool has to say beside."""
    return [line.replace('"', "") for line in said.splitlines() if line.count(",") == 2]
