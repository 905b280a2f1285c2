"""The Spark guide's blocks work word for word, in its order."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from offsetd_clients import OffsetClient, TopicPartition
from server_process import ServerProcess

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "spark.md"
SCHEMA = "group string, topic string, partition int, offset long"


def test_the_guides_blocks_read_view_and_write(
    spark: SparkSession,
    golden: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = GUIDE.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    reading, view, streaming, secured, writing = blocks
    # Other tests have tables and queries of their own, and servers with TLS.
    assert "readStream" in streaming
    assert "tls_ca_file" in secured
    shutil.copytree(golden / "data", tmp_path / "offsetd-data")
    rows = [("guide", "t", 0, 7), ("guide", "t", 1, 8)]
    spark.createDataFrame(rows, SCHEMA).write.parquet(str(tmp_path / "offsets.parquet"))
    monkeypatch.chdir(tmp_path)
    with ServerProcess(tmp_path / "server") as server, OffsetClient(server.address) as client:
        names = {"spark": spark}
        for block in (reading, view, writing):
            placed = block.replace("127.0.0.1:7171", server.address)
            for name in ("offsetd-data", "offsets.parquet"):  # The JVM stays where it began.
                placed = placed.replace(name, str(tmp_path / name))
            exec(placed, names)
        assert client.fetch("guide")[TopicPartition("t", 1)].offset == 8
        server.stop_well()
    printed = capsys.readouterr().out
    assert "|group|" in printed.replace(" ", "")
    assert "2 0 {}" in printed
