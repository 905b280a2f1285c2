"""The folders of many nodes are one table: copies of a log count once, other logs each."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from offsets_logs import random_log, write_log
from spark.node_folders import NODES, nodes_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

CURRENT = ("group", "topic", "partition", "offset", "metadata", "log_partition", "log_offset")


def load(spark: SparkSession, folders: list[Path], mode: str) -> DataFrame:
    return spark.read.format("offsetd").option("mode", mode).load([str(each) for each in folders])


def rows_of(table: DataFrame, columns: tuple[str, ...]) -> list[Any]:
    return sorted(map(tuple, table.select(*columns).collect()), key=repr)


def test_a_clusters_folders_say_what_the_broker_said(
    spark: SparkSession, read: Callable[..., DataFrame], golden: Path, tmp_path: Path
) -> None:
    table = load(spark, nodes_of(golden, tmp_path), "current")
    expected = rows_of(read(golden / "data", "current"), CURRENT)
    assert len(expected) > 100
    assert rows_of(table, CURRENT) == expected
    assert {row.folder.rpartition("/")[2] for row in table.collect()} == {
        f"node-{number}" for number in range(NODES)
    }


@pytest.mark.parametrize("mode", ["current", "history", "groups", "raw"])
def test_servers_that_know_nothing_of_each_other_are_each_read(
    spark: SparkSession, read: Callable[..., DataFrame], tmp_path: Path, mode: str
) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for seed, folder in enumerate(folders):
        write_log(folder, random_log(random.Random(seed), batches=40))
    table = load(spark, folders, mode)
    columns = tuple(name for name in table.columns if name != "folder")
    for folder in folders:
        alone = read(folder, mode)
        assert alone.columns == list(columns)
        mine = table.where(table.folder == str(folder))
        assert rows_of(mine, columns) == rows_of(alone, columns)
    assert table.count() == sum(read(folder, mode).count() for folder in folders)


def test_a_folder_is_a_column_only_of_several(spark: SparkSession, golden: Path) -> None:
    one = spark.read.format("offsetd").load([str(golden / "data")])
    assert "folder" not in one.columns
