"""Measures reads of a large log as Spark tables: all records, and the current offsets.

Two other sources are measured for comparison. The first yields prepared Arrow batches, of the same
schema, with as many rows, in as many tasks: it shows the limit of Spark itself. The second reads a
part of the log without this package: with Spark's `binaryFile` source and a parser in plain Python,
which makes the same rows and columns, or, for `current`, the newest of each key from them. Each
table is written to Spark's `noop` sink, in a warm session.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from offsetd_pipeline import register
from offsetd_pipeline.source import OffsetdSource
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from benchmarks.harness import plain_reader
from benchmarks.harness.generate_log import generate
from benchmarks.harness.our_server import read_into_cache
from benchmarks.harness.rounds import Spread, interleave, ratios
from benchmarks.load import SHAPES, _scaled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType


_PLAIN_SHARE: Final = 0.1  # The share of the log that plain Python reads in about half a minute.


class ReadyMade(DataSource):
    """A source that yields the first batch of each task repeatedly."""

    @classmethod
    def name(cls) -> str:
        return "ready_made"

    def schema(self) -> StructType:
        return self._source().schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return ReadyMadeReader(self._source().reader(schema), int(self.options["rows"]))

    def _source(self) -> OffsetdSource:
        return OffsetdSource({"path": self.options["path"], "mode": "raw"})


class ReadyWork(InputPartition):
    """The work of one task of the table, and the number of rows that it yields here."""

    def __init__(self, work: InputPartition, rows: int) -> None:
        super().__init__(None)
        self.work = work
        self.rows = rows


class ReadyMadeReader(DataSourceReader):
    """Divides the rows evenly among the tasks."""

    def __init__(self, source: DataSourceReader, rows: int) -> None:
        self._source = source
        self._rows = rows

    def partitions(self) -> Sequence[ReadyWork]:
        works = self._source.partitions()
        each, more = divmod(self._rows, len(works))
        return [ReadyWork(work, each + (place < more)) for place, work in enumerate(works)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ReadyWork), "what was planned is read"
        batch: Any = next(iter(self._source.read(partition.work)))
        left = partition.rows
        while left > 0:
            yield batch.slice(0, min(left, batch.num_rows))
            left -= batch.num_rows


def run(*, rounds: int, scale: float) -> dict[str, object]:
    """Log bytes and rows a second, and the ratios."""
    spark = session()
    found: dict[str, object] = {}
    for name, shape in SHAPES.items():
        with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".benchmark-") as folder:
            size = generate(Path(folder), _scaled(shape, scale))
            read_into_cache(Path(folder))
            found.update(_compare(spark, name, folder, size, rounds))
        with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".benchmark-") as folder:
            size = generate(Path(folder), _scaled(shape, scale * _PLAIN_SHARE))
            found.update(_compare_plain(spark, name, folder, size, rounds))
    spark.stop()
    return found


def _compare(
    spark: SparkSession, name: str, folder: str, size: int, rounds: int
) -> dict[str, object]:
    tables = {
        mode: spark.read.format("offsetd").option("mode", mode) for mode in ("raw", "current")
    }
    rows = tables["raw"].load(folder).count()
    ready = spark.read.format("ready_made").option("rows", rows)
    contestants = {
        "ready-made": lambda: _seconds(ready.load(folder)),
        "raw": lambda: _seconds(tables["raw"].load(folder)),
        "current": lambda: _seconds(tables["current"].load(folder)),
    }
    assert ready.load(folder).count() == rows, "there are as many rows"
    for warm in contestants.values():
        warm()
    seconds = interleave(contestants, rounds=rounds)
    title = f"{name}, {size / 1e9:.2f} GB"
    found: dict[str, object] = {
        f"{title}: {side}, MB/s": Spread.of([size / 1e6 / each for each in figures])
        for side, figures in seconds.items()
    }
    found[f"{title}: raw, M rows/s"] = Spread.of([rows / 1e6 / each for each in seconds["raw"]])
    found[f"{title}: raw over ready-made"] = ratios(seconds["ready-made"], seconds["raw"])
    found[f"{title}: current over raw"] = ratios(seconds["raw"], seconds["current"])
    return found


def _compare_plain(
    spark: SparkSession, name: str, folder: str, size: int, rounds: int
) -> dict[str, object]:
    ours = {mode: spark.read.format("offsetd").option("mode", mode) for mode in ("raw", "current")}
    plain = {
        "raw": plain_reader.table(spark, folder),
        "current": plain_reader.newest(plain_reader.table(spark, folder)),
    }
    ours["raw"].option("columns", ",".join(plain_reader.COLUMNS))
    for mode, table in plain.items():
        assert ours[mode].load(folder).count() == table.count(), "both find as many rows"
    contestants = {
        **{mode: lambda mode=mode: _seconds(ours[mode].load(folder)) for mode in ours},
        **{
            f"plain Python, {mode}": lambda table=table: _seconds(table)
            for mode, table in plain.items()
        },
    }
    seconds = interleave(contestants, rounds=rounds)
    title = f"{name}, {size / 1e9:.2f} GB"
    found: dict[str, object] = {
        f"{title}: {side}, MB/s": Spread.of([size / 1e6 / each for each in figures])
        for side, figures in seconds.items()
    }
    for mode in plain:
        found[f"{title}: {mode} over plain Python"] = ratios(
            seconds[f"plain Python, {mode}"], seconds[mode]
        )
    return found


def _seconds(table: Any) -> float:
    started = time.monotonic()
    table.write.format("noop").mode("overwrite").save()
    return time.monotonic() - started


def session() -> SparkSession:
    """Makes a small local session that knows the format."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    for module in (sys.modules[__name__], plain_reader):
        cloudpickle.register_pickle_by_value(module)
    builder: Any = SparkSession.builder
    spark: SparkSession = (
        builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    register(spark)
    spark.dataSource.register(ReadyMade)
    return spark
