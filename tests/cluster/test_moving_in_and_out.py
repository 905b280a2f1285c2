"""A single server's folder moves into a cluster's topics and out again: all answers stay."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import attrs
import pytest
from cluster.test_nodes import FIRST, GROUPS, PARTITIONS, RETRY, SECONDS_MAX, Nodes
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from offsetd_clients import OffsetClient, OffsetToCommit, TopicPartition
from offsetd_clients.assignors import Subscription
from offsetd_clients.consumer_protocol import assignments_by, encode_subscription
from offsetd_clients.errors import OffsetdError
from server_process import ServerProcess, poll

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.real_cluster import RealCluster

pytestmark = [pytest.mark.kafka, pytest.mark.long(minutes=3)]

COMMAND: Final = "from offsetd_clients.cli.main import main; main()"
SECOND: Final = TopicPartition("orders", 1)
# A retry is still known after the moves, and history is kept.
KEPT: Final = {
    "history.ms": 3_600_000,
    "request.id.window.ms": 3_600_000,
    "group.initial.rebalance.delay.ms": 0,
    "node.id": "n1",
}
ALONE: Final = {
    **KEPT,
    "offsets.topic.num.partitions": PARTITIONS,
    "disk.reserve.bytes": 1 << 20,
    "offsets.retention.check.interval.ms": 500,
}
REQUEST_ID: Final = "the same commit again"


@pytest.fixture
def nodes(real_cluster: RealCluster, tmp_path: Path, cluster_id: str) -> Nodes:
    wait_for_coordinators(real_cluster.addresses)
    return Nodes(real_cluster, tmp_path, cluster_id)


def wait_for_coordinators(addresses: str) -> None:
    """Returns when new brokers have made the topic of groups. It takes long on a busy machine."""
    admin = AdminClient({"bootstrap.servers": addresses})

    def is_answered() -> bool:
        try:
            admin.describe_consumer_groups(["none"])["none"].result(30)
        except KafkaException as error:
            return error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND
        return True

    poll(is_answered, 2 * SECONDS_MAX)


def command(nodes: Nodes, name: str, *arguments: object) -> list[str]:
    where = ["--bootstrap-servers", nodes.cluster.addresses, "--cluster-id", nodes.cluster_id]
    given = [str(each) for each in arguments]
    return [sys.executable, "-c", COMMAND, "cluster", name, *given, *where]


def told(nodes: Nodes, name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(nodes, name, *arguments),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def rows(nodes: Nodes, name: str, *arguments: object) -> list[dict[str, Any]]:
    """The rows of a command that has to do its work."""
    done = told(nodes, name, *arguments, "-o", "json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert [each for each in found if each["problem"]] == []
    return found


def init(nodes: Nodes, folder: Path, *more: object) -> list[dict[str, Any]]:
    return rows(nodes, "init", "--from-data-dir", folder, "--node-id", "n1", *kept(), *more)


def kept() -> list[str]:
    names = ("history.ms", "request.id.window.ms")
    return [part for name in names for part in ("--set", f"{name}={KEPT[name]}")]


def fill(client: OffsetClient) -> None:
    """Offsets with metadata, a lease, a member, tombstones, settings, and their audit events."""
    for number, group in enumerate(GROUPS):
        for value in range(3):
            commit = OffsetToCommit(value, metadata=f"{group} {value}", leader_epoch=number)
            client.commit(group, {FIRST: commit, SECOND: 100 + value})
    client.delete_offsets("group-1", [SECOND])
    client.commit("expired", {FIRST: 1}, retention=timedelta(milliseconds=1))
    client.update_group("group-2", retention=timedelta(days=90), reason="they asked")
    client.update_config({"segment.ms": "7200000"}, topic="__consumer_offsets", reason="a try")
    lease = client.acquire_group("archive", "host-1", ttl=timedelta(hours=2), reason="nightly")
    client.commit("archive", {FIRST: 3}, epoch=lease.epoch)
    subscription = encode_subscription(Subscription(topics=["orders"]))
    joined = client.join_group(
        "readers",
        {"range": subscription},
        instance_id="host-1",
        session_timeout_s=1200,
    )
    client.sync_group(joined.membership, assignments_by(joined, partition_counts={"orders": 2}))
    client.commit("readers", {SECOND: 4}, membership=joined.membership)
    poll(lambda: client.fetch("expired") == {}, SECONDS_MAX)


def answers(client: OffsetClient) -> dict[str, Any]:
    """What a client can learn of everything that `fill` has made."""
    groups = [*GROUPS, "archive", "readers"]
    settings = client.describe_config("__consumer_offsets", ["segment.ms"])
    return {
        "groups": sorted(each.group_id for each in client.list_groups()),
        "offsets": {each: client.fetch(each) for each in groups},
        "states": {each: state(client, each) for each in groups},
        "expired": client.fetch("expired"),
        "history": {each: list(client.list_offset_history(each)) for each in groups},
        "audit": [
            (each.method, each.topic, each.what, each.reason, each.time)
            for each in client.list_audit_events()
            if each.method in ("UpdateConfig", "UpdateGroup", "DeleteOffsets", "AcquireGroup")
        ],
        "settings": [(each.name, each.value) for each in settings],
    }


def state(client: OffsetClient, group: str) -> object:
    """All of a group. A lease lasts longer where its holder could not renew it."""
    found = client.get_group(group)
    if found.lease is None:
        return found
    return attrs.evolve(found, lease=None), found.lease.holder, found.lease.epoch


def ends(client: OffsetClient) -> dict[str, int]:
    """Commits to each group; returns the revisions."""
    return {group: client.commit(group, {FIRST: 50}).log_offset for group in GROUPS}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a stopped server, with everything in it."""
    where = tmp_path / "alone"
    with ServerProcess(where, settings=ALONE) as server:
        server.wait_until_serving()
        with OffsetClient(server.address, retry=RETRY) as client:
            fill(client)
            client.commit("group-3", {FIRST: 9}, request_id=REQUEST_ID)
            (tmp_path / "answers").write_text(repr(answers(client)))
        assert server.stop() == 0, server.log
    return where


def answers_before(folder: Path) -> str:
    return (folder.parent / "answers").read_text()


def test_everything_is_answered_as_before_in_the_cluster_and_out_of_it(
    nodes: Nodes, folder: Path
) -> None:
    shown = rows(nodes, "init", "--from-data-dir", folder, "--dry-run")
    topics = AdminClient({"bootstrap.servers": nodes.cluster.addresses}).list_topics(timeout=60)
    assert not [each for each in topics.topics if nodes.cluster_id in each]
    moved = init(nodes, folder)
    assert [each["digest"] for each in moved] == [each["digest"] for each in shown]
    assert len(moved) == PARTITIONS + 2
    nodes.add("n1", **KEPT).start()
    nodes.wait_until_shared("n1")
    with nodes.client() as client:
        assert repr(answers(client)) == answers_before(folder)
        before = {each: client.fetch(each)[FIRST].revision for each in GROUPS}
        again = client.commit("group-3", {FIRST: 9}, request_id=REQUEST_ID)
        assert again.log_offset == before["group-3"]
        epoch = client.get_group("archive").lease.epoch
        client.commit("archive", {FIRST: 4}, epoch=epoch)
        later = ends(client)
        assert all(later[each] > before[each] for each in GROUPS)
        client.update_config({"segment.ms": "7300000"}, topic="__consumer_offsets")
        in_cluster = repr(answers(client))
    assert nodes.nodes[0].stop() == 0
    out = folder.parent / "out"
    rows(nodes, "export", "--data-dir", out, "--node-id", "n1")
    assert in_cluster_again(out, in_cluster, later, epoch)


def in_cluster_again(out: Path, expected: str, later: dict[str, int], epoch: int) -> bool:
    with ServerProcess(out, settings=KEPT) as server:
        server.wait_until_serving()
        with OffsetClient(server.address, retry=RETRY) as client:
            assert repr(answers(client)) == expected
            last = ends(client)
            assert all(last[each] > later[each] for each in GROUPS)
            client.commit("archive", {FIRST: 5}, epoch=epoch)
            newer = client.acquire_group("archive", "host-2", force=True)
            assert newer.epoch > epoch
            with pytest.raises(OffsetdError):
                client.commit("archive", {FIRST: 6}, epoch=epoch)
        assert server.stop() == 0, server.log
    return True


def test_an_init_that_is_killed_is_continued_and_doubles_nothing(
    nodes: Nodes, tmp_path: Path
) -> None:
    folder = tmp_path / "alone"
    many = {TopicPartition("orders", each): 1 for each in range(1000)}
    with ServerProcess(folder, settings=ALONE) as server:
        server.wait_until_serving()
        with OffsetClient(server.address, retry=RETRY) as client:
            for _ in range(5):
                for group in GROUPS:
                    client.commit(group, many)
        assert server.stop() == 0, server.log
    shown = rows(nodes, "init", "--from-data-dir", folder, "--dry-run")
    for seconds in (0.3, 1.0):
        kill_after_first_records(nodes, folder, seconds)
        node = nodes.add(f"early-{seconds}")
        node.launch()
        poll(lambda node=node: not node.is_running, SECONDS_MAX)
        assert "is being filled by offsetd cluster init" in node.output
        refused = told(nodes, "export", "--data-dir", tmp_path / "part")
        assert refused.returncode == 1
        assert "is being filled" in refused.stderr
    moved = init(nodes, folder)
    assert [each["digest"] for each in moved] == [each["digest"] for each in shown]
    with nodes.client(nodes.add("n1", **KEPT).start()) as client:
        for group in GROUPS:
            assert {each.offset for each in client.fetch(group).values()} == {1}


def kill_after_first_records(nodes: Nodes, folder: Path, seconds: float) -> None:
    """Kills an init some time after its topics were made."""
    admin = AdminClient({"bootstrap.servers": nodes.cluster.addresses})
    topic = f"__{nodes.cluster_id}_offsets"
    process = subprocess.Popen(
        command(nodes, "init", "--from-data-dir", folder, "--node-id", "n1", *kept()),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    poll(lambda: topic in admin.list_topics(timeout=60).topics, SECONDS_MAX)
    time.sleep(seconds)
    assert process.poll() is None, "it was too fast to be broken off"
    os.kill(process.pid, signal.SIGKILL)
    process.wait(60)


def test_what_cannot_be_moved_is_refused_with_the_reason(nodes: Nodes, folder: Path) -> None:
    damaged = folder.parent / "damaged"
    shutil.copytree(folder, damaged)
    log = next(each for each in damaged.glob("__consumer_offsets-*/*.log") if each.stat().st_size)
    content = bytearray(log.read_bytes())
    content[70] ^= 1
    log.write_bytes(content)
    refused = told(nodes, "init", "--from-data-dir", damaged)
    assert refused.returncode == 1
    assert "damaged partitions cannot be moved" in refused.stderr
    assert "offsetd log repair" in refused.stderr
    init(nodes, folder)
    refused = told(nodes, "init", "--from-data-dir", folder)
    assert refused.returncode == 1
    assert "has records already" in refused.stderr
    assert "kafka-topics.sh" in refused.stderr
    refused = told(nodes, "export", "--data-dir", folder)
    assert f"{folder} is there already" in refused.stderr
    node = nodes.add("n1", **KEPT).start()
    refused = told(nodes, "export", "--data-dir", folder.parent / "out")
    assert refused.returncode == 1
    assert "nodes of the cluster run" in refused.stderr
    assert node.stop() == 0
    refused = told(nodes, "init", "--from-data-dir", node.data_folder)
    assert "has the copies of a node of a cluster" in refused.stderr


def test_a_node_that_lost_its_folder_has_its_settings_and_audit_events_again(
    nodes: Nodes,
) -> None:
    first, second = nodes.start(2)
    nodes.wait_until_shared("n1", "n2")
    for number, node in enumerate((first, second), 1):
        with nodes.client(node) as client:
            client.update_config(
                {"segment.ms": f"{number}000000"}, topic="__consumer_offsets", reason=node.name
            )
    before = {node.name: own_answers(nodes, node) for node in (first, second)}
    assert [reason for reason, _ in before["n1"][1]] == ["n1"]
    assert before["n1"][0] == "1000000"
    first.kill()  # What it committed last may be missing in its own folder.
    first.start()
    assert own_answers(nodes, first) == before["n1"]
    assert first.stop() == 0
    assert second.stop() == 0
    shutil.rmtree(first.data_folder)
    first.start()
    second.start()
    assert {node.name: own_answers(nodes, node) for node in (first, second)} == before


def own_answers(nodes: Nodes, node: Any) -> tuple[str, list[tuple[str, Any]]]:
    """A node's own setting, and the reasons in its own audit log."""
    shown = subprocess.run(
        [sys.executable, "-c", COMMAND, "admin", "audit", "-o", "json", "--address", node.address],
        capture_output=True,
        text=True,
        check=True,
    )
    events = [each for each in json.loads(shown.stdout) if each["reason"] == node.name]
    with nodes.client(node) as client:
        [setting] = client.describe_config("__consumer_offsets", ["segment.ms"])
    return setting.value, [(each["reason"], each["revision"]) for each in events]
