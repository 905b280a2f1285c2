"""`python -m offsetd_pipeline audit`: over a broker's folder, a damaged one, and none."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli_calls import Ended
    from pyspark.sql import SparkSession

DATA = str(Path(__file__).parents[1] / "golden" / "kafka-4.1.1" / "data")
LOG = "__consumer_offsets-0/00000000000000000000.log"
A_WEEK_LATER = "2026-11-27T21:06:40"


@pytest.fixture
def call(spark: SparkSession, job: Callable[..., Ended]) -> Callable[..., Ended]:
    """Calls the job with some arguments, in the session that there is."""
    return partial(job, "audit")


def test_a_brokers_folder_is_audited_whole_as_json_and_as_a_report(
    call: Callable[..., Ended], golden: Path, tmp_path: Path
) -> None:
    folder = golden / "data"
    ended = call(str(folder), "--now", A_WEEK_LATER, "-o", "json", "--report", str(tmp_path / "r"))
    assert ended.code == 0
    found = json.loads(ended.stdout)
    assert found["thresholds"]["expiry_base"] == "kafka"
    assert found["totals"]["records"] == 700
    sizes = {
        int(path.parent.name.rpartition("-")[2]): path.stat().st_size
        for path in folder.glob("__consumer_offsets-*/*.log")
        if path.stat().st_size
    }
    told = {
        row["log_partition"]: row["log_bytes"]
        for row in found["tables"]["log_partitions"]
        if row["log_bytes"]
    }
    assert told == sizes
    assert found["tables"]["strange"] == found["tables"]["damage"] == []
    expired = {row["group"]: row["expired"] for row in found["tables"]["expiring"]}
    assert expired["billing-3"] == 14
    assert {each["level"] for each in found["findings"]} == {"warning", "note", "good"}
    assert ended.stderr == f"report: {tmp_path}/r/report.html\n"
    page = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    assert "About to expire" in page
    for name, rows in found["tables"].items():
        if name != "damage":  # It has no section where there is none.
            assert pq.read_table(tmp_path / "r" / f"{name}.parquet").num_rows == len(rows)


def test_damage_fails_or_is_told_and_exits_with_3(
    call: Callable[..., Ended], golden: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    shutil.copytree(golden / "data" / "__consumer_offsets-0", folder / "__consumer_offsets-0")
    (folder / LOG).chmod(0o644)
    content = bytearray((folder / LOG).read_bytes())
    content[248] ^= 1
    (folder / LOG).write_bytes(content)
    ended = call(str(folder))
    assert ended.code == 1
    assert f"{folder / LOG}: a batch is damaged (BAD_CHECKSUM) at byte 148" in ended.stderr
    assert "--on-damage skip" in ended.stderr
    assert "Traceback" not in ended.stderr
    ended = call(str(folder), "--on-damage", "skip", "--top", "2")
    assert ended.code == 3
    header, *lines = ended.stdout.splitlines()
    assert header.split() == ["LEVEL", "FINDING"]
    assert lines[0].startswith("warning  1.1 KiB of the log are damaged, in 1 place")
    assert "Of 1 damaged log partition it is not known what a cleaner would do: 0." in lines[1]
    assert "Log partitions" in lines


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nowhere",), 1, "nowhere does not exist"),
        (("nowhere", "--retention", "soon"), 2, "'soon' is not a time like"),
        (("nowhere", "--now", "noon"), 2, "'noon' is not a time like"),
        (("nowhere", "--on-damage", "ignore"), 2, "'ignore'"),
        ((DATA, "--end-offsets", "ends.txt"), 1, "are read from .csv"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(
    call: Callable[..., Ended],
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    ended = call(*arguments)
    assert ended.code == code
    printed = ended.stderr + capsys.readouterr().err  # Wrong use is told by the parser.
    assert said in printed
    assert "Traceback" not in printed
