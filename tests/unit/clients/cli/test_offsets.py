"""offsetd_clients.cli.offsets: `commit` and `fetch`, through a pipe and on a pseudo-terminal."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import typer
from google.rpc.status_pb2 import Status
from offsetd.v1 import admin_service_pb2, group_service_pb2, offset_service_pb2, types_pb2
from offsetd_clients.cli.offsets import parse_position
from offsetd_clients.values import TopicPartition

OFFSETD = Path(sys.executable).parent / "offsetd"
COMMITTED = offset_service_pb2.CommitOffsetsResponse(
    revision=types_pb2.Revision(log_partition=12, log_offset=8)
)

EMPTY = group_service_pb2.GetGroupResponse(group=group_service_pb2.Group(group_id="empty"))


def offsetd(fake_server: Any, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [OFFSETD, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "OFFSETD_ADDRESS": fake_server.address},
    )


def offsetd_on_a_terminal(fake_server: Any, *arguments: str, columns: int) -> tuple[str, str]:
    """What a terminal of that width gets on stdout, and stderr, which is a pipe."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "OFFSETD_ADDRESS": fake_server.address, "TERM": "xterm"}
    for variable in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        environment.pop(variable, None)
    process = subprocess.Popen(
        [OFFSETD, *arguments], stdout=its, stderr=subprocess.PIPE, env=environment
    )
    os.close(its)
    printed = b""
    while True:
        try:
            more = os.read(ours, 4096)
        except OSError:  # How a pseudo-terminal says that its last user is gone.
            break
        if not more:
            break
        printed += more
    _, complaints = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == 0, complaints
    return printed.decode().replace("\r\n", "\n"), complaints.decode()


def stored_offsets() -> offset_service_pb2.FetchOffsetsResponse:
    first = offset_service_pb2.CommittedOffset(
        topic="orders", partition=0, offset=42, leader_epoch=3, end_offset=50, revision=7
    )
    first.commit_time.FromMilliseconds(1_795_208_775_341)
    second = offset_service_pb2.CommittedOffset(
        topic="orders", partition=1, offset=1234567, metadata="größe 🚀\x1b[31m", revision=8
    )
    second.commit_time.FromMilliseconds(1_795_208_775_000)
    second.expire_time.FromMilliseconds(1_795_208_776_000)
    return offset_service_pb2.FetchOffsetsResponse(
        groups=[
            offset_service_pb2.GroupOffsets(group_id="billing", offsets=[first, second]),
            offset_service_pb2.GroupOffsets(group_id="empty"),
        ]
    )


FETCHED = {
    "table": (
        "\n"
        "GROUP    TOPIC   PARTITION   OFFSET  END-OFFSET  LEADER-EPOCH"
        "  COMMIT-TIME               EXPIRE-TIME               REVISION  METADATA\n"
        "billing  orders          0       42          50             3"
        "  2026-11-20T21:06:15.341Z  -                                7\n"
        "billing  orders          1  1234567           -             -"
        "  2026-11-20T21:06:15.000Z  2026-11-20T21:06:16.000Z         8  größe 🚀\\x1b[31m\n"
    ),
    "csv": (
        "\ngroup,topic,partition,offset,end_offset,leader_epoch,commit_time,expire_time,revision,"
        "metadata\n"
        "billing,orders,0,42,50,3,2026-11-20T21:06:15.341Z,,7,\n"
        "billing,orders,1,1234567,,,2026-11-20T21:06:15.000Z,2026-11-20T21:06:16.000Z,8,"
        "größe 🚀\x1b[31m\n"
    ),
    "jsonl": (
        "\n"
        '{"group": "billing", "topic": "orders", "partition": 0, "offset": 42, "end_offset": 50,'
        ' "leader_epoch": 3, "commit_time": "2026-11-20T21:06:15.341Z", "expire_time": null,'
        ' "revision": 7, "metadata": ""}\n'
        '{"group": "billing", "topic": "orders", "partition": 1, "offset": 1234567,'
        ' "end_offset": null, "leader_epoch": null, "commit_time": "2026-11-20T21:06:15.000Z",'
        ' "expire_time": "2026-11-20T21:06:16.000Z", "revision": 8,'
        ' "metadata": "größe 🚀\\u001b[31m"}\n'
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("output_format", FETCHED)
def test_fetch_prints_stored_offsets_to_a_pipe(fake_server: Any, output_format: str) -> None:
    fake_server.will_answer("FetchOffsets", stored_offsets())
    fake_server.will_answer("GetGroup", EMPTY)
    ended = offsetd(fake_server, "fetch", "billing", "empty", "-o", output_format)
    assert "\n" + ended.stdout == FETCHED[output_format]
    assert (ended.returncode, ended.stderr) == (0, "group empty has no offsets\n")


def test_fetch_prints_the_same_to_a_wide_terminal_with_a_bold_header(fake_server: Any) -> None:
    fake_server.will_answer("FetchOffsets", stored_offsets())
    fake_server.will_answer("GetGroup", EMPTY)
    printed, complaints = offsetd_on_a_terminal(
        fake_server, "fetch", "billing", "empty", columns=200
    )
    header = printed.partition("\n")[0]
    assert header.startswith("\x1b[1mGROUP")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", printed)
    lines = [line.rstrip() for line in plain.splitlines()]
    assert lines == FETCHED["table"].strip().splitlines()
    assert complaints == "group empty has no offsets\n"


@pytest.mark.slow
@pytest.mark.parametrize("columns", [40, 60, 80, 120])
@pytest.mark.parametrize("wide", [(), ("--wide",), ("--verbose",)])
def test_a_narrow_terminal_breaks_no_word(
    fake_server: Any, columns: int, wide: tuple[str, ...]
) -> None:
    answer = stored_offsets()
    answer.groups[0].offsets[0].metadata = "a long story " * 20
    fake_server.will_answer("FetchOffsets", answer)
    fake_server.will_answer("GetGroup", EMPTY)
    printed, _ = offsetd_on_a_terminal(fake_server, "fetch", "billing", *wide, columns=columns)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", printed)
    assert max(map(len, plain.splitlines())) <= columns
    whole = set(FETCHED["table"].split()) | {"a", "long", "story"}
    assert set(plain.split()) <= whole
    if wide:
        assert plain.count("story") == 20
        assert plain.count("2026-11-20T21:06:15.341Z") == 1


@pytest.mark.parametrize("columns", [40, 80, 100])
def test_a_terminal_too_narrow_for_the_audit_log_gets_blocks_of_its_width(
    fake_server: Any, columns: int
) -> None:
    event = admin_service_pb2.AuditEvent(
        method="UpdateConfig",
        reason="keep more",
        peer="ipv4:127.0.0.1:51234",
        what='{"set": {"offsets.retention.minutes": "20160", "log.cleaner.threads": "2"}}',
    )
    event.time.FromMilliseconds(1_795_208_775_341)
    fake_server.will_answer(
        "ListAuditEvents", admin_service_pb2.ListAuditEventsResponse(events=[event, event])
    )
    printed, _ = offsetd_on_a_terminal(fake_server, "admin", "audit", columns=columns)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", printed).splitlines()
    assert max(map(len, lines)) <= columns
    assert lines.count("TIME      2026-11-20T21:06:15.341Z") == 2
    assert lines.count("REASON    keep more") == 2
    assert not any(line.startswith("GROUP") for line in lines)
    assert lines.count("") == 1


def test_json_has_no_colour_on_a_terminal_either(fake_server: Any) -> None:
    fake_server.will_answer("FetchOffsets", stored_offsets())
    fake_server.will_answer("GetGroup", EMPTY)
    printed, _ = offsetd_on_a_terminal(
        fake_server, "fetch", "billing", "empty", "-o", "jsonl", columns=80
    )
    assert "\n" + printed == FETCHED["jsonl"]


def test_fetch_prints_the_groups_whose_partition_is_not_damaged(
    fake_server: Any, failed: Callable[..., Status]
) -> None:
    damaged = failed("DATA_LOSS", "PARTITION_QUARANTINED", "partition 3 is damaged")
    first = stored_offsets().groups[0]
    answer = offset_service_pb2.FetchOffsetsResponse(groups=[first])
    # All groups in one call, and then each by itself.
    fake_server.will_answer("FetchOffsets", damaged, damaged, answer)
    ended = offsetd(fake_server, "fetch", "crlf", "billing", "-o", "csv")
    assert ended.returncode == 3
    assert [line.split(",")[:4] for line in ended.stdout.splitlines()[1:]] == [
        ["billing", "orders", "0", "42"],
        ["billing", "orders", "1", "1234567"],
    ]
    assert ended.stderr == "error: group crlf: PARTITION_QUARANTINED: partition 3 is damaged\n"


def test_fetch_of_a_topic_prints_only_that_topic(fake_server: Any) -> None:
    fake_server.will_answer("FetchOffsets", stored_offsets())
    fake_server.will_answer("GetGroup", EMPTY)
    ended = offsetd(fake_server, "fetch", "billing", "--topic", "clicks", "--stable", "-o", "csv")
    assert ended.stdout.count("\n") == 1
    assert fake_server.requests[0].require_stable


def test_a_reader_that_goes_away_is_no_failure(fake_server: Any) -> None:
    answer = stored_offsets()
    for number in range(20_000):
        answer.groups[0].offsets.add(topic="orders", partition=number)
    fake_server.will_answer("FetchOffsets", answer)
    fake_server.will_answer("GetGroup", EMPTY)
    with subprocess.Popen(
        [OFFSETD, "fetch", "billing", "-o", "csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OFFSETD_ADDRESS": fake_server.address},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"group,topic")
        process.stdout.close()
        assert process.stderr is not None
        complaints = process.stderr.read()
        assert (process.wait(60), complaints) == (0, b"group empty has no offsets\n")


def test_commit_prints_each_offset_with_its_revision(fake_server: Any) -> None:
    fake_server.will_answer("CommitOffsets", COMMITTED)
    ended = offsetd(
        fake_server,
        "commit",
        "billing",
        "orders:0=42",
        "a:b=c:1=7",
        "--metadata=from host-7",
        "--leader-epoch=3",
        "--monotonic",
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == dedent(
        """\
        GROUP    TOPIC   PARTITION  OFFSET  REVISION
        billing  orders          0      42         7
        billing  a:b=c           1       7         8
        """
    )
    (request,) = fake_server.requests
    expected = offset_service_pb2.OffsetCommit(
        topic="orders", offset=42, metadata="from host-7", leader_epoch=3, monotonic=True
    )
    assert request.offsets[0] == expected


@pytest.mark.parametrize(
    ("option", "field"),
    [("--must-not-exist", "must_not_exist"), ("--expected-offset=0", "expected_offset")],
)
def test_commit_takes_a_precondition(fake_server: Any, option: str, field: str) -> None:
    fake_server.will_answer("CommitOffsets", COMMITTED)
    assert offsetd(fake_server, "commit", "billing", "orders:0=42", option).returncode == 0
    assert fake_server.requests[0].offsets[0].WhichOneof("precondition") == field


def test_a_dry_run_of_commit_shows_what_is_stored_and_writes_nothing(fake_server: Any) -> None:
    fake_server.will_answer("FetchOffsets", stored_offsets())
    fake_server.will_answer("GetGroup", EMPTY)
    ended = offsetd(fake_server, "commit", "billing", "orders:0=50", "orders:9=1", "--dry-run")
    assert (ended.returncode, ended.stderr) == (
        0,
        "dry run: nothing was committed, and no precondition was checked\n",
    )
    assert ended.stdout == dedent(
        """\
        GROUP    TOPIC   PARTITION  OFFSET  STORED-OFFSET
        billing  orders          0      50             42
        billing  orders          9       1              -
        """
    )
    (request,) = fake_server.requests
    assert isinstance(request, offset_service_pb2.FetchOffsetsRequest)


def test_a_lost_comparison_says_what_is_stored(
    fake_server: Any, failed: Callable[..., Status]
) -> None:
    conflicts = (
        '[{"topic":"orders","partition":0,"offset":9,"revision":3},'
        '{"topic":"orders","partition":1}]'
    )
    status = failed(
        "ABORTED", "OFFSET_CONFLICT", "2 offsets differ", conflicts=conflicts, conflict_count="2"
    )
    fake_server.will_answer("CommitOffsets", status)
    ended = offsetd(fake_server, "commit", "billing", "orders:0=1", "orders:1=1")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == dedent(
        """\
        error: OFFSET_CONFLICT: 2 offsets differ
          orders:0: offset 9, revision 3 is stored
          orders:1: nothing is stored
        """
    )


@pytest.mark.parametrize(
    ("text", "topic", "partition", "offset"),
    [
        ("orders:0=42", "orders", 0, 42),
        ("a:b:1=0", "a:b", 1, 0),
        ("a=b:1=0", "a=b", 1, 0),
        ("заказы:2147483647=9223372036854775807", "заказы", 2147483647, 9223372036854775807),
    ],
)
def test_a_position_is_split_from_its_end(
    text: str, topic: str, partition: int, offset: int
) -> None:
    assert parse_position(text) == (TopicPartition(topic, partition), offset)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "orders",
        "orders:0",
        "orders=5",
        ":0=5",
        "orders:=5",
        "orders:0=",
    ],
)
def test_what_is_no_position_is_wrong_use(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not TOPIC:PARTITION=OFFSET"):
        parse_position(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("orders:-1=5", "partition '-1' is not a whole number of 0 or more"),
        ("orders:٣=5", "partition '٣' is not a whole number of 0 or more"),
        ("orders:0=-5", "offset '-5' is not a whole number of 0 or more"),
        ("orders:0=+5", "offset '\\+5' is not a whole number of 0 or more"),
        ("orders:0=5.0", "offset '5.0' is not a whole number of 0 or more"),
        ("orders:2147483648=5", "the largest partition is 2147483647"),
        ("orders:0=9223372036854775808", "the largest offset is 9223372036854775807"),
        ("orders:0=" + "9" * 5000, "the largest offset is 9223372036854775807"),
    ],
)
def test_a_number_that_no_message_holds_is_wrong_use(text: str, complaint: str) -> None:
    with pytest.raises(typer.BadParameter, match=complaint):
        parse_position(text)
    assert parse_position("orders:2147483647=9223372036854775807")[1] == 2**63 - 1


def test_what_the_server_finds_invalid_is_wrong_use_and_told_once(
    fake_server: Any, failed: Callable[..., Status]
) -> None:
    status = failed(
        "INVALID_ARGUMENT",
        "INVALID_GROUP_ID",
        "group_id: empty",
        violations={"group_id": "empty", "offsets[0].topic": "too long"},
    )
    fake_server.will_answer("CommitOffsets", status)
    ended = offsetd(fake_server, "commit", "", "orders:0=1")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "error: INVALID_GROUP_ID: group_id: empty\n  offsets[0].topic: too long\n"
    )
