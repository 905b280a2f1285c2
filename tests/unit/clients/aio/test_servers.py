"""offsetd_clients.aio.servers, and what is made of it for threads: groups have owners."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake_server import FakeServer, outcome, serving
from google.rpc.status_pb2 import Status
from offsetd.v1 import offset_service_pb2, types_pb2
from offsetd_clients import (
    AsyncOffsetClient,
    ForkedClient,
    Membership,
    NotCoordinator,
    RetryPolicy,
    Revision,
    TopicPartition,
)
from offsetd_clients.calling import commit_queue
from offsetd_clients.calling.group_owners import HOPS_MAX, Owners, group_of
from offsetd_clients.errors import Failure
from patience import PATIENCE_SECONDS

WHERE = TopicPartition("orders", 0)
REVISION = types_pb2.Revision(log_partition=7, log_offset=1)
COMMITTED = offset_service_pb2.CommitOffsetsResponse(revision=REVISION)
Connect = Callable[..., Any]
Failed = Callable[..., Status]


def policy() -> RetryPolicy:
    return RetryPolicy(timeout_s=PATIENCE_SECONDS, wait_initial_s=0.001, wait_max_s=0.01)


def not_here(failed: Failed, address: str = "") -> Status:
    details = {"address": address} if address else {}
    return failed("UNAVAILABLE", "NOT_COORDINATOR", "ask another", **details)


def answers(server: FakeServer, result: Callable[[Any], Status | None]) -> None:
    """Has a server answer streams: a commit is refused, or (None) accepted."""

    def answer(messages: Iterator[Any], _context: Any) -> Iterator[Any]:
        for message in messages:
            for each in message.commits:
                refusal = result(each.commit)
                taken = offset_service_pb2.CommitResult(sequence=each.sequence, error=refusal)
                if refusal is None:
                    taken = offset_service_pb2.CommitResult(
                        sequence=each.sequence, committed=COMMITTED
                    )
                yield offset_service_pb2.StreamCommitsResponse(results=[taken])

    server.answer_stream = answer


def commits_in(server: FakeServer) -> list[Any]:
    return [each.commit for message in server.messages for each in message.commits]


async def test_a_commit_goes_to_the_groups_owner_and_the_next_ones_at_once(
    fake_server: FakeServer, other_server: FakeServer, connect: Connect, failed: Failed
) -> None:
    answers(fake_server, lambda commit: not_here(failed, other_server.address))
    answers(other_server, lambda commit: None)
    async with connect(fake_server.address, retry=policy()) as client:
        for offset in range(5):
            assert await client.commit("g", {WHERE: offset}) == Revision(7, 1)
        future = await client.commit_soon("g", {WHERE: 5})
        assert await outcome(future) == Revision(7, 1)
    (asked,) = commits_in(fake_server)
    told = commits_in(other_server)
    assert [each.offsets[0].offset for each in told] == [*range(6)]
    assert asked == told[0], "by the same request id"


async def test_commits_that_move_with_their_group_come_before_those_of_who_heard_meanwhile(
    fake_server: FakeServer,
    other_server: FakeServer,
    failed: Failed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer(messages: Iterator[Any], _context: Any) -> Iterator[Any]:
        for message in messages:
            response = offset_service_pb2.StreamCommitsResponse()
            for each in message.commits:
                result = response.results.add(sequence=each.sequence)
                if each.commit.group_id == "g":
                    result.error.CopyFrom(not_here(failed, other_server.address))
                else:
                    result.committed.CopyFrom(COMMITTED)
            yield response

    monkeypatch.setattr(commit_queue, "_PORTION_BYTES", 1)
    fake_server.answer_stream = answer
    answers(other_server, lambda _: None)
    async with AsyncOffsetClient(fake_server.address, retry=policy()) as client:
        groups = ["g", "other", "g", "g", "g"]
        futures = [
            await client.commit_soon(group_id, {WHERE: offset})
            for offset, group_id in enumerate(groups)
        ]
        await futures[1]
        await client.commit("g", {WHERE: 5})
        for future in futures:
            assert await future == Revision(7, 1)
    assert len(fake_server.messages) == 1
    told = commits_in(other_server)
    assert [each.offsets[0].offset for each in told] == [0, 2, 3, 4, 5]


async def test_other_groups_stay_where_they_are(
    fake_server: FakeServer, other_server: FakeServer, connect: Connect, failed: Failed
) -> None:
    answers(
        fake_server,
        lambda commit: not_here(failed, other_server.address) if commit.group_id == "a" else None,
    )
    answers(other_server, lambda commit: None)
    async with connect(fake_server.address, retry=policy()) as client:
        for _ in range(3):
            await client.commit("a", {WHERE: 1})
            await client.commit("b", {WHERE: 1})
    assert [each.group_id for each in commits_in(fake_server)] == [*"abbb"]
    assert [each.group_id for each in commits_in(other_server)] == [*"aaa"]


async def test_calls_follow_the_owner_too(
    fake_server: FakeServer, other_server: FakeServer, connect: Connect, failed: Failed
) -> None:
    fake_server.will_answer("CommitOffsets", not_here(failed, other_server.address))
    other_server.will_answer("CommitOffsets", COMMITTED)
    group = offset_service_pb2.GroupOffsets(group_id="g")
    response = offset_service_pb2.FetchOffsetsResponse(groups=[group])
    other_server.will_answer("FetchOffsets", response)
    async with connect(fake_server.address, retry=policy(), stream_commits=False) as client:
        assert await client.commit("g", {WHERE: 1}) == Revision(7, 1)
        assert await client.fetch("g") == {}
    assert len(fake_server.requests) == 1
    assert len(other_server.requests) == 2


async def test_many_groups_are_fetched_from_their_owners(
    fake_server: FakeServer, other_server: FakeServer, connect: Connect, failed: Failed
) -> None:
    def found(group_id: str) -> Any:
        stored = offset_service_pb2.CommittedOffset(topic="orders", offset=len(group_id))
        group = offset_service_pb2.GroupOffsets(group_id=group_id, offsets=[stored])
        return offset_service_pb2.FetchOffsetsResponse(groups=[group])

    elsewhere = not_here(failed, other_server.address)
    fake_server.will_answer("FetchOffsets", elsewhere, found("a"), elsewhere)
    other_server.will_answer("FetchOffsets", found("bb"))
    async with connect(fake_server.address, retry=policy()) as client:
        fetched = await client.fetch_many(["a", "bb"])
    assert {group: offsets[WHERE].offset for group, offsets in fetched.items()} == {"a": 1, "bb": 2}


@pytest.mark.parametrize("stream_commits", [True, False])
async def test_servers_that_name_each_other_are_asked_so_often_and_then_after_a_wait(
    fake_server: FakeServer,
    other_server: FakeServer,
    connect: Connect,
    failed: Failed,
    stream_commits: bool,
) -> None:
    count = 0

    def moved(name: FakeServer) -> Callable[[Any], Status | None]:
        def answer(_: Any) -> Status | None:
            nonlocal count
            count += 1
            return failed(
                "UNAVAILABLE",
                "NOT_COORDINATOR",
                retry_after_ms=3_600_000,
                address=name.address,
            )

        return answer

    def refuse(server: FakeServer, name: FakeServer) -> None:
        answers(server, moved(name))
        server.will_answer("CommitOffsets", *[lambda _: moved(name)(None)] * 100)

    refuse(fake_server, other_server)
    refuse(other_server, fake_server)
    async with connect(
        fake_server.address, retry=policy(), stream_commits=stream_commits
    ) as client:
        with pytest.raises(NotCoordinator) as raised:
            await client.commit("g", {WHERE: 1})
    assert raised.value.address in (fake_server.address, other_server.address)
    assert not raised.value.outcome_unknown
    assert count == HOPS_MAX + 1


@pytest.mark.parametrize("stream_commits", [True, False])
async def test_an_owner_that_is_gone_is_asked_for_at_home(
    fake_server: FakeServer, connect: Connect, failed: Failed, stream_commits: bool
) -> None:
    with serving() as other:
        moved = [not_here(failed, other.address)]
        answers(fake_server, lambda _: moved.pop() if moved else None)
        answers(other, lambda _: None)
        fake_server.will_answer("CommitOffsets", *([] if stream_commits else moved), COMMITTED)
        other.will_answer("CommitOffsets", COMMITTED)
        client = connect(fake_server.address, retry=policy(), stream_commits=stream_commits)
        await client.commit("g", {WHERE: 1})
    await client.commit("g", {WHERE: 2})
    await client.close()
    at_home = commits_in(fake_server) + fake_server.requests
    assert [each.offsets[0].offset for each in at_home] == [1, 2]


@pytest.mark.parametrize("stream_commits", [True, False])
async def test_where_nobody_knows_the_owner_it_is_asked_for_again(
    fake_server: FakeServer, connect: Connect, failed: Failed, stream_commits: bool
) -> None:
    unknown = [not_here(failed), not_here(failed, fake_server.address)]
    fake_server.will_answer("CommitOffsets", *unknown, COMMITTED)
    answers(fake_server, lambda _: unknown.pop() if unknown else None)
    async with connect(
        fake_server.address, retry=policy(), stream_commits=stream_commits
    ) as client:
        assert await client.commit("g", {WHERE: 1}) == Revision(7, 1)
    assert len(commits_in(fake_server) + fake_server.requests) == 3


async def test_a_server_that_was_restarted_is_found_again(connect: Connect) -> None:
    with serving() as first:
        address = first.address
        answers(first, lambda _: None)
        client = connect(address, retry=policy())
        await client.commit("g", {WHERE: 1})
    with serving(address) as second:
        answers(second, lambda _: None)
        await client.commit("g", {WHERE: 2})
        await client.close()
    assert [each.offsets[0].offset for each in commits_in(second)] == [2]


def owner(address: str) -> NotCoordinator:
    details = {"address": address} if address else {}
    return NotCoordinator(Failure(code="UNAVAILABLE", message="no", details=details))


def test_owners_are_remembered_until_something_else_is_said() -> None:
    owners = Owners("home:1")
    assert owners.address_of("g") == "home:1"
    assert owners.learn("g", owner("a:1"), "home:1")
    assert (owners.address_of("g"), owners.address_of("h")) == ("a:1", "home:1")
    assert owners.learn("g", owner("b:1"), "a:1")
    assert not owners.learn("g", owner("b:1"), "b:1"), "it names itself"
    assert owners.address_of("g") == "home:1"
    owners.learn("g", owner("a:1"), "home:1")
    assert not owners.learn("g", owner(""), "a:1")
    assert owners.learn("g", owner("home:1"), "a:1")
    assert owners.address_of("g") == "home:1"
    assert not owners.learn("", owner("a:1"), "home:1")


def test_the_owners_that_were_learned_first_are_forgotten_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("offsetd_clients.calling.group_owners._OWNERS_MAX", 2)
    owners = Owners("home:1")
    for group in "abc":
        owners.learn(group, owner("a:1"), "home:1")
    assert [owners.address_of(group) for group in "abc"] == ["home:1", "a:1", "a:1"]


@pytest.mark.parametrize(
    ("request_", "group_id"),
    [
        (offset_service_pb2.CommitOffsetsRequest(group_id="g"), "g"),
        (offset_service_pb2.FetchOffsetsRequest(groups=[{"group_id": "g"}]), "g"),
        (offset_service_pb2.FetchOffsetsRequest(groups=[{"group_id": "g"}] * 2), ""),
        (offset_service_pb2.FetchOffsetsRequest(), ""),
        (b"health", ""),
        ([offset_service_pb2.CommitOffsetsRequest(group_id="g")], ""),
    ],
)
def test_a_request_is_for_one_group_or_for_none(request_: Any, group_id: str) -> None:
    assert group_of(request_) == group_id


FORKED = """
import os, sys
from offsetd_clients import ForkedClient, OffsetClient, RetryPolicy, TopicPartition

where = TopicPartition("orders", 0)
client = OffsetClient(sys.argv[1], retry=RetryPolicy(timeout_s=10))
client.commit("g", {where: 1})
child = os.fork()
if not child:
    for call in (client.commit, client.commit_soon):
        try:
            call("g", {where: 2})
        except ForkedClient as error:
            print(error, flush=True)
    client.close()
    os._exit(7)
status = os.waitpid(child, 0)[1]
print(os.waitstatus_to_exitcode(status), flush=True)
client.commit("g", {where: 3})
"""


def test_a_child_is_told_that_it_needs_a_client_of_its_own(fake_server: FakeServer) -> None:
    answers(fake_server, lambda _: None)
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED, fake_server.address],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    *told, exit_code = ended.stdout.splitlines()
    assert (len(told), exit_code, ended.returncode) == (2, "7", 0), ended.stderr
    assert all("a child has to make its own" in line for line in told)
    assert [each.offsets[0].offset for each in commits_in(fake_server)] == [1, 3]


async def test_no_call_of_a_client_is_made_by_another_process(
    fake_server: FakeServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, process = connect(fake_server.address), os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: process + 1)
    for call in (
        client.commit("g", {WHERE: 1}),
        client.commit_soon("g", {WHERE: 1}),
        client.fetch("g"),
        client.heartbeat(Membership(group_id="g", member_id="m", generation_id=1)),
    ):
        with pytest.raises(ForkedClient, match=f"that of process {process}"):
            await call
    await client.close()
    monkeypatch.undo()
    await client.close()
    assert fake_server.requests == fake_server.messages == []
