"""offsetd_clients.cli.groups.group_seek and offset_deletion, run in this process."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import pytest
from cli_calls import Ended, offsetd_of
from offsetd.v1 import group_service_pb2, offset_service_pb2

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def offsetd(fake_server: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    return offsetd_of(fake_server.address, monkeypatch)


def moved() -> offset_service_pb2.ResetOffsetsResponse:
    change = offset_service_pb2.OffsetChange(
        topic="orders", partition=0, offset_before=1, offset_after=2
    )
    return offset_service_pb2.ResetOffsetsResponse(changes=[change])


def explicit(request: Any) -> list[tuple[str, int, int]]:
    return [(each.topic, each.partition, each.offset) for each in request.explicit.offsets]


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (["--to", "start"], "earliest"),
        (["--to", "end"], "latest"),
        (["--to", "2026-11-20T21:06:15.341"], "time"),
        (["--to", "1795208775"], "time"),
        (["--to", "1795208775341"], "time"),
        (["--to", "1795208775341000000"], "time"),
    ],
)
def test_a_seek_is_a_reset_that_only_shows_unless_executed(
    fake_server: Any, offsetd: Callable[..., Ended], words: list[str], target: str
) -> None:
    fake_server.will_answer("ResetOffsets", moved(), moved())
    ended = offsetd("groups", "seek", "billing", *words, "--topic", "orders:0")
    assert ended.code == 0, ended.stderr
    told = shlex.split(ended.stderr.splitlines()[-1])
    assert told[1:4] == ["groups", "seek", "billing"]
    assert offsetd(*told[1:]).code == 0
    shown, done = fake_server.requests
    assert (shown.validate_only, done.validate_only) == (True, False)
    assert target in str(done), done


def test_times_of_all_forms_are_the_same(fake_server: Any, offsetd: Callable[..., Ended]) -> None:
    fake_server.will_answer("ResetOffsets", *[moved()] * 3)
    fetched = offset_service_pb2.FetchOffsetsResponse()
    fetched.groups.add()
    fake_server.will_answer("FetchOffsets", *[fetched] * 3)
    for text in ("1795208775341", "1795208775341000000", "2026-11-20T21:06:15.341"):
        assert offsetd("groups", "seek", "billing", "--to", text).code == 0
    texts = set()
    for request in fake_server.requests:
        if isinstance(request, offset_service_pb2.FetchOffsetsRequest):
            continue  # For the note on what is left as it is.
        request.ClearField("request_id")
        texts.add(str(request))
    assert len(texts) == 1


def test_offsets_of_a_file_are_taken_where_the_topic_is_asked_for(
    fake_server: Any, offsetd: Callable[..., Ended], tmp_path: Path
) -> None:
    file = tmp_path / "offsets.txt"
    file.write_text("orders 0 7\n\norders\t1 8\npayments 0 9\n")
    fake_server.will_answer("ResetOffsets", moved())
    ended = offsetd("groups", "seek", "a", "--to-file", file, "--topics", "orders", "--execute")
    assert ended.code == 0, ended.stderr
    assert explicit(fake_server.requests[0]) == [("orders", 0, 7), ("orders", 1, 8)]


def test_offsets_of_another_group_are_taken(
    fake_server: Any, offsetd: Callable[..., Ended]
) -> None:
    offset = offset_service_pb2.CommittedOffset(topic="orders", partition=3, offset=42)
    answer = offset_service_pb2.FetchOffsetsResponse(
        groups=[offset_service_pb2.GroupOffsets(group_id="other", offsets=[offset])]
    )
    fake_server.will_answer("FetchOffsets", answer)
    fake_server.will_answer("ResetOffsets", moved())
    ended = offsetd("groups", "seek", "billing", "--to-group", "other")
    assert ended.code == 0, ended.stderr
    assert explicit(fake_server.requests[-1]) == [("orders", 3, 42)]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("orders 0\n", "line 1: 'orders 0' is not TOPIC PARTITION OFFSET"),
        ("orders 0 1\norders 0 2\n", "line 2: 'orders 0 2': the partition is there twice"),
        ("orders 0 -1\n", "offset '-1' is not a whole number of 0 or more"),
        ("orders 4294967296 1\n", "the largest partition is 2147483647"),
        ("\n", "is empty"),
    ],
)
def test_a_file_that_is_wrong_is_refused(
    offsetd: Callable[..., Ended],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: str,
    problem: str,
) -> None:
    file = tmp_path / "offsets.txt"
    file.write_text(content)
    ended = offsetd("groups", "seek", "billing", "--to-file", file)
    assert ended.code == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        "seek billing",
        "seek billing --to start --to-group b",
        "seek billing --to 123",
        "seek billing --to soon",
        "offset-delete billing",
        "offset-delete --topic orders",
        "offset-delete billing --all-groups --topic orders",
    ],
)
def test_what_is_not_said_or_said_twice_is_wrong_use(
    offsetd: Callable[..., Ended], line: str
) -> None:
    assert offsetd("groups", *line.split()).code == 2


def deleted() -> offset_service_pb2.DeleteOffsetsResponse:
    answer = offset_service_pb2.DeleteOffsetsResponse()
    for partition in (1, 2):
        answer.deleted.add(topic="orders", partition=partition)
    return answer


def test_offsets_are_deleted_by_topic_of_all_groups(
    fake_server: Any, offsetd: Callable[..., Ended]
) -> None:
    listed = [group_service_pb2.GroupListing(group_id=each) for each in ("b", "a")]
    fake_server.will_answer("ListGroups", group_service_pb2.ListGroupsResponse(groups=listed))
    fake_server.will_answer("DeleteOffsets", deleted(), deleted())
    words = ("--all-groups", "--topic", "orders", "-o", "csv")
    ended = offsetd("groups", "offset-delete", *words)
    assert ended.code == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "group,topic,partition,revision",
        "a,orders,1,",
        "a,orders,2,",
        "b,orders,1,",
        "b,orders,2,",
    ]


def test_partitions_to_delete_are_read_from_a_file(
    fake_server: Any, offsetd: Callable[..., Ended], tmp_path: Path
) -> None:
    file = tmp_path / "partitions.txt"
    file.write_text("orders 1\norders 2\n")
    fake_server.will_answer("DeleteOffsets", deleted())
    words = ("--group", "a", "--from-file", file, "--dry-run")
    ended = offsetd("groups", "offset-delete", *words)
    assert ended.code == 0, ended.stderr
    assert ended.stderr == "dry run: nothing was deleted\n"
    request = fake_server.requests[0]
    assert request.validate_only
    asked = [(each.topic, each.partition) for each in request.partitions]
    assert asked == [("orders", 1), ("orders", 2)]
