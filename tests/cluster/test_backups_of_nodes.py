"""A cluster is backed up from any node, and a backup becomes a server, or a new cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest
from cluster.test_moving_in_and_out import init, wait_for_coordinators
from cluster.test_nodes import FIRST, GROUPS, PARTITIONS, RETRY, Nodes, commit_all, fetched
from offsetd_clients import EpochFenced, OffsetClient
from server_process import ServerProcess

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.real_cluster import RealCluster

pytestmark = [pytest.mark.kafka, pytest.mark.long(minutes=2)]

COMMAND: Final = "from offsetd_clients.cli.main import main; main()"


def backup(address: str, *arguments: object) -> list[dict[str, Any]]:
    """What `offsetd backup` prints."""
    environment = {name: value for name, value in os.environ.items() if "OFFSETD_" not in name}
    ended = subprocess.run(
        [sys.executable, "-c", COMMAND, "backup", *map(str, arguments), "-o", "json"],
        env={**environment, "OFFSETD_ADDRESS": address},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert ended.returncode == 0, ended.stderr
    rows: list[dict[str, Any]] = json.loads(ended.stdout or "[]")
    return rows


def revisions(client: OffsetClient, value: int) -> dict[str, int]:
    return {group: client.commit(group, {FIRST: value}).log_offset for group in GROUPS}


def test_a_backup_of_all_nodes_goes_on_above_what_they_gave_out(
    real_cluster: RealCluster, tmp_path: Path, cluster_id: str
) -> None:
    wait_for_coordinators(real_cluster.addresses)
    nodes, target, folder = (
        Nodes(real_cluster, tmp_path, cluster_id),
        tmp_path / "b",
        tmp_path / "r",
    )
    started = nodes.start(3)
    nodes.wait_until_shared("n1", "n2", "n3")
    with nodes.client() as client:
        commit_all(client, 1)
        lease = client.acquire_group("archive", "one")
        [made] = backup(started[2].address, "create", target)
        assert made["logs"] == PARTITIONS + 2
        later = revisions(client, 2)
    assert not backup("", "verify", target)
    backup("", "restore", target, "--data-dir", folder)
    for node in started:
        node.stop()
    with ServerProcess(folder) as server, OffsetClient(server.address, retry=RETRY) as client:
        server.wait_until_serving()
        assert fetched(client) == dict.fromkeys(GROUPS, 1)
        with pytest.raises(EpochFenced):
            client.commit("archive", {FIRST: 1}, epoch=lease.epoch)
        restored = revisions(client, 3)
        assert all(restored[each] > later[each] for each in GROUPS)
        assert server.stop() == 0, server.log
    again = Nodes(real_cluster, tmp_path / "again", f"{cluster_id}-again")
    again.folder.mkdir()
    init(again, folder)
    again.add("n4").start()
    again.wait_until_shared("n4")
    with again.client() as client:
        assert fetched(client) == dict.fromkeys(GROUPS, 3)
        newest = revisions(client, 4)
        assert all(newest[each] > restored[each] for each in GROUPS)
