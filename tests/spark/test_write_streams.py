"""Streaming queries that write to a real server: epoch after epoch, each once, also run again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from offsetd_clients import OffsetClient, TopicPartition
from offsetd_pipeline import write_offsets
from server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "group string, topic string, partition int, offset long"
WHERE = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One for all tests here; each has groups of its own, of which all is kept."""
    folder = tmp_path_factory.mktemp("server") / "offsets"
    with ServerProcess(folder, settings={"history.ms": 3_600_000}) as server:
        yield server.wait_until_serving()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[OffsetClient]:
    with OffsetClient(server.address) as client:
        yield client


class Query:
    """A query over files, each of which is a batch; it runs until it has read all there are."""

    def __init__(self, spark: SparkSession, folder: Path, address: str, group: str) -> None:
        self.address = address
        self.checkpoint = folder / "checkpoint"
        self._files = folder / "files"
        self._files.mkdir()
        self._spark = spark
        self._group = group
        self._count = 0

    def add(self, *offsets: int) -> None:
        """A file with the next offsets of the group's partitions."""
        rows = [(self._group, "t", each, offset) for each, offset in enumerate(offsets)]
        table = self._spark.createDataFrame(rows, SCHEMA).coalesce(1)
        table.write.mode("append").parquet(str(self._files / f"n={self._count:03}"))
        self._count += 1

    def table(self) -> DataFrame:
        reader = self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self._files / "*"))

    def run(self, table: DataFrame | None = None, mode: str = "append", **options: str) -> Any:
        writer = (self.table() if table is None else table).writeStream.format("offsetd")
        query = (
            writer.options(server=self.address, checkpointLocation=str(self.checkpoint), **options)
            .outputMode(mode)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query

    def forget_last_commit(self) -> int:
        """As a driver that ended before it had noted that the batch was written."""
        commits = self.checkpoint / "commits"
        last = max(int(each.name) for each in commits.iterdir() if each.name.isdecimal())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)
        return last


def history(client: OffsetClient, group: str, where: TopicPartition = WHERE) -> list[int | None]:
    return [each.offset for each in client.list_offset_history(group, [where], oldest_first=True)]


def test_epochs_are_written_in_order_and_one_that_is_run_again_is_not_written_again(
    spark: SparkSession, server: ServerProcess, client: OffsetClient, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, server.address, "again")
    for offset in (10, 20, 15, 30):
        query.add(offset, offset + 1)
    first = query.run()
    assert history(client, "again") == [10, 20, 15, 30]
    client.commit("again", {WHERE: 99})
    assert query.forget_last_commit() == 3
    second = query.run()
    assert second.id == first.id
    assert second.runId != first.runId
    assert [each["batchId"] for each in second.recentProgress] == [3]
    assert history(client, "again") == [10, 20, 15, 30, 99]
    query.add(40, 41)
    query.run()
    assert history(client, "again") == [10, 20, 15, 30, 99, 40]


def test_a_comparison_that_is_run_again_after_its_id_is_forgotten_is_no_conflict(
    spark: SparkSession, tmp_path: Path
) -> None:
    # The id of a request is kept for a second only.
    settings = {"history.ms": 3_600_000, "request.id.window.ms": 1000}
    with ServerProcess(tmp_path / "offsets", settings=settings) as server:
        address = server.wait_until_serving().address
        query = Query(spark, tmp_path, address, "g")
        query.add(10, 11)
        query.run(write_mode="create")
        query.forget_last_commit()
        with OffsetClient(address) as client:
            wait_past_window(client)
            query.run(write_mode="create")
            assert history(client, "g") == [10]
        server.stop_well()


def wait_past_window(client: OffsetClient) -> None:
    """Until the server applies a request again that it has seen."""
    commit = {TopicPartition("t", 9): 1}
    revision = client.commit("window", commit, request_id="one")
    while client.commit("window", commit, request_id="one") == revision:
        pass


def test_a_batch_without_rows_asks_the_server_for_nothing(
    spark: SparkSession, server: ServerProcess, client: OffsetClient, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, "127.0.0.1:1", "empty")
    query.add(10)
    nothing = query.table().where("offset > 100")
    assert query.run(nothing, retry_timeout_s="1").exception() is None
    assert client.fetch("empty") == {}


def test_a_query_that_fails_for_a_row_goes_on_where_rows_are_collected(
    spark: SparkSession, server: ServerProcess, client: OffsetClient, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, server.address, "rows")
    query.add(10, 20)
    query.add(11, -1)
    query.add(12, 21)
    with pytest.raises(Exception, match="INVALID_OFFSET"):
        query.run()
    assert history(client, "rows") == [10]
    rejects = tmp_path / "rejects"
    done = query.run(on_error="collect", rejects=str(rejects))
    assert history(client, "rows") == [10, 12]
    assert [each.name for each in rejects.iterdir()] == [f"rejected-{done.id}-1.parquet"]
    rejected = spark.read.parquet(str(rejects)).select("partition", "reason").collect()
    assert sorted(rejected) == [(0, "GROUP_REJECTED"), (1, "INVALID_OFFSET")]


def test_what_an_aggregation_updates_is_written_in_each_batch(
    spark: SparkSession, server: ServerProcess, client: OffsetClient, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, server.address, "largest")
    query.add(10, 20)
    query.add(5, 21)
    largest = query.table().groupBy("group", "topic", "partition").agg({"offset": "max"})
    largest = largest.withColumnRenamed("max(offset)", "offset")
    with pytest.raises(Exception, match=r"outputMode\('append'\), or call write_offsets"):
        query.run(largest, mode="complete")
    with pytest.raises(Exception, match="no job_id"):
        query.run(query.table(), job_id="x")

    def write(batch: DataFrame, number: int) -> None:
        write_offsets(batch, server.address, job_id=f"largest-{number}")

    options = {"checkpointLocation": str(tmp_path / "other")}
    writer = largest.writeStream.foreachBatch(write).outputMode("update").options(**options)
    writer.trigger(availableNow=True).start().awaitTermination()
    assert history(client, "largest") == [10, 10]  # Updated: it had a new row.
    assert history(client, "largest", TopicPartition("t", 1)) == [20, 21]


def test_of_several_rows_of_a_partition_in_a_batch_the_latest_is_written(
    spark: SparkSession, server: ServerProcess, client: OffsetClient, tmp_path: Path
) -> None:
    rows = [("latest", "t", 0, offset, revision) for offset, revision in ((5, 1), (9, 3), (7, 2))]
    files = tmp_path / "ranked"
    table = spark.createDataFrame(rows, f"{SCHEMA}, log_offset long")
    table.repartition(3).write.parquet(str(files))
    query = Query(spark, tmp_path, server.address, "latest")
    stream = spark.readStream.schema(table.schema).parquet(str(files))
    query.run(stream, latest_by="log_offset")
    assert history(client, "latest") == [9]
    written = write_offsets(table, server.address, latest_by="log_offset")
    assert (written.offset_count, written.superseded_offset_count) == (1, 2)


def test_the_history_of_a_server_is_a_table(
    spark: SparkSession, server: ServerProcess, client: OffsetClient
) -> None:
    for offset in (1, 2, 3):
        client.commit("told", {WHERE: offset})
    client.delete_offsets("told", [WHERE])
    reader = spark.read.format("offsetd").option("mode", "history")
    table = reader.option("server", server.address).option("groups", "told").load()
    found = [
        (row.kind, row["offset"], row.transaction) for row in table.sort("log_offset").collect()
    ]
    assert found == [*(("committed", each, None) for each in (1, 2, 3)), ("deleted", None, None)]
    client.commit("told", {WHERE: 4})
    again = reader.option("server", server.address).option("groups", "told").load()
    assert again.count() == 5
    nobody = reader.option("server", server.address).option("groups", "nobody").load()
    assert nobody.count() == 0


def test_a_view_is_read_by_sql_and_a_catalogs_table_says_why_it_is_not(
    spark: SparkSession, server: ServerProcess, client: OffsetClient
) -> None:
    client.commit("viewed", {WHERE: 8})
    options = f"OPTIONS (server '{server.address}', groups 'viewed')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW viewed USING offsetd {options}")
    [row] = spark.sql("SELECT `offset` FROM viewed WHERE group = 'viewed'").collect()
    assert row[0] == 8
    spark.sql(f"CREATE TABLE kept USING offsetd {options}")
    try:
        with pytest.raises(Exception, match="CREATE TEMPORARY VIEW name USING offsetd OPTIONS"):
            spark.sql("SELECT * FROM kept").collect()
    finally:
        spark.sql("DROP TABLE kept")
