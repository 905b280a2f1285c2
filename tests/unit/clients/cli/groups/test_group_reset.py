"""offsetd_clients.cli.groups.group_reset, run in this process."""

from __future__ import annotations

import shlex
from io import BytesIO, TextIOWrapper
from typing import TYPE_CHECKING, Any

import pytest
from cli_calls import Ended, offsetd_of
from offsetd.v1 import group_service_pb2, offset_service_pb2
from offsetd_clients import OffsetChange, ResetOffsets, Revision, TopicPartition
from offsetd_clients.cli.groups import group_reset

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from google.rpc.status_pb2 import Status


@pytest.fixture
def offsetd(fake_server: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    return offsetd_of(fake_server.address, monkeypatch)


def moved(*changes: tuple[int | None, int]) -> offset_service_pb2.ResetOffsetsResponse:
    """Partition by partition, from and to."""
    return offset_service_pb2.ResetOffsetsResponse(
        changes=[
            offset_service_pb2.OffsetChange(
                topic="orders", partition=number, offset_before=before, offset_after=after
            )
            for number, (before, after) in enumerate(changes)
        ]
    )


def listed(*group_ids: str) -> group_service_pb2.ListGroupsResponse:
    return group_service_pb2.ListGroupsResponse(
        groups=[group_service_pb2.GroupListing(group_id=each) for each in group_ids]
    )


def told_line(ended: Ended) -> list[str]:
    """The command that a dry run says does it."""
    return shlex.split(ended.stderr.splitlines()[-1])


def test_a_dry_run_says_what_it_would_do_and_by_which_command(
    fake_server: Any, offsetd: Callable[..., Ended]
) -> None:
    fake_server.will_answer("ResetOffsets", moved((42, 37), (7, 9), (5, 5), (None, 1)))
    ended = offsetd("groups", "reset", "billing", "--topic", "orders", "--to-earliest", "-o", "csv")
    assert ended.code == 0
    assert ended.stdout.splitlines() == [
        "group,topic,partition,offset,new_offset,revision",
        "billing,orders,0,42,37,",
        "billing,orders,1,7,9,",
        "billing,orders,2,5,5,",
        "billing,orders,3,,1,",
    ]
    assert ended.stderr == (
        "4 offsets: 1 back, by 5 in all; 1 ahead, by 2 in all; 1 unchanged; 1 new\n"
        "dry run: nothing was changed. This does it:\n"
        "  offsetd groups reset billing --to-earliest --topic orders --output csv --execute\n"
    )
    assert fake_server.requests[0].validate_only


LINES = [
    "groups reset billing --topic orders --shift-by -5",
    "groups reset billing --all-topics --to-offset 0 --force --reason 'it'\\''s $5 \"now\"'",
    "groups reset 'two words' '*' --topic 'a b:0,1' --topic ünicode --to-latest --dry-run",
    "groups reset --group a --group b --all-topics --to-current -o jsonl --timeout 3",
    "groups reset --all-topics --by-duration PT1H30M -- -begins-with-a-dash",
    "groups reset a --all-topics --to-datetime 2026-11-20T21:06:15.341 --bounds orders:0=1..9",
    "groups reset a --topic orders --to-earliest --reason --dry-run",
    "groups reset a --topic orders --to-earliest --export",
]


@pytest.mark.parametrize("line", LINES)
def test_the_command_that_is_told_does_the_same_and_executes_it(
    fake_server: Any, offsetd: Callable[..., Ended], line: str
) -> None:
    fake_server.will_answer("ResetOffsets", *[moved((1, 2))] * 4)
    fetched = offset_service_pb2.FetchOffsetsResponse()
    fetched.groups.add().offsets.add(topic="orders", partition=0)
    fake_server.will_answer("FetchOffsets", *[fetched] * 4)

    def resets() -> list[Any]:
        reset = offset_service_pb2.ResetOffsetsRequest
        return [request for request in fake_server.requests if isinstance(request, reset)]

    ended = offsetd(*shlex.split(line))
    assert ended.code == 0, ended.stderr
    dry = resets()
    name, *arguments = told_line(ended)
    assert (name, arguments.count("--execute")) == ("offsetd", 1)
    ended = offsetd(*arguments)
    assert ended.code == 0, ended.stderr
    done = resets()[len(dry) :]
    assert [request.validate_only for request in (*dry, *done)] == [True] * len(dry) + [
        False
    ] * len(dry)
    for request in (*dry, *done):
        request.ClearField("request_id")
        request.ClearField("validate_only")
    assert dry == done


def test_the_command_that_is_told_goes_to_the_same_server(
    fake_server: Any, offsetd: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFSETD_ADDRESS", "127.0.0.1:1")
    fake_server.will_answer("ResetOffsets", moved((1, 2)))
    words = ("groups", "reset", "a", "--all-topics", "--to-offset", "2")
    ended = offsetd("--bootstrap-server", fake_server.address, *words)
    assert told_line(ended) == [
        *("offsetd", "--address", fake_server.address),
        *("groups", "reset", "a", "--to-offset", "2", "--all-topics", "--execute"),
    ]


def test_an_execution_tells_no_further_command(
    fake_server: Any, offsetd: Callable[..., Ended]
) -> None:
    fake_server.will_answer("ResetOffsets", moved((1, 2)))
    ended = offsetd("groups", "reset", "a", "--all-topics", "--to-offset", "2", "--execute")
    assert ended.stderr == "1 offset: 1 ahead, by 1 in all\n"


@pytest.mark.parametrize(
    ("groups", "printed"),
    [
        (["--group", "a"], "orders,0,2\n"),
        (["a"], "orders,0,2\n"),
        (["--group", "a", "--group", "b,c"], 'a,orders,0,2\n"b,c",orders,0,2\n'),
        (["--all-groups"], "a,orders,0,2\n"),
    ],
)
def test_an_export_is_kafkas_csv_with_the_group_unless_one_is_named(
    fake_server: Any, offsetd: Callable[..., Ended], groups: list[str], printed: str
) -> None:
    fake_server.will_answer("ListGroups", listed("a"))
    fake_server.will_answer("ResetOffsets", moved((1, 2)), moved((1, 2)))
    ended = offsetd("groups", "reset", *groups, "--all-topics", "--shift-by", "1", "--export")
    assert (ended.code, ended.stdout) == (0, printed)


def test_what_was_exported_is_taken_from_a_file(
    fake_server: Any, offsetd: Callable[..., Ended], tmp_path: Path
) -> None:
    file = tmp_path / "plan.csv"
    file.write_text("b,orders,0,2\na,orders,1,3\n")
    fake_server.will_answer("ResetOffsets", moved((1, 2)), moved((1, 2)))
    ended = offsetd("groups", "reset", "--all-groups", "--from-file", str(file), "--execute")
    assert ended.code == 0
    assert [
        (request.group_id, [(each.partition, each.offset) for each in request.explicit.offsets])
        for request in fake_server.requests
    ] == [("b", [(0, 2)]), ("a", [(1, 3)])]


def test_all_groups_are_reset_by_id_and_those_that_are_refused_are_named(
    fake_server: Any, offsetd: Callable[..., Ended], failed: Callable[..., Status]
) -> None:
    fake_server.will_answer("ListGroups", listed("c", "a", "b"))
    refused = failed("FAILED_PRECONDITION", "NON_EMPTY_GROUP", "group b has members")
    fake_server.will_answer("ResetOffsets", moved((1, 2)), refused, moved((1, 2)))
    ended = offsetd("groups", "reset", "--all-groups", "--all-topics", "--to-offset", "2")
    assert ended.code == 3
    assert [request.group_id for request in fake_server.requests[1:]] == ["a", "b", "c"]
    assert ended.stderr.endswith("error: group b: NON_EMPTY_GROUP: group b has members\n")


@pytest.mark.parametrize(
    "line",
    [
        "groups reset a --all-topics",
        "groups reset a --to-offset 1",
        "groups reset --all-topics --to-offset 1",
        "groups reset a --all-groups --all-topics --to-offset 1",
        "groups reset a --all-topics --to-offset 1 --shift-by 2",
        "groups reset a --all-topics --topic orders --to-offset 1",
        "groups reset a --all-topics --to-offset 1 --dry-run --execute",
        "groups reset a --all-topics --to-offset -1",
        "groups reset a --all-topics --to-offset x",
        "groups reset a --from-file no-such-file.csv",
        "groups reset a --all-topics --from-file no-such-file.csv",
        "groups reset a --all-topics --by-duration P1Y",
        "groups reset a --all-topics --to-latest --bounds orders",
    ],
)
def test_what_is_not_one_reset_is_wrong_use(
    fake_server: Any, offsetd: Callable[..., Ended], line: str
) -> None:
    ended = offsetd(*line.split())
    assert (ended.code, ended.stdout) == (2, "")
    assert fake_server.requests == []


def test_a_row_has_the_revision_of_its_own_record_where_one_was_written() -> None:
    written = OffsetChange(TopicPartition("t", 0), 1, 2, Revision(3, 7))
    known = OffsetChange(TopicPartition("t", 1), None, 2)
    answer = ResetOffsets(changes=(written, known), revision=Revision(3, 9))
    rows = [group_reset.change_row(("g", change)) for change in answer.changes]
    assert [(row["partition"], row["revision"]) for row in rows] == [(0, 7), (1, None)]


@pytest.mark.parametrize("output", ["json", "jsonl", "table"])
def test_an_export_is_csv_and_nothing_else(offsetd: Callable[..., Ended], output: str) -> None:
    words = ("groups", "reset", "a", "--all-topics", "--to-offset", "2", "--export")
    ended = offsetd(*words, "-o", output)
    assert ended == Ended(2, "", f"error: --export prints CSV: it does not go with -o {output}\n")


@pytest.mark.parametrize("words", ["reset billing --from-file -", "seek billing --to-file -"])
def test_what_came_from_standard_input_is_a_file_in_the_command_that_is_told(
    fake_server: Any,
    offsetd: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
    words: str,
) -> None:
    line = "billing,orders,0,2\nother,orders,0,2\nother,orders,1,2\n"
    content = line if "reset" in words else "orders 0 2\n"
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(content.encode())))
    fake_server.will_answer("ResetOffsets", moved((1, 2)))
    ended = offsetd("groups", *words.split())
    assert ended.code == 0, ended.stderr
    assert told_line(ended) == ["offsetd", "groups", *words.split()[:-1], "FILE", "--execute"]
    assert "(FILE: what came from standard input)" in ended.stderr
    assert ("-: 2 lines of other groups left out" in ended.stderr) == ("reset" in words)
