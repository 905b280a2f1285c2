"""Spark's own Kafka source against a real broker and a real server: from groups, and to groups."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest
from interop.kafka_broker import KafkaBroker
from interop.kafka_topic import KafkaTopic
from interop.requirements import no_kafka
from interop.spark_kafka import spark_kafka_jars
from interop.test_readme import blocks
from offsetd_clients import OffsetClient, TopicPartition
from offsetd_pipeline import (
    OffsetCommitListener,
    from_checkpoint,
    import_checkpoint,
    starting_offsets,
)
from patience import PATIENCE_SECONDS
from ports import free_ports
from pyspark.errors import StreamingQueryException
from server_process import START_SECONDS_MAX, ServerProcess, poll

from deploy.kafka.kafka_runtime import KafkaUnavailable, find_runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

DRIVER = Path(__file__).parent / "kafka_query_driver.py"
pytestmark = [pytest.mark.kafka, pytest.mark.long(minutes=1)]


@pytest.fixture(scope="module")
def broker(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    if not spark.conf.get("spark.jars", ""):
        no_kafka("Spark's Kafka source is not to be had")
    try:
        runtime = find_runtime()
    except KafkaUnavailable as unavailable:
        no_kafka(str(unavailable))
    with KafkaBroker.format(runtime, tmp_path_factory.mktemp("kafka") / "broker").running() as it:
        yield it


@pytest.fixture(scope="module")
def server(
    broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    settings = {"kafka.bootstrap.servers": broker.address}
    with ServerProcess(tmp_path_factory.mktemp("server"), settings=settings) as it:
        yield it.wait_until_serving()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[OffsetClient]:
    with OffsetClient(server.address) as it:
        yield it


@pytest.fixture
def listen(spark: SparkSession) -> Iterator[Callable[..., OffsetCommitListener]]:
    """`listen(address, group)` is told what the query of the group's name does, until the end."""
    listeners = []

    def listen(
        address: str, group_id: str, *, query: str = "", **options: Any
    ) -> OffsetCommitListener:
        names = [query or group_id]
        listeners.append(OffsetCommitListener(address, group_id, queries=names, **options))
        spark.streams.addListener(listeners[-1])
        return listeners[-1]

    yield listen
    for each in listeners:
        spark.streams.removeListener(each)
        each.close(timeout_s=0)


class Reader:
    """Queries over topics, one behind the other, that keep the values they have read."""

    def __init__(self, spark: SparkSession, broker: KafkaBroker, name: str, folder: Path) -> None:
        self.checkpoint = str(folder / name)
        self.name = name
        self.values: list[str] = []
        self.is_failing = False
        self.query: StreamingQuery
        self._spark = spark
        self._broker = broker

    def source(self, *topics: KafkaTopic, **options: str) -> DataFrame:
        named = ",".join(each.name for each in topics)
        settings = {"startingOffsets": "earliest", **options}
        reader = self._spark.readStream.format("kafka").options(**settings)
        reader = reader.option("kafka.bootstrap.servers", self._broker.address)
        return reader.option("subscribe", named).load()

    def start(self, source: DataFrame, **trigger: Any) -> Self:
        def keep(batch: DataFrame, _batch_id: int) -> None:
            values = [bytes(row.value).decode() for row in batch.select("value").collect()]
            if self.is_failing:
                raise RuntimeError("this batch is not done")
            self.values += values

        writer = source.writeStream.foreachBatch(keep).queryName(self.name)
        writer = writer.option("checkpointLocation", self.checkpoint)
        self.query = (writer.trigger(**trigger) if trigger else writer).start()
        return self

    def read_all(self, source: DataFrame) -> Self:
        self.start(source, availableNow=True).query.awaitTermination()
        return self


@pytest.fixture
def reader(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> Iterator[Callable[[str], Reader]]:
    yield lambda name: Reader(spark, broker, name, tmp_path)
    for query in spark.streams.active:
        query.stop()


def offsets(client: OffsetClient, group_id: str) -> dict[TopicPartition, int]:
    return {where: found.offset for where, found in client.fetch(group_id).items()}


def test_a_query_commits_how_far_it_has_read_and_its_checkpoint_says_the_same(
    spark: SparkSession,
    broker: KafkaBroker,
    server: ServerProcess,
    client: OffsetClient,
    listen: Callable[..., OffsetCommitListener],
    reader: Callable[[str], Reader],
) -> None:
    listener = listen(server.address, "sums")
    orders, payments = KafkaTopic(broker.address, 3), KafkaTopic(broker.address)
    orders.produce(0, range(7))
    orders.produce(2, range(4))
    payments.produce(0, range(5))
    sums = reader("sums")
    # Two sources, of which one reads a part at a time.
    both = sums.source(orders, maxOffsetsPerTrigger="6").union(sums.source(payments))
    sums.start(both).query.processAllAvailable()
    orders.produce(2, range(4, 6))
    sums.query.processAllAvailable()
    sums.query.stop()
    assert listener.flush(sums.query, timeout_s=PATIENCE_SECONDS), listener.counts
    expected = {orders.at(0): 7, orders.at(1): 0, orders.at(2): 6, payments.at(0): 5}
    assert offsets(client, "sums") == expected
    stored = client.fetch("sums")[orders.at(2)]
    checkpoint = from_checkpoint(sums.checkpoint)
    assert json.loads(stored.metadata) == {
        "spark_query": str(sums.query.id),
        "batch": checkpoint.batch_id,
    }
    assert stored.end_offset == 6
    assert checkpoint.offsets == expected
    assert checkpoint.query_id == str(sums.query.id)
    assert from_checkpoint(sums.checkpoint, spark=spark) == checkpoint
    assert from_checkpoint(f"file://{sums.checkpoint}", spark=spark).offsets == expected
    counts = listener.counts
    assert counts.batches_committed + counts.batches_skipped == checkpoint.batch_id + 1
    assert (counts.failures, counts.behind, counts.held_back) == (0, 0, 0)
    import_elsewhere(client, checkpoint)


def import_elsewhere(client: OffsetClient, checkpoint: Any) -> None:
    """An existing checkpoint gives another group the same offsets, by the server's own rules."""
    where = min(checkpoint.offsets)
    client.commit("elsewhere", {where: 1000})
    planned = import_checkpoint(checkpoint, client, "elsewhere")
    assert len(planned.changes) == len(checkpoint.offsets) - 1
    assert offsets(client, "elsewhere") == {where: 1000}
    import_checkpoint(checkpoint, client, "elsewhere", execute=True)
    assert offsets(client, "elsewhere") == {**checkpoint.offsets, where: 1000}
    done = import_checkpoint(checkpoint, client, "elsewhere", allow_back=True, execute=True)
    assert [each.before for each in done.changes] == [1000]
    assert offsets(client, "elsewhere") == checkpoint.offsets
    [event, *_] = client.list_audit_events(group_id="elsewhere")
    assert checkpoint.query_id in event.reason


def test_a_query_that_failed_commits_on_when_it_runs_again(
    broker: KafkaBroker,
    server: ServerProcess,
    client: OffsetClient,
    listen: Callable[..., OffsetCommitListener],
    reader: Callable[[str], Reader],
) -> None:
    listener = listen(server.address, "restarted")
    topic, restarted = KafkaTopic(broker.address), reader("restarted")
    topic.produce(0, range(5))
    source = restarted.source(topic)
    restarted.start(source).query.processAllAvailable()
    restarted.is_failing = True
    topic.produce(0, range(5, 8))
    with pytest.raises(StreamingQueryException):
        restarted.query.processAllAvailable()
    assert listener.flush(restarted.query, timeout_s=PATIENCE_SECONDS)
    assert offsets(client, "restarted") == {topic.at(0): 5}
    failed = from_checkpoint(restarted.checkpoint)
    assert failed.offsets == {topic.at(0): 5}
    assert failed.planned_batch_id == failed.batch_id + 1
    planned = from_checkpoint(restarted.checkpoint, through="planned")
    assert planned.offsets == {topic.at(0): 8}

    restarted.is_failing = False
    topic.produce(0, range(8, 9))
    restarted.read_all(source)
    assert listener.flush(restarted.query, timeout_s=PATIENCE_SECONDS)
    assert offsets(client, "restarted") == {topic.at(0): 9}
    assert restarted.values == [str(number) for number in range(9)]
    assert listener.counts.failures == 0


def test_what_a_run_had_no_time_to_commit_is_committed_while_the_next_one_waits(
    spark: SparkSession,
    broker: KafkaBroker,
    server: ServerProcess,
    client: OffsetClient,
    listen: Callable[..., OffsetCommitListener],
    reader: Callable[[str], Reader],
) -> None:
    topic, waiting = KafkaTopic(broker.address), reader("waiting")
    topic.produce(0, range(5))
    source = waiting.source(topic)
    waiting.read_all(source)  # Nobody listens.
    listener = listen(server.address, "waiting")
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "100")
    try:
        waiting.start(source)
        poll(lambda: offsets(client, "waiting"), PATIENCE_SECONDS)
    finally:
        spark.conf.unset("spark.sql.streaming.noDataProgressEventInterval")
    assert offsets(client, "waiting") == {topic.at(0): 5}
    topic.produce(0, range(5, 7))
    waiting.query.processAllAvailable()
    waiting.query.stop()
    assert listener.flush(waiting.query, timeout_s=PATIENCE_SECONDS)
    assert offsets(client, "waiting") == {topic.at(0): 7}
    assert waiting.values == [str(number) for number in range(7)]
    assert (listener.counts.failures, listener.counts.batches_out_of_order) == (0, 0)


def test_a_driver_that_was_killed_commits_on_when_its_query_runs_again(
    broker: KafkaBroker,
    server: ServerProcess,
    client: OffsetClient,
    listen: Callable[..., OffsetCommitListener],
    reader: Callable[[str], Reader],
    tmp_path: Path,
) -> None:
    topic, killed = KafkaTopic(broker.address), reader("killed")
    topic.produce(0, range(100))
    settings = {
        "jars": spark_kafka_jars(),
        "broker": broker.address,
        "topic": topic.name,
        "server": server.address,
        "group": "killed",
        "checkpoint": killed.checkpoint,
        "local": str(tmp_path / "local"),
    }
    driver = subprocess.Popen(
        [sys.executable, str(DRIVER), json.dumps(settings)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        poll(
            lambda: offsets(client, "killed").get(topic.at(0), 0) > 3 or driver.poll() is not None,
            START_SECONDS_MAX,
        )
        assert driver.poll() is None
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    at_kill = offsets(client, "killed")[topic.at(0)]
    checkpoint = from_checkpoint(killed.checkpoint)
    assert at_kill <= checkpoint.offsets[topic.at(0)] < 100
    listener = listen(server.address, "killed")
    topic.produce(0, range(100, 103))
    killed.read_all(killed.source(topic))
    assert listener.flush(killed.query, timeout_s=PATIENCE_SECONDS)
    assert offsets(client, "killed") == {topic.at(0): 103}
    # What was not done when it was killed is read once more, and nothing is left out.
    assert set(range(checkpoint.offsets[topic.at(0)], 103)) == set(map(int, killed.values))


def test_a_new_query_goes_on_where_its_group_is(
    spark: SparkSession,
    broker: KafkaBroker,
    server: ServerProcess,
    client: OffsetClient,
    listen: Callable[..., OffsetCommitListener],
    reader: Callable[[str], Reader],
    tmp_path: Path,
) -> None:
    listener = listen(server.address, "moved")
    topic, first = KafkaTopic(broker.address, 3), reader("moved")
    topic.produce(0, range(10))
    topic.produce(1, range(100, 105))
    first.read_all(first.source(topic))
    assert listener.flush(first.query, timeout_s=PATIENCE_SECONDS)
    topic.produce(0, range(10, 12))
    topic.produce(2, range(200, 203))
    begin = starting_offsets(client, "moved", [topic.name])
    assert json.loads(begin) == {topic.name: {"0": 10, "1": 5, "2": 0}}

    second = Reader(spark, broker, "moved", tmp_path / "anew")
    second.read_all(second.source(topic, startingOffsets=begin))
    assert sorted(map(int, second.values)) == [10, 11, 200, 201, 202]
    assert listener.flush(second.query, timeout_s=PATIENCE_SECONDS)
    assert offsets(client, "moved") == {topic.at(0): 12, topic.at(1): 5, topic.at(2): 3}
    assert listener.counts.held_back == 0

    # What is not committed is named, too; and a batch may begin there as well.
    nobody = starting_offsets(client, "nobody", {topic.name: 3})
    table = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.address)
    table = table.option("subscribe", topic.name)
    assert table.option("startingOffsets", begin).load().count() == 5
    assert table.option("startingOffsets", nobody).load().count() == 20


def test_a_group_that_is_further_waits_for_its_query_or_follows_it(
    broker: KafkaBroker,
    server: ServerProcess,
    client: OffsetClient,
    listen: Callable[..., OffsetCommitListener],
    reader: Callable[[str], Reader],
) -> None:
    topic, anew = KafkaTopic(broker.address, 2), reader("anew")
    topic.produce(0, range(5))
    topic.produce(1, range(3))
    for group_id in ("waits", "follows"):
        client.commit(group_id, {topic.at(0): 100})
    waits = listen(server.address, "waits", query="anew")
    follows = listen(server.address, "follows", query="anew", rewinds="follow")
    anew.read_all(anew.source(topic))
    for listener in (waits, follows):
        assert listener.flush(anew.query, timeout_s=PATIENCE_SECONDS), listener.counts
    assert offsets(client, "waits") == {topic.at(0): 100, topic.at(1): 3}
    assert offsets(client, "follows") == {topic.at(0): 5, topic.at(1): 3}
    client.commit("follows", {topic.at(1): 0})  # By somebody else, while nothing runs.
    topic.produce(1, range(3, 4))
    anew.read_all(anew.source(topic))
    assert follows.flush(anew.query, timeout_s=PATIENCE_SECONDS)
    assert offsets(client, "follows") == {topic.at(0): 5, topic.at(1): 4}
    assert (waits.counts.failures, follows.counts.failures) == (0, 0)


def test_a_server_that_was_killed_is_caught_up_with_and_the_query_never_fails(
    broker: KafkaBroker,
    listen: Callable[..., OffsetCommitListener],
    reader: Callable[[str], Reader],
    tmp_path: Path,
) -> None:
    [port] = free_ports(1)
    settings = {"listen.address": f"127.0.0.1:{port}"}
    listener = listen(f"127.0.0.1:{port}", "survivor")
    topic, survivor = KafkaTopic(broker.address), reader("survivor")
    topic.produce(0, range(3))
    with ServerProcess(tmp_path / "offsets", settings=settings) as server:
        server.wait_until_serving()
        survivor.start(survivor.source(topic)).query.processAllAvailable()
        assert listener.flush(timeout_s=PATIENCE_SECONDS)
        server.kill()
    for number in range(3, 6):
        topic.produce(0, [number])
        survivor.query.processAllAvailable()
    poll(lambda: listener.counts.behind, PATIENCE_SECONDS)
    assert survivor.query.isActive
    with ServerProcess(tmp_path / "offsets", settings=settings) as server:
        server.wait_until_serving()
        topic.produce(0, [6])
        survivor.query.processAllAvailable()
        survivor.query.stop()
        assert listener.flush(survivor.query, timeout_s=PATIENCE_SECONDS), listener.counts
        with OffsetClient(server.address) as client:
            assert offsets(client, "survivor") == {topic.at(0): 7}
            assert from_checkpoint(survivor.checkpoint).offsets == {topic.at(0): 7}
        server.stop_well()
    assert survivor.query.exception() is None
    assert survivor.values == [str(number) for number in range(7)]
    assert listener.counts.behind == 0


def test_the_guide_does_what_it_says(
    spark: SparkSession,
    broker: KafkaBroker,
    server: ServerProcess,
    client: OffsetClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    topic = KafkaTopic(broker.address, 3, name="orders")
    topic.produce(0, range(5))
    names: dict[str, Any] = {"spark": spark}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OFFSETD_ADDRESS": server.address}
    printed = []
    steps = blocks("docs/guides/spark-kafka.md")
    assert [each.language for each in steps].count("sh") == 2
    try:
        for step in steps:
            text = step.text.replace("localhost:9092", broker.address)
            text = text.replace("127.0.0.1:7171", server.address)
            # Folders are named as the program's; the JVM was begun elsewhere.
            text = text.replace('"path", "', f'"path", "{tmp_path}/')
            text = text.replace('Location", "', f'Location", "{tmp_path}/')
            if step.language == "python":
                exec(text, names)
            else:
                run = ["sh", "-ec", text]
                printed.append(subprocess.check_output(run, env=environment, text=True))
    finally:
        if "listener" in names:
            spark.streams.removeListener(names["listener"])
            names["listener"].close()
    assert offsets(client, "billing") == {topic.at(0): 5, topic.at(1): 0, topic.at(2): 0}
    assert offsets(client, "from-checkpoint") == offsets(client, "billing")
    assert "orders" in printed[0]
    assert json.loads(names["begin"]) == {"orders": {"0": 5, "1": 0, "2": 0}}
    assert names["again"].isStreaming
    assert capsys.readouterr().out.endswith("()\n")  # No changes: it is there already.
