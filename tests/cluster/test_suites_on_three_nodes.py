"""Tests of one server, run on three nodes and three brokers: callers see no difference.

Stubs of such a test are on an `OwnersChannel`, which finds the owner of each group as a client
does. What is about one server's port, process or memory has the marker `single_server` and is
skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from chance import chosen

if TYPE_CHECKING:
    from cluster.real_cluster import RealCluster

pytestmark = [pytest.mark.kafka, pytest.mark.long(minutes=4)]

ROOT: Final = Path(__file__).parents[2]
SUITES: Final = (
    "tests/fault/test_bad_input.py",
    "tests/fault/test_clients.py",
    "tests/fault/test_commit_guards.py",
    "tests/fault/test_consumer.py",
    "tests/fault/test_leases.py",
    "tests/fault/test_membership.py",
    "tests/fault/test_offset_changes.py",
    "tests/fault/test_reasons.py",
    "tests/interop/test_cli_streams.py",
    "tests/interop/test_zookeeper_migration.py",
    "tests/promises/test_command_line_reference.py",
    "tests/promises/test_commit_storms.py",
    "tests/promises/test_history_guide.py",
    "tests/promises/test_resetting_a_group.py",
)
CHOSEN: Final = 2
"""So many run for each commit, and all at night: each takes about a minute."""


@pytest.mark.parametrize("suite", chosen("suites on three nodes", SUITES, CHOSEN))
def test_it_holds_on_three_nodes(real_cluster: RealCluster, suite: str, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "OFFSETD_TEST_BROKERS": real_cluster.addresses,
        # Pytest's own variables of this process are not meant for another one.
        "PYTEST_ADDOPTS": "-p no:cacheprovider -p no:xdist",
    }
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", suite, f"--basetemp={tmp_path / 'inner'}"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-20_000:]
    assert " passed" in ended.stdout
