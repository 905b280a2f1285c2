"""`python -m offsetd_pipeline checkpoint` on a checkpoint that Spark wrote, and a real server."""

from __future__ import annotations

import json
import shutil
from functools import partial
from typing import TYPE_CHECKING

import pytest
from offsetd_clients import OffsetClient, TopicPartition
from server_process import ServerProcess
from spark_events import QUERY, SPARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cli_calls import Ended
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server")) as it:
        yield it.wait_until_serving()


@pytest.fixture
def job(
    job: Callable[..., Ended], server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ended]:
    monkeypatch.setenv("OFFSETD_ADDRESS", server.address)
    return partial(job, "checkpoint")


def test_a_checkpoint_is_shown_and_then_imported(
    spark: SparkSession, job: Callable[..., Ended], server: ServerProcess
) -> None:
    path = str(SPARK / "two-sources")
    with OffsetClient(server.address) as client:
        client.commit("billing", {TopicPartition("orders", 0): 4, TopicPartition("orders", 1): 99})
        shown = job(path, "--group", "billing", "-o", "json")
        rows = {(each["topic"], each["partition"]): each for each in json.loads(shown.stdout)}
        assert shown.code == 0
        assert rows["orders", 0] == {
            "group": "billing",
            "topic": "orders",
            "partition": 0,
            "offset": 4,
            "new_offset": 10,
            "change": "ahead",
        }
        assert rows["orders", 1]["change"] == "held back"
        assert rows["payments", 0]["change"] == "new"
        assert f"query {QUERY}, batch 3" in shown.stderr
        assert f"checkpoint {path} --group billing --output json --execute" in shown.stderr
        assert client.fetch("billing")[TopicPartition("orders", 0)].offset == 4

        done = job(f"file://{path}", "--group", "billing", "--execute")
        assert (done.code, "dry run" in done.stderr) == (0, False)
        offsets = {str(at): stored.offset for at, stored in client.fetch("billing").items()}
        assert offsets == {
            "orders:0": 10,
            "orders:1": 99,
            "orders:2": 15,
            "payments:0": 5,
            "payments:1": 5,
        }
        back = job(path, "--group", "billing", "--execute", "--allow-back", "-o", "json")
        assert [each["change"] for each in json.loads(back.stdout)] == ["back"]
        assert "4 are there already" in back.stderr


def test_what_was_planned_and_what_is_passed_over_is_said(
    job: Callable[..., Ended], tmp_path: Path
) -> None:
    shutil.copytree(SPARK / "two-sources", tmp_path / "begun")
    (tmp_path / "begun" / "commits" / "3").unlink()
    path = str(tmp_path / "begun")
    assert "batch 3 is planned, and may be done in part" in job(path, "--group", "g").stderr
    planned = job(path, "--group", "g", "--through", "planned")
    assert "batch 3 may be done in part: what is not will not be read" in planned.stderr
    passed_over = job(str(SPARK / "with-rate"), "--group", "g").stderr
    assert "source 1 is passed over: these are not offsets of topics: 0" in passed_over


def test_what_is_no_checkpoint_is_one_line(
    spark: SparkSession, job: Callable[..., Ended], tmp_path: Path
) -> None:
    for path in (str(tmp_path), f"file://{tmp_path}"):
        ended = job(path, "--group", "g")
        assert ended.code == 1
        assert (
            ended.stderr == f"error: {path} is not a checkpoint with a batch: it has no offsets/0\n"
        )
