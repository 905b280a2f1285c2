"""A program for a cluster: `MASTER ZIP FOLDER...`. Prints what the tables have, and who read."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offsetd_pipeline import register
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Iterator


def where(_: Iterator[int]) -> Iterator[tuple[str, str]]:
    import offsetd_pipeline

    yield os.getcwd(), offsetd_pipeline.__file__


def main() -> None:
    master, package, *folders = sys.argv[1:]
    builder: Any = SparkSession.builder
    session = (
        builder.master(master)
        .config("spark.submit.pyFiles", package)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    register(session)
    table = session.read.format("offsetd").option("range_bytes", "4096").load(folders)
    rows = [
        (row.group, row.topic, row.partition, row.offset, Path(row.folder).name)
        for row in table.collect()
    ]
    # As many tasks as make both workers take one.
    tasks = session.sparkContext.parallelize(range(16), 16)
    found = tasks.mapPartitions(where).distinct().collect()
    sys.stdout.write(json.dumps({"rows": rows, "where": found}) + "\n")
    session.stop()


if __name__ == "__main__":
    main()
