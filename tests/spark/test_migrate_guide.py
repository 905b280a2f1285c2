"""The guide's commands work as they stand there."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from offsetd_clients import OffsetClient, TopicPartition
from offsetd_clients.cli.application import run
from offsetd_clients.cli.printing.terminal import Terminal
from offsetd_pipeline.jobs.application import JOBS
from server_process import ServerProcess

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "spark-migrate.md"
EXPORT = """\
/consumers/billing/offsets/orders/0:42
/consumers/billing/offsets/orders/1:17
/consumers/shipping/offsets/orders/0:5
"""


def test_the_guides_commands_do_what_it_says(
    spark: SparkSession, golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = GUIDE.read_text(encoding="utf-8")
    commands = [
        line
        for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
        for line in block.splitlines()
    ]
    [shown] = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    assert len(commands) == 5
    shutil.copytree(golden / "data", tmp_path / "broker-data")
    (tmp_path / "export.txt").write_text(EXPORT)
    monkeypatch.chdir(tmp_path)
    with ServerProcess(tmp_path / "server") as server:
        server.wait_until_serving()
        with OffsetClient(server.address) as client:
            where = [TopicPartition("orders", each) for each in (0, 1)]
            client.commit("billing", {where[0]: 42, where[1]: 20})
            told = [called(each, server.address, monkeypatch) for each in commands[:2]]
            assert [code for code, _ in told] == [1, 1]
            assert told[0][1] == shown
            client.delete_group("billing")
            told = [called(each, server.address, monkeypatch) for each in commands[2:]]
            assert [code for code, _ in told] == [0, 0, 0], told
            assert client.fetch("billing")[where[1]].offset == 17
    for name in ("groups.parquet", "differences.parquet"):
        assert (tmp_path / "compared" / name).exists()


def called(line: str, address: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    words = shlex.split(line.replace("127.0.0.1:7171", address))
    assert words[:3] == ["python", "-m", "offsetd_pipeline"]
    monkeypatch.setattr(sys, "argv", words[2:])
    out = StringIO()
    code = run(Terminal(out, out), JOBS)
    return code, out.getvalue()
