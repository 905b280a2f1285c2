"""Sources of offsets read and compared by Spark: every format, a broker's folder, a live server."""

from __future__ import annotations

import json
import random
import secrets
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from offsetd_clients import OffsetClient, OffsetFormat, TopicPartition
from offsetd_pipeline.archive import archive
from offsetd_pipeline.comparison import CompareOptions, Ignored, differing
from offsetd_pipeline.offset_sources import SourceOptions, named_source, opened_source
from offsetd_pipeline.offset_sources.opening import BadLines
from server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cli_calls import Ended
    from pyspark.sql import SparkSession

    Offset = tuple[int | None, int | None, str | None]

ROWS = "group string, topic string, partition int, offset bigint, leader_epoch int, metadata string"
SAME = [("g", "orders", 0, 42), ("g", "orders", 1, 7), ("g", "größe", 0, 5)]
FILES = {
    "several.csv": "".join(f"{g},{t},{p},{o}\n" for g, t, p, o in SAME),
    "one.csv": "".join(f"{t},{p},{o}\n" for _, t, p, o in SAME),
    "rpk": "".join(f"{t} {p} {o}\n" for _, t, p, o in SAME),
    "saved.json": '{"groupid":"g","offsets":{"orders":{"0":42,"1":7},"größe":{"0":5}}}',
    "ours.jsonl": "".join(
        json.dumps({"group": g, "topic": t, "partition": p, "offset": o}) + "\n"
        for g, t, p, o in SAME
    ),
    "zookeeper": "".join(f"/kafka/consumers/{g}/offsets/{t}/{p}:{o}\n" for g, t, p, o in SAME),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server")) as it:
        it.wait_until_serving()
        with OffsetClient(it.address) as client:
            client.commit("g", {TopicPartition(t, p): o for _, t, p, o in SAME})
        yield it


def written(folder: Path) -> list[Path]:
    paths = []
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
        paths.append(folder / name)
    names, values = ("group", "topic", "partition", "offset"), list(zip(*SAME, strict=True))
    pq.write_table(pa.table(dict(zip(names, values, strict=True))), folder / "table.parquet")
    return [*paths, folder / "table.parquet"]


def test_every_format_and_a_server_give_the_same_offsets(
    spark: SparkSession, server: ServerProcess, tmp_path: Path
) -> None:
    for place in (*map(str, written(tmp_path)), server.address):
        source = named_source(place)
        found = opened_source(spark, source, SourceOptions(file_group="g"))
        keys = found.offsets.select("group", "topic", "partition", "offset").collect()
        assert sorted(map(tuple, keys)) == sorted(SAME), place
        assert (found.offset_count, found.double_count) == (3, 0)
        found.forget()


def test_a_brokers_folder_has_what_the_broker_answered(spark: SparkSession, golden: Path) -> None:
    found = opened_source(spark, named_source(str(golden / "data")))
    answered = json.loads((golden / "answers.json").read_text(encoding="utf-8"))["offsets"]
    assert {
        (row.group, row.topic, row.partition): (row.offset, row.leader_epoch)
        for row in found.offsets.collect()
    } == {
        (group, each["topic"], each["partition"]): (each["offset"], each["leader_epoch"])
        for group, offsets in answered.items()
        for each in offsets
    }
    found.forget()


def test_lines_that_are_no_offsets_are_errors_with_their_places_or_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "offsets.csv"
    path.write_text("g,t,0,1\nbad\n\ng,t,x,1\ng,t,1,1\ng,t,1,2\n")
    source = named_source(f"kafka-csv:{path}")
    with pytest.raises(BadLines, match=f"{path}:2: neither(?s:.*){path}:4: partition 'x'"):
        opened_source(spark, source)
    found = opened_source(spark, source, SourceOptions(skip_bad_lines=True))
    assert (found.offset_count, found.bad_line_count, found.double_count) == (3, 2, 1)
    found.forget()
    pq.write_table(
        pa.table({"group": ["g"], "topic": ["t"], "partition": [-1], "offset": [3]}),
        tmp_path / "bad.parquet",
    )
    with pytest.raises(BadLines, match=r"no partition from 0: .*\"partition\":-1"):
        opened_source(spark, named_source(str(tmp_path / "bad.parquet")))


def test_a_comparison_is_what_a_few_lines_of_python_say(spark: SparkSession) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    sides = [[*some_rows(chance)] for _ in "ab"]
    tables = [spark.createDataFrame(rows, ROWS) for rows in sides]
    a, b = (each.selectExpr("*", "null commit_time") for each in tables)
    for options in (
        CompareOptions(),
        CompareOptions(tolerance=2),
        CompareOptions(ignored=frozenset({Ignored.METADATA}), tolerance=1),
        CompareOptions(ignored=frozenset(Ignored)),
    ):
        found = differing(a, b, options).collect()
        expected = differences_of(sides[0], sides[1], options)
        kinds = {(row.group, row.topic, row.partition): row.difference for row in found}
        assert len(found) == len(kinds)
        assert kinds == expected
        for row in found:
            if row.difference in ("ahead", "behind"):
                assert row.offsets_between == row.offset_b - row.offset_a
    assert len({*differences_of(sides[0], sides[1], CompareOptions()).values()}) == 7


def some_rows(chance: random.Random) -> Iterator[tuple[Any, ...]]:
    for number in range(400):
        if chance.random() < 0.8:
            offset = chance.choice([None, *range(1000, 1005), *range(1000, 1005)])
            value = offset, chance.choice([None, 1]), chance.choice([None, "", "m"])
            yield (f"g{number % 7}", chance.choice("t"), number, *value)
            if chance.random() < 0.02:
                yield (f"g{number % 7}", "t", number, *value)


def differences_of(
    a: list[tuple[Any, ...]], b: list[tuple[Any, ...]], options: CompareOptions
) -> dict[tuple[Any, ...], str]:
    sides: list[dict[tuple[Any, ...], list[Offset]]] = [{}, {}]
    for side, rows in zip(sides, (a, b), strict=True):
        for group, topic, partition, *value in rows:
            offset, leader_epoch, metadata = value
            side.setdefault((group, topic, partition), []).append((offset, leader_epoch, metadata))
    found = {}
    for key in sides[0].keys() | sides[1].keys():
        kind = kind_of(sides[0].get(key, []), sides[1].get(key, []), options)
        if kind:
            found[key] = kind
    return found


def kind_of(a: list[Offset], b: list[Offset], options: CompareOptions) -> str:
    if len(a) > 1 or len(b) > 1:
        return "duplicate"
    if not a or not b:
        return "missing-in-a" if b else "missing-in-b"
    [(offset_a, epoch_a, metadata_a)], [(offset_b, epoch_b, metadata_b)] = a, b
    if offset_a is None or offset_b is None:
        return "" if offset_a is offset_b else "unreadable"
    if abs(offset_b - offset_a) > options.tolerance:
        return "ahead" if offset_b > offset_a else "behind"
    if offset_a != offset_b:
        return ""
    has_other = Ignored.LEADER_EPOCH not in options.ignored and epoch_a != epoch_b
    has_other |= Ignored.METADATA not in options.ignored and (metadata_a or "") != (
        metadata_b or ""
    )
    return "metadata" if has_other else ""


def test_the_job_ends_as_diff_does(
    spark: SparkSession, job: Callable[..., Ended], server: ServerProcess, tmp_path: Path
) -> None:
    export = tmp_path / "export.txt"
    export.write_text(FILES["zookeeper"], encoding="utf-8")
    same = job("compare", str(export), server.address)
    assert same.code == 0
    assert "3 same" in same.stderr
    assert "does not tell metadata and leader epochs: not compared" in same.stderr
    export.write_text(FILES["zookeeper"].replace(":42", ":40") + "/consumers/x/offsets/t/0:1\n")
    report = tmp_path / "report"
    other = job("compare", str(export), server.address, "-o", "json", "--report", str(report))
    assert other.code == 1
    assert [(each["difference"], each["offsets_between"]) for each in json.loads(other.stdout)] == [
        ("ahead", 2),
        ("missing-in-b", None),
    ]
    assert "2 same, 1 missing-in-b, 1 ahead; 2 groups differ" in other.stderr
    assert spark.read.parquet(str(report / "differences.parquet")).count() == 2
    assert "1 ahead: B has a larger offset" in (report / "report.html").read_text()
    near = job("compare", str(export), server.address, "--group", "g", "--tolerance", "2")
    assert near.code == 0
    assert "3 same (at most 2 offsets apart)" in near.stderr
    absent = job("compare", str(export), server.address, "--group", "nobody")
    assert (absent.code, "0 same" in absent.stderr) == (0, True)


def test_what_one_does_not_tell_is_no_difference(
    spark: SparkSession, job: Callable[..., Ended], tmp_path: Path
) -> None:
    (tmp_path / "all.jsonl").write_text(
        '{"group":"g","topic":"t","partition":0,"offset":5,"leader_epoch":3,"metadata":"m"}\n'
    )
    row = {"group": ["g"], "topic": ["t"], "partition": [0], "offset": [5]}
    for name, beside, told, code in (
        ("1", {"metadata": ["m"]}, "does not tell leader epochs: not compared", 0),
        ("2", {"metadata": ["n"]}, "does not tell leader epochs: not compared", 1),
        ("3", {"leader_epoch": [3]}, "does not tell metadata: not compared", 0),
        ("4", {"leader_epoch": [4]}, "does not tell metadata: not compared", 1),
    ):
        pq.write_table(pa.table({**row, **beside}), tmp_path / f"{name}.parquet")
        ended = job("compare", str(tmp_path / "all.jsonl"), str(tmp_path / f"{name}.parquet"))
        assert (ended.code, told in ended.stderr) == (code, True), ended


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("nowhere", "nothing"), "nowhere is not there, and no HOST:PORT"),
        (("{}/bad", "{}/bad"), "bad:2: offset 'x' is not a whole number"),
        (("folder:{}", "{}/bad"), "it is not a data folder"),
    ],
)
def test_what_cannot_be_compared_is_told_and_exits_with_2(
    spark: SparkSession,
    job: Callable[..., Ended],
    tmp_path: Path,
    arguments: tuple[str, ...],
    what: str,
) -> None:
    (tmp_path / "bad").write_text("g,t,0,1\ng,t,1,x\ng,t,2,1\n")
    ended = job("compare", *(each.format(tmp_path) for each in arguments))
    assert ended.code == 2
    assert what in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_export_of_a_server_is_the_same_as_the_server(
    spark: SparkSession, job: Callable[..., Ended], server: ServerProcess, tmp_path: Path
) -> None:
    with OffsetClient(server.address) as client:
        content = b"".join(client.export_offsets(OffsetFormat.JSONL))
    (tmp_path / "all.jsonl").write_bytes(content)
    ended = job("compare", str(tmp_path / "all.jsonl"), server.address)
    assert ended.code == 0
    assert "not compared" not in ended.stderr


def test_an_archive_is_the_same_as_what_was_archived(
    spark: SparkSession, job: Callable[..., Ended], golden: Path, tmp_path: Path
) -> None:
    archive(spark, [golden / "data"], tmp_path / "archive")
    ended = job("compare", str(golden / "data"), str(tmp_path / "archive"))
    assert (ended.code, "283 same" in ended.stderr) == (0, True), ended
