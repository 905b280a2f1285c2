"""Archives and restores end to end: a broker's folder, groups that fail, a job that is killed."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from offsetd_clients import OffsetClient, TopicPartition
from offsetd_pipeline.archive import (
    ArchiveError,
    ArchiveFolder,
    GapFound,
    GroupSelection,
    Outcome,
    RestoreOptions,
    TimeNotArchived,
    archive,
    read_archive,
    restore,
)
from offsetd_pipeline.archive.archive_table import state_of
from offsetd_pipeline.archive.columns import SPARK_SCHEMA
from offsetd_pipeline.archive.manifests import MANIFESTS
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.offsets_topic.schemas.keys import OffsetKey, encode_key
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from offsets_logs import write_log
from server_process import ServerProcess, poll

from benchmarks.harness.generate_log import Shape, generate

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli_calls import Ended
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long(minutes=1)

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "spark-archive.md"
NOW = datetime.now(UTC)
NOW_MS = round(NOW.timestamp() * 1000)
KEPT = {"offsets.retention.minutes": 2**31 - 1}
EXECUTE = RestoreOptions(validate_only=False, from_other_source=True)
JOB_SECONDS_MAX = 300
KILLED_RECORDS = 400_000


def batch(group: str, offset: int, value: bytes | None, *, time_ms: int = NOW_MS) -> bytes:
    key = encode_key(OffsetKey(group=group, topic="t", partition=0))
    record = Record(key=key, value=value, offset=offset, timestamp_ms=time_ms)
    return encode_batch([record], base_offset=offset)


def committed(offset: int, *, metadata: str = "", time_ms: int = NOW_MS) -> bytes:
    return OffsetCommitValue(
        offset=offset, leader_epoch=-1, metadata=metadata, commit_timestamp_ms=time_ms
    ).encode(3)


def test_what_a_broker_had_comes_back_as_it_answered(
    spark: SparkSession, golden: Path, tmp_path: Path
) -> None:
    to = tmp_path / "an archive [1]"  # To Spark, a pattern.
    answers = json.loads((golden / "answers.json").read_text(encoding="utf-8"))["offsets"]
    archive(spark, [golden / "data"], to)
    with ServerProcess(tmp_path / "live", settings=KEPT) as server:
        with OffsetClient(server.address) as client:
            restored = restore(spark, to, client, options=EXECUTE)
            failed = [each for each in restored.groups if each.outcome is not Outcome.RESTORED]
            assert not failed
            assert {each.group_id for each in restored.groups} == {
                group for group, offsets in answers.items() if offsets
            }
            for group, offsets in answers.items():
                # The client that asked cut metadata at the first NUL.
                assert {
                    (where.topic, where.partition): (
                        each.offset,
                        each.leader_epoch,
                        each.metadata.partition("\0")[0],
                    )
                    for where, each in client.fetch(group).items()
                } == {
                    (each["topic"], each["partition"]): (
                        each["offset"],
                        each["leader_epoch"],
                        each["metadata"],
                    )
                    for each in offsets
                }, group
        server.stop_well()


def test_what_a_transaction_wrote_counts_from_no_earlier_than_it_was_written(
    spark: SparkSession,
) -> None:
    """The clock of the broker that ended it may be behind: the day before, in another file."""
    midnight = datetime(2026, 11, 21, tzinfo=UTC)
    key = {"log_partition": 0, "group": "g", "topic": "t", "partition": 0, "kind": "committed"}
    earlier = {**key, "log_offset": 0, "offset": 1, "timestamp": midnight - timedelta(hours=1)}
    written = {
        **key,
        "log_offset": 1,
        "offset": 2,
        "timestamp": midnight + timedelta(milliseconds=50),
        "transaction": "committed",
        "transaction_time": midnight - timedelta(milliseconds=50),
    }
    empty = dict.fromkeys(SPARK_SCHEMA.names)
    rows = spark.createDataFrame([{**empty, **each} for each in (earlier, written)], SPARK_SCHEMA)
    midnight_ms = round(midnight.timestamp() * 1000)
    for at_ms, offset in ((midnight_ms - 1, 1), (midnight_ms + 49, 1), (midnight_ms + 50, 2)):
        assert [each.offset for each in state_of(rows, at_ms).collect()] == [offset], at_ms


def test_groups_that_cannot_be_restored_stop_no_other(spark: SparkSession, tmp_path: Path) -> None:
    folder, to = tmp_path / "log", tmp_path / "to"
    values = {
        "good": committed(1),
        "expired": committed(2, time_ms=1),
        "long": committed(3, metadata="x" * 5000),
        "negative": committed(-1),
        "unreadable": b"\0",
        "leased": committed(4),
        "deleted": None,
    }
    write_log(folder, [batch(group, at, value) for at, (group, value) in enumerate(values.items())])
    archive(spark, [folder], to)
    with ServerProcess(tmp_path / "live") as server:
        with OffsetClient(server.address) as client:
            client.acquire_group("leased", "somebody")
            client.commit("deleted", {TopicPartition("t", 0): 5})
            for options in (RestoreOptions(), EXECUTE):
                restored = restore(spark, to, client, options=options)
                by_id = {each.group_id: each for each in restored.groups}
                assert {name: each.outcome.value for name, each in by_id.items()} == {
                    "good": "restored",
                    "expired": "restored",
                    "long": "failed",
                    "negative": "failed",
                    "unreadable": "failed",
                    "leased": "failed",
                    "deleted": "kept",
                }
                assert by_id["expired"].expiring_count == 1
                assert by_id["good"].expiring_count == 0
                assert "metadata" in by_id["long"].problem
                assert "t:0 is -1" in by_id["negative"].problem
                assert "cannot be read" in by_id["unreadable"].problem
                assert "lease" in by_id["leased"].problem.lower()
                has = {each.group_id for each in client.list_groups()}
                assert ("good" in has) is not options.validate_only
            options = RestoreOptions(
                selection=GroupSelection(groups=("deleted", "nobody")),
                delete_others=True,
                from_other_source=True,
                validate_only=False,
            )
            restored = restore(spark, to, client, options=options)
            assert [(each.group_id, each.outcome.value) for each in restored.groups] == [
                ("deleted", "deleted"),
                ("nobody", "failed"),
            ]
            assert client.fetch("deleted") == {}
            early = datetime(2020, 1, 1, tzinfo=UTC)
            with pytest.raises(TimeNotArchived, match=r"begins later, at 20\d\d-.*\.\d{3}Z$"):
                restore(spark, to, client, early)
            accepted = restore(spark, to, client, early, RestoreOptions(accept_gaps=True))
            assert accepted.begins_later
        server.stop_well()


def test_a_folder_that_does_not_go_on_from_the_archive_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    batches = [batch("g", at, committed(at)) for at in range(9)]
    whole, gapped = tmp_path / "whole", tmp_path / "gapped"
    for name, some in [("whole", batches[:4]), ("older", batches[:2]), ("other", batches)]:
        write_log(tmp_path / name, some, segments=1)
        cluster = "d" if name == "other" else "c"
        (tmp_path / name / "meta.properties").write_text(f"cluster.id={cluster}\n")
    write_log(gapped, [*batches[:4], *batches[6:]], segments=1)
    (gapped / "meta.properties").write_text("cluster.id=c\n")
    lacking = tmp_path / "lacking"
    write_log(lacking, batches, partition=1)
    (lacking / "meta.properties").write_text("cluster.id=c\n")
    archive(spark, [whole], to)
    before = ArchiveFolder(to).manifests()
    for folder, said in [
        ("older", "an older copy"),
        ("other", "is the archive of c"),
        ("lacking", "log partitions 0 are archived, and none"),
    ]:
        with pytest.raises(ArchiveError, match=said):
            archive(spark, [tmp_path / folder], to)
    with pytest.raises(GapFound, match="2 log offsets"):
        archive(spark, [gapped], to, fail_on_gap=True)
    assert ArchiveFolder(to).manifests() == before
    assert read_archive(spark, to).count() == before[0].record_count
    archived = archive(spark, [gapped], to)
    assert [each.missing_count for each in archived.gaps] == [2]
    assert archived.orphan_count == 1
    assert read_archive(spark, to).count() == 7


def test_a_run_that_was_overtaken_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    folder, to = tmp_path / "log", tmp_path / "to"
    write_log(folder, [batch("g", at, committed(at)) for at in range(3)])

    def overtaken(step: str) -> None:
        if step == "written":
            (to / MANIFESTS / "00000001.json").write_text("{}")

    with pytest.raises(ArchiveError, match="nothing of this one counts"):
        archive(spark, [folder], to, reached=overtaken)
    (to / MANIFESTS / "00000001.json").unlink()
    archived = archive(spark, [folder], to)
    assert archived.orphan_count > 0
    assert read_archive(spark, to).count() == 3


def test_a_job_that_is_killed_leaves_nothing_that_counts(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, to = tmp_path / "log", tmp_path / "to"
    generate(folder, Shape(records=KILLED_RECORDS, batch=10, keys=2000, partitions_per_group=20))
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "offsetd_pipeline",
            "archive",
            str(folder),
            "--to",
            str(to),
            "--master",
            "local[1]",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as running:
        poll(lambda: any(to.glob("dt=*/*/*.parquet")), JOB_SECONDS_MAX)
        os.killpg(running.pid, signal.SIGKILL)
    assert ArchiveFolder(to).manifests() == []
    archived = archive(spark, [folder], to)
    assert archived.orphan_count > 0
    rows = read_archive(spark, to).select("log_partition", "log_offset")
    assert rows.count() == rows.distinct().count() == KILLED_RECORDS


def test_the_jobs_do_what_they_print(
    spark: SparkSession, job: Callable[..., Ended], tmp_path: Path
) -> None:
    folder, to, report = tmp_path / "log", tmp_path / "to", tmp_path / "report"
    write_log(folder, [batch(group, at, committed(at)) for at, group in enumerate("ab")])
    done = job("archive", folder, "--to", to, "--report", report, "-o", "json")
    assert done.code == 0, done.stderr
    assert json.loads(done.stdout)[0]["records"] == 2
    assert "Everything that was new is archived" in (report / "report.html").read_text()
    with ServerProcess(tmp_path / "live") as server:
        arguments = ["restore", to, "--address", server.address, "--group", "a", "--group", "c"]
        done = job(*arguments, "--report", report, "-o", "json")
        assert done.code == 3, done.stderr
        outcomes = {row["group"]: row["outcome"] for row in json.loads(done.stdout)}
        assert outcomes == {"a": "restored", "c": "failed"}
        assert "--execute" in done.stderr
        assert "This was a dry run" in (report / "report.html").read_text()
        done = job("restore", to, "--address", server.address, "--execute", "--from-other-source")
        assert done.code == 0, done.stderr
        with OffsetClient(server.address) as client:
            assert {each.group_id for each in client.list_groups()} == {"a", "b"}
        server.stop_well()
    assert job("archive", tmp_path / "nowhere", "--to", to).code == 1


def test_damage_that_was_passed_over_is_told_by_the_run_and_by_each_restore(
    spark: SparkSession, job: Callable[..., Ended], tmp_path: Path
) -> None:
    folder, to = tmp_path / "log", tmp_path / "to"
    batches = [batch(group, at, committed(at)) for at, group in enumerate("abc")]
    batches[1] = batches[1][:-1] + bytes([batches[1][-1] ^ 1])
    write_log(folder, batches, segments=1)
    failed = job("archive", folder, "--to", to)
    assert (failed.code, f"at byte {len(batches[0])}" in failed.stderr) == (1, True), failed
    report = tmp_path / "report"
    first = job(
        "archive", folder, "--to", tmp_path / "x", "--on-damage", "skip", "--report", report
    )
    # Nobody knows that a cleaner was there.
    for told in (first.stderr, (report / "report.html").read_text()):
        assert "1 record of 1 log partition was damaged, or compacted away before" in told
        assert "was compacted away or deleted" not in told
    for records in (2, 0):  # The second time there is nothing new, and the damage is still there.
        done = job("archive", folder, "--to", to, "--on-damage", "skip", "-o", "jsonl")
        told = f"Passed over {len(batches[1])} bytes"
        assert (done.code, told in done.stderr) == ((3, True) if records else (0, False)), done
    with ServerProcess(tmp_path / "live", settings=KEPT) as server:
        done = job("restore", to, "--address", server.address)
        assert done.code == 0, done.stderr
        assert f"{len(batches[1])} damaged bytes" in done.stderr
        other = job("restore", to, "--address", server.address, "--group", "a")
        assert f"{len(batches[1])} damaged bytes" in other.stderr
        server.stop_well()


def say_it_is_of(server: ServerProcess, archive: Path) -> None:
    """As if the server's own folder had been archived, at a time when this test did not run."""
    path = archive / MANIFESTS / "00000001.json"
    with OffsetClient(server.address) as client:
        document = json.loads(path.read_text())
        document["source"] = client.get_server_info().folder_id
        path.write_text(json.dumps(document))


def test_another_servers_archive_is_told_of_and_restored_only_if_that_is_said(
    spark: SparkSession, job: Callable[..., Ended], tmp_path: Path
) -> None:
    folder, to, report = tmp_path / "log", tmp_path / "to", tmp_path / "report"
    write_log(folder, [batch("a", 0, committed(1))])
    (folder / "meta.properties").write_text("cluster.id=a-cluster\n")
    archive(spark, [folder], to)
    where = TopicPartition("t", 0)
    with ServerProcess(tmp_path / "live") as server, OffsetClient(server.address) as client:
        client.commit("b", {where: 5})  # Waits until the server knows its id.
        command = ("restore", to, "--address", server.address, "--delete-others")
        dry = job(*command, "--report", report)
        assert dry.code == 0, dry.stderr
        assert "The archive is of a-cluster, not of this server's folder" in dry.stderr
        assert "a-cluster, not of this server" in (report / "report.html").read_text()
        refused = job(*command, "--execute")
        assert (refused.code, "--from-other-source" in refused.stderr) == (1, True)
        assert client.get_server_info().folder_id in refused.stderr
        assert (client.fetch("a"), client.fetch("b")[where].offset) == ({}, 5)
        done = job(*command, "--execute", "--from-other-source")
        assert done.code == 0, done.stderr
        assert (client.fetch("a")[where].offset, client.fetch("b")) == (1, {})
        client.commit("b", {where: 6})
        say_it_is_of(server, to)
        own = job(*command, "--execute")
        assert (own.code, "not of this server" in own.stderr) == (0, False), own.stderr
        assert client.fetch("b") == {}
        server.stop_well()


def test_the_guides_commands_work_as_they_stand_there(
    spark: SparkSession,
    job: Callable[..., Ended],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [block] = re.findall(r"\n```\n(python .*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    commands = [shlex.split(line, comments=True) for line in block.splitlines()]
    assert [words[3] for words in commands] == ["archive", "restore", "restore"]
    before_ms = round(datetime(2026, 11, 21, 7, tzinfo=UTC).timestamp() * 1000)
    batches = [batch("g", 0, committed(1), time_ms=before_ms), batch("g", 1, committed(2))]
    write_log(tmp_path / "offsetd-data", batches)
    monkeypatch.chdir(tmp_path)
    with ServerProcess(tmp_path / "live", settings=KEPT) as server:
        monkeypatch.setenv("OFFSETD_ADDRESS", server.wait_until_serving().address)
        done = [job(*commands[0][3:])]
        say_it_is_of(server, tmp_path / "archive")
        done += [job(*words[3:]) for words in commands[1:]]
        assert [each.code for each in done] == [0, 0, 0], [each.stderr for each in done]
        assert f"  {shlex.join([*commands[1], '--execute'])}\n" in done[1].stderr
        with OffsetClient(server.address) as client:
            assert client.fetch("g")[TopicPartition("t", 0)].offset == 1
        server.stop_well()
