"""A cluster under faults: nothing acknowledged is lost or torn, no read is stale, no fenced writer
is heard.

How many faults: OFFSETD_TEST_FAULTS, else 60, and 1,000 by night. OFFSETD_TEST_SEED draws the same
faults again. Sixty take about four minutes on a quiet machine with two cores.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest
from chance import session_seed
from cluster.cluster_round import ClusterRound
from cluster.faults import ALL_KINDS, FAULTS_FOR_ALL_KINDS, SESSION_MS, FaultDriver, Fleet

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.real_cluster import RealCluster

pytestmark = [pytest.mark.kafka, pytest.mark.long(minutes=5)]

NIGHTLY = bool(os.environ.get("OFFSETD_NIGHTLY"))
FAULTS = int(os.environ.get("OFFSETD_TEST_FAULTS", "1000" if NIGHTLY else "60"))
FAULTS_A_ROUND = 10
SETTINGS = {
    "offsets.topic.num.partitions": 4,
    "history.ms": 3_600_000,  # For the watcher.
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "cluster.session.timeout.ms": SESSION_MS,
    "cluster.transaction.timeout.ms": 10_000,
}


def test_what_clients_see_has_one_order_under_faults(
    real_cluster: RealCluster, cluster_id: str, tmp_path: Path
) -> None:
    seed = session_seed()
    print(f"OFFSETD_TEST_SEED={seed}")
    settings = {
        **SETTINGS,
        "cluster.id": cluster_id,
        "cluster.bootstrap.servers": real_cluster.node_addresses,
    }
    fleet = Fleet(real_cluster, tmp_path, ["n1", "n2", "n3"], settings)
    fleet.start()
    driver = FaultDriver(real_cluster, fleet, random.Random(seed))
    rounds = 0
    while driver.count < FAULTS:
        current = ClusterRound(fleet, f"r{rounds}", seed, watches=True)
        try:
            driver.run(min(FAULTS, driver.count + FAULTS_A_ROUND), current.answers)
            current.end()
        except BaseException:
            fleet.save_logs(tmp_path)
            print(f"logs of the nodes: {tmp_path}; brokers: {real_cluster.broker(1).folder.parent}")
            current.abandon()
            raise
        calls = sum(map(len, current.recorder.histories.values()))
        print(f"round {rounds}: {calls} calls; {driver.count} faults so far")
        rounds += 1
    print({" ".join(kind): count for kind, count in sorted(driver.kinds.items())})
    if FAULTS >= FAULTS_FOR_ALL_KINDS:
        assert set(driver.kinds) == ALL_KINDS
    assert not fleet.defects()
