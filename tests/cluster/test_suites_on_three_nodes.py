"""Tests of one server, run on three nodes and three brokers: callers see no difference.

What is about one server's port, process or memory has the marker `single_server` and is skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from chance import chosen
from cluster.suites_of_servers import LEFT_OUT, ON_THREE_NODES

if TYPE_CHECKING:
    from cluster.real_cluster import RealCluster

pytestmark = pytest.mark.long(minutes=4)

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("fault", "promises")
"""Whose suites start servers and are about what callers see."""
CHOSEN: Final = 2
"""So many run for each commit, and all at night: each takes about a minute."""


@pytest.mark.kafka
@pytest.mark.parametrize("suite", chosen("suites on three nodes", ON_THREE_NODES, CHOSEN))
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


def test_every_suite_of_servers_runs_on_nodes_or_says_why_not() -> None:
    suites = {
        str(path.relative_to(ROOT))
        for folder in FOLDERS
        for path in (ROOT / "tests" / folder).glob("test_*.py")
        if "ServerProcess(" in path.read_text()
    }
    assert suites - set(ON_THREE_NODES) == set(LEFT_OUT)
    missing = [each for each in ON_THREE_NODES if not (ROOT / each).is_file()]
    assert not missing
