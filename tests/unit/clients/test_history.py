"""History, restores and watchers of the client, and their commands."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import grpc
import pytest
from offsetd.v1 import history_pb2, types_pb2
from offsetd_clients import OffsetClient, RetryPolicy, TopicPartition
from offsetd_clients.cli.application import run
from offsetd_clients.cli.printing.terminal import Terminal
from offsetd_clients.errors import InvalidRequest, OverLimit
from offsetd_clients.history_values import OffsetEvent
from offsetd_clients.sync.watch import OffsetWatch

T0 = datetime(2026, 11, 21, 8, tzinfo=UTC)


def event(log_offset: int, offset: int | None, **more: Any) -> history_pb2.OffsetEvent:
    message = history_pb2.OffsetEvent(
        group_id="g",
        topic="t",
        partition=3,
        revision=types_pb2.Revision(log_partition=2, log_offset=log_offset),
        **more,
    )
    message.time.FromDatetime(T0)
    if offset is None:
        message.deleted.SetInParent()
    else:
        message.committed.offset = offset
        message.committed.commit_time.FromDatetime(T0)
    return message


def answer(
    *events: history_pb2.OffsetEvent, token: str, **more: Any
) -> history_pb2.WatchOffsetsResponse:
    return history_pb2.WatchOffsetsResponse(events=events, token=token, **more)


def refusal(code: grpc.StatusCode) -> grpc.RpcError:
    """As gRPC raises it, from a server that says no more than the code."""

    class Refusal(grpc.RpcError):
        def code(self) -> grpc.StatusCode:
            return code

        def details(self) -> str:
            return "no"

        def trailing_metadata(self) -> tuple[()]:
            return ()

    return Refusal()


class Script:
    """What calls of WatchOffsets answer, one list a call, and what they were asked."""

    def __init__(self, *calls: list[Any]) -> None:
        self.calls = list(calls)
        self.requests: list[history_pb2.WatchOffsetsRequest] = []

    def __call__(self, request: history_pb2.WatchOffsetsRequest, **_: Any) -> "Script.Call":
        copied = history_pb2.WatchOffsetsRequest()
        copied.CopyFrom(request)
        self.requests.append(copied)
        return Script.Call(self.calls.pop(0))

    class Call:
        def __init__(self, answers: list[Any]) -> None:
            self._answers = iter(answers)

        def __iter__(self) -> "Script.Call":
            return self

        def __next__(self) -> Any:
            found = next(self._answers)
            if isinstance(found, BaseException):
                raise found
            return found

        def cancel(self) -> None:
            pass


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[OffsetWatch, Script]]:
    monkeypatch.setattr("offsetd_clients.sync.watch.sleep", lambda _: None)

    def watch(*calls: list[Any], **fields: Any) -> tuple[OffsetWatch, Script]:
        client = OffsetClient("127.0.0.1:1", retry=RetryPolicy(timeout_s=5))
        script = Script(*calls)
        client._servers.home._methods["WatchOffsets"] = script
        return client.watch_offsets(**fields), script

    return watch


DOWN = refusal(grpc.StatusCode.UNAVAILABLE)


def test_a_watcher_that_is_cut_off_goes_on_with_its_last_token(scripted: Any) -> None:
    watch, script = scripted(
        [answer(token="a", unreachable_log_partitions=[7]), answer(event(1, 10), token="b"), DOWN],
        [DOWN],
        [answer(token="b"), answer(event(2, 20), event(3, None), token="c"), DOWN],
        [refusal(grpc.StatusCode.INVALID_ARGUMENT)],
        from_oldest=True,
        group_ids=["g"],
    )
    found = []
    with pytest.raises(InvalidRequest):
        found.extend(iter(watch))
    assert [(each.revision.log_offset, each.offset) for each in found] == [
        (1, 10),
        (2, 20),
        (3, None),
    ]
    assert [each.token for each in script.requests] == ["", "b", "b", "c"]
    assert [each.from_oldest for each in script.requests] == [True, False, False, False]
    assert watch.token == "c"
    assert watch.unreachable_log_partitions == (7,)


def test_a_watcher_with_an_end_ends_there_and_not_where_it_is_cut_off(scripted: Any) -> None:
    watch, script = scripted(
        [answer(token="a"), answer(event(1, 10), token="b"), DOWN],
        [answer(event(2, 20), token="c"), answer(token="d")],
        until_token="c",
        token="a",
    )
    assert [each.revision.log_offset for each in watch] == [1, 2]
    assert [each.until_token for each in script.requests] == ["c", "c"]
    assert watch.token == "d"


def test_a_batch_that_was_not_taken_whole_comes_again(scripted: Any) -> None:
    watch, _ = scripted([answer(token="a"), answer(event(1, 10), event(2, 20), token="b")])
    events = iter(watch)
    assert next(events).offset == 10
    assert watch.token == "a"


def test_what_does_not_pass_is_raised(scripted: Any) -> None:
    full = refusal(grpc.StatusCode.RESOURCE_EXHAUSTED)
    watch, _ = scripted([full])
    with pytest.raises(OverLimit):
        next(watch.batches())


def test_a_cancelled_watcher_just_ends(scripted: Any) -> None:
    watch, _ = scripted([answer(token="a"), refusal(grpc.StatusCode.CANCELLED)])
    for batch in watch.batches():
        assert batch.token == "a"
        watch.cancel()


def test_history_and_restores_speak_python(fake_server: Any) -> None:
    partition = TopicPartition("t", 3)
    fake_server.will_answer(
        "ListOffsetHistory",
        history_pb2.ListOffsetHistoryResponse(events=[event(5, 50)], next_page_token="p"),
        history_pb2.ListOffsetHistoryResponse(events=[event(4, None)]),
    )
    fake_server.will_answer(
        "RestoreGroup",
        history_pb2.RestoreGroupResponse(
            changes=[history_pb2.RestoredOffset(topic="t", partition=3, offset_before=50)],
            restored_before=types_pb2.Revision(log_partition=2, log_offset=5),
        ),
    )
    with OffsetClient(fake_server.address) as client:
        found = list(client.list_offset_history("g", [partition], since=T0, until=9))
        assert [each.offset for each in found] == [50, None]
        assert isinstance(found[0], OffsetEvent)
        assert found[0].commit_time == found[0].time == T0
        restored = client.restore_group("g", T0, validate_only=True)
    first, second, third = fake_server.requests
    assert first.from_time.ToDatetime(tzinfo=UTC) == T0
    assert (first.to_revision, second.page_token) == (9, "p")
    assert third.time.ToDatetime(tzinfo=UTC) == T0
    assert third.request_id
    (change,) = restored.changes
    assert (change.topic_partition, change.offset_before, change.offset_after) == (
        partition,
        50,
        None,
    )
    assert restored.revision is None
    assert restored.restored_before.log_offset == 5


@pytest.fixture
def offsetd(fake_server: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, ...]]:
    monkeypatch.setenv("OFFSETD_ADDRESS", fake_server.address)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["offsetd", *arguments])
        stdout, stderr = StringIO(), StringIO()
        return run(Terminal(stdout, stderr)), stdout.getvalue(), stderr.getvalue()

    return call


def test_the_history_is_printed(fake_server: Any, offsetd: Any) -> None:
    fake_server.will_answer(
        "ListOffsetHistory",
        history_pb2.ListOffsetHistoryResponse(events=[event(5, 50), event(4, None)]),
    )
    code, out, _ = offsetd("groups", "history", "g", "--from", "2026-11-21T08:00", "-o", "csv")
    assert code == 0
    assert out.splitlines()[1:] == [
        "2026-11-21T08:00:00.000Z,g,t,3,committed,50,,,2,5",
        "2026-11-21T08:00:00.000Z,g,t,3,deleted,,,,2,4",
    ]
    assert fake_server.requests[0].from_time.ToDatetime(tzinfo=UTC) == T0


@pytest.mark.parametrize("execute", [False, True])
def test_a_restore_is_dry_unless_it_is_to_be_executed(
    fake_server: Any, offsetd: Any, *, execute: bool
) -> None:
    changes = [
        history_pb2.RestoredOffset(topic="t", partition=3, offset_after=5),
        history_pb2.RestoredOffset(topic="u", partition=0, offset_before=6),
    ]
    response = history_pb2.RestoreGroupResponse(changes=changes)
    if execute:
        response.revision.log_offset = 9
        for change, log_offset in zip(response.changes, (9, 8), strict=True):
            change.revision.log_offset = log_offset
    fake_server.will_answer("RestoreGroup", response)
    flags = ["--execute"] if execute else []
    code, out, err = offsetd("groups", "restore", "g", "--to-revision", "7", *flags, "-o", "csv")
    revisions = ("9", "8") if execute else ("", "")
    rows = [f"g,t,3,,5,{revisions[0]}", f"g,u,0,6,,{revisions[1]}"]
    assert (code, out.splitlines()[1:]) == (0, rows)
    assert ("dry run" in err) is not execute
    (request,) = fake_server.requests
    assert (request.revision, request.validate_only) == (7, not execute)


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--to-revision", "7", "--to-datetime", "2026-11-21"],
        ["--to-revision", "7", "--dry-run", "--execute"],
    ],
)
def test_a_restore_needs_one_target_and_is_dry_or_not(offsetd: Any, flags: list[str]) -> None:
    assert offsetd("groups", "restore", "g", *flags)[0] == 2


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("table", "2026-11-21T08:00:00.000Z  g  t:3  50\n"),
        ("jsonl", '"event":"committed","offset":50'),
    ],
)
def test_watch_prints_events_and_then_where_to_go_on(
    offsetd: Any, monkeypatch: pytest.MonkeyPatch, output: str, expected: str
) -> None:
    script = Script([answer(token="a"), answer(event(5, 50), token="b"), KeyboardInterrupt()])
    monkeypatch.setattr("offsetd_clients.sync.transport.Channel._method", lambda *_: script)
    monkeypatch.setattr("offsetd_clients.sync.client.OffsetClient.get_group", lambda *_: None)
    code, out, err = offsetd("watch", "g", "--from", "oldest", "-o", output)
    assert code == 0
    assert expected.replace(" ", "") in out.replace(" ", "")
    assert err == "go on with: --from b\n"
    assert script.requests[0].from_oldest
