"""Writes a million offsets of Parquet files, in random order, to a local server with Spark.

It writes them once as groups of 50 partitions, and once with a group for each offset, in a warm
session. Each round writes to an empty server. It also writes the same rows to Spark's `noop` sink,
and measures their size on the way to the driver.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offsetd_pipeline.writing.columns import WriteMode, WrittenColumns
from offsetd_pipeline.writing.packed_rows import TaskRows

from benchmarks.harness.our_server import serving
from benchmarks.harness.rounds import Spread, interleave
from benchmarks.spark_tables import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OFFSETS = 1_000_000
SHAPES = {"50 partitions a group": 50, "1 partition a group": 1}
_GROUP = "concat('consumers-of-', id div {partitions}) AS group"
_WARM_UP_OFFSETS = 20_000


def run(*, rounds: int, scale: float) -> dict[str, object]:
    """Offsets a second, and bytes an offset."""
    spark = session()
    count = max(_WARM_UP_OFFSETS, int(OFFSETS * scale))
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".benchmark-") as folder:
        for name, partitions in SHAPES.items():
            table = _table(spark, f"{folder}/{partitions}", count, partitions)
            _write(table.limit(_WARM_UP_OFFSETS), Path(folder))
            seconds = interleave(
                {
                    f"{name}, to noop": lambda table=table: _to_noop(table),
                    name: lambda table=table: _write(table, Path(folder)),
                },
                rounds=rounds,
            )
            for contestant, figures in seconds.items():
                rates = [count / each for each in figures]
                found[f"{contestant}, offsets/s"] = Spread.of(rates)
            found[f"{name}, bytes an offset to the driver"] = round(_packed_bytes(table) / count, 1)
    spark.stop()
    return found


def _table(spark: SparkSession, path: str, count: int, partitions: int) -> DataFrame:
    made = spark.range(count).selectExpr(
        _GROUP.format(partitions=partitions),
        "'orders' AS topic",
        f"cast(id % {partitions} AS int) AS partition",
        "cast(rand(7) * 1e9 AS bigint) AS offset",
        "7 AS leader_epoch",
    )
    made.orderBy("offset").repartition(8).write.parquet(path)
    return spark.read.parquet(path)


def _write(table: Any, folder: Path) -> float:
    with (
        tempfile.TemporaryDirectory(dir=folder) as offsets,
        serving(Path(offsets) / "offsets") as server,
    ):
        started = time.monotonic()
        table.write.format("offsetd").option("server", server.address).mode("append").save()
        return time.monotonic() - started


def _to_noop(table: Any) -> float:
    started = time.monotonic()
    table.write.format("noop").mode("overwrite").save()
    return time.monotonic() - started


def _packed_bytes(table: DataFrame) -> int:
    columns = WrittenColumns.of(table.schema, WriteMode.OVERWRITE, keep_commit_times=False)
    rows = TaskRows(columns)
    for batch in table.toArrow().to_batches():
        rows.add(batch)
    return len(rows.packed().rows or b"")
