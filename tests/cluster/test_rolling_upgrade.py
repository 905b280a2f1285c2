"""Nodes of two versions in one cluster: each node is replaced under load, and back again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from chance import session_seed
from cluster.cluster_round import ClusterRound
from cluster.faults import SESSION_MS, Fleet
from promised import promised_by
from releases import BEFORE_0_2_0, has_commit, unpack_release
from server_process import poll

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.node_process import NodeProcess
    from cluster.real_cluster import RealCluster

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(
        not os.environ.get("OFFSETD_NIGHTLY"), reason="takes minutes: by night (OFFSETD_NIGHTLY=1)"
    ),
    pytest.mark.skipif(not has_commit(BEFORE_0_2_0), reason="this clone has no history"),
]

SETTINGS = {
    "offsets.topic.num.partitions": 4,
    "history.ms": 3_600_000,  # For the watcher.
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "cluster.session.timeout.ms": SESSION_MS,
}
NODES = ["n1", "n2", "n3"]
ANSWERS_BETWEEN = 200  # So many calls are answered between two replacements.
SECONDS_MAX = 240


@promised_by("docs/upgrading.md")(
    "every client sees one order of all commits, and no acknowledged commit is lost"
)
def test_nodes_are_replaced_by_todays_one_by_one_under_load_and_back(
    real_cluster: RealCluster, cluster_id: str, tmp_path: Path
) -> None:
    seed = session_seed()
    print(f"OFFSETD_TEST_SEED={seed}")
    former = unpack_release(BEFORE_0_2_0, tmp_path / "code").environment
    settings = {
        **SETTINGS,
        "cluster.id": cluster_id,
        "cluster.bootstrap.servers": real_cluster.node_addresses,
    }
    fleet = Fleet(real_cluster, tmp_path, NODES, settings)
    for node in fleet.nodes:
        node.environment = former
    fleet.start()
    for name, environment in {"forward": {}, "back": former}.items():
        load = ClusterRound(fleet, name, seed, watches=True)
        try:
            for node in fleet.nodes:
                wait_for_answers(load)
                replace(node, environment)
            wait_for_answers(load)
            stored = load.end()
        except BaseException:
            fleet.save_logs(tmp_path)
            load.abandon()
            raise
        assert any(each.offsets for each in stored.values())
    assert not fleet.defects()


def replace(node: NodeProcess, environment: dict[str, str]) -> None:
    """Stops a node as an operator does, and starts it with other code."""
    assert node.stop() == 0, node.output[-3000:]
    node.environment = environment
    node.start()


def wait_for_answers(load: ClusterRound) -> None:
    """Returns once clients have got some more answers."""
    goal = sum(load.answers().values()) + ANSWERS_BETWEEN
    poll(lambda: sum(load.answers().values()) >= goal, SECONDS_MAX)
