"""A folder that a real server writes and cleans meanwhile gives whole answers.

Each commit writes all partitions with one number, in one batch: in no whole answer do they differ.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from live_writers import PARTITIONS, SETTINGS, Writer, segments
from offsetd.v1 import offset_service_pb2
from offsetd_pipeline.source import OffsetdSource
from server_process import ServerProcess, Stubs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

LOOKS_MIN = 20
CHANGES_MIN = 3
SECONDS_MAX = 60.0


def rows(folder: Path, mode: str) -> Iterator[dict[str, Any]]:
    """As an executor reads them, without Spark, so that there can be many looks."""
    source = OffsetdSource({"path": str(folder), "mode": mode})
    reader = source.reader(source.schema())
    for work in reader.partitions():
        for batch in reader.read(work):
            yield from batch.to_pylist()


def check_current(found: list[Any], at_least: int) -> int:
    """That the answer is one commit's, and none before an earlier answer; returns its number."""
    if not found:
        return at_least
    assert sorted(row["partition"] for row in found) == list(range(PARTITIONS))
    [number] = {row["offset"] for row in found}
    assert number >= at_least
    return int(number)


def test_no_answer_is_wrong_while_a_server_commits_and_cleans(
    tmp_path: Path, spark: SparkSession, read: Callable[..., DataFrame]
) -> None:
    folder = tmp_path / "offsets"
    looks, changes, number = 0, 0, 0
    with ServerProcess(folder, settings=SETTINGS) as server:
        server.wait_until_serving()
        with server.channel() as channel, Writer(Stubs(channel)) as writer:
            seen = segments(folder)
            until = time.monotonic() + SECONDS_MAX
            while (looks < LOOKS_MIN or changes < CHANGES_MIN) and time.monotonic() < until:
                number = check_current(list(rows(folder, "current")), number)
                assert number <= writer.acknowledged + 1
                check_history(list(rows(folder, "history")))
                looks += 1
                changes += (now := segments(folder)) != seen
                seen = now
            in_spark = [row.asDict() for row in read(folder, "current").collect()]
            number = check_current(in_spark, number)
        assert looks >= LOOKS_MIN
        assert changes >= CHANGES_MIN, "nothing was cleaned meanwhile"
        assert server.stop() == 0
    stopped = [row.asDict() for row in read(folder, "current").collect()]
    assert check_current(stopped, number) == writer.acknowledged


def check_history(found: list[dict[str, Any]]) -> None:
    """That nothing comes twice, and each partition's numbers grow with the log."""
    places = [row["log_offset"] for row in found]
    assert len(set(places)) == len(places)
    for partition in range(PARTITIONS):
        mine = [row for row in found if row["partition"] == partition]
        mine.sort(key=lambda row: row["log_offset"])
        numbers = [row["offset"] for row in mine]
        assert numbers == sorted(numbers)
    if found:
        # The newest of each partition is of one commit, for a batch is there as a whole.
        newest = {row["partition"]: row["offset"] for row in sorted(found, key=by_log_offset)}
        assert len(set(newest.values())) == 1


def by_log_offset(row: dict[str, Any]) -> int:
    return int(row["log_offset"])


def test_a_running_server_is_asked_for_what_it_has(
    tmp_path: Path, spark: SparkSession, in_utc: None
) -> None:
    with ServerProcess(tmp_path / "offsets") as server:
        server.wait_until_serving()
        with server.channel() as channel:
            stubs = Stubs(channel)
            for group in ("one", "two"):
                offsets = [
                    offset_service_pb2.OffsetCommit(
                        topic=topic, partition=3, offset=7, metadata="m", leader_epoch=2
                    )
                    for topic in ("orders", "größe")
                ]
                stubs.offsets.CommitOffsets(
                    offset_service_pb2.CommitOffsetsRequest(group_id=group, offsets=offsets)
                )
            table = spark.read.format("offsetd").option("server", server.address).load()
            whole = table.collect()
            of_one = table.where("group = 'one' AND topic = 'orders'").collect()
        assert server.stop() == 0
    in_folder = spark.read.format("offsetd").load(str(tmp_path / "offsets"))
    columns = [name for name in table.columns if name != "log_partition"]
    by_name = sorted(map(repr, in_folder.select(*columns).collect()))
    assert sorted(repr(row) for row in table_rows(whole, columns)) == by_name
    assert [(row.group, row.topic, row.partition, row.offset) for row in of_one] == [
        ("one", "orders", 3, 7)
    ]


def table_rows(whole: list[Any], columns: list[str]) -> Iterator[Any]:
    from pyspark.sql import Row

    for row in whole:
        yield Row(**{name: row[name] for name in columns})
