"""Offsets in bulk to a real server, also when the job, or the server, is killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_clients import OffsetClient, TopicPartition
from offsetd_pipeline.comparison import compare
from offsetd_pipeline.migration import (
    BadPlanFolder,
    Migration,
    MigrationOptions,
    PlanMismatch,
    opened_migration,
)
from offsetd_pipeline.offset_sources import SourceOptions, named_source
from offsetd_pipeline.server_options import ServerOptions
from ports import free_ports
from server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cli_calls import Ended
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long(minutes=3)

GROUPS, PARTITIONS = 120, 50
SECONDS_MAX = 240.0
RATE = 1000.0
LOOK_S = 0.2


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "server") as it:
        yield it.wait_until_serving()


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """A file of ExportZkOffsets."""
    path = tmp_path / "export.txt"
    lines = (
        f"/consumers/group-{group}/offsets/orders/{partition}:{group * partition}\n"
        for group in range(GROUPS)
        for partition in range(PARTITIONS)
    )
    path.write_text("".join(lines))
    return path


@contextmanager
def migration(
    spark: SparkSession, source: Path, address: str, folder: Path, **options: Any
) -> Iterator[Migration]:
    with opened_migration(
        *(spark, named_source(str(source)), ServerOptions(server=address), folder),
        MigrationOptions(**options),
        SourceOptions(),
    ) as it:
        yield it


def stored(address: str, count: int = GROUPS) -> dict[str, dict[TopicPartition, tuple[int, int]]]:
    """Offset and revision of all that the groups have."""
    with OffsetClient(address) as client:
        found = client.fetch_many(f"group-{each}" for each in range(count))
    return {
        group: {where: (each.offset, each.revision) for where, each in offsets.items()}
        for group, offsets in found.items()
        if offsets
    }


def until_some_are_stored(address: str, is_over: Callable[[], bool]) -> None:
    """Looks now and then: the server has something else to do."""
    until_s = time.monotonic() + SECONDS_MAX
    while not stored(address) and not is_over():
        assert time.monotonic() < until_s
        time.sleep(LOOK_S)


def check_whole(
    spark: SparkSession, export: Path, address: str, before: dict[str, Any] | None = None
) -> None:
    """All is there, and what was there already was not written again."""
    now = stored(address)
    assert len(now) == GROUPS
    assert all(len(offsets) == PARTITIONS for offsets in now.values())
    for group, offsets in (before or {}).items():
        assert now[group] == offsets
    with compare(spark, named_source(str(export)), named_source(address)) as found:
        assert found.is_same, found.counts
        assert found.same_count == GROUPS * PARTITIONS


def test_the_job_shows_does_and_verifies_and_a_second_run_does_nothing(
    spark: SparkSession,
    job: Callable[..., Ended],
    server: ServerProcess,
    export: Path,
    tmp_path: Path,
) -> None:
    command = ["migrate", str(export), "--to", server.address, "--state", str(tmp_path / "state")]
    shown = job(*command, "-o", "json", "--report", str(tmp_path / "dry"))
    assert shown.code == 0, shown.stderr
    count = GROUPS * PARTITIONS
    would = {"outcome": "would-migrate", "groups": GROUPS, "offsets": count}
    assert json.loads(shown.stdout) == [would]
    does_it = f"python -m offsetd_pipeline {' '.join(command)}"
    assert f"{does_it} --report {tmp_path / 'dry'} --output json --execute" in shown.stderr
    assert stored(server.address) == {}
    done = job(*command, "--execute", "-o", "json", "--report", str(tmp_path / "done"))
    assert done.code == 0, done.stderr
    assert json.loads(done.stdout) == [would | {"outcome": "migrated"}]
    assert f"verified: {count:,} offsets, 0 differ" in done.stderr
    before = stored(server.address)
    check_whole(spark, export, server.address)
    with OffsetClient(server.address) as client:
        assert client.get_group("group-7").retention == "never"
        audited = [each.reason for each in client.list_audit_events(group_id="group-7")]
        assert any(each.startswith("migration by plan ") for each in audited)
        client.commit("group-3", {TopicPartition("orders", 1): 1000})
    moved = job(*command, "--execute", "--overwrite", "ahead")
    assert (moved.code, "has a plan with overwrite" in moved.stderr) == (1, True)
    again = job(*command, "--execute")
    assert (again.code, "1 differ: 1 ahead" in again.stderr) == (1, True)
    allowed = job(*command, "--verify", "--allow-ahead", "--report", str(tmp_path / "verified"))
    assert allowed.code == 0
    assert f"verified: {count:,} offsets, 0 differ, 1 ahead, as allowed" in allowed.stderr
    page = (tmp_path / "verified" / "report.html").read_text()
    assert ("All 6,000 offsets stand" in page, "5,999 of 6,000 offsets as planned" in page) == (
        False,
        True,
    )
    assert "1 offset further by now, which was allowed" in page
    now = stored(server.address)
    assert now.pop("group-3")[TopicPartition("orders", 1)][0] == 1000
    assert now == {group: each for group, each in before.items() if group != "group-3"}
    for name in ("plan", "outcomes"):
        assert spark.read.parquet(str(tmp_path / "done" / f"{name}.parquet")).count() > 0
    assert "All 6,000 offsets stand" in (tmp_path / "done" / "report.html").read_text()


def test_what_changes_there_between_plan_and_run_stays(
    spark: SparkSession, server: ServerProcess, export: Path, tmp_path: Path
) -> None:
    where = TopicPartition("orders", 2)
    with OffsetClient(server.address) as client:
        client.commit("group-1", {where: 5000})
        client.commit("group-2", {where: 5000})
        with migration(
            spark, export, server.address, tmp_path / "a state {1}", overwrite=frozenset({"ahead"})
        ) as it:
            header = it.plan()
            assert dict(header.counts) == {"ahead": 2, "missing": GROUPS * PARTITIONS - 2}
            client.commit("group-2", {where: 5001})
            client.commit("group-4", {where: 1})
            done = it.run(execute=True)
        assert dict(done.group_counts) == {"migrated": GROUPS - 2, "refused": 2}
        refused = {each["group"]: each["problem"] for each in done.refused.to_pylist()}
        assert set(refused) == {"group-2", "group-4"}
        assert "orders:2 is ahead here: 5001, not 4" in refused["group-2"]
        assert client.fetch("group-2")[where].offset == 5001
        assert client.fetch("group-1")[where].offset == 2
        assert list(client.fetch("group-4")) == [where]


def test_a_job_that_is_killed_goes_on_when_it_is_run_again(
    spark: SparkSession, server: ServerProcess, export: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "offsetd_pipeline", "migrate", str(export)]
    command += ["--to", server.address, "--state", str(tmp_path / "state"), "--execute"]
    command += ["--rate", str(RATE), "--master", "local[1]", "--conf", "spark.driver.memory=512m"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        until_some_are_stored(server.address, lambda: process.poll() is not None)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    before = stored(server.address)
    assert 0 < len(before) < GROUPS
    with migration(spark, export, server.address, tmp_path / "state") as it:
        assert it.header is not None
        # A new plan would take what consumers have committed since for what was there before.
        with pytest.raises(PlanMismatch, match="its plan was begun"):
            it.plan()
        done = it.run(execute=True)
        assert dict(done.group_counts) == {"migrated": GROUPS}
        assert it.verify().difference_count == 0
    check_whole(spark, export, server.address, before)


def test_a_server_that_is_killed_in_the_middle_is_gone_on_with_when_it_is_back(
    spark: SparkSession, export: Path, tmp_path: Path
) -> None:
    [port] = free_ports(1)
    settings = {"listen.address": f"127.0.0.1:{port}"}
    address = settings["listen.address"]
    options = {"rate": RATE, "timeout_s": 1.0}
    results: list[Any] = []
    with ServerProcess(tmp_path / "server", settings=settings) as server:
        server.wait_until_serving()
        with migration(spark, export, address, tmp_path / "state", **options) as it:
            it.plan()
            thread = threading.Thread(target=lambda: results.append(it.run(execute=True)))
            thread.start()
            until_some_are_stored(address, lambda: not thread.is_alive())
            server.kill()
            thread.join(SECONDS_MAX)
            [stopped] = results
            assert "no answer" in stopped.stopped_by
    with ServerProcess(tmp_path / "server", settings=settings) as server:
        server.wait_until_serving()
        before = stored(address)
        assert 0 < len(before) < GROUPS
        assert all(len(offsets) == PARTITIONS for offsets in before.values())
        with migration(spark, export, address, tmp_path / "state") as it:
            done = it.run(execute=True)
            assert (done.stopped_by, dict(done.group_counts)) == ("", {"migrated": GROUPS})
        check_whole(spark, export, address, before)


def test_a_brokers_folder_is_moved_with_commit_times(
    spark: SparkSession, server: ServerProcess, golden: Path, tmp_path: Path
) -> None:
    folder = golden / "data"
    with migration(spark, folder, server.address, tmp_path / "state", force=True) as it:
        header = it.plan()
        done = it.run(execute=True)
        assert dict(done.group_counts) == {"migrated": header.group_count}
        assert it.verify().difference_count == 0
    with compare(spark, named_source(str(folder)), named_source(server.address)) as found:
        assert found.is_same, found.farthest.to_pylist()[:3]
        assert found.same_count == header.offset_count
        of_a = {tuple(row) for row in found.a.offsets.select("group", "commit_time").collect()}
        of_b = {tuple(row) for row in found.b.offsets.select("group", "commit_time").collect()}
        assert of_a == of_b


def test_a_folder_is_of_one_migration_and_of_one_process(
    spark: SparkSession, server: ServerProcess, export: Path, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    with migration(spark, export, server.address, state) as it:
        with (
            pytest.raises(BadPlanFolder, match="another process"),
            migration(spark, export, server.address, state),
        ):
            pass
        it.plan()
        [unit] = it.folder.units("plan")
    with (
        pytest.raises(PlanMismatch, match="with server"),
        migration(spark, export, "elsewhere:1", state),
    ):
        pass
    (state / "plan" / unit).write_bytes(b"")
    with (
        pytest.raises(BadPlanFolder, match="not as it was planned"),
        migration(spark, export, server.address, state),
    ):
        pass
