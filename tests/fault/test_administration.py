"""A real server is administered: what it refuses, what is there after a stop and after kill -9."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import attrs
import grpc
import pytest
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, PreconditionFailure
from offsetd.v1 import admin_service_pb2
from offsetd_clients import (
    CleaningState,
    ConfigSource,
    InvalidRequest,
    OffsetClient,
    RetryPolicy,
    TopicPartition,
)
from refusals import status_of
from server_process import ServerProcess, Stubs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AUDIT_TOPIC = "__offsetd_audit"
CONFIG_TOPIC = "__offsetd_config"
OFFSETS_TOPIC = "__consumer_offsets"
SETTINGS = {"offsets.topic.num.partitions": 2, "request.id.window.ms": 0}
NO_WAIT = RetryPolicy(timeout_s=60)


def client_of(server: ServerProcess) -> OffsetClient:
    return OffsetClient(server.wait_until_serving().address, retry=NO_WAIT)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Serves for all tests that change nothing."""
    with ServerProcess(tmp_path_factory.mktemp("node"), settings=SETTINGS) as process:
        yield process.wait_until_serving()


@pytest.fixture
def stubs(server: ServerProcess) -> Iterator[Stubs]:
    with server.channel() as channel:
        yield Stubs(channel)


def seen(stubs: Stubs) -> list[bytes]:
    """All that an administrator could have changed."""
    admin = stubs.admin
    answers = [
        admin.DescribeLog(admin_service_pb2.DescribeLogRequest(topic=topic))
        for topic in (AUDIT_TOPIC, CONFIG_TOPIC)
    ]
    for answer in answers:
        for partition in answer.partitions:
            partition.ClearField("cleaning")  # Its ages grow.
    answers += [
        admin.DescribeConfig(admin_service_pb2.DescribeConfigRequest(topic=topic))
        for topic in ("", OFFSETS_TOPIC, AUDIT_TOPIC, CONFIG_TOPIC)
    ]
    return [answer.SerializeToString(deterministic=True) for answer in answers]


UPDATE = admin_service_pb2.UpdateConfigRequest
REFUSED: dict[str, tuple[str, Any, str, str, str]] = {
    "a setting that does not exist": (
        "UpdateConfig",
        UPDATE(set={"log.cleaner.thread": "2"}),
        "INVALID_ARGUMENT",
        "INVALID_CONFIG",
        "set[log.cleaner.thread]",
    ),
    "a value that is not allowed": (
        "UpdateConfig",
        UPDATE(set={"log.cleaner.threads": "0"}),
        "INVALID_ARGUMENT",
        "INVALID_CONFIG",
        "set[log.cleaner.threads]",
    ),
    "one of two": (
        "UpdateConfig",
        UPDATE(set={"log.cleaner.threads": "2", "log.retention.ms": "x"}),
        "INVALID_ARGUMENT",
        "INVALID_CONFIG",
        "set[log.retention.ms]",
    ),
    "two that do not fit": (
        "UpdateConfig",
        UPDATE(topic=AUDIT_TOPIC, set={"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "5"}),
        "INVALID_ARGUMENT",
        "INVALID_CONFIG",
        "set[min.compaction.lag.ms]",
    ),
    "one that needs a restart": (
        "UpdateConfig",
        UPDATE(set={"journal.file.bytes": "70000000"}),
        "INVALID_ARGUMENT",
        "INVALID_CONFIG",
        "set[journal.file.bytes]",
    ),
    "old segments of offsets deleted": (
        "UpdateConfig",
        UPDATE(topic=OFFSETS_TOPIC, set={"cleanup.policy": "compact,delete"}),
        "INVALID_ARGUMENT",
        "INVALID_CONFIG",
        "set[cleanup.policy]",
    ),
    "nothing to change": ("UpdateConfig", UPDATE(), "INVALID_ARGUMENT", "INVALID_REQUEST", "set"),
    "a request id that is too long": (
        "UpdateConfig",
        UPDATE(set={"log.cleaner.threads": "2"}, request_id="x" * 65),
        "INVALID_ARGUMENT",
        "INVALID_REQUEST_ID",
        "request_id",
    ),
    "settings of a topic that is not there": (
        "DescribeConfig",
        admin_service_pb2.DescribeConfigRequest(topic="orders"),
        "INVALID_ARGUMENT",
        "INVALID_TOPIC",
        "topic",
    ),
    "a log that is not there": (
        "DescribeLog",
        admin_service_pb2.DescribeLogRequest(topic=AUDIT_TOPIC, partitions=[1]),
        "INVALID_ARGUMENT",
        "INVALID_PARTITION",
        "partitions[0]",
    ),
    "a topic without compaction": (
        "CompactLog",
        admin_service_pb2.CompactLogRequest(topic=AUDIT_TOPIC),
        "FAILED_PRECONDITION",
        "POLICY_VIOLATION",
        "",
    ),
    "a retry of a partition that is not there": (
        "RetryPartition",
        admin_service_pb2.RetryPartitionRequest(partition=2),
        "INVALID_ARGUMENT",
        "INVALID_PARTITION",
        "partition",
    ),
    "a topic without deletion": (
        "DeleteRecords",
        admin_service_pb2.DeleteRecordsRequest(topic=OFFSETS_TOPIC, end=True),
        "FAILED_PRECONDITION",
        "POLICY_VIOLATION",
        "",
    ),
    "more records than there are": (
        "DeleteRecords",
        admin_service_pb2.DeleteRecordsRequest(topic=AUDIT_TOPIC, offset=10_000),
        "OUT_OF_RANGE",
        "OFFSET_OUT_OF_RANGE",
        "",
    ),
    "fewer records than none": (
        "DeleteRecords",
        admin_service_pb2.DeleteRecordsRequest(topic=AUDIT_TOPIC, offset=-1),
        "INVALID_ARGUMENT",
        "INVALID_OFFSET",
        "offset",
    ),
    "no end of records": (
        "DeleteRecords",
        admin_service_pb2.DeleteRecordsRequest(topic=AUDIT_TOPIC),
        "INVALID_ARGUMENT",
        "INVALID_REQUEST",
        "until",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_says_why_and_changes_nothing(stubs: Stubs, case: str) -> None:
    method, request, code, reason, field = REFUSED[case]
    before = seen(stubs)
    with pytest.raises(grpc.RpcError) as caught:
        getattr(stubs.admin, method)(request)
    error: Any = caught.value
    assert error.code().name == code
    info, bad_request, precondition = ErrorInfo(), BadRequest(), PreconditionFailure()
    for packed in status_of(error).details:
        for kind in (info, bad_request, precondition):
            packed.Unpack(kind)
    assert (info.reason, info.domain) == (reason, "offsetd")
    assert [each.field for each in bad_request.field_violations] == ([field] if field else [])
    if code == "FAILED_PRECONDITION":
        assert [each.subject for each in precondition.violations] == ["topic"]
    assert seen(stubs) == before


@pytest.mark.single_server
@pytest.mark.parametrize("ends", ["stop", "kill"])
def test_settings_and_the_audit_log_are_there_after_the_end(tmp_path: Path, ends: str) -> None:
    with ServerProcess(tmp_path, settings=SETTINGS) as first, client_of(first) as client:
        changed = client.update_config(
            {"log.cleaner.threads": "2", "log.retention.ms": "777000"},
            reason="two cores",
            request_id="once",
        )
        client.update_config({"retention.ms": "888000", "segment.ms": "5"}, topic=AUDIT_TOPIC)
        client.update_config({}, remove=["segment.ms"], topic=AUDIT_TOPIC)
        deleted = client.delete_records(AUDIT_TOPIC, 0, 1, request_id="cut")
        assert deleted.log_start_offset == 1
        getattr(first, ends)()
    with ServerProcess(tmp_path) as second, client_of(second) as client:
        [threads] = client.describe_config(names=["log.cleaner.threads"])
        assert (threads.value, threads.source) == ("2", ConfigSource.DYNAMIC_SERVER)
        retention, segment = client.describe_config(AUDIT_TOPIC, ["segment.ms", "retention.ms"])
        assert (retention.value, retention.source) == ("888000", ConfigSource.DYNAMIC_TOPIC)
        assert segment.source == ConfigSource.DEFAULT
        [audit] = client.describe_log(AUDIT_TOPIC)
        assert (audit.log_start_offset, audit.log_end_offset) == (1, 4)
        [config] = client.describe_log(CONFIG_TOPIC)
        assert config.log_end_offset == 5
        assert changed.revision is not None
        assert changed.revision.log_offset == 1


@pytest.mark.single_server
def test_a_folder_of_an_older_server_gets_the_topics_and_one_without_settings_starts(
    tmp_path: Path,
) -> None:
    """As if nobody had known of them: their folders go, and the journal has never heard of them."""
    for _ in range(2):
        with ServerProcess(tmp_path / "now", settings=SETTINGS) as process:
            with client_of(process) as client:
                client.commit("g", {TopicPartition("t", 0): 5})
                assert len(client.describe_log(CONFIG_TOPIC)) == 1
            assert process.stop() == 0
        for name in ("offsetd-journal-0", "offsetd-journal-1", "offsetd.properties"):
            (tmp_path / "now" / name).unlink()
        for topic in (CONFIG_TOPIC, AUDIT_TOPIC):
            for path in (tmp_path / "now" / f"{topic}-0").iterdir():
                path.unlink()
            (tmp_path / "now" / f"{topic}-0").rmdir()
        for path in (tmp_path / "now").glob("*-checkpoint"):
            path.unlink()


@pytest.mark.single_server
def test_a_server_is_administered_by_its_client(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, settings=SETTINGS) as process, client_of(process) as client:
        for value in range(50):
            client.commit("g", {TopicPartition("t", 0): value})
        assert client.is_serving()
        assert client.is_serving("offsetd.cleaner")
        looked = client.compact_log(roll_active=True, validate_only=True)
        done = client.compact_log(roll_active=True)
        assert looked.revision is None
        assert done.revision is not None
        for a_look, a_round in zip(looked.partitions, done.partitions, strict=True):
            assert (a_look.round is None) == (a_round.round is None)
        [finished] = [each.round for each in done.partitions if each.round is not None]
        assert (finished.records_before, finished.records_after) == (50, 1)
        described = client.describe_log()
        assert [each.partition for each in described] == [0, 1]
        cleaning = [each.cleaning for each in described if each.log_end_offset == 50]
        assert cleaning[0] is not None
        assert cleaning[0].state == CleaningState.IDLE
        assert cleaning[0].first_dirty_offset == 50
        assert client.retry_partition(0).uncleanable is None
        with pytest.raises(InvalidRequest) as caught:
            client.update_config({"log.cleaner.threads": "many"})
        assert caught.value.field_violations[0].field == "set[log.cleaner.threads]"


@attrs.frozen
class Ended:
    code: int
    stdout: str
    stderr: str


def offsetd(server: ServerProcess, *arguments: str) -> Ended:
    """`offsetd admin …` against a server."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from offsetd_clients.cli.main import main; main()",
            "admin",
            *arguments,
            "--address",
            server.address,
        ],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.mark.single_server
def test_the_command_line_administers_a_server(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, settings=SETTINGS) as process:
        with client_of(process) as client:
            for value in range(20):
                client.commit("g", {TopicPartition("t", 0): value})
        status = offsetd(process, "status", "-o", "json")
        assert status.code == 0, status.stderr
        assert "server: serving" in status.stderr
        assert "cleaner: serving" in status.stderr
        rows = json.loads(status.stdout)
        assert [row["partition"] for row in rows] == [0, 1]
        assert sum(row["log_end_offset"] for row in rows) == 20

        shown = offsetd(process, "config", "log.cleaner.threads", "-o", "json")
        assert json.loads(shown.stdout)[0]["value"] == "1"
        dry = offsetd(process, "config", "log.cleaner.threads=2", "--dry-run")
        assert (dry.code, dry.stderr) == (0, "dry run: nothing was changed\n")
        assert offsetd(process, "config", "log.cleaner.threads=2", "--reason", "cores").code == 0
        changed = offsetd(process, "config", "--changed", "-o", "csv")
        assert "log.cleaner.threads,2,dynamic-server,1,threads,true" in changed.stdout
        assert offsetd(process, "config", "--unset", "log.cleaner.threads").code == 0
        changed = offsetd(process, "config", "--changed", "-o", "csv")
        assert "log.cleaner.threads" not in changed.stdout
        wrong = offsetd(process, "config", "log.cleaner.thread=2")
        assert wrong.code == 2
        assert "did you mean log.cleaner.threads?" in wrong.stderr

        dry = offsetd(process, "clean", "--roll-active", "--dry-run", "-o", "jsonl")
        clean = offsetd(process, "clean", "--roll-active", "-o", "jsonl")
        assert (dry.code, clean.code) == (0, 0)
        rows = [json.loads(each) | {"seconds": 0} for each in (dry.stdout, clean.stdout)]
        assert rows[0] == rows[1]
        assert (rows[0]["records_before"], rows[0]["records_after"]) == (20, 1)
        assert "a pass would save" in dry.stderr
        assert offsetd(process, "clean", "--topic", AUDIT_TOPIC).code == 1

        assert "partition 1: nothing is wrong" in offsetd(process, "retry", "1").stderr
        for arguments, code in (
            ((f"{AUDIT_TOPIC}:0",), 2),
            ((f"{AUDIT_TOPIC}:0", "--all", "--before", "1"), 2),
            ((AUDIT_TOPIC, "--all"), 2),
            ((f"{OFFSETS_TOPIC}:0", "--all"), 1),
            ((f"{AUDIT_TOPIC}:0", "--before", "99"), 1),
            ((f"{AUDIT_TOPIC}:0", "--before", "2", "--dry-run"), 0),
            ((f"{AUDIT_TOPIC}:0", "--all", "--reason", "old"), 0),
        ):
            assert offsetd(process, "delete-records", *arguments).code == code, arguments
        audit = offsetd(process, "status", "--topic", AUDIT_TOPIC, "-o", "json")
        assert json.loads(audit.stdout)[0]["log_start_offset"] == 3
        process.stop()
        gone = offsetd(process, "status", "--timeout", "1")
        assert gone.code == 1
