"""The nodes of a cluster make its backups themselves: one node at a time, whichever goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from cluster.test_backups_of_nodes import backup
from cluster.test_moving_in_and_out import wait_for_coordinators
from cluster.test_nodes import GROUPS, Nodes, commit_all
from cluster.test_rules_of_nodes import RuledNodes
from offsetd_clients import OffsetToCommit, TopicPartition
from promised import promised_by
from scrapes import Scrape
from server_process import poll

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.node_process import NodeProcess
    from cluster.real_cluster import RealCluster

pytestmark = [pytest.mark.kafka, pytest.mark.long(minutes=3)]
promised = promised_by("docs/guides/backup.md")

SECONDS_MAX = 240
MOMENT = "offsetd_backup_last_moment_timestamp_seconds"


def metric(node: NodeProcess, name: str) -> float:
    """Its value, or 0 if it has none yet."""
    address = str(node.server.wait_for_event("metrics served")["address"])
    families = Scrape.from_address(address).families.values()
    return next((s.value for each in families for s in each.samples if s.name == name), 0.0)


def made_by(node: NodeProcess) -> list[dict[str, Any]]:
    """The backups that the process of this node has made."""
    return [each for each in node.server.events if each["event"] == "backup made"]


def maker_of(nodes: Nodes) -> NodeProcess:
    owner = nodes.owners()[0]
    return next(each for each in nodes.nodes if each.name == owner)


def output_of(nodes: Nodes) -> str:
    return "\n".join(each.output[-3000:] for each in nodes.nodes)


def wait_for_backups(nodes: Nodes, maker: NodeProcess, count: int) -> None:
    poll(lambda: len(made_by(maker)) >= count, SECONDS_MAX, lambda: output_of(nodes))


@promised(
    "the node that serves log partition 0 makes the backups",
    "Each node looks at the target",
    "another node takes over",
)
def test_one_node_makes_the_backups_and_each_knows_of_them(
    real_cluster: RealCluster, tmp_path: Path, cluster_id: str
) -> None:
    wait_for_coordinators(real_cluster.addresses)
    target, nodes = tmp_path / "b", RuledNodes(real_cluster, tmp_path, cluster_id)
    token = tmp_path / "token"
    token.write_text(nodes.admin_token + "\n")
    settings = {
        "backup.target": target,
        "backup.interval.ms": 2000,
        "backup.keep": 3,
        "backup.client.token.file": token,
    }
    for number in (1, 2, 3):
        nodes.add(f"n{number}", **settings).launch()
    for node in nodes.nodes:
        node.server.wait_until_serving()
    nodes.wait_until_shared("n1", "n2", "n3")
    with nodes.client() as client:
        commit_all(client, 1)
    maker = maker_of(nodes)
    wait_for_backups(nodes, maker, len(made_by(maker)) + 2)
    newest = backup("", "list", target)[-1]
    for node in nodes.nodes:
        poll(
            lambda node=node: metric(node, MOMENT) >= metric(maker, MOMENT) - 10,
            SECONDS_MAX,
            lambda: output_of(nodes),
        )
        assert metric(node, "offsetd_backup_last_size_bytes") > 0
    assert maker.stop() == 0
    nodes.nodes.remove(maker)
    nodes.wait_until_shared(*(each.name for each in nodes.nodes))
    later = maker_of(nodes)
    wait_for_backups(nodes, later, 4)
    [*_, last] = listed = backup("", "list", target)
    assert len(listed) == 3
    assert last["backup"] > newest["backup"]
    assert last["folder"] == newest["folder"]
    assert not backup("", "verify", target)
    backup("", "restore", target, "--data-dir", tmp_path / "restored")
    # Whoever may not read the logs of all nodes is told, and counted.
    token.write_text(nodes.reader_token)
    poll(lambda: metric(later, "offsetd_backup_last_failed"), SECONDS_MAX, later.output)
    assert "AUTHORIZATION_FAILED" in later.output


@promised("If it is killed while it makes one, the next node begins a new one.")
def test_a_node_that_is_killed_while_it_backs_up_is_followed_by_another(
    real_cluster: RealCluster, tmp_path: Path, cluster_id: str
) -> None:
    wait_for_coordinators(real_cluster.addresses)
    target, nodes = tmp_path / "b", Nodes(real_cluster, tmp_path, cluster_id)
    first = nodes.add("n0").start()
    with nodes.client(first) as client:
        for group in GROUPS:
            client.commit(group, {TopicPartition("orders", n): LARGE for n in range(40)})
    assert first.stop() == 0
    nodes.nodes.clear()
    settings = {
        "backup.target": target,
        "backup.keep": 1,
        "backup.max.bytes.per.second": 65_536,  # It takes half a minute.
    }
    for name in ("n1", "n2", "n3"):
        nodes.add(name, **settings).launch()
    for node in nodes.nodes:
        node.server.wait_until_serving()
    poll(lambda: any((target / "chunks").glob("*/*")), SECONDS_MAX, lambda: output_of(nodes))
    maker = maker_of(nodes)
    assert list((target / "running").iterdir())
    assert not any((target / "manifests").glob("*"))
    maker.kill()
    nodes.nodes.remove(maker)
    poll(lambda: any(map(made_by, nodes.nodes)), SECONDS_MAX, lambda: output_of(nodes))
    assert not list((target / "running").iterdir())
    assert len(backup("", "list", target)) == 1
    assert not backup("", "verify", target)
    for node in nodes.nodes:
        poll(lambda node=node: metric(node, MOMENT) > 0, SECONDS_MAX, lambda: output_of(nodes))


LARGE = OffsetToCommit(7, metadata="x" * 3000)
