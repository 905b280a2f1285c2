"""offsetd_clients.cli.admin, run in this process."""

import json
import sys
from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any

import attrs
import pytest
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2
from offsetd.v1 import admin_service_pb2 as pb
from offsetd_clients.cli.application import run
from offsetd_clients.cli.printing.terminal import Terminal

SERVING = health_pb2.HealthCheckResponse(status="SERVING")
NOT_SERVING = health_pb2.HealthCheckResponse(status="NOT_SERVING")


@attrs.frozen
class Ended:
    code: int
    stdout: str
    stderr: str


Offsetd = Callable[..., Ended]


@pytest.fixture
def offsetd(fake_server: Any, monkeypatch: pytest.MonkeyPatch) -> Offsetd:
    monkeypatch.setenv("OFFSETD_ADDRESS", fake_server.address)

    def call(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["offsetd", "admin", *arguments])
        stdout, stderr = StringIO(), StringIO()
        code = run(Terminal(stdout, stderr))
        return Ended(code, stdout.getvalue(), stderr.getvalue())

    return call


def a_server(state: str = "SERVER_STATE_SERVING") -> pb.GetServerInfoResponse:
    return pb.GetServerInfoResponse(version="9", node_id="n", state=state, group_count=3)


def partitions(*described: pb.LogPartition) -> pb.DescribeLogResponse:
    return pb.DescribeLogResponse(partitions=described)


CLEAN = pb.LogPartition(
    partition=0,
    log_end_offset=9,
    size_bytes=70,
    segments=[pb.LogSegment(size_bytes=70)],
    cleaning=pb.LogCleaning(state="CLEANING_STATE_IDLE", dirty_ratio=0.25, first_dirty_offset=4),
)
STUCK = pb.LogPartition(
    partition=1,
    cleaning=pb.LogCleaning(
        state="CLEANING_STATE_IDLE",
        uncleanable=pb.UncleanablePartition(reason="CorruptBatch: rot", failures_in_row=2),
    ),
)


def test_status_prints_each_partition_and_how_the_server_does(
    fake_server: Any, offsetd: Offsetd
) -> None:
    fake_server.will_answer("GetServerInfo", a_server())
    fake_server.will_answer("Check", SERVING, SERVING)
    fake_server.will_answer("DescribeLog", partitions(CLEAN))
    ended = offsetd("status", "-o", "json", "--partition", "0")
    assert ended.code == 0
    [row] = json.loads(ended.stdout)
    assert row["dirty_ratio"] == 0.25
    assert (row["bytes"], row["segments"], row["first_dirty"], row["problem"]) == (70, 1, 4, None)
    assert "3 groups, 0 offsets" in ended.stderr
    assert "cleaner: serving" in ended.stderr
    assert fake_server.requests[-1] == pb.DescribeLogRequest(partitions=[0])


def test_status_says_that_counts_are_hidden_and_prints_no_zero(
    fake_server: Any, offsetd: Offsetd
) -> None:
    server = a_server()
    server.group_count, server.counts_hidden = 0, True
    fake_server.will_answer("GetServerInfo", server)
    fake_server.will_answer("Check", SERVING, SERVING)
    fake_server.will_answer("DescribeLog", partitions(CLEAN))
    told = offsetd("status").stderr
    assert "counts of groups and offsets need the right Describe on the cluster" in told
    assert "0 groups" not in told


@pytest.mark.parametrize(
    ("end_ms", "told"),
    [
        (None, "nothing expires until a setting is changed: disabled\n"),
        (1_795_208_775_000, "for 1 day, 1:00:00, until 2026-11-20T21:06:15.000Z by the server"),
    ],
)
def test_status_tells_what_keeps_offsets_from_expiring_and_that_is_no_trouble(
    fake_server: Any, offsetd: Offsetd, end_ms: int | None, told: str
) -> None:
    server = a_server()
    server.expiry_suspension.reason = "disabled"
    if end_ms is not None:
        server.expiry_suspension.end_time.FromMilliseconds(end_ms)
        server.expiry_suspension.remaining.FromSeconds(90_000)
    fake_server.will_answer("GetServerInfo", server)
    fake_server.will_answer("Check", SERVING, SERVING)
    fake_server.will_answer("DescribeLog", partitions(CLEAN))
    ended = offsetd("status")
    assert ended.code == 0
    assert told in ended.stderr


@pytest.mark.parametrize(
    ("cleaner", "described", "told"),
    [
        (SERVING, (CLEAN, STUCK), "in trouble: partition 1"),
        (NOT_SERVING, (CLEAN,), "in trouble: cleaner"),
        (SERVING, (pb.LogPartition(partition=2, quarantine_reason="rot"),), "partition 2"),
        (
            SERVING,
            [pb.LogPartition(partition=each, quarantine_reason="rot") for each in range(50)],
            "partition 8, partition 9, and 40 more\n",
        ),
    ],
)
def test_status_fails_where_something_is_wrong(
    fake_server: Any,
    offsetd: Offsetd,
    cleaner: health_pb2.HealthCheckResponse,
    described: Sequence[pb.LogPartition],
    told: str,
) -> None:
    fake_server.will_answer("GetServerInfo", a_server())
    fake_server.will_answer("Check", SERVING, cleaner)
    fake_server.will_answer("DescribeLog", partitions(*described))
    ended = offsetd("status")
    assert ended.code == 1
    assert told in ended.stderr
    assert len(ended.stdout.splitlines()) == 1 + len(described)


def test_status_fails_where_something_is_wrong_with_the_whole_server(
    fake_server: Any, offsetd: Offsetd
) -> None:
    server = a_server()
    server.problems.append("the disk is nearly full")
    fake_server.will_answer("GetServerInfo", server)
    fake_server.will_answer("Check", SERVING, SERVING)
    fake_server.will_answer("DescribeLog", partitions(CLEAN))
    ended = offsetd("status")
    assert ended.code == 1
    assert "the disk is nearly full\n" in ended.stderr
    assert "in trouble: server" in ended.stderr


def test_a_server_that_loads_has_no_partitions_to_show(fake_server: Any, offsetd: Offsetd) -> None:
    fake_server.will_answer("GetServerInfo", a_server("SERVER_STATE_LOADING"))
    fake_server.will_answer("Check", NOT_SERVING, NOT_SERVING)
    ended = offsetd("status")
    assert (ended.code, ended.stdout) == (1, "")
    assert "the server is loading" in ended.stderr


def test_blocked_retention_is_told(fake_server: Any, offsetd: Offsetd) -> None:
    blocked = pb.LogPartition(
        partition=3, blocked_retention=pb.BlockedRetention(base_offset=5, held_bytes=77)
    )
    fake_server.will_answer("GetServerInfo", a_server())
    fake_server.will_answer("Check", SERVING, SERVING)
    fake_server.will_answer("DescribeLog", partitions(blocked))
    ended = offsetd("status", "--topic", "__offsetd_audit")
    assert ended.code == 0
    assert "partition 3: retention is blocked until" in ended.stderr
    assert "77 bytes" in ended.stderr


def test_config_shows_some_and_changes_some(fake_server: Any, offsetd: Offsetd) -> None:
    setting = pb.ConfigSetting(name="a.b", value="1", source="CONFIG_SOURCE_DYNAMIC_TOPIC")
    default = pb.ConfigSetting(name="c", value="2", source="CONFIG_SOURCE_DEFAULT")
    kept = pb.ConfigSetting(name="d", value="3", problem="not known")
    info = pb.GetServerInfoResponse(state="SERVER_STATE_SERVING")
    fake_server.will_answer("GetServerInfo", info)
    fake_server.will_answer("DescribeConfig", pb.DescribeConfigResponse(settings=[setting]))
    assert offsetd("config", "a.b", "--topic", "t").code == 0
    assert fake_server.requests[-2] == pb.DescribeConfigRequest(topic="t", names=["a.b"])
    answer = pb.DescribeConfigResponse(settings=[setting, default, kept])
    fake_server.will_answer("GetServerInfo", info)
    fake_server.will_answer("DescribeConfig", answer)
    ended = offsetd("config", "--changed", "--long", "-o", "json")
    assert [row["name"] for row in json.loads(ended.stdout)] == ["a.b", "d"]
    assert ended.stderr == "d: not known\n"
    most = pb.ConfigSetting(name="rate", value="1.7976931348623157e+308")
    for output, shown in (("table", "no limit"), ("json", most.value)):
        fake_server.will_answer("GetServerInfo", info)
        fake_server.will_answer("DescribeConfig", pb.DescribeConfigResponse(settings=[most]))
        assert shown in offsetd("config", "-o", output).stdout
    fake_server.will_answer("UpdateConfig", pb.UpdateConfigResponse(settings=[setting]))
    ended = offsetd("config", "a.b=1=2", "x=", "--unset", "c", "--dry-run", "--reason", "why")
    assert (ended.code, ended.stderr) == (0, "dry run: nothing was changed\n")
    request = fake_server.requests[-1]
    assert dict(request.set) == {"a.b": "1=2", "x": ""}
    assert list(request.remove) == ["c"]
    assert (request.validate_only, request.reason) == (True, "why")
    assert request.request_id


@pytest.mark.parametrize(
    "arguments",
    [
        ("config", "a", "b=1"),
        ("config", "a", "--unset", "b"),
        ("config", "a=1", "a=2"),
        ("delete-records", "t"),
        ("delete-records", "t:x", "--all"),
        ("delete-records", "t:0", "--all", "--before", "5"),
        ("delete-records", "t:0"),
        ("retry",),
        ("retry", "-1"),
        ("clean", "--partition", "-1"),
    ],
)
def test_wrong_use_is_told_without_a_call(
    fake_server: Any, offsetd: Offsetd, arguments: tuple[str, ...]
) -> None:
    assert offsetd(*arguments).code == 2
    assert fake_server.requests == []


A_ROUND = pb.CleaningRound(bytes_before=100, bytes_after=40, records_before=10, records_after=4)


@pytest.mark.parametrize(
    ("compacted", "code", "told"),
    [
        ([pb.CompactedPartition(round=A_ROUND)], 0, "saved 60 of 100 bytes in 1 partition"),
        (
            [pb.CompactedPartition()],
            0,
            "that may be cleaned; records stay for 5000 ms (history.ms)\n",
        ),
        (
            [pb.CompactedPartition(round=A_ROUND), pb.CompactedPartition(partition=1, failure="x")],
            3,
            "cannot be cleaned: 1",
        ),
        ([pb.CompactedPartition(partition=1, failure="x")], 1, "cannot be cleaned: 1"),
    ],
)
def test_clean_says_what_was_saved_and_what_could_not_be_cleaned(
    fake_server: Any,
    offsetd: Offsetd,
    compacted: list[pb.CompactedPartition],
    code: int,
    told: str,
) -> None:
    fake_server.will_answer("CompactLog", pb.CompactLogResponse(partitions=compacted))
    lag = pb.ConfigSetting(
        name="min.compaction.lag.ms", value="5000", source=pb.CONFIG_SOURCE_FLOOR
    )
    fake_server.will_answer("DescribeConfig", pb.DescribeConfigResponse(settings=[lag]))
    ended = offsetd("clean", "--roll-active", "--partition", "0", "--partition", "1")
    assert ended.code == code
    assert told in ended.stderr
    request = fake_server.requests[0]
    assert (list(request.partitions), request.roll_active) == ([0, 1], True)
    assert not request.validate_only
    assert fake_server.timeouts_s[-1] > 200


def test_retry_and_deletion_print_what_was_done(
    fake_server: Any, offsetd: Offsetd, failed: Callable[..., Status]
) -> None:
    failure = pb.UncleanablePartition(reason="rot", is_damaged=True, failures_in_row=2)
    fake_server.will_answer(
        "RetryPartition",
        pb.RetryPartitionResponse(uncleanable=failure),
        pb.RetryPartitionResponse(),
    )
    ended = offsetd("retry", "4", "5", "4", "-o", "json")
    [row] = json.loads(ended.stdout)
    assert (row["partition"], row["reason"], row["damaged"], row["failures"]) == (4, "rot", True, 2)
    assert ended.stderr == "partition 5: nothing is wrong\n"
    answer = pb.DeleteRecordsResponse(log_start_offset=7, deleted_bytes=99)
    answer.revision.log_offset = 8
    fake_server.will_answer("DeleteRecords", answer)
    ended = offsetd("delete-records", "a:b:3", "--before", "7", "-o", "json")
    assert json.loads(ended.stdout) == [
        {
            "topic": "a:b",
            "partition": 3,
            "log_start_offset": 7,
            "deleted_bytes": 99,
            "revision": 8,
        }
    ]
    fake_server.will_answer("DeleteRecords", failed("FAILED_PRECONDITION", "POLICY_VIOLATION"))
    ended = offsetd("delete-records", "t:0", "--all")
    assert (ended.code, ended.stderr) == (1, "error: POLICY_VIOLATION: it went wrong\n")
    assert fake_server.requests[-1].end
