"""Takeovers of partitions whose former owner has left a transaction open, on real brokers."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from cluster.test_nodes import FIRST, GROUPS, PARTITIONS, SECONDS_MAX, Nodes, fetched, owner_of
from cluster.topic_log import committed, open_partitions
from confluent_kafka import Producer
from offsetd_clients import OffsetClient, RetryPolicy
from offsetd_coordinator.cluster.claims import CLAIM_KEY
from offsetd_coordinator.cluster.topic_records import topic_records
from offsetd_coordinator.requests import CommitOffsets, OffsetEntry
from offsetd_coordinator.shard.shard import Shard, ShardConfig
from server_process import poll

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cluster.node_process import NodeProcess
    from cluster.real_cluster import RealCluster
    from cluster.topic_log import Committed
    from offsetd_clients import Revision

pytestmark = pytest.mark.kafka

GROUP = "group-0"
BEFORE, LATER = 1, 2


@pytest.fixture
def nodes(real_cluster: RealCluster, tmp_path: Path, cluster_id: str) -> Nodes:
    return Nodes(real_cluster, tmp_path, cluster_id)


def killed_after_a_commit(nodes: Nodes) -> Revision:
    """A node commits, and is killed. Returns the revision of its commit."""
    [node] = nodes.start(1)
    with nodes.client() as client:
        revision: Revision = client.commit(GROUP, {FIRST: BEFORE})
    node.kill()
    nodes.nodes.clear()
    return revision


@contextmanager
def open_transaction(nodes: Nodes, transactional_id: str, behind: Revision) -> Iterator[Producer]:
    """A transaction with a commit of `LATER` behind that revision, left open."""
    shard = Shard(behind.log_partition, ShardConfig())
    shard.end_load(offset_next=behind.log_offset + 1, leader_epoch=0)
    entry = OffsetEntry(topic=FIRST.topic.encode(), partition=FIRST.partition, offset=LATER)
    decision = shard.decide(CommitOffsets.of(GROUP.encode(), (entry,), b""), 1)
    assert decision.batch is not None
    producer = Producer(
        {
            "bootstrap.servers": nodes.cluster.addresses,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    for each in topic_records(decision.batch):
        producer.produce(
            f"__{nodes.cluster_id}_offsets",
            each.value,
            each.key,
            behind.log_partition,
            timestamp=int(time.time() * 1000),
            headers=each.headers,
        )
    assert producer.flush(SECONDS_MAX) == 0
    yield producer


def found(nodes: Nodes) -> int:
    with nodes.client() as client:
        return client.fetch(GROUP)[FIRST].offset


def test_a_node_serves_only_once_all_that_was_written_before_is_decided(nodes: Nodes) -> None:
    """The commit may have been acknowledged: a moment later it is below the last stable offset."""
    revision = killed_after_a_commit(nodes)
    with open_transaction(nodes, f"{nodes.cluster_id}-elsewhere", revision) as producer:
        node = nodes.add("n2")
        node.launch()
        poll(lambda: "partitions assigned" in node.output, SECONDS_MAX, lambda: node.output)
        time.sleep(3)  # A node that does not wait serves meanwhile, without the commit.
        assert "partitions taken over" not in node.output
        producer.commit_transaction(SECONDS_MAX)
        node.server.wait_until_serving()
        assert found(nodes) == LATER


def test_the_open_transaction_of_a_killed_node_is_ended_without_effect(
    nodes: Nodes,
) -> None:
    revision = killed_after_a_commit(nodes)
    with open_transaction(nodes, f"{nodes.cluster_id}-n1-0", revision):
        node = nodes.add("n2")
        node.start()
        assert "ending the transactions of another node" in node.output
        assert found(nodes) == BEFORE
        with nodes.client() as client:
            later = client.commit(GROUP, {FIRST: 5})
        assert later.log_offset > revision.log_offset + 1, "no log offset is given out twice"


class Load:
    """Commits a rising number to some groups all the time, each time to all at once."""

    def __init__(self, client: OffsetClient, groups: list[str]) -> None:
        self.acknowledged = 0  # The newest number that all groups have.
        self._client = client
        self._groups = groups
        self._stopping = threading.Event()
        self._errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wait_for_more(self, count: int) -> None:
        goal = self.acknowledged + count
        poll(lambda: self.acknowledged >= goal or self._errors, SECONDS_MAX)
        assert self._errors == []

    def stop(self) -> int:
        """The number that all groups have then."""
        self._stopping.set()
        self._thread.join(SECONDS_MAX)
        assert self._errors == []
        return self.acknowledged

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                value = self.acknowledged + 1
                sent = [self._client.commit_soon(each, {FIRST: value}) for each in self._groups]
                for each in sent:
                    each.result(SECONDS_MAX)
                self.acknowledged = value
        except BaseException as error:  # noqa: BLE001  Told by `wait_for_more` and `stop`.
            self._errors.append(error)


def stop_within_a_transaction(nodes: Nodes, node: NodeProcess) -> None:
    """SIGSTOP, when the brokers have records of a transaction of the node, and not its end."""
    topic = f"__{nodes.cluster_id}_offsets"
    partitions = [each for each, owner in nodes.owners().items() if owner == node.name]
    deadline_s = time.monotonic() + SECONDS_MAX
    while True:
        node.pause()
        is_open = open_partitions(nodes.cluster.addresses, topic, partitions)
        if is_open:
            time.sleep(0.3)  # An end that was asked for before has taken place by then.
            if open_partitions(nodes.cluster.addresses, topic, partitions) == is_open:
                return
        node.resume()
        assert time.monotonic() < deadline_s, "no transaction was met"
        time.sleep(0.2)


def written(nodes: Nodes) -> list[Committed]:
    """What clients have written, as far as it is committed."""
    topic = f"__{nodes.cluster_id}_offsets"
    records = committed(nodes.cluster.addresses, topic, range(PARTITIONS))
    return [each for each in records if each.key != CLAIM_KEY]


def test_the_transaction_of_a_stopped_node_is_not_heard_when_the_node_goes_on(
    nodes: Nodes,
) -> None:
    """The node that took over makes its commits. The stopped node reads nothing stale to anybody.
    It serves again later, or it ends, because its transactions were ended for it.
    """
    first, second = nodes.start(2)
    nodes.wait_until_shared("n1", "n2")
    groups = [each for each in GROUPS if owner_of(nodes, each) == "n2"]
    retry = RetryPolicy(timeout_s=SECONDS_MAX, try_timeout_s=3)
    patient = RetryPolicy(timeout_s=SECONDS_MAX, try_timeout_s=SECONDS_MAX)
    with (
        OffsetClient(first.address, retry=retry) as client,
        OffsetClient(second.address, retry=patient) as late,
        ThreadPoolExecutor(len(groups)) as threads,
    ):
        load = Load(client, groups)
        list(threads.map(late.fetch, groups))  # So it is connected.
        load.wait_for_more(2)
        stop_within_a_transaction(nodes, second)
        load.wait_for_more(3)
        last = load.stop()
        assert "ending the transactions of another node" in first.output
        records = written(nodes)
        reads = [threads.submit(late.fetch, each) for each in groups]
        time.sleep(0.3)  # They wait for the stopped node, which has not heard that it lost them.
        second.resume()
        poll(
            lambda: not second.is_running or {*nodes.owners().values()} == {"n1", "n2"},
            SECONDS_MAX,
            lambda: second.output,
        )
        if not second.is_running:
            assert "the node was fenced" in second.output
            second.start()
        assert [each.result()[FIRST].offset for each in reads] == [last] * len(groups)
        nodes.wait_until_shared("n1", "n2")
        assert written(nodes) == records, "nothing of the stopped node was committed"
        for each in (first, second):
            with nodes.client(each) as reader:
                offsets = fetched(reader)
            assert {group: offsets[group] for group in groups} == dict.fromkeys(groups, last)
        again = Load(client, groups)
        again.wait_for_more(1)
        again.stop()
