"""Streaming queries over folders and servers: each change once, whatever happens meanwhile."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import older_sparks
import pytest
from offsetd.v1 import offset_service_pb2
from offsetd_pipeline.source import OffsetdSource
from pyspark import cloudpickle
from server_process import ServerProcess, Stubs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.long(minutes=3)

SETTINGS = {
    "offsets.topic.num.partitions": 3,
    "log.flush.offset.checkpoint.interval.ms": 50,
    "log.cleaner.enable": "false",
}
GROUPS = ("g", "h", "i", "k")
PARTITIONS = 5
SECONDS_MAX = 120


def commit(stubs: Stubs, value: int, groups: tuple[str, ...] = GROUPS) -> None:
    for group in groups:
        offsets = [
            offset_service_pb2.OffsetCommit(topic="t", partition=each, offset=value)
            for each in range(PARTITIONS)
        ]
        stubs.offsets.CommitOffsets(
            offset_service_pb2.CommitOffsetsRequest(group_id=group, offsets=offsets)
        )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "offsets", settings=SETTINGS) as server:
        yield server.wait_until_serving()


@pytest.fixture
def stubs(server: ServerProcess) -> Iterator[Stubs]:
    with server.channel() as channel:
        yield Stubs(channel)


class Runs:
    """Runs of one query, each of which reads what there is and ends."""

    def __init__(self, spark: SparkSession, folder: Path, options: dict[str, object]) -> None:
        self.batches: list[tuple[int, list[tuple[Any, ...]]]] = []
        self._spark = spark
        self._folder = folder
        self._options = options

    def run(self, *, fail_in: int | None = None) -> None:
        """Fails in the batch with this number, when its rows are written."""
        stream = self._spark.readStream.format("offsetd")
        for name, value in self._options.items():
            stream = stream.option(name, str(value))

        def write(rows: DataFrame, batch: int) -> None:
            taken = rows.select("log_partition", "log_offset", "group", "offset").collect()
            self.batches.append((batch, sorted(map(tuple, taken))))
            if batch == fail_in:
                raise RuntimeError("killed")

        query = (
            stream.load()
            .writeStream.option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(availableNow=True)
            .foreachBatch(write)
            .start()
        )
        try:
            assert query.awaitTermination(SECONDS_MAX)
        finally:
            query.stop()

    def rows(self) -> list[tuple[Any, ...]]:
        """As a sink has them that knows batches by their number: one that comes again replaces."""
        return sorted(row for rows in dict(self.batches).values() for row in rows)


def as_table(read: Callable[..., DataFrame], folder: Path, mode: str) -> list[tuple[Any, ...]]:
    table = read(folder, mode).select("log_partition", "log_offset", "group", "offset")
    return sorted(map(tuple, table.collect()))


def wait_for_recovery_points(folder: Path, rows: int) -> None:
    """Until a reader of the folder sees so many changes."""
    source = OffsetdSource({"path": str(folder), "mode": "history"})
    end = time.monotonic() + SECONDS_MAX
    while time.monotonic() < end:
        reader = source.reader(source.schema())
        found = sum(batch.num_rows for work in reader.partitions() for batch in reader.read(work))
        if found >= rows:
            return
        time.sleep(0.05)
    raise AssertionError(f"{rows} changes never became durable in the segments")


@pytest.mark.parametrize("kind", ["history of a folder", "raw of a folder", "server"])
def test_over_runs_that_fail_and_go_on_each_change_comes_once(
    tmp_path: Path,
    spark: SparkSession,
    read: Callable[..., DataFrame],
    server: ServerProcess,
    stubs: Stubs,
    kind: str,
) -> None:
    folder = tmp_path / "offsets"
    mode = "raw" if kind.startswith("raw") else "history"
    where = {"server": server.address} if kind == "server" else {"path": folder}
    runs = Runs(spark, tmp_path, {**where, "mode": mode, "max_records_per_trigger": 25})
    count = 0
    for value in (1, 2):
        commit(stubs, value)
        count += len(GROUPS) * PARTITIONS
    wait_for_recovery_points(folder, count)
    with pytest.raises(Exception, match="killed"):
        runs.run(fail_in=0)
    commit(stubs, 3)
    count += len(GROUPS) * PARTITIONS
    wait_for_recovery_points(folder, count)
    with pytest.raises(Exception, match="killed"):
        runs.run(fail_in=2)
    assert runs.batches[0] == runs.batches[1], "the first batch is the same when it comes again"
    if kind != "server":  # What was written last is read behind the recovery points.
        assert server.stop() == 0
    runs.run()
    if kind == "server":
        assert server.stop() == 0
    # A server's messages, of 200 events at most, are not divided.
    assert max(len(rows) for _, rows in runs.batches) <= (200 if kind == "server" else 25)
    assert runs.rows() == as_table(read, folder, mode)
    assert len(runs.rows()) >= count


def test_a_query_goes_on_with_what_comes_and_ends_when_it_is_stopped(
    tmp_path: Path, spark: SparkSession, server: ServerProcess, stubs: Stubs
) -> None:
    found: list[int] = []
    query = (
        spark.readStream.format("offsetd")
        .option("server", server.address)
        .option("mode", "history")
        .option("starting_offsets", "latest")
        .option("groups", "h")
        .load()
        .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .foreachBatch(lambda rows, _: found.extend(row.offset for row in rows.collect()))
        .start()
    )
    try:
        end = time.monotonic() + SECONDS_MAX
        value = 0
        while not found and time.monotonic() < end:
            value += 1  # What was committed before it began does not come.
            commit(stubs, value)
            time.sleep(0.2)
        first = found[0]
        commit(stubs, 1000)
        while 1000 not in found and time.monotonic() < end:
            time.sleep(0.1)
        expected = [each for each in (*range(first, value + 1), 1000) for _ in range(PARTITIONS)]
        assert sorted(found) == expected
        assert query.lastProgress is not None
        assert "token" in str(query.lastProgress.json)
    finally:
        query.stop()
    assert query.exception() is None


def test_with_the_signature_of_older_sparks_batches_are_bounded_too(
    tmp_path: Path,
    spark: SparkSession,
    read: Callable[..., DataFrame],
    server: ServerProcess,
    stubs: Stubs,
) -> None:
    # Workers know nothing of our tests: what they need is sent to them.
    cloudpickle.register_pickle_by_value(older_sparks)
    spark.dataSource.register(older_sparks.SourceBeforeAdmissionControl)
    folder = tmp_path / "offsets"
    commit(stubs, 0)
    wait_for_recovery_points(folder, 20)
    sizes: list[int] = []
    found: list[Any] = []

    def take(rows: DataFrame, _: int) -> None:
        taken = rows.select("log_partition", "log_offset", "group", "offset").collect()
        sizes.append(len(taken))
        found.extend(map(tuple, taken))

    def run() -> None:
        query = (
            spark.readStream.format(older_sparks.NAME)
            .option("max_records_per_trigger", "10")
            .option("mode", "history")
            .load(str(folder))
            .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .foreachBatch(take)
            .start()
        )
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    # A new query is not asked where it begins before it says where its first batch ends.
    run()
    assert sizes == [20]
    for value in range(1, 4):
        commit(stubs, value)
    assert server.stop() == 0
    run()
    assert max(sizes[1:]) <= 10
    assert sorted(found) == as_table(read, folder, "history")
