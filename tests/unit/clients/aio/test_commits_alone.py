"""offsetd_clients.aio.commits, and what is made of it for threads: commits that are calls."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from commit_answers import Response, answer_all, committed, offsets_in
from fake_server import FakeServer, abort, outcome
from google.rpc.status_pb2 import Status
from offsetd.v1 import offset_service_pb2, types_pb2
from offsetd_clients import (
    ClientDefect,
    RetryPolicy,
    Revision,
    TopicPartition,
)
from offsetd_clients.aio import transport as aio_transport
from offsetd_clients.sync import transport as sync_transport
from patience import PATIENCE_SECONDS as WAIT_S

WHERE = TopicPartition("orders", 0)
Connect = Callable[..., Any]


def policy(timeout_s: float = WAIT_S, **more: float) -> RetryPolicy:
    return RetryPolicy(timeout_s=timeout_s, wait_initial_s=0.001, wait_max_s=0.01, **more)


async def test_a_server_that_does_not_know_streams_gets_calls(
    fake_server: FakeServer, connect: Connect
) -> None:
    revision = types_pb2.Revision(log_partition=7, log_offset=1)
    answer = offset_service_pb2.CommitOffsetsResponse(revision=revision)
    fake_server.will_answer("CommitOffsets", *[answer] * 4)
    async with connect(fake_server.address) as client:
        futures = [await client.commit_soon("g", {WHERE: each}) for each in range(3)]
        assert [await outcome(each) for each in futures] == [Revision(7, 1)] * 3
        await client.commit("g", {WHERE: 3})
    assert [each.offsets[0].offset for each in fake_server.requests] == [0, 1, 2, 3]


@pytest.mark.parametrize("soon", [False, True])
async def test_who_wants_no_stream_gets_calls(
    fake_server: FakeServer, connect: Connect, soon: bool
) -> None:
    revision = types_pb2.Revision(log_partition=7, log_offset=1)
    fake_server.answer_stream = answer_all
    fake_server.will_answer(
        "CommitOffsets", offset_service_pb2.CommitOffsetsResponse(revision=revision)
    )
    async with connect(fake_server.address, stream_commits=False) as client:
        if soon:
            found = await outcome(await client.commit_soon("g", {WHERE: 1}))
        else:
            found = await client.commit("g", {WHERE: 1})
    assert found == Revision(7, 1)
    assert fake_server.messages == []


@pytest.mark.parametrize("soon", [False, True])
async def test_a_large_commit_is_a_call_of_its_own(
    fake_server: FakeServer, connect: Connect, soon: bool
) -> None:
    revision = types_pb2.Revision(log_partition=7, log_offset=1)
    fake_server.answer_stream = answer_all
    fake_server.will_answer(
        "CommitOffsets", offset_service_pb2.CommitOffsetsResponse(revision=revision)
    )
    offsets = {TopicPartition("t" * 200, each): each for each in range(2000)}
    async with connect(fake_server.address) as client:
        if soon:
            found = await outcome(await client.commit_soon("g", offsets))
        else:
            found = await client.commit("g", offsets)
        assert await client.commit("g", {WHERE: 3}) == Revision(7, 3)
    assert found == Revision(7, 1)
    assert offsets_in(fake_server) == [3]


async def test_no_stream_is_opened_for_large_commits(
    fake_server: FakeServer, connect: Connect
) -> None:
    opened: list[None] = []

    def answer(messages: Iterator[Any], context: Any) -> Iterator[Any]:
        opened.append(None)
        yield from answer_all(messages, context)

    fake_server.answer_stream = answer
    fake_server.will_answer("CommitOffsets", *[offset_service_pb2.CommitOffsetsResponse()] * 3)
    large = {TopicPartition("t" * 200, each): each for each in range(2000)}
    async with connect(fake_server.address) as client:
        for _ in range(3):  # What is opened behind one has ended before the next has its answer.
            await outcome(await client.commit_soon("g", large))
    assert opened == []


async def test_a_large_commit_ends_the_stream_and_what_comes_behind_it_waits(
    fake_server: FakeServer, connect: Connect
) -> None:
    revision = types_pb2.Revision(log_partition=7, log_offset=1)
    order: list[str] = []

    def answer(messages: Iterator[Any], _context: Any) -> Iterator[Any]:
        for message in messages:
            order.extend(each.commit.group_id for each in message.commits)
            yield Response(results=map(committed, message.commits))

    def answer_alone(_context: Any) -> Any:
        order.append("large")
        return offset_service_pb2.CommitOffsetsResponse(revision=revision)

    fake_server.answer_stream = answer
    fake_server.will_answer("CommitOffsets", answer_alone, answer_alone)
    large = {TopicPartition("t" * 200, each): each for each in range(2000)}
    async with connect(fake_server.address, retry=policy()) as client:
        futures = [
            await client.commit_soon(each, large if each == "large" else {WHERE: 1})
            for each in ("a", "b", "large", "c", "large", "d")
        ]
        for future in futures:
            await outcome(future)
    assert order == ["a", "b", "large", "c", "large", "d"]


async def test_messages_become_smaller_until_the_server_takes_them(
    fake_server: FakeServer, connect: Connect, failed: Callable[..., Status]
) -> None:
    taken: list[int] = []

    def answer(messages: Iterator[Any], context: Any) -> Iterator[Any]:
        for message in messages:
            if message.ByteSize() > 20_000:
                abort(context, failed("RESOURCE_EXHAUSTED", "REQUEST_TOO_LARGE"))
            taken.append(len(message.commits))
            yield Response(results=map(committed, message.commits))

    def answer_alone(_context: Any) -> Any:
        return offset_service_pb2.CommitOffsetsResponse()

    fake_server.answer_stream = answer
    fake_server.will_answer("CommitOffsets", *[answer_alone] * 10_000)
    async with connect(fake_server.address, retry=policy()) as client:
        for _ in range(20):
            calls_before = len(fake_server.requests)
            futures = [await client.commit_soon("g", {WHERE: each}) for each in range(500)]
            found = [await outcome(each) for each in futures]
            assert all(isinstance(each, Revision) for each in found)
            if len(fake_server.requests) == calls_before:
                break
        else:
            pytest.fail("messages stay too large")
    assert sum(taken[-500:]) >= 500


async def test_a_client_that_fails_in_its_own_way_says_so_and_goes_on(
    fake_server: FakeServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise ValueError("nobody thought of it")

    fake_server.answer_stream = answer_all
    async with connect(fake_server.address, retry=policy()) as client:
        with monkeypatch.context() as failing:
            for module in (aio_transport, sync_transport):
                failing.setattr(module.Channel, "stream", fail)
                failing.setattr(module.Channel, "call", fail)
            with pytest.raises(ClientDefect, match="nobody thought of it") as raised:
                await outcome(await client.commit_soon("g", {WHERE: 1}))
        assert isinstance(raised.value.__cause__, ValueError)
        assert raised.value.outcome_unknown
        assert await client.commit("g", {WHERE: 2}) == Revision(7, 2)
