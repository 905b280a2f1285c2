"""The guide off ZooKeeper, run word for word but for the addresses in its first block."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from interop.requirements import no_zookeeper
from interop.test_readme import blocks
from interop.zookeeper_server import ZooKeeperUnavailable, find_runtime, running_zookeeper
from offsetd_clients import OffsetClient, TopicPartition
from server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.zookeeper

GUIDE = "docs/guides/migration-off-zookeeper.md"
STEP_SECONDS_MAX = 120
OFFSETS = {
    "/kafka/consumers/old-billing/offsets/orders/0": b"42",
    "/kafka/consumers/old-billing/offsets/orders/1": b"43",
    "/kafka/consumers/console-consumer-1/offsets/orders/0": b"7",
}


def follower(folder: Path, addresses: dict[str, str]) -> Callable[[str], None]:
    inherited = {key: value for key, value in os.environ.items() if "OFFSETD_" not in key}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    def follow(commands: str) -> None:
        ended = subprocess.run(
            ["sh", "-ec", commands],
            cwd=folder,
            env={**inherited, **addresses, "PATH": path},
            capture_output=True,
            text=True,
            timeout=STEP_SECONDS_MAX,
            check=False,
        )
        assert ended.returncode == 0, f"{commands}\n{ended.stdout}{ended.stderr}"

    return follow


def test_groups_move_off_zookeeper_and_back_as_the_guide_says(tmp_path: Path) -> None:
    try:
        runtime = find_runtime()
    except ZooKeeperUnavailable as unavailable:
        no_zookeeper(str(unavailable))
    addresses, *steps = (block.text for block in blocks(GUIDE))
    assert addresses.startswith("export OFFSETD_ADDRESS=")
    with (
        running_zookeeper(runtime, tmp_path / "zookeeper") as zookeeper,
        ServerProcess(tmp_path / "data") as server,
        zookeeper.client() as znodes,
    ):
        for path, value in OFFSETS.items():
            znodes.create(path, value, makepath=True)
        address = server.wait_until_serving().address
        follow = follower(
            tmp_path,
            {"OFFSETD_ADDRESS": address, "OFFSETD_ZOOKEEPER": f"{zookeeper.address}/kafka"},
        )
        taken: list[str] = []
        with OffsetClient(address) as client:
            for step in steps:
                if "mirror" in step:
                    znodes.set("/kafka/consumers/old-billing/offsets/orders/0", b"50")
                follow(step)
                taken += step.splitlines()
                if "cutover" in step:
                    assert client.fetch("billing")[TopicPartition("orders", 0)].offset == 50
                    assert not client.fetch("console-consumer-1")
                    client.commit("billing", {TopicPartition("orders", 1): 60})
                if "rollback" in step:
                    path = "/kafka/consumers/old-billing/offsets/orders/1"
                    assert znodes.get(path)[0] == b"60"
                    # What the mirror and a consumer have written would keep the undoing from it.
                    client.delete_group("billing")
    assert {line.split()[3] for line in taken} == {
        *("plan", "diff", "run", "verify", "mirror", "cutover", "rollback", "undo", "export")
    }
