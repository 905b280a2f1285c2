"""What the Spark guide promises of streams and writes, where no other test asks for it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_clients import OffsetClient, TopicPartition
from offsetd_pipeline import write_offsets
from promised import promised_by
from server_process import ServerProcess, poll

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.long(minutes=1)

promised = promised_by("docs/guides/spark.md")

SCHEMA = "group string, topic string, partition int, offset long"
SECONDS_MAX = 120
WHERE = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("server") / "offsets"
    with ServerProcess(folder, settings={"history.ms": 3_600_000}) as server:
        yield server.wait_until_serving()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[OffsetClient]:
    with OffsetClient(server.address) as client:
        yield client


def ended(stream: DataFrame, checkpoint: Path, **options: str) -> Any:
    """A query that writes to a server, once it has read all there is."""
    writer = stream.writeStream.format("offsetd").options(
        checkpointLocation=str(checkpoint), **options
    )
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def committed(client: OffsetClient, group: str) -> list[int | None]:
    return [each.offset for each in client.list_offset_history(group, [WHERE], oldest_first=True)]


@promised(
    "A query that has lost its checkpoint is a new query: it reads from its `starting_offsets`, "
    "or from the beginning of its source, and `overwrite` sets offsets back to what it reads "
    "there. With `monotonic`, such rows are rejected."
)
def test_a_query_without_its_checkpoint_begins_anew(
    spark: SparkSession, server: ServerProcess, client: OffsetClient, tmp_path: Path
) -> None:
    files, checkpoint = tmp_path / "files", tmp_path / "checkpoint"
    for number in (10, 20):
        rows = spark.createDataFrame([("lost", "t", 0, number)], SCHEMA).coalesce(1)
        rows.write.mode("append").parquet(str(files / f"n={number}"))
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    table = stream.parquet(str(files / "*"))
    ended(table, checkpoint, server=server.address)
    client.commit("lost", {WHERE: 99})
    ended(table, checkpoint, server=server.address)
    assert committed(client, "lost") == [10, 20, 99]
    shutil.rmtree(checkpoint)
    rejects = str(tmp_path / "rejects")
    collected = {"write_mode": "monotonic", "on_error": "collect", "rejects": rejects}
    ended(table, checkpoint, server=server.address, **collected)
    assert committed(client, "lost") == [10, 20, 99]
    shutil.rmtree(checkpoint)
    ended(table, checkpoint, server=server.address)
    assert committed(client, "lost") == [10, 20, 99, 10, 20]


@promised("Column names ignore case and may be in any order; any other column is an error")
@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (f"{SCHEMA}, lag long", "no column 'lag' is written"),
        ("group string, topic string, partition int", "offset"),
        ("group string, topic string, partition string, offset long", "partition"),
        ("group string, topic string, partition int, offset double", "offset"),
        (f"{SCHEMA}, OFFSET long", "(?i)offset"),
    ],
)
def test_a_table_of_other_columns_is_refused_also_as_a_stream(
    spark: SparkSession, server: ServerProcess, tmp_path: Path, schema: str, said: str
) -> None:
    (tmp_path / "files").mkdir()
    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "files"))
    with pytest.raises(Exception, match=said):
        write_offsets(spark.createDataFrame([], schema), server.address)
    if "OFFSET" in schema:
        return  # Spark itself refuses such a stream.
    stream = spark.readStream.schema(schema).parquet(str(tmp_path / "files"))
    spark.createDataFrame([], schema).write.mode("append").parquet(str(tmp_path / "files"))
    with pytest.raises(Exception, match=said):
        ended(stream, tmp_path / "checkpoint", server=server.address)


@promised(
    "A stream over a folder has the modes `history` and `raw`. A stream over a server has the "
    "mode `history`",
    "a stream reads one folder.",
)
def test_a_stream_of_another_mode_or_of_two_folders_is_refused(
    spark: SparkSession, server: ServerProcess, golden: Path, tmp_path: Path
) -> None:
    shutil.copytree(golden / "data", tmp_path / "copy")
    stream = spark.readStream.format("offsetd")

    def run(options: dict[str, str], path: str | None) -> None:
        reader = spark.readStream.format("offsetd").options(**options)
        table = reader.load(path) if path else reader.load()
        writer = table.writeStream.format("noop").option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        )
        writer.trigger(availableNow=True).start().awaitTermination()

    del stream
    for mode in ("current", "groups", "damage"):
        with pytest.raises(Exception, match="history"):
            run({"mode": mode}, str(golden / "data"))
    for mode in ("current", "raw"):
        with pytest.raises(Exception, match="history"):
            run({"mode": mode, "server": server.address}, None)
    two = f'["{golden / "data"}", "{tmp_path / "copy"}"]'
    with pytest.raises(Exception, match="one folder"):
        run({"mode": "history", "paths": two}, None)


@promised(
    "A table of a folder is planned once, when it is first used, and keeps its list of logs.",
    "If a server has the folder open, each use of the table reads what the logs have at that "
    "moment. Two uses may differ. If they must not differ, `cache` the table",
    "If the folder was closed at that time, and a server has written to it since, the table can "
    "no longer be read (`FolderChanged`): `load` it again.",
)
def test_what_a_table_has_when_it_is_used_again(
    read: Callable[..., DataFrame], tmp_path: Path
) -> None:
    settings = {"log.flush.offset.checkpoint.interval.ms": 50, "history.ms": 3_600_000}

    def offsets(table: DataFrame) -> list[int]:
        return sorted(row.offset for row in table.collect())

    def newest() -> list[int]:
        return offsets(read(tmp_path / "data", "history"))

    with ServerProcess(tmp_path / "data", settings=settings) as server:
        with OffsetClient(server.wait_until_serving().address) as client:
            client.commit("g", {WHERE: 1})
            poll(lambda: newest() == [1], SECONDS_MAX)
            table = read(tmp_path / "data", "history")
            assert offsets(table) == [1]
            cached = read(tmp_path / "data", "history").cache()
            assert offsets(cached) == [1]
            client.commit("g", {WHERE: 2})
            poll(lambda: newest() == [1, 2], SECONDS_MAX)
            assert (offsets(cached), offsets(table)) == ([1], [1, 2])
        server.stop_well()
    closed = read(tmp_path / "data", "history")
    assert offsets(closed) == [1, 2]
    with ServerProcess(tmp_path / "data", settings=settings) as server:
        with OffsetClient(server.wait_until_serving().address) as client:
            client.commit("g", {WHERE: 3})
        server.stop_well()
    with pytest.raises(Exception, match="FolderChanged"):
        closed.collect()
    assert newest() == [1, 2, 3]


@promised(
    "you can safely run a failed write again with its `job_id`, also if others have committed "
    "since.",
    "Different rows with an old `job_id` are a new write.",
    "Without this option, several rows of one partition are rejected",
    "Null is the earliest; rows with equal values are rejected.",
)
def test_a_write_that_is_run_again_by_its_name_changes_nothing(
    spark: SparkSession, server: ServerProcess, client: OffsetClient
) -> None:
    rows = spark.createDataFrame([("named", "t", 0, 5)], SCHEMA)
    for _ in range(2):
        write_offsets(rows, server.address, job_id="nightly")
        client.commit("named", {WHERE: 6})
    assert committed(client, "named") == [5, 6, 6]
    others = spark.createDataFrame([("named", "t", 0, 7)], SCHEMA)
    write_offsets(others, server.address, job_id="nightly")
    assert committed(client, "named")[-1] == 7
    ranked = f"{SCHEMA}, at long"
    nulls = spark.createDataFrame([("named", "t", 0, 9, None), ("named", "t", 0, 8, 1)], ranked)
    write_offsets(nulls, server.address, latest_by="at")
    assert committed(client, "named")[-1] == 8
    ties = spark.createDataFrame([("named", "t", 0, 9, 2), ("named", "t", 0, 10, 2)], ranked)
    with pytest.raises(Exception, match="DUPLICATE_ROW"):
        write_offsets(ties, server.address, latest_by="at")
    with pytest.raises(Exception, match="DUPLICATE_ROW"):
        write_offsets(ties.drop("at"), server.address)
    assert committed(client, "named")[-1] == 8


@promised(
    "A row without a group does not cause any other row to be rejected.",
    "nothing is wrong with this row, but its group was rejected",
    "If a server does not answer, or has a full disk, no row is at fault: the write ends with "
    "`UnfinishedWrite`, whatever `on_error` says.",
    "a warning, and a file in `rejects`; `collect` without `rejects` is refused",
)
def test_whose_fault_a_rejected_row_is(
    spark: SparkSession, server: ServerProcess, client: OffsetClient, tmp_path: Path
) -> None:
    rows = [(None, "t", 0, 5), ("sound", "t", 0, 5), ("bad", "t", 0, 5), ("bad", "t", 1, -1)]
    table = spark.createDataFrame(rows, SCHEMA)
    with pytest.raises(ValueError, match="needs rejects"):
        write_offsets(table, server.address, on_error="collect")
    told = {"rejects": str(tmp_path / "rejects")}
    written = write_offsets(table, server.address, on_error="collect", **told)
    assert (written.offset_count, written.rejected_offset_count) == (1, 3)
    assert written.reasons["GROUP_REJECTED"] == 1
    assert (committed(client, "sound"), client.fetch("bad")) == ([5], {})
    for on_error in ("fail", "collect"):
        with pytest.raises(Exception, match=r"127\.0\.0\.1:1") as failed:
            write_offsets(table, "127.0.0.1:1", on_error=on_error, retry_timeout_s=1, **told)
        assert type(failed.value).__name__ == "UnfinishedWrite"
