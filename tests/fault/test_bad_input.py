"""Bad input over a real connection: a clear status, and nothing has changed."""

from __future__ import annotations

import contextlib
import itertools
import os
import struct
import threading
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from offsetd.v1 import admin_service_pb2, group_service_pb2, offset_service_pb2, types_pb2
from raw_http2 import ACK, GOAWAY, PING, RawConnection, call_headers, frame
from refusals import contents, details
from server_process import ServerProcess, Stubs, poll

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUP = "kept"
WAIT_SECONDS = 60
COMMIT_PATH = "/offsetd.v1.OffsetService/CommitOffsets"
STREAM_PATH = "/offsetd.v1.OffsetService/StreamCommits"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all: nothing here may change what it holds."""
    settings = {"max.message.bytes": 65_536, "socket.request.max.bytes": 262_144}
    with ServerProcess(tmp_path_factory.mktemp("data"), settings=settings) as process:
        yield process.wait_until_serving()
        process.stop_well()


@pytest.fixture(scope="module")
def stubs(server: ServerProcess) -> Iterator[Stubs]:
    """Its services, with one group that holds one offset."""
    with server.channel() as channel:
        stubs = Stubs(channel)
        stubs.offsets.CommitOffsets(commit(GROUP, offset(metadata="as it was")))
        yield stubs


def offset(**fields: Any) -> offset_service_pb2.OffsetCommit:
    """An offset that is valid but for `fields`."""
    return offset_service_pb2.OffsetCommit(
        **{"topic": "orders", "partition": 0, "offset": 42, **fields}
    )


def commit(
    group_id: str, *offsets: offset_service_pb2.OffsetCommit, request_id: str = ""
) -> offset_service_pb2.CommitOffsetsRequest:
    """A commit."""
    return offset_service_pb2.CommitOffsetsRequest(
        group_id=group_id, offsets=offsets, request_id=request_id
    )


COMMIT_CASES = {
    "empty group": (commit("", offset()), "INVALID_GROUP_ID", "group_id"),
    "group beyond int16": (commit("g" * 32_768, offset()), "INVALID_GROUP_ID", "group_id"),
    "group beyond int16 in UTF-8": (commit("é" * 16_384, offset()), "INVALID_GROUP_ID", "group_id"),
    "empty topic": (commit(GROUP, offset(topic="")), "INVALID_TOPIC", "offsets[0].topic"),
    "topic of 250": (commit(GROUP, offset(topic="t" * 250)), "INVALID_TOPIC", "offsets[0].topic"),
    "topic of 250 units": (
        commit(GROUP, offset(topic="🚀" * 125)),
        "INVALID_TOPIC",
        "offsets[0].topic",
    ),
    "metadata of 4097": (
        commit(GROUP, offset(metadata="m" * 4097)),
        "INVALID_METADATA",
        "offsets[0].metadata",
    ),
    "metadata of 4098 units": (
        commit(GROUP, offset(metadata="🚀" * 2049)),
        "INVALID_METADATA",
        "offsets[0].metadata",
    ),
    "negative partition": (
        commit(GROUP, offset(partition=-1)),
        "INVALID_PARTITION",
        "offsets[0].partition",
    ),
    "negative offset": (commit(GROUP, offset(offset=-1)), "INVALID_OFFSET", "offsets[0].offset"),
    "least offset": (commit(GROUP, offset(offset=-(2**63))), "INVALID_OFFSET", "offsets[0].offset"),
    "negative leader epoch": (
        commit(GROUP, offset(leader_epoch=-1)),
        "INVALID_LEADER_EPOCH",
        "offsets[0].leader_epoch",
    ),
    "negative expectation": (
        commit(GROUP, offset(expected_revision=-1)),
        "INVALID_PRECONDITION",
        "offsets[0].expected_revision",
    ),
    "may exist": (
        commit(GROUP, offset(must_not_exist=False)),
        "INVALID_PRECONDITION",
        "offsets[0].must_not_exist",
    ),
    "long request id": (
        commit(GROUP, offset(), request_id="r" * 65),
        "INVALID_REQUEST_ID",
        "request_id",
    ),
    "no offsets": (commit(GROUP), "INVALID_REQUEST", "offsets"),
    "duplicate partition": (
        commit(GROUP, offset(), offset(partition=1), offset(offset=43)),
        "INVALID_PARTITION",
        "offsets[2].partition",
    ),
    "one bad among good": (
        commit(GROUP, *(offset(partition=n) for n in range(50)), offset(partition=-5)),
        "INVALID_PARTITION",
        "offsets[50].partition",
    ),
    "batch beyond max.message.bytes": (
        commit(GROUP, *(offset(partition=n, metadata="m" * 4096) for n in range(20))),
        "INVALID_COMMIT_SIZE",
        "offsets",
    ),
    "more offsets than fit a batch": (
        commit(GROUP, *(offset(partition=n) for n in range(5000)), offset(topic="")),
        "INVALID_COMMIT_SIZE",
        "offsets",
    ),
}


# What is too large by a setting: which one, and its value.
TOO_LARGE = {
    "metadata of 4097": "offset.metadata.max.bytes (4096)",
    "metadata of 4098 units": "offset.metadata.max.bytes (4096)",
    "batch beyond max.message.bytes": "max.message.bytes (65536)",
    "more offsets than fit a batch": "max.message.bytes (65536)",
}


@pytest.mark.parametrize("case", TOO_LARGE)
def test_what_is_too_large_is_told_with_the_setting_and_its_value(stubs: Stubs, case: str) -> None:
    request, *_ = COMMIT_CASES[case]
    with pytest.raises(grpc.RpcError) as caught:
        stubs.offsets.CommitOffsets(request)
    assert TOO_LARGE[case] in caught.value.details()


@pytest.mark.parametrize("case", COMMIT_CASES)
def test_a_bad_commit_names_its_field_and_changes_nothing(stubs: Stubs, case: str) -> None:
    request, reason, field = COMMIT_CASES[case]
    before = contents(stubs)
    with pytest.raises(grpc.RpcError) as caught:
        stubs.offsets.CommitOffsets(request)
    assert details(caught.value) == (grpc.StatusCode.INVALID_ARGUMENT, reason, [field])
    assert contents(stubs) == before


@pytest.mark.parametrize("case", COMMIT_CASES)
def test_a_bad_commit_in_a_stream_is_its_result_and_the_stream_goes_on(
    stubs: Stubs, case: str
) -> None:
    request, reason, _ = COMMIT_CASES[case]
    fetch = offset_service_pb2.FetchOffsetsRequest(
        groups=[offset_service_pb2.GroupSelection(group_id=GROUP)]
    )
    before = stubs.offsets.FetchOffsets(fetch)
    commits = [(1, request), (2, commit("beside", offset())), (3, request)]
    message = offset_service_pb2.StreamCommitsRequest(
        commits=[
            offset_service_pb2.SequencedCommit(sequence=sequence, commit=each)
            for sequence, each in commits
        ]
    )
    results = {
        result.sequence: result
        for response in stubs.offsets.StreamCommits(iter([message]))
        for result in response.results
    }
    assert sorted(results) == [1, 2, 3]
    assert results[2].HasField("committed")
    for sequence in (1, 3):
        info = ErrorInfo()
        results[sequence].error.details[0].Unpack(info)
        assert (results[sequence].error.code, info.reason) == (3, reason)
    assert stubs.offsets.FetchOffsets(fetch) == before


OTHER_CASES = {
    "delete from no group": (
        "offsets.DeleteOffsets",
        offset_service_pb2.DeleteOffsetsRequest(topics=["orders"]),
        "INVALID_GROUP_ID",
    ),
    "delete nothing": (
        "offsets.DeleteOffsets",
        offset_service_pb2.DeleteOffsetsRequest(group_id=GROUP),
        "INVALID_REQUEST",
    ),
    "delete below 0": (
        "offsets.DeleteOffsets",
        offset_service_pb2.DeleteOffsetsRequest(
            group_id=GROUP, partitions=[types_pb2.TopicPartition(topic="orders", partition=-1)]
        ),
        "INVALID_PARTITION",
    ),
    "fetch below 0": (
        "offsets.FetchOffsets",
        offset_service_pb2.FetchOffsetsRequest(
            groups=[
                offset_service_pb2.GroupSelection(
                    group_id=GROUP,
                    partitions=[types_pb2.TopicPartition(topic="orders", partition=-1)],
                )
            ]
        ),
        "INVALID_PARTITION",
    ),
    "fetch a group twice": (
        "offsets.FetchOffsets",
        offset_service_pb2.FetchOffsetsRequest(
            groups=[offset_service_pb2.GroupSelection(group_id=GROUP)] * 2
        ),
        "INVALID_GROUP_ID",
    ),
    "fetch a partition twice": (
        "offsets.FetchOffsets",
        offset_service_pb2.FetchOffsetsRequest(
            groups=[
                offset_service_pb2.GroupSelection(
                    group_id=GROUP,
                    partitions=[types_pb2.TopicPartition(topic="orders", partition=0)] * 2,
                )
            ]
        ),
        "INVALID_PARTITION",
    ),
    "a log partition twice": (
        "admin.DescribeLog",
        admin_service_pb2.DescribeLogRequest(partitions=[1, 1]),
        "INVALID_PARTITION",
    ),
    "get a group of too many bytes": (
        "groups.GetGroup",
        group_service_pb2.GetGroupRequest(group_id="g" * 32_768),
        "INVALID_GROUP_ID",
    ),
    "page of less than nothing": (
        "groups.ListGroups",
        group_service_pb2.ListGroupsRequest(page_size=-1),
        "INVALID_REQUEST",
    ),
    "page token of nobody": (
        "groups.ListGroups",
        group_service_pb2.ListGroupsRequest(page_token="n/a"),
        "INVALID_PAGE_TOKEN",
    ),
    "log partition that is not": (
        "admin.DescribeLog",
        admin_service_pb2.DescribeLogRequest(partitions=[50]),
        "INVALID_PARTITION",
    ),
}


@pytest.mark.parametrize("case", OTHER_CASES)
def test_other_bad_requests_are_refused_too(stubs: Stubs, case: str) -> None:
    path, request, reason = OTHER_CASES[case]
    service, _, method = path.partition(".")
    before = contents(stubs)
    with pytest.raises(grpc.RpcError) as caught:
        getattr(getattr(stubs, service), method)(request)
    code, found, _ = details(caught.value)
    assert (code, found) == (grpc.StatusCode.INVALID_ARGUMENT, reason)
    assert contents(stubs) == before


def test_a_group_that_has_to_exist_and_does_not_is_not_found(stubs: Stubs) -> None:
    for call, request in (
        (stubs.groups.GetGroup, group_service_pb2.GetGroupRequest(group_id="nobody")),
        (stubs.groups.DeleteGroup, group_service_pb2.DeleteGroupRequest(group_id="nobody")),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            call(request)
        assert details(caught.value)[:2] == (grpc.StatusCode.NOT_FOUND, "GROUP_ID_NOT_FOUND")


NOT_MESSAGES = {
    "group is not UTF-8": b"\x0a\x02\xff\xfe" + b"\x12\x05\x0a\x01t\x18\x01",
    "topic is not UTF-8": b"\x0a\x01g" + b"\x12\x05\x0a\x01\xc3\x18\x01",
    "metadata is a lone surrogate": b"\x0a\x01g\x12\x0a\x0a\x01t\x18\x01\x2a\x03\xed\xa0\x80",
    "cut off": b"\x0a\x7f",
    "noise": b"\xff" * 100,
}


@pytest.mark.parametrize("case", NOT_MESSAGES)
def test_bytes_that_are_no_message_are_refused(stubs: Stubs, case: str) -> None:
    before = contents(stubs)
    raw: Any = stubs.channel.unary_unary(COMMIT_PATH)
    with pytest.raises(grpc.RpcError) as caught:
        raw(NOT_MESSAGES[case])
    assert details(caught.value)[:2] == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
    assert contents(stubs) == before


def test_a_stream_ends_at_bytes_that_are_no_message_and_what_came_before_is_answered(
    stubs: Stubs,
) -> None:
    raw: Any = stubs.channel.stream_stream(STREAM_PATH)
    good = offset_service_pb2.StreamCommitsRequest(
        commits=[offset_service_pb2.SequencedCommit(sequence=5, commit=commit("beside", offset()))]
    )
    answers = raw(iter([good.SerializeToString(), b"\xff"]))
    response = offset_service_pb2.StreamCommitsResponse.FromString(next(answers))
    assert [result.sequence for result in response.results] == [5]
    with pytest.raises(grpc.RpcError) as caught:
        next(answers)
    assert details(caught.value)[:2] == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")


@pytest.mark.parametrize(
    ("size", "reason"),
    [(262_145, "REQUEST_TOO_LARGE"), (262_144 + 1_048_576, "REQUEST_TOO_LARGE"), (2_000_000, "")],
)
def test_a_message_over_the_limit_is_refused_and_the_connection_goes_on(
    stubs: Stubs, size: int, reason: str
) -> None:
    before = contents(stubs)
    raw: Any = stubs.channel.unary_unary(COMMIT_PATH)
    raw_stream: Any = stubs.channel.stream_stream(STREAM_PATH)
    for call in (lambda: raw(bytes(size)), lambda: list(raw_stream(iter([bytes(size)])))):
        with pytest.raises(grpc.RpcError) as caught:
            call()
        assert details(caught.value)[:2] == (grpc.StatusCode.RESOURCE_EXHAUSTED, reason)
    assert contents(stubs) == before


def test_a_message_at_the_limit_is_read(stubs: Stubs) -> None:
    raw: Any = stubs.channel.unary_unary(COMMIT_PATH)
    with pytest.raises(grpc.RpcError) as caught:
        raw(bytes(262_144))
    assert details(caught.value)[:2] == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")


@pytest.mark.parametrize("timeout", ["0n", "0S"])
def test_a_deadline_that_is_spent_commits_nothing(
    server: ServerProcess, stubs: Stubs, timeout: str
) -> None:
    before = contents(stubs)
    connection = RawConnection(server.own_address)
    message = commit(GROUP, offset(offset=1)).SerializeToString()
    for stream_id in (1, 3, 5):
        connection.open_call(stream_id, call_headers(COMMIT_PATH, grpc_timeout=timeout))
        connection.send_message(stream_id, message, end=True)
        connection.wait_for_end(stream_id)
    connection.close()
    assert contents(stubs) == before


def test_a_message_that_comes_after_its_deadline_commits_nothing(
    server: ServerProcess, stubs: Stubs
) -> None:
    before = contents(stubs)
    connection = RawConnection(server.own_address)
    message = commit(GROUP, offset(offset=1)).SerializeToString()
    for stream_id in (1, 3, 5):
        connection.open_call(stream_id, call_headers(COMMIT_PATH, grpc_timeout="50m"))
        connection.wait_for_end(stream_id)
        connection.send_message(stream_id, message, end=True)
    # Once this one ends, all before it has been read.
    connection.open_call(7, call_headers(COMMIT_PATH, grpc_timeout="0n"))
    connection.wait_for_end(7)
    connection.close()
    assert contents(stubs) == before


def test_headers_over_the_limit_are_refused_and_others_are_served(stubs: Stubs) -> None:
    before = contents(stubs)
    with pytest.raises(grpc.RpcError) as caught:
        stubs.offsets.CommitOffsets(
            commit(GROUP, offset(offset=1)), metadata=[("x-long", "x" * 20_000)]
        )
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert contents(stubs) == before


@pytest.mark.single_server
def test_an_abandoned_stream_leaves_what_it_committed_and_nothing_else(
    server: ServerProcess, stubs: Stubs
) -> None:
    for round_number in range(20):
        with server.channel() as channel:
            hang_up = threading.Event()
            answers = Stubs(channel).offsets.StreamCommits(
                unanswered_commits(round_number, hang_up)
            )
            next(answers)
            if round_number % 2:
                answers.cancel()
        hang_up.set()
    fetched = stubs.offsets.FetchOffsets(
        offset_service_pb2.FetchOffsetsRequest(
            groups=[offset_service_pb2.GroupSelection(group_id="abandoned")]
        )
    )
    values = [each.offset for each in fetched.groups[0].offsets]
    assert len(values) == 50
    assert len(set(values)) == 1, "all or nothing"

    def descriptors() -> int:
        return len(list_descriptors(server.pid))

    poll(lambda: descriptors() < 50 * 4 + 64, WAIT_SECONDS, server)


def unanswered_commits(
    round_number: int, hang_up: threading.Event
) -> Iterator[offset_service_pb2.StreamCommitsRequest]:
    """Commits without end, until the stream is abandoned."""
    for number in itertools.count():
        if hang_up.is_set():
            return
        value = round_number * 1_000_000 + number
        many = commit("abandoned", *(offset(partition=n, offset=value) for n in range(50)))
        yield offset_service_pb2.StreamCommitsRequest(
            commits=[offset_service_pb2.SequencedCommit(sequence=number, commit=many)]
        )


def list_descriptors(pid: int) -> list[str]:
    """What a process has open."""
    return os.listdir(f"/proc/{pid}/fd")


@pytest.mark.single_server
def test_a_stream_that_is_not_read_is_held_back_and_harms_nobody(
    server: ServerProcess, stubs: Stubs
) -> None:
    connection = RawConnection(server.address, window=0)
    connection.open_call(1, call_headers(STREAM_PATH))
    count = 0
    for message in map(bytes_of, unanswered_commits(1000, threading.Event())):
        # How much is taken at least is not a question of time.
        seconds = WAIT_SECONDS if count < 1024 else 2.0
        if not connection.wait_for_room(1, len(message) + 5, seconds=seconds):
            break
        connection.send_message(1, message)
        count += 1
    # What is unanswered is bounded by a setting (1,024), what is unread by HTTP/2's windows.
    assert 1024 <= count <= 2048
    for _ in range(20):
        stubs.offsets.CommitOffsets(commit("beside", offset()), timeout=WAIT_SECONDS)
    connection.close()


def bytes_of(message: offset_service_pb2.StreamCommitsRequest) -> bytes:
    """The message, encoded."""
    return message.SerializeToString()


def test_calls_that_never_send_their_message_hold_up_nobody(
    server: ServerProcess, stubs: Stubs
) -> None:
    connections = [RawConnection(server.own_address) for _ in range(20)]
    for connection in connections:
        for stream_id in range(1, 40, 2):
            connection.open_call(stream_id, call_headers(COMMIT_PATH))
    for _ in range(20):
        stubs.offsets.CommitOffsets(commit("beside", offset()), timeout=WAIT_SECONDS)
    for connection in connections:
        connection.close()


def test_no_peer_writes_lines_of_its_own_into_the_log(server: ServerProcess, stubs: Stubs) -> None:
    forged = b'bye\n{"event": "forged", "level": "error"}\n\x1b[2J'
    for code in (0, 2, 11):
        connection = RawConnection(server.own_address)
        with contextlib.suppress(ConnectionError):  # A server may close it before it reads all.
            connection.send(frame(GOAWAY, 0, 0, struct.pack(">II", 0, code) + forged))
            connection.open_call(1, call_headers("/forged\nforged", grpc_timeout="forged\nforged"))
            connection.send(frame(PING, ACK, 0, forged[:8]), b"\n forged \n" * 20)
        while not connection.is_gone(WAIT_SECONDS):
            pass
        connection.close()
    stubs.offsets.CommitOffsets(commit("beside", offset()), timeout=WAIT_SECONDS)
    assert not [line for line in server.lines if not line.startswith("{")]
    assert "forged" not in server.log


def test_a_method_that_is_not_there_is_unimplemented(stubs: Stubs) -> None:
    raw: Any = stubs.channel.unary_unary("/offsetd.v1.OffsetService/RewindOffsets")
    with pytest.raises(grpc.RpcError) as caught:
        raw(b"", timeout=WAIT_SECONDS)
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
