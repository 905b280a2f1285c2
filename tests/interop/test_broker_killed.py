"""A broker is killed -9 in the middle of commits, and its folder opened by offsetd."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pytest
from interop.kafka_broker import KafkaBroker
from interop.kafka_dump import complaints, dump
from interop.kafka_protocol import KafkaConnection, KafkaOffset
from interop.served_folder import OFFSETD, ServedFolder
from offsetd_clients import OffsetClient, RetryPolicy, TopicPartition, UnstableOffsets

from deploy.kafka.kafka_runtime import Runtime

pytestmark = pytest.mark.kafka

COMMITTERS = 4
COMMITS_BEFORE_KILL = 400
PARTITIONS = 3
CALL_S_MAX = 30


@attrs.define
class Committer:
    """Commits ever larger offsets of one group until the broker is gone.

    `acknowledged` is the last commit that the broker confirmed, `sent` the last that it may have
    got.
    """

    group: str
    broker: KafkaBroker
    acknowledged: int = 0
    sent: int = 0

    def run(self) -> None:
        try:
            with KafkaConnection(self.broker.address) as connection:
                while True:
                    self.sent += 1
                    assert connection.commit(self.group, self.offsets(self.sent))
                    self.acknowledged = self.sent
        except OSError:
            return

    def offsets(self, number: int) -> dict[tuple[str, int], KafkaOffset]:
        return {
            ("orders", partition): KafkaOffset(
                offset=number * 10 + partition, leader_epoch=None, metadata=f"commit {number}"
            )
            for partition in range(PARTITIONS)
        }


@attrs.frozen
class Killed:
    """The folder of a broker that was killed, and what it had been asked."""

    broker: KafkaBroker
    committers: list[Committer]


@pytest.fixture(scope="module")
def killed(used_broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Killed:
    broker = used_broker.copy_to(tmp_path_factory.mktemp("killed") / "broker")
    with broker.running():
        for outcome in ("committed", "aborted", "open"):
            broker.commit(f"transaction-{outcome}", {("orders", 0): offset_of(1)})
        moved = {("orders", 0): 2}
        broker.transaction("transaction-committed", moved).commit_transaction(CALL_S_MAX)
        broker.transaction("transaction-aborted", moved).abort_transaction(CALL_S_MAX)
        left_open = broker.transaction("transaction-open", moved)
        committers = [Committer(f"committer-{n}", broker) for n in range(COMMITTERS)]
        threads = [threading.Thread(target=committer.run) for committer in committers]
        for thread in threads:
            thread.start()
        while sum(committer.acknowledged for committer in committers) < COMMITS_BEFORE_KILL:
            assert any(thread.is_alive() for thread in threads), broker.log_text()[-4000:]
        broker.kill()
        for thread in threads:
            thread.join()
        del left_open
    return Killed(broker, committers)


def offset_of(offset: int) -> KafkaOffset:
    return KafkaOffset(offset=offset, leader_epoch=None, metadata="")


@pytest.fixture(scope="module")
def client(killed: Killed) -> Iterator[OffsetClient]:
    """Of an offsetd on the folder."""
    with ServedFolder(killed.broker.data_folder).running() as client:
        yield client


def test_nothing_that_the_broker_acknowledged_is_lost(killed: Killed, client: OffsetClient) -> None:
    for committer in killed.committers:
        assert committer.acknowledged > 0
        stored = client.fetch(committer.group)
        numbers = {offset.metadata for offset in stored.values()}
        assert numbers in [
            {f"commit {number}"} for number in range(committer.acknowledged, committer.sent + 1)
        ], "the last commit that was acknowledged, or one that was sent after it, and whole"
        (number,) = (int(text.removeprefix("commit ")) for text in numbers)
        assert {
            (partition.topic, partition.partition): offset.offset
            for partition, offset in stored.items()
        } == {key: value.offset for key, value in committer.offsets(number).items()}


@pytest.mark.parametrize(
    ("group", "offset"),
    [("transaction-committed", 2), ("transaction-aborted", 1), ("transaction-open", 1)],
)
def test_only_the_offsets_of_a_committed_transaction_count(
    client: OffsetClient, group: str, offset: int
) -> None:
    assert client.fetch(group)[TopicPartition("orders", 0)].offset == offset


def test_a_transaction_that_was_left_open_is_still_pending(client: OffsetClient) -> None:
    impatient = OffsetClient(client.address, retry=RetryPolicy(timeout_s=0.5))
    with closing(impatient), pytest.raises(UnstableOffsets):
        impatient.fetch("transaction-open", require_stable=True)
    stable = client.fetch("transaction-aborted", require_stable=True)
    assert stable[TopicPartition("orders", 0)].offset == 1


def test_a_group_of_the_broker_takes_commits_from_here(client: OffsetClient) -> None:
    position = TopicPartition("appended", 0)
    client.commit("transaction-aborted", {position: 5_000_000})
    assert client.fetch("transaction-aborted")[position].offset == 5_000_000


def test_a_transaction_that_was_left_open_is_aborted(
    killed: Killed, kafka_runtime: Runtime, tmp_path: Path
) -> None:
    broker = killed.broker.copy_to(tmp_path / "broker")

    def offsetd_log(*arguments: str) -> list[Any]:
        said = subprocess.run(
            [OFFSETD, "log", *arguments, "--data-dir", broker.data_folder, "-o", "json"],
            capture_output=True,
            encoding="utf-8",
            check=True,
            timeout=120,
        )
        return list(json.loads(said.stdout))

    with ServedFolder(broker.data_folder).running():
        pass  # It takes the folder over.
    (transaction,) = offsetd_log("transactions", "list")
    assert transaction["groups"] == ["transaction-open"]
    producer_id = str(transaction["producer_id"])
    offsetd_log("transactions", "abort", "--producer-id", producer_id, "--execute")
    assert offsetd_log("transactions", "list") == []
    with ServedFolder(broker.data_folder).running() as client:
        stable = client.fetch("transaction-open", require_stable=True)
        assert stable[TopicPartition("orders", 0)].offset == 1
    partition = transaction["partition"]
    logs = sorted(broker.partition_folder(partition).glob("*.log"))
    said = dump(kafka_runtime, broker.folder, [str(path) for path in logs], "--deep-iteration")
    marker = f"producerId: {producer_id} "
    markers = [line for line in said.stdout.splitlines() if "endTxnMarker: ABORT" in line]
    assert complaints(said) == []
    assert any(marker in line for line in said.stdout.splitlines() if "isControl: true" in line)
    assert markers, "Kafka reads the marker"
