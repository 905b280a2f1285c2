"""Guards against commit storms on a real server: set while it runs, and what its clients see."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.rpc.code_pb2 import Code
from google.rpc.error_details_pb2 import ErrorInfo, QuotaFailure, RetryInfo
from offsetd.v1 import admin_service_pb2, offset_service_pb2
from offsetd_clients import OffsetClient, RetryPolicy, TopicPartition
from refusals import status_of
from scrapes import Scrape
from server_process import ServerProcess, Stubs
from serving_nodes import commit_request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.rpc.status_pb2 import Status

WAIT_S = 60
ORDERS = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("data")) as process:
        yield process.wait_until_serving()
        process.stop_well()


@pytest.fixture
def stubs(server: ServerProcess) -> Iterator[Stubs]:
    """Its services; what a test sets is taken back."""
    with server.channel() as channel:
        stubs = Stubs(channel)
        yield stubs
        names = ("group.commit.rate.max", "group.commit.burst.max", "commit.unchanged.suppress.ms")
        stubs.admin.UpdateConfig(admin_service_pb2.UpdateConfigRequest(remove=names))


def configure(stubs: Stubs, **settings: object) -> None:
    texts = {name.replace("_", "."): str(value) for name, value in settings.items()}
    stubs.admin.UpdateConfig(admin_service_pb2.UpdateConfigRequest(set=texts))


def fetched(stubs: Stubs, group_id: str) -> Any:
    selection = offset_service_pb2.GroupSelection(group_id=group_id)
    return stubs.offsets.FetchOffsets(offset_service_pb2.FetchOffsetsRequest(groups=[selection]))


def log_ends(stubs: Stubs) -> list[int]:
    log = stubs.admin.DescribeLog(admin_service_pb2.DescribeLogRequest())
    return [each.log_end_offset for each in log.partitions]


def contents(stubs: Stubs, group_id: str) -> tuple[Any, list[int]]:
    """What is stored of a group, and how long the log is."""
    return fetched(stubs, group_id), log_ends(stubs)


def unpacked(status: Status, kind: type[Any]) -> Any:
    """The one detail of a kind."""
    found = [packed for packed in status.details if packed.Is(kind.DESCRIPTOR)]
    assert len(found) == 1, status
    message = kind()
    found[0].Unpack(message)
    return message


def check_refusal(status: Status, group_id: str) -> None:
    """It says which group commits too often, and when to come again."""
    info = unpacked(status, ErrorInfo)
    assert (info.reason, info.domain) == ("COMMIT_RATE_EXCEEDED", "offsetd")
    assert (info.metadata["group"], info.metadata["rate_max"]) == (group_id, "1")
    assert unpacked(status, QuotaFailure).violations[0].subject == f"group:{group_id}"
    assert 0 < unpacked(status, RetryInfo).retry_delay.ToMilliseconds() <= 2000


def refusal_of(stubs: Stubs, group_id: str, value: int) -> Status | None:
    """The status of a commit, if it is refused; then nothing has changed."""
    before = contents(stubs, group_id)
    try:
        stubs.offsets.CommitOffsets(commit_request(group_id, value))
    except grpc.RpcError as error:
        status = status_of(error)
    else:
        return None
    assert contents(stubs, group_id) == before
    return status


def test_who_commits_too_often_is_refused_and_nothing_is_changed(stubs: Stubs) -> None:
    configure(stubs, group_commit_rate_max=1, group_commit_burst_max=2)
    refused = [each for value in range(50) if (each := refusal_of(stubs, "fast", value))]
    assert len(refused) > 0
    for status in refused:
        assert status.code == Code.RESOURCE_EXHAUSTED
        check_refusal(status, "fast")
    assert refusal_of(stubs, "another", 1) is None
    configure(stubs, group_commit_rate_max=0)
    assert [refusal_of(stubs, "fast", value) for value in range(10)] == [None] * 10


def test_in_a_stream_the_refusal_is_that_commits_result(stubs: Stubs) -> None:
    configure(stubs, group_commit_rate_max=1, group_commit_burst_max=1)
    groups = ["streamed", "streamed", "beside", "streamed"]
    commits = [
        offset_service_pb2.SequencedCommit(sequence=number, commit=commit_request(group, number))
        for number, group in enumerate(groups, start=1)
    ]
    message = offset_service_pb2.StreamCommitsRequest(commits=commits)
    answers = stubs.offsets.StreamCommits(iter([message]), timeout=WAIT_S)
    results = {each.sequence: each for answer in answers for each in answer.results}
    assert [results[each].WhichOneof("outcome") for each in (1, 2, 3, 4)] == [
        "committed", "error", "committed", "error",
    ]  # fmt: skip
    check_refusal(results[2].error, "streamed")
    assert fetched(stubs, "streamed").groups[0].offsets[0].offset == 1


def test_a_client_comes_again_when_it_is_told_to(server: ServerProcess, stubs: Stubs) -> None:
    configure(stubs, group_commit_rate_max=2, group_commit_burst_max=1)
    waited_s: list[float] = []

    def sleep(seconds: float) -> None:
        waited_s.append(seconds)
        time.sleep(seconds)

    policy = RetryPolicy(timeout_s=WAIT_S, wait_initial_s=0.001, wait_max_s=0.001, sleep=sleep)
    with OffsetClient(server.address, retry=policy, stream_commits=False) as client:
        for value in range(6):
            client.commit("patient", {ORDERS: value})
        assert client.fetch("patient")[ORDERS].offset == 5
    # Each is told what is left of half a second, and needs no second try.
    assert 0 < len(waited_s) <= 5
    assert max(waited_s) <= 0.502


def test_a_clients_stream_sends_a_commit_again_when_it_is_told_to(
    server: ServerProcess, stubs: Stubs
) -> None:
    configure(stubs, group_commit_rate_max=2, group_commit_burst_max=1)
    with OffsetClient(server.address, retry=RetryPolicy(timeout_s=WAIT_S)) as client:
        for value in range(6):
            client.commit("patient stream", {ORDERS: value})
            assert client.fetch("patient stream")[ORDERS].offset == value


def test_what_changes_nothing_is_answered_without_a_record(stubs: Stubs) -> None:
    first = stubs.offsets.CommitOffsets(commit_request("same", 7, partitions=3))
    configure(stubs, commit_unchanged_suppress_ms=3_600_000)
    before = contents(stubs, "same")
    for partitions in (3, 1, 2):
        again = stubs.offsets.CommitOffsets(commit_request("same", 7, partitions=partitions))
        assert again.revision.log_partition == first.revision.log_partition
        assert again.revision.log_offset == first.revision.log_offset - (3 - partitions)
    assert contents(stubs, "same") == before
    stubs.offsets.CommitOffsets(commit_request("same", 8, partitions=3))
    assert sum(log_ends(stubs)) == sum(before[1]) + 3


def test_a_time_beyond_a_tenth_of_the_retention_is_refused(stubs: Stubs) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        configure(stubs, commit_unchanged_suppress_ms=60_480_001)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "a tenth of offsets.retention.minutes" in caught.value.details()
    configure(stubs, commit_unchanged_suppress_ms=60_480_000)
    with pytest.raises(grpc.RpcError) as caught:
        configure(stubs, offsets_retention_minutes=10_079)
    assert "commit.unchanged.suppress.ms" in caught.value.details()


@pytest.mark.single_server
def test_what_was_refused_and_what_was_not_written_is_counted(
    server: ServerProcess, stubs: Stubs
) -> None:
    address = str(server.wait_for_event("metrics served")["address"])
    before = Scrape.from_address(address)
    configure(stubs, commit_unchanged_suppress_ms=60_000)
    for _ in range(3):
        stubs.offsets.CommitOffsets(commit_request("counted", 7))
    configure(stubs, group_commit_rate_max=1)
    refused = [refusal_of(stubs, "refused", value) for value in range(20)]
    after = Scrape.from_address(address)
    grown = {
        name: after.value(name) - before.value(name)
        for name in ("offsetd_unchanged_commits_total", "offsetd_commits_over_rate_total")
    }
    assert grown["offsetd_unchanged_commits_total"] == 2
    assert grown["offsetd_commits_over_rate_total"] == 20 - refused.count(None) > 0
