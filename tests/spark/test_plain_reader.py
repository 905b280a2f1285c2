"""What the benchmark of tables has beside ours makes the same tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark import cloudpickle

from benchmarks.harness import plain_reader
from benchmarks.harness.generate_log import Shape, generate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

LOG = Shape(
    records=2_000, batch=10, keys=400, partitions_per_group=20, partitions=3, segment_bytes=50_000
)


@pytest.mark.parametrize("mode", ["raw", "current"])
def test_a_plain_reader_says_what_ours_says(
    spark: SparkSession, read: Callable[..., DataFrame], tmp_path: Path, mode: str
) -> None:
    generate(tmp_path, LOG)
    cloudpickle.register_pickle_by_value(plain_reader)
    plain = plain_reader.table(spark, str(tmp_path))
    if mode == "current":
        plain = plain_reader.newest(plain)
    ours = read(tmp_path, mode).select(*plain.columns)
    place = ("log_partition", "log_offset")
    rows = plain.orderBy(*place).collect()
    assert rows == ours.orderBy(*place).collect()
    assert len(rows) > LOG.keys / 2
