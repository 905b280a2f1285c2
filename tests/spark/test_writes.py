"""Tables written to a real server by a real session: all, or nothing of a group, and once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_clients import OffsetClient, OffsetToCommit, TopicPartition
from offsetd_pipeline import OffsetsRejected, UnfinishedWrite, write_offsets
from ports import free_ports
from server_process import START_SECONDS_MAX, ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

WRITTEN = ("group", "topic", "partition", "offset", "leader_epoch", "metadata")
SCHEMA = "group string, topic string, partition int, offset long"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One for all tests here; each has groups of its own."""
    with ServerProcess(tmp_path_factory.mktemp("server") / "offsets") as server:
        yield server.wait_until_serving()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[OffsetClient]:
    with OffsetClient(server.address) as client:
        yield client


@pytest.fixture
def current(spark: SparkSession, server: ServerProcess) -> Callable[[str], DataFrame]:
    """`current("a-")` is what the server has of groups with that prefix."""

    def current(prefix: str) -> DataFrame:
        table = spark.read.format("offsetd").option("server", server.address).load()
        return table.where(f"group LIKE '{prefix}%'")

    return current


def grid(spark: SparkSession, prefix: str, groups: int, partitions: int) -> DataFrame:
    """Groups whose rows are in all tasks."""
    table = spark.range(0, groups * partitions).selectExpr(
        f"concat('{prefix}', id % {groups}) AS group",
        "'orders' AS topic",
        f"cast(id div {groups} AS int) AS partition",
        "id * 10 AS offset",
    )
    return table.repartition(4, "partition")


def save(table: DataFrame, server: ServerProcess, **options: object) -> None:
    writer = table.write.format("offsetd").option("server", server.address)
    for name, value in options.items():
        writer = writer.option(name, str(value))
    writer.mode("append").save()


def stored(client: OffsetClient, group: str) -> dict[int, int]:
    return {where.partition: each.offset for where, each in client.fetch(group).items()}


def test_what_is_current_in_one_place_is_so_in_another_once_it_is_written_there(
    spark: SparkSession,
    server: ServerProcess,
    client: OffsetClient,
    current: Callable[[str], DataFrame],
    tmp_path: Path,
) -> None:
    for group in ("from-1", "from-größe"):
        client.commit(
            group,
            {
                TopicPartition("orders", 0): OffsetToCommit(5, leader_epoch=3, metadata="m"),
                TopicPartition("größe", 7): (1 << 63) - 1,
            },
        )
    times = ("commit_time",)
    table = current("from-").select(*WRITTEN, *times)
    with ServerProcess(tmp_path / "other") as other:
        other.wait_until_serving()
        written = write_offsets(table, other.address, keep_commit_times=True)
        assert (written.group_count, written.offset_count) == (2, 4)
        there = spark.read.format("offsetd").option("server", other.address).load()
        expected = sorted(map(repr, table.collect()))
        assert sorted(map(repr, there.select(*WRITTEN, *times).collect())) == expected
        save(table.select(*WRITTEN), other)
        expected = sorted(map(repr, table.select(*WRITTEN).collect()))
        assert sorted(map(repr, there.select(*WRITTEN).collect())) == expected
        assert there.agg({"commit_time": "min"}).first() > table.agg({"commit_time": "max"}).first()
        other.stop_well()


def test_a_task_that_dies_midway_and_is_tried_again_writes_once(
    spark: SparkSession, server: ServerProcess, client: OffsetClient, tmp_path: Path
) -> None:
    marks = tmp_path / "attempts"
    marks.mkdir()

    def dies_midway(rows: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        (marks / f"{context.partitionId()}-{context.attemptNumber()}").touch()
        for number, row in enumerate(rows):
            if number == 60 and context.attemptNumber() == 0:
                raise RuntimeError("dies midway")
            yield row

    whole = grid(spark, "dies-", 20, 20)
    save(spark.createDataFrame(whole.rdd.mapPartitions(dies_midway), SCHEMA), server)
    attempts = sorted(each.name for each in marks.iterdir())
    assert attempts == [f"{task}-{attempt}" for task in range(4) for attempt in (0, 1)]
    for group in range(20):
        assert stored(client, f"dies-{group}") == {
            each: (each * 20 + group) * 10 for each in range(20)
        }
        history = client.list_offset_history(f"dies-{group}")
        assert len(list(history)) == 20


def test_a_task_that_always_dies_leaves_nothing_written(
    spark: SparkSession, server: ServerProcess, client: OffsetClient
) -> None:
    table = grid(spark, "never-", 5, 20).selectExpr(
        "group", "topic", "partition", "if(partition = 19, raise_error('no'), offset) AS offset"
    )
    with pytest.raises(Exception, match="no"):
        save(table, server)
    assert [stored(client, f"never-{group}") for group in range(5)] == [{}] * 5


def test_one_bad_row_in_one_task_keeps_its_group_from_being_written(
    spark: SparkSession, server: ServerProcess, client: OffsetClient, tmp_path: Path
) -> None:
    bad = "if(group = 'bad-3' AND partition = 17, -5, offset) AS offset"
    table = grid(spark, "bad-", 6, 20).selectExpr("group", "topic", "partition", bad)
    folder = f"file://{tmp_path}/rejects"
    with pytest.raises(OffsetsRejected, match=r"bad-3.* orders:17: INVALID_OFFSET") as raised:
        write_offsets(table, server.address, rejects=folder, job_id="bad-one")
    assert raised.value.written.group_count == 5
    assert raised.value.written.reasons == {"GROUP_REJECTED": 19, "INVALID_OFFSET": 1}
    assert stored(client, "bad-3") == {}
    assert all(len(stored(client, f"bad-{group}")) == 20 for group in (0, 1, 2, 4, 5))
    rejected = spark.read.parquet(folder)
    assert rejected.where("reason = 'INVALID_OFFSET'").select("partition", "offset").collect() == [
        (17, -5)
    ]
    save(table, server, rejects=folder, on_error="collect")
    assert stored(client, "bad-3") == {}


def test_conflicts_are_collected_by_row_and_the_other_groups_are_written(
    spark: SparkSession, server: ServerProcess, client: OffsetClient, tmp_path: Path
) -> None:
    save(grid(spark, "cas-", 3, 60), server)
    client.commit("cas-1", {TopicPartition("orders", each): 7 for each in range(50)})
    table = grid(spark, "cas-", 4, 60).selectExpr(
        "group",
        "topic",
        "partition",
        "offset + 1 AS offset",
        "if(group = 'cas-3', null, (partition * 3 + cast(substr(group, 5) AS int)) * 10L)"
        " AS expected_offset",
    )
    options = {"write_mode": "compare_and_set", "on_error": "collect"}
    written = write_offsets(table, server.address, rejects=str(tmp_path), **options)
    assert (written.group_count, written.rejected_group_count) == (3, 1)
    assert written.reasons == {"OFFSET_CONFLICT": 50, "GROUP_REJECTED": 10}
    conflicts = spark.read.parquet(str(tmp_path)).where("reason = 'OFFSET_CONFLICT'")
    assert {row.stored_offset for row in conflicts.collect()} == {7}
    assert stored(client, "cas-1")[50] == (50 * 3 + 1) * 10
    assert len(stored(client, "cas-3")) == 60


@pytest.mark.parametrize(
    ("mode", "offset", "is_written"),
    [
        ("overwrite", 3, True),
        ("monotonic", 3, False),
        ("monotonic", 5, True),
        ("monotonic", 6, True),
        ("create", 6, False),
    ],
)
def test_each_mode_does_what_it_says(
    mode: str,
    offset: int,
    is_written: bool,
    spark: SparkSession,
    server: ServerProcess,
    client: OffsetClient,
) -> None:
    group = f"mode-{mode}-{offset}"
    client.commit(group, {TopicPartition("t", 0): 5})
    table = spark.createDataFrame([(group, "t", 0, offset), (group, "t", 1, 1)], SCHEMA)
    if is_written:
        save(table, server, write_mode=mode)
        assert stored(client, group) == {0: offset, 1: 1}
    else:
        with pytest.raises(OffsetsRejected):
            write_offsets(table, server.address, write_mode=mode)
        assert stored(client, group) == {0: 5}


def test_a_group_larger_than_a_commit_is_told_with_the_limit(
    spark: SparkSession, server: ServerProcess, client: OffsetClient
) -> None:
    with pytest.raises(OffsetsRejected, match=r"INVALID_COMMIT_SIZE.*bytes") as raised:
        write_offsets(grid(spark, "large-", 1, 40_000), server.address)
    assert raised.value.written.rejected_offset_count == 40_000
    assert stored(client, "large-0") == {}


def test_overwriting_the_whole_is_refused_with_what_there_is_instead(
    spark: SparkSession, server: ServerProcess
) -> None:
    writer = grid(spark, "mode-", 1, 1).write.format("offsetd").option("server", server.address)
    with pytest.raises(Exception, match=r"say mode\('append'\).*write_mode"):
        writer.mode("overwrite").save()


def test_a_server_that_is_killed_in_the_middle_and_comes_back_has_all_of_it_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, groups, partitions = tmp_path / "offsets", 20_000, 3
    keeps_all = {"history.ms": 3_600_000}
    table = grid(spark, "g", groups, partitions)
    with ServerProcess(folder, settings=keeps_all) as first:
        address = first.wait_until_serving().address
        with (
            ThreadPoolExecutor(1) as threads,
            OffsetClient(address) as client,
            ExitStack() as ended,
        ):

            def restart_midway() -> tuple[int, ServerProcess]:
                while not (seen := client.get_server_info().group_count):
                    pass
                first.kill()
                again = {**keeps_all, "listen.address": address}
                return seen, ended.enter_context(ServerProcess(folder, settings=again))

            restarting = threads.submit(restart_midway)
            written = write_offsets(table, address, retry_timeout_s=50)
            seen, second = restarting.result(START_SECONDS_MAX)
            assert 0 < seen < groups, "it was not in the middle"
            second.stop_well()
    assert (written.group_count, written.offset_count) == (groups, groups * partitions)
    history = spark.read.format("offsetd").option("mode", "history").load(str(folder))
    assert history.count() == groups * partitions
    assert history.distinct().count() == groups * partitions


def test_a_write_without_a_server_is_not_finished_and_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    [port] = free_ports(1)
    table, nowhere = grid(spark, "g", 500, 2), f"127.0.0.1:{port}"
    with pytest.raises(UnfinishedWrite, match="groups that are written: 0"):
        write_offsets(table, nowhere, retry_timeout_s=1, on_error="collect", rejects=tmp_path)
    with pytest.raises(Exception, match=r"UnfinishedWrite.*groups that are written: 0"):
        table.write.format("offsetd").options(server=nowhere, retry_timeout_s="1").mode(
            "append"
        ).save()
