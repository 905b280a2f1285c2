"""Quotas on a real server: every method, streams, watchers, connections, leases, changed files."""

from __future__ import annotations

import os
import re
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from offsetd.v1 import group_service_pb2, history_pb2, offset_service_pb2
from offsetd_clients import OffsetClient, TopicPartition
from offsetd_coordinator.quotas.quota_file import parse_quota_file
from offsetd_coordinator.quotas.quota_table import Quota
from offsetd_coordinator.security.token_file import create_token
from scrapes import Scrape
from security.secured_server import GROUP, METHODS, TOPIC, called, request_of
from server_process import ServerProcess, Stubs, poll

if TYPE_CHECKING:
    from collections.abc import Iterator
SECONDS_MAX = 60
QUOTAS = """
[[quota]]
principal = "User:one-call"
call_rate = 1
[[quota]]
principal = "User:commits"
commit_rate = 5
[[quota]]
principal = "User:offsets"
offset_rate = 100
[[quota]]
principal = "User:request-bytes"
request_byte_rate = 1000
[[quota]]
principal = "User:response-bytes"
response_byte_rate = 1000
[[quota]]
principal = "User:counts"
connections_max = 2
streams_max = 1
watchers_max = 1
leases_max = 1
[[quota]]
client_id = "loader"
commit_rate = 5
"""
CALLERS = ("one-call", "commits", "offsets", "request-bytes", "response-bytes", "counts", "free")


class Limited:
    """A server with quotas, and a token for each caller."""

    def __init__(self, server: ServerProcess, path: Path, tokens: dict[str, str]) -> None:
        self.server = server
        self.path = path
        self.tokens = tokens

    def of(self, caller: str) -> Any:
        """The metadata of a caller's calls."""
        return [("authorization", f"Bearer {self.tokens[caller]}")]

    def scrape(self) -> Scrape:
        return Scrape.from_address(str(self.server.wait_for_event("metrics served")["address"]))


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Limited]:
    folder = tmp_path_factory.mktemp("limited")
    tokens = {
        name: create_token(folder / "tokens.toml", f"User:{name}", now_ms=int(time.time() * 1000))[
            0
        ]
        for name in CALLERS
    }
    path = folder / "quotas.toml"
    path.write_text(QUOTAS)
    settings = {
        "security.tokens.file": folder / "tokens.toml",
        "security.quotas.file": path,
        "history.ms": 3_600_000,
    }
    with ServerProcess(folder / "data", settings=settings) as server:
        server.wait_until_serving()
        yield Limited(server, path, tokens)


def refused(error: Any) -> tuple[str, str]:
    """The reason and the quota of a refusal, which has all its details."""
    status = rpc_status.from_call(error)
    assert status is not None
    found = {}
    for packed in status.details:
        for kind in (
            error_details_pb2.ErrorInfo,
            error_details_pb2.QuotaFailure,
            error_details_pb2.RetryInfo,
        ):
            if packed.Is(kind.DESCRIPTOR):
                message = kind()
                packed.Unpack(message)
                found[kind.DESCRIPTOR.name] = message
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert found["RetryInfo"].retry_delay.ToMilliseconds() > 0
    info = found["ErrorInfo"]
    assert found["QuotaFailure"].violations[0].subject == info.metadata["entity"]
    return info.reason, info.metadata["quota"]


def refusal(limited: Limited, caller: str, method: str, request: Any) -> tuple[str, str]:
    """Calls until the caller is refused."""
    end = time.monotonic() + SECONDS_MAX
    with grpc.insecure_channel(limited.server.address) as channel:
        while time.monotonic() < end:
            outcome = called(channel, method, request, limited.of(caller))
            if outcome.code is grpc.StatusCode.RESOURCE_EXHAUSTED:
                return refused(outcome.error)
    raise AssertionError("the caller is not refused")


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_counts_as_a_call(limited: Limited, method: str) -> None:
    found = refusal(limited, "one-call", method, request_of(method))
    assert found == ("QUOTA_EXCEEDED", "call_rate")


def commit_of(offsets: int, group: str = GROUP) -> Any:
    request = offset_service_pb2.CommitOffsetsRequest(group_id=group)
    for partition in range(offsets):
        request.offsets.add(topic=TOPIC, partition=partition, offset=7)
    return request


@pytest.mark.parametrize(
    ("caller", "method", "request_", "quota"),
    [
        ("commits", "CommitOffsets", commit_of(1), "commit_rate"),
        ("offsets", "CommitOffsets", commit_of(60), "offset_rate"),
        ("request-bytes", "CommitOffsets", commit_of(60), "request_byte_rate"),
        ("response-bytes", "GetServerInfo", request_of("GetServerInfo"), "response_byte_rate"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_rate_is_refused_above_its_limit(
    limited: Limited, caller: str, method: str, request_: Any, quota: str
) -> None:
    assert refusal(limited, caller, method, request_) == ("QUOTA_EXCEEDED", quota)
    with grpc.insecure_channel(limited.server.address) as channel:
        other = called(channel, method, request_, limited.of("free"))
        assert other.code is grpc.StatusCode.OK, "others are not concerned"
        # One more: "a caller may call again after the time that it is told".
        poll(
            lambda: (
                called(channel, method, request_, limited.of(caller)).code is grpc.StatusCode.OK
            ),
            SECONDS_MAX,
        )


def test_a_refused_commit_changes_nothing(limited: Limited) -> None:
    end = time.monotonic() + SECONDS_MAX
    with grpc.insecure_channel(limited.server.address) as channel:
        stored = -1
        for offset in range(1000):
            request = offset_service_pb2.CommitOffsetsRequest(group_id="unchanged")
            request.offsets.add(topic=TOPIC, partition=0, offset=offset)
            outcome = called(channel, "CommitOffsets", request, limited.of("commits"))
            if outcome.code is not grpc.StatusCode.OK:
                break
            stored = offset
            assert time.monotonic() < end
        assert refused(outcome.error) == ("QUOTA_EXCEEDED", "commit_rate")
        fetch = offset_service_pb2.FetchOffsetsRequest()
        fetch.groups.add(group_id="unchanged")
        found = called(channel, "FetchOffsets", fetch, limited.of("free")).answers[0]
        assert [each.offset for each in found.groups[0].offsets] == [stored]


def test_a_stream_is_read_more_slowly_and_nothing_is_refused(limited: Limited) -> None:
    def messages() -> Iterator[Any]:
        for sequence in range(1, 16):
            request = offset_service_pb2.StreamCommitsRequest()
            request.commits.add(sequence=sequence).commit.CopyFrom(commit_of(1, "streamed"))
            yield request

    with grpc.insecure_channel(limited.server.address) as channel:
        answers = Stubs(channel).offsets.StreamCommits(
            messages(), metadata=limited.of("commits"), timeout=SECONDS_MAX
        )
        results = [each for answer in answers for each in answer.results]
    assert [each.sequence for each in results] == list(range(1, 16))
    assert all(each.HasField("committed") for each in results)
    delayed = limited.scrape().value("offsetd_quota_delay_seconds_total", principal="User:commits")
    assert delayed > 0.5, "15 commits at 5 a second, of which the first 5 do not wait"


def test_a_new_stream_does_not_escape_the_debt_of_an_older_one(limited: Limited) -> None:
    """A stream ends as soon as its commits are answered, and a new one pays its debt first."""

    def answered(group: str, seconds: float) -> bool:
        request = offset_service_pb2.StreamCommitsRequest()
        request.commits.add(sequence=1).commit.CopyFrom(commit_of(100 * 60, group))
        call = Stubs(channel).offsets.StreamCommits(
            iter([request]), metadata=limited.of("offsets"), timeout=seconds
        )
        try:
            return all(each.results for each in call)
        except grpc.RpcError as error:
            status: Any = error
            assert status.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            return False

    with grpc.insecure_channel(limited.server.address) as channel:
        # A minute's worth of its quota.
        poll(lambda: answered("in-debt", SECONDS_MAX), SECONDS_MAX)
        assert not answered("escaped", 2)
        fetch = offset_service_pb2.FetchOffsetsRequest()
        fetch.groups.add(group_id="escaped")
        found = called(channel, "FetchOffsets", fetch, limited.of("free")).answers[0]
        assert not found.groups[0].offsets


def test_a_refusal_leaves_before_the_deadline(limited: Limited) -> None:
    with grpc.insecure_channel(limited.server.address) as channel:
        stubs, request = Stubs(channel), request_of("GetServerInfo")
        calls = [
            stubs.admin.GetServerInfo.future(request, timeout=1, metadata=limited.of("one-call"))
            for _ in range(60)
        ]
        codes = {call.code() for call in calls}
    assert codes <= {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}


def test_streams_and_watchers_are_counted(limited: Limited) -> None:
    with ExitStack() as stack:
        channel = stack.enter_context(grpc.insecure_channel(limited.server.address))
        stubs, metadata = Stubs(channel), limited.of("counts")
        watch = history_pb2.WatchOffsetsRequest()
        first = stubs.offsets.WatchOffsets(watch, metadata=metadata)
        next(first)
        with pytest.raises(grpc.RpcError) as caught:
            next(stubs.offsets.WatchOffsets(watch, metadata=metadata))
        assert refused(caught.value) == ("QUOTA_EXCEEDED", "watchers_max")
        first.cancel()
        poll(lambda: is_open(stubs.offsets.WatchOffsets(watch, metadata=metadata)), SECONDS_MAX)

        def endless() -> Iterator[Any]:
            request = offset_service_pb2.StreamCommitsRequest()
            request.commits.add(sequence=1).commit.CopyFrom(commit_of(1))
            yield request
            ended.wait(SECONDS_MAX)

        ended = threading.Event()
        stack.callback(ended.set)
        streaming = stubs.offsets.StreamCommits(endless(), metadata=metadata)
        next(streaming)
        for method in ("StreamCommits", "ExportOffsets", "ImportOffsets"):
            outcome = called(channel, method, request_of(method), metadata)
            assert refused(outcome.error) == ("QUOTA_EXCEEDED", "streams_max"), method
        ended.set()
        poll(
            lambda: (
                called(channel, "ExportOffsets", request_of("ExportOffsets"), metadata).code
                is grpc.StatusCode.OK
            ),
            SECONDS_MAX,
        )


def is_open(call: Any) -> bool:
    try:
        next(call)
    except grpc.RpcError:
        return False
    call.cancel()
    return True


def test_connections_are_counted_until_they_close(limited: Limited) -> None:
    def connect() -> tuple[grpc.Channel, Any]:
        # A channel of its own connection: gRPC shares connections of equal channels.
        channel = grpc.insecure_channel(
            limited.server.address, [("grpc.use_local_subchannel_pool", 1)]
        )
        outcome = called(channel, "ListGroups", request_of("ListGroups"), limited.of("counts"))
        return channel, outcome

    opened = []

    def is_refused() -> bool:
        channel, outcome = connect()
        if outcome.code is grpc.StatusCode.OK:
            opened.append(channel)
            assert len(opened) <= 2
            return False
        assert refused(outcome.error) == ("QUOTA_EXCEEDED", "connections_max")
        channel.close()
        return len(opened) == 2

    poll(is_refused, SECONDS_MAX)
    opened.pop().close()
    poll(lambda: connect()[1].code is grpc.StatusCode.OK, SECONDS_MAX)
    opened.pop().close()


def test_leases_are_counted_while_they_are_held(limited: Limited) -> None:
    with grpc.insecure_channel(limited.server.address) as channel:
        groups, metadata = Stubs(channel).groups, limited.of("counts")

        def acquire(group: str) -> Any:
            request = group_service_pb2.AcquireGroupRequest(
                group_id=group, holder="h", ttl=Duration(seconds=600)
            )
            return groups.AcquireGroup(request, metadata=metadata)

        request = request_of("ListGroups")
        # The connections of other tests close.
        poll(
            lambda: called(channel, "ListGroups", request, metadata).code is grpc.StatusCode.OK,
            SECONDS_MAX,
        )
        acquire("first")
        with pytest.raises(grpc.RpcError) as caught:
            acquire("second")
        assert refused(caught.value) == ("QUOTA_EXCEEDED", "leases_max")
        epoch = acquire("first").lease.epoch
        release = group_service_pb2.ReleaseGroupRequest(group_id="first", epoch=epoch)
        groups.ReleaseGroup(release, metadata=metadata)
        acquire("second")


def test_the_clients_wait_as_long_as_they_are_told(limited: Limited) -> None:
    with OffsetClient(
        limited.server.address, token=limited.tokens["commits"], stream_commits=False
    ) as client:
        for offset in range(12):
            client.commit("patient", {TopicPartition(TOPIC, 0): offset})
        assert client.fetch("patient")[TopicPartition(TOPIC, 0)].offset == 11


def test_a_quota_of_a_client_id_counts_for_every_principal(limited: Limited) -> None:
    for principal in ("free", "counts"):
        metadata = [*limited.of(principal), ("client-id", "loader")]
        with grpc.insecure_channel(limited.server.address) as channel:
            end = time.monotonic() + SECONDS_MAX
            while time.monotonic() < end:
                outcome = called(channel, "CommitOffsets", commit_of(1), metadata)
                if outcome.code is grpc.StatusCode.RESOURCE_EXHAUSTED:
                    break
            found = refused(outcome.error)
        assert found in {("QUOTA_EXCEEDED", "commit_rate"), ("QUOTA_EXCEEDED", "connections_max")}
        if principal == "free":
            assert found[1] == "commit_rate"


def test_python_clients_send_their_client_id(limited: Limited) -> None:
    before = refusals(limited, "User:free")
    with OffsetClient(
        limited.server.address,
        token=limited.tokens["free"],
        stream_commits=False,
        client_id="loader",
    ) as client:
        for offset in range(8):
            client.commit("named", {TopicPartition(TOPIC, 0): offset})
    assert refusals(limited, "User:free") > before


def refusals(limited: Limited, principal: str) -> float:
    family = limited.scrape().families["offsetd_quota_refusals"]
    return sum(
        each.value
        for each in family.samples
        if each.labels == {"principal": principal, "quota": "commit_rate"}
    )


def test_a_changed_file_counts_and_a_wrong_one_leaves_the_old(tmp_path: Path) -> None:
    path = tmp_path / "quotas.toml"
    path.write_text('[[quota]]\nprincipal = "User:ANONYMOUS"\ncall_rate = 1\n')
    settings = {"security.quotas.file": path}
    with ServerProcess(tmp_path / "data", settings=settings) as server:
        server.wait_until_serving()
        with grpc.insecure_channel(server.address) as channel:

            def refusals_in(calls: int) -> int:
                request = request_of("GetServerInfo")
                codes = [called(channel, "GetServerInfo", request).code for _ in range(calls)]
                return codes.count(grpc.StatusCode.RESOURCE_EXHAUSTED)

            poll(lambda: refusals_in(4) > 0, SECONDS_MAX, "callers without an identity, too")
            replaced(path, "[[quota]]\nprincipal = 3\n")
            server.wait_for_event("a changed file is wrong: its former content stays in force")
            assert refusals_in(4) > 0
            replaced(path, "")
            server.wait_for_event("quotas were read again")
            assert refusals_in(20) == 0


def replaced(path: Path, text: str) -> None:
    beside = path.with_suffix(".part")
    beside.write_text(text)
    os.replace(beside, path)


def test_a_pipe_in_the_place_of_a_file_blocks_nothing(tmp_path: Path) -> None:
    path, tokens = tmp_path / "quotas.toml", tmp_path / "tokens.toml"
    path.write_text('[[quota]]\nprincipal = "User:a"\ncall_rate = 1\n')
    create_token(tokens, "User:a", now_ms=int(time.time() * 1000))
    settings = {"security.quotas.file": path, "security.tokens.file": tokens}
    with ServerProcess(tmp_path / "data", settings=settings) as server:
        server.wait_until_serving()
        path.unlink()
        os.mkfifo(path)
        server.wait_for_event("a changed file is wrong: its former content stays in force")
        assert "it is no regular file" in server.log
        path.unlink()
        replaced(path, "")
        server.wait_for_event("the file has no quotas: nothing is limited")
    path.unlink()
    os.mkfifo(path)
    with ServerProcess(tmp_path / "data", settings=settings) as server:
        assert server.wait_for_exit() != 0
        assert "it is no regular file" in server.log


def test_a_wrong_file_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / "quotas.toml"
    path.write_text('[[quota]]\nprincipal = "User:a"\ncommits = 1\n')
    with ServerProcess(tmp_path / "data", settings={"security.quotas.file": path}) as server:
        assert server.wait_for_exit() != 0
        assert "table 1: unknown key 'commits'" in server.log


def test_the_guides_file_is_one() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "quotas.md").read_text("utf-8")
    (block,) = re.findall(r"^```toml\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    table = parse_quota_file(block)
    found = table.limits_of("User:CN=loader", "backfill")
    limits = {quota.value: limit.most for quota, limit in found.items()}
    assert limits == {
        "offset_rate": 10_000,
        "streams_max": 2,
        "commit_rate": 10_000,
        "connections_max": 50,
    }
    named = set(re.findall(r"^\| `([a-z_]+)` \|", guide, re.MULTILINE))
    assert named == {quota.value for quota in Quota}
