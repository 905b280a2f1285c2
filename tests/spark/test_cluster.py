"""The same code on a cluster: a master, two workers, and the project as a zipped wheel."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from chance import chosen
from offsetd_pipeline.folders import identity_of
from offsetd_storage.disk.files import OsFiles
from server_process import ServerProcess
from spark.node_folders import NODES, nodes_of
from spark.standalone_cluster import WORKERS, Cluster, running_cluster, zipped_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.long(minutes=1)

DRIVER = Path(__file__).with_name("cluster_driver.py")
RUN_S_MAX = 900  # Executors compile their kernels first.


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
    # 3: done, but for groups that the program names.
    assert done.returncode in {0, 3}, done.stderr[-4000:]
    return done.stdout


def test_nodes_of_the_cluster_have_nothing_of_ours(cluster: Cluster) -> None:
    for ours_or_not_listed in ("offsetd_pipeline", "kazoo", "typer"):
        looked = [cluster.python, "-c", f"import pyarrow, numba, {ours_or_not_listed}"]
        done = subprocess.run(looked, capture_output=True, text=True, check=False)
        assert f"No module named {ours_or_not_listed!r}" in done.stderr


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


def test_every_job_runs_where_executors_have_only_the_listed_libraries(
    cluster: Cluster, package: Path, golden: Path, tmp_path: Path
) -> None:
    on_cluster = ("--master", cluster.master_url, "--py-files", package)
    data, archive = golden / "data", tmp_path / "archive"
    with ServerProcess(tmp_path / "server").wait_until_serving() as server:
        moving = ("migrate", data, "--to", server.address, "--state", tmp_path / "moving")
        restore = ("restore", archive, "--address", server.address, "--at", "2100-01-01T00:00")
        jobs: list[list[tuple[object, ...]]] = [
            [("audit", data, "--report", tmp_path / "audited")],
            [("archive", data, "--to", archive), restore],
            [("compare", data, data, "--report", tmp_path / "compared")],
            [(*moving, "--execute", "--report", tmp_path / "migrated")],
        ]
        for job in itertools.chain(*chosen("jobs of a cluster", jobs, 2)):
            run(cluster, "-m", "offsetd_pipeline", *job, *on_cluster)
