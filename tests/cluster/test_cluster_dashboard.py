"""Each panel of the dashboard of several nodes has data when a Prometheus scrapes two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from deployment.dashboard_queries import wait_for_values
from deployment.prometheus_server import Target, scraping
from deployment.tools import tool
from offsetd_clients import OffsetClient, TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.real_cluster import RealCluster

pytestmark = pytest.mark.kafka


def test_each_panel_has_values(real_cluster: RealCluster, cluster_id: str, tmp_path: Path) -> None:
    tool("prometheus")
    settings = {
        "cluster.bootstrap.servers": real_cluster.node_addresses,
        "cluster.id": cluster_id,
        "disk.reserve.bytes": 1 << 20,
    }
    nodes = [real_cluster.node(tmp_path, name, settings) for name in ("n1", "n2")]
    for node in nodes:
        node.launch()
    servers = [node.server.wait_until_serving() for node in nodes]
    targets = [
        Target(address=str(each.wait_for_event("metrics served")["address"])) for each in servers
    ]
    addresses = ",".join(node.address for node in nodes)
    with OffsetClient(addresses) as client, scraping(tmp_path, targets) as prometheus:
        for number in range(20):
            client.commit(f"g{number}", {TopicPartition("orders", 0): number})
        assert nodes[1].stop() == 0  # The other one takes over.
        wait_for_values(prometheus, "cluster.json")
