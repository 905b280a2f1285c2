"""The three brokers of the other tests do what these rely on: faults, cuts, and their repair."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cluster.network import Cut
from cluster.topic_log import append, appending, create_topic, read
from server_process import poll

if TYPE_CHECKING:
    from cluster.real_cluster import RealCluster

pytestmark = [pytest.mark.kafka, pytest.mark.long(minutes=2)]
SECONDS_MAX = 120


def in_sync(cluster: RealCluster, topic: str) -> set[int]:
    """The brokers that are in sync for partition 0, as the brokers that run say."""
    return set(cluster.topics()[topic].partitions[0].isrs)


def own_argument() -> str:
    """An argument of the command of this process."""
    return max(Path("/proc/self/cmdline").read_text().split("\0"), key=len)


def test_an_acknowledged_record_survives_the_kill_of_a_broker(
    real_cluster: RealCluster, cluster_id: str
) -> None:
    topic = f"__{cluster_id}_log"
    create_topic(real_cluster.addresses, topic)
    append(real_cluster.addresses, topic, ["before"])
    leader = real_cluster.topics()[topic].partitions[0].leader
    killed = real_cluster.broker(leader)
    killed.kill()
    append(real_cluster.addresses, topic, ["without it"])
    poll(lambda: in_sync(real_cluster, topic) == {1, 2, 3} - {leader}, SECONDS_MAX)
    killed.start()
    real_cluster.wait_until_in_sync()
    append(real_cluster.addresses, topic, ["after"])
    assert read(real_cluster.addresses, topic, 3) == ["before", "without it", "after"]
    assert "Kafka Server started" in killed.log_text()


def test_a_broker_that_is_stopped_by_a_signal_comes_back(
    real_cluster: RealCluster, cluster_id: str
) -> None:
    topic = f"__{cluster_id}_log"
    create_topic(real_cluster.addresses, topic)
    paused = real_cluster.broker(real_cluster.topics()[topic].partitions[0].leader)
    paused.pause()
    append(real_cluster.addresses, topic, ["without it"])
    paused.resume()
    real_cluster.wait_until_in_sync()


def test_brokers_restart_one_by_one(real_cluster: RealCluster, cluster_id: str) -> None:
    topic = f"__{cluster_id}_log"
    create_topic(real_cluster.addresses, topic)
    append(real_cluster.addresses, topic, ["before"])
    real_cluster.restart_one_by_one()
    append(real_cluster.addresses, topic, ["after"])
    assert read(real_cluster.addresses, topic, 2) == ["before", "after"]


@pytest.mark.parametrize("how", Cut)
def test_two_brokers_can_be_cut_off_from_each_other(
    real_cluster: RealCluster, cluster_id: str, how: Cut
) -> None:
    """A record sent meanwhile may have to wait: its leader may be cut off from the controllers.

    Without a record that it lacks, a follower stays in sync, however long it has not fetched.
    """
    topic = f"__{cluster_id}_log"
    create_topic(real_cluster.addresses, topic)
    leader = real_cluster.topics()[topic].partitions[0].leader
    other = leader % 3 + 1
    assert real_cluster.network.connected(f"broker-{leader}", f"broker-{other}")
    real_cluster.network.cut(f"broker-{leader}", f"broker-{other}", how)
    with appending(real_cluster.addresses, topic, ["sent meanwhile"]):
        poll(lambda: len(in_sync(real_cluster, topic)) == 2, SECONDS_MAX)
        real_cluster.network.heal()
    real_cluster.wait_until_in_sync()
    assert read(real_cluster.addresses, topic, 1) == ["sent meanwhile"]


@pytest.mark.parametrize("how", Cut)
def test_a_process_can_be_cut_off_from_one_broker(
    real_cluster: RealCluster, cluster_id: str, how: Cut
) -> None:
    """The test itself is the process."""
    topic = f"__{cluster_id}_log"
    create_topic(real_cluster.addresses, topic)
    real_cluster.network.register("test", own_argument())
    leader = f"broker-{real_cluster.topics()[topic].partitions[0].leader}"
    append(real_cluster.node_addresses, topic, ["before"])
    real_cluster.network.cut("test", leader, how)
    with appending(real_cluster.node_addresses, topic, ["behind the cut"]) as producer:
        assert producer.flush(2) == 1
        append(real_cluster.addresses, topic, ["by another way"])
        real_cluster.network.heal()
    real_cluster.network.forget("test")
    values = ["before", "by another way", "behind the cut"]
    assert read(real_cluster.addresses, topic, 3) == values


def test_a_node_keeps_its_address_and_its_folder(real_cluster: RealCluster, tmp_path: Path) -> None:
    node = real_cluster.node(tmp_path, "n1", {})
    node.start()
    node.kill()
    node.start()
    node.pause()
    node.resume()
    assert node.stop() == 0
    assert node.output.count('"event": "listening"') == 2
