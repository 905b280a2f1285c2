"""The same code on a cluster: a master, two workers, and the project as a zipped wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_pipeline.folders import identity_of
from offsetd_storage.files import OsFiles
from spark.node_folders import NODES, nodes_of
from spark.standalone_cluster import WORKERS, Cluster, running_cluster, zipped_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator

DRIVER = Path(__file__).with_name("cluster_driver.py")
RUN_S_MAX = 300


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return zipped_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def cluster(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def run(cluster: Cluster, *arguments: str | Path) -> str:
    """What a program on the cluster prints: its driver is here, its tasks are there."""
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": str(cluster.python),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_nodes_of_the_cluster_have_nothing_of_ours(cluster: Cluster) -> None:
    looked = [cluster.python, "-c", "import pyarrow, numba, offsetd_pipeline"]
    done = subprocess.run(looked, capture_output=True, text=True, check=False)
    assert "No module named 'offsetd_pipeline'" in done.stderr


def test_the_folders_of_many_nodes_are_read_by_many_workers(
    cluster: Cluster, package: Path, golden: Path, tmp_path: Path
) -> None:
    nodes = nodes_of(golden, tmp_path)
    assert len({identity_of(OsFiles(), node) for node in nodes}) == 1
    printed: dict[str, Any] = json.loads(run(cluster, DRIVER, cluster.master_url, package, *nodes))
    answers = json.loads((golden / "answers.json").read_text(encoding="utf-8"))
    expected = {
        (group, each["topic"], each["partition"], each["offset"])
        for group, offsets in answers["offsets"].items()
        for each in offsets
    }
    # The client that asked the broker lists an offset of -1 for none.
    found = [tuple(row[:4]) for row in printed["rows"]]
    assert set(found) >= expected
    assert len(found) == len(set(found))
    assert {row[4] for row in printed["rows"]} == {f"node-{number}" for number in range(NODES)}
    folders, files = zip(*printed["where"], strict=True)
    assert len(set(folders)) == WORKERS
    assert all("offsetd.zip" in file for file in files)
