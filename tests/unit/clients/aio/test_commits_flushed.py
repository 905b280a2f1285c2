"""What becomes of commits when a client is flushed, closed, left or forgotten."""

import asyncio
import gc
import itertools
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from commit_answers import (
    Response,
    answer_all,
    commits_in,
    committed,
    offsets_in,
    poll,
    silence,
)
from fake_server import EitherClient, FakeServer, outcome
from offsetd.v1 import offset_service_pb2
from offsetd_clients import (
    AsyncOffsetClient,
    ClientClosed,
    CommitsUnanswered,
    DeadlineExceeded,
    EpochFenced,
    OffsetClient,
    RetryPolicy,
    Revision,
    TopicPartition,
)
from patience import PATIENCE_SECONDS as WAIT_S

WHERE = TopicPartition("orders", 0)
Connect = Callable[..., Any]


def policy(timeout_s: float = WAIT_S) -> RetryPolicy:
    return RetryPolicy(timeout_s=timeout_s, wait_initial_s=0.001, wait_max_s=0.01)


def held(go_on: threading.Event) -> Callable[..., Iterator[Any]]:
    """Takes messages, and answers when it may."""

    def answer(messages: Iterator[Any], _context: Any) -> Iterator[Any]:
        for message in messages:
            assert go_on.wait(WAIT_S)
            yield Response(results=[committed(each) for each in message.commits])

    return answer


def refusing(failed: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    """Refuses every commit."""
    status = failed("FAILED_PRECONDITION", "EPOCH_FENCED", "another has the lease")

    def answer(messages: Iterator[Any], _context: Any) -> Iterator[Any]:
        for message in messages:
            yield Response(
                results=[
                    offset_service_pb2.CommitResult(sequence=each.sequence, error=status)
                    for each in message.commits
                ]
            )

    return answer


@pytest.mark.parametrize("streams", [True, False])
async def test_leaving_with_waits_until_all_commits_are_answered(
    fake_server: FakeServer, connect: Connect, *, streams: bool
) -> None:
    if streams:
        fake_server.answer_stream = answer_all
    else:
        response = offset_service_pb2.CommitOffsetsResponse()
        fake_server.answer_each = lambda _: response
    async with connect(fake_server.address, retry=policy(), stream_commits=streams) as client:
        futures = [await client.commit_soon("g", {WHERE: each}) for each in range(300)]
    sent = offsets_in(fake_server) or [each.offsets[0].offset for each in fake_server.requests]
    assert sent == [*range(300)]
    assert all([isinstance(await outcome(each), Revision) for each in futures])


@pytest.mark.parametrize("way", ["flush", "close"])
async def test_a_flush_ends_when_what_was_handed_in_before_is_answered(
    fake_server: FakeServer, connect: Connect, way: str
) -> None:
    go_on = threading.Event()
    fake_server.answer_stream = held(go_on)
    client = connect(fake_server.address, retry=policy())
    futures = [await client.commit_soon("g", {WHERE: each}) for each in range(3)]
    ending = asyncio.ensure_future(getattr(client, way)())
    await poll(lambda: fake_server.messages)
    assert not ending.done()
    go_on.set()
    await ending
    assert all(each.done() for each in futures)
    assert [await outcome(each) for each in futures] == [Revision(7, each) for each in range(3)]
    await client.close()


async def test_a_flush_says_how_many_commits_of_which_groups_have_no_answer(
    fake_server: FakeServer, connect: Connect
) -> None:
    go_on = threading.Event()
    fake_server.answer_stream = held(go_on)
    client = connect(fake_server.address, retry=policy())
    for each in range(3):
        await client.commit_soon(f"g{each % 2}", {WHERE: each})
    with pytest.raises(CommitsUnanswered, match=r"3 commits .* of groups g0, g1") as raised:
        await client.flush(0.05)
    assert (raised.value.count, raised.value.groups) == (3, ("g0", "g1"))
    assert raised.value.outcome_unknown
    go_on.set()
    await client.flush()
    await client.close()
    assert len(commits_in(fake_server)) == 3, "a flush gives nothing up"


async def test_a_client_that_closes_gives_up_after_its_time_and_says_so(
    fake_server: FakeServer, connect: Connect
) -> None:
    fake_server.answer_stream = silence
    client = connect(fake_server.address, retry=policy())
    sent = await client.commit_soon("billing", {WHERE: 0})
    await poll(lambda: fake_server.messages)
    waiting = await client.commit_soon("shipping", {WHERE: 1})
    with pytest.raises(CommitsUnanswered, match=r"2 commits .* billing, shipping"):
        await client.close(timeout_s=0.05)
    for future, told in ((sent, "while an answer"), (waiting, "was not sent|while an answer")):
        with pytest.raises(ClientClosed, match=told):
            await outcome(future)
    await client.close()
    with pytest.raises(ClientClosed):
        await client.commit_soon("billing", {WHERE: 2})


async def test_commits_whose_own_time_ends_while_the_client_closes_are_said_too(
    fake_server: FakeServer, connect: Connect
) -> None:
    fake_server.answer_stream = silence
    client = connect(fake_server.address, retry=policy(0.2))
    future = await client.commit_soon("billing", {WHERE: 0})
    with pytest.raises(CommitsUnanswered, match=r"1 commit .* group billing"):
        await client.close(timeout_s=WAIT_S)
    with pytest.raises(DeadlineExceeded):
        await outcome(future)


async def test_no_commit_is_taken_in_while_a_client_closes(
    fake_server: FakeServer, connect: Connect
) -> None:
    go_on = threading.Event()
    fake_server.answer_stream = held(go_on)
    client = connect(fake_server.address, retry=policy())
    await client.commit_soon("g", {WHERE: 0})
    closing = asyncio.ensure_future(client.close())

    with pytest.raises(ClientClosed):  # noqa: PT012  It may not have begun.
        async with asyncio.timeout(WAIT_S):
            for _ in itertools.count():
                await client.commit_soon("g", {WHERE: 1})
                await asyncio.sleep(0.005)
    assert not closing.done()
    go_on.set()
    await closing


@pytest.mark.parametrize("kind", [OffsetClient, AsyncOffsetClient])
async def test_an_error_that_leaves_with_stays_the_one_that_is_raised(
    fake_server: FakeServer, kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    fake_server.answer_stream = silence
    client = kind(fake_server.address, retry=policy(0.3))

    def leave() -> None:
        with client:
            client.commit_soon("billing", {WHERE: 0})
            raise KeyError("the user's")

    async def leave_async() -> None:
        async with client:
            await client.commit_soon("billing", {WHERE: 0})
            raise KeyError("the user's")

    with pytest.raises(KeyError, match="the user's") as raised:
        await (asyncio.to_thread(leave) if kind is OffsetClient else leave_async())
    assert any("1 commit had no answer" in each for each in raised.value.__notes__)
    assert "1 commit had no answer" in caplog.text


async def test_what_the_server_refuses_is_said_by_the_future_alone(
    fake_server: FakeServer, connect: Connect, failed: Callable[..., Any]
) -> None:
    fake_server.answer_stream = refusing(failed)
    async with connect(fake_server.address, retry=policy()) as client:
        future = await client.commit_soon("g", {WHERE: 0}, epoch=3)
        await client.flush()
    with pytest.raises(EpochFenced):
        await outcome(future)


def errors_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.message for each in caplog.records if each.levelno == logging.ERROR]


@pytest.mark.parametrize("asks", [True, False])
async def test_an_error_that_nobody_asks_a_threads_future_for_is_logged(
    fake_server: FakeServer,
    failed: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
    *,
    asks: bool,
) -> None:
    fake_server.answer_stream = refusing(failed)

    def commit() -> None:
        with OffsetClient(fake_server.address, retry=policy()) as client:
            future = client.commit_soon("billing", {WHERE: 0}, epoch=3)
            client.flush()
        if asks:
            assert isinstance(future.exception(), EpochFenced)

    def is_settled() -> bool:
        """The client's thread may hold the future for a moment longer."""
        gc.collect()
        return asks or bool(errors_in(caplog))

    await asyncio.to_thread(commit)
    await poll(is_settled)
    logged = errors_in(caplog)
    assert ["a commit of group billing has failed" in each for each in logged] == [True] * (
        not asks
    )


async def test_commits_that_are_given_up_are_said_once_and_not_each(
    fake_server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    fake_server.answer_stream = silence

    def commit() -> None:
        client = OffsetClient(fake_server.address, retry=policy())
        for each in range(50):
            client.commit_soon("billing", {WHERE: each})
        with pytest.raises(CommitsUnanswered, match="50 commits"):
            client.close(timeout_s=0)

    await asyncio.to_thread(commit)
    gc.collect()
    assert not errors_in(caplog)


PROGRAM = """
from offsetd_clients import OffsetClient, RetryPolicy, TopicPartition

client = OffsetClient({address!r}, retry=RetryPolicy(timeout_s={timeout_s}))
for offset in range(300):
    client.commit_soon("billing", {{TopicPartition("orders", 0): offset}})
"""


def ran(program: str) -> str:
    """What a process prints to standard error."""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


async def test_a_process_that_ends_without_a_close_sends_what_was_handed_in(
    fake_server: FakeServer,
) -> None:
    fake_server.answer_stream = answer_all
    program = PROGRAM.format(address=fake_server.address, timeout_s=WAIT_S)
    assert await asyncio.to_thread(ran, program) == ""
    assert offsets_in(fake_server) == [*range(300)]


async def test_a_process_that_ends_says_what_it_could_not_send(fake_server: FakeServer) -> None:
    fake_server.answer_stream = silence
    program = PROGRAM.format(address=fake_server.address, timeout_s=0.5)
    said = await asyncio.to_thread(ran, program)
    assert "300 commits had no answer" in said
    assert said.count("\n") == 1


ASYNC_PROGRAM = """
import asyncio
from offsetd_clients import AsyncOffsetClient, TopicPartition

async def main():
    client = AsyncOffsetClient({address!r})
    futures = [await client.commit_soon("billing", {{TopicPartition("orders", 0): 7}})]
    await asyncio.sleep(0.1)
    return futures

asyncio.run(main())
"""


async def test_an_event_loop_that_ends_before_its_client_says_what_is_lost(
    fake_server: FakeServer,
) -> None:
    fake_server.answer_stream = silence
    said = await asyncio.to_thread(ran, ASYNC_PROGRAM.format(address=fake_server.address))
    assert "1 commit had no answer and may not be stored, of group billing" in said


async def test_a_flush_waits_for_a_commit_that_goes_to_another_server(
    fake_server: FakeServer,
    other_server: FakeServer,
    failed: Callable[..., Any],
    connect: Connect,
) -> None:
    host, port = other_server.address.rsplit(":", 1)
    elsewhere = failed("UNAVAILABLE", "NOT_COORDINATOR", address=f"{host}:{port}")

    def answer(messages: Iterator[Any], _context: Any) -> Iterator[Any]:
        for message in messages:
            yield Response(
                results=[
                    offset_service_pb2.CommitResult(sequence=each.sequence, error=elsewhere)
                    for each in message.commits
                ]
            )

    fake_server.answer_stream = answer
    other_server.answer_stream = answer_all
    client: EitherClient = connect(fake_server.address, retry=policy())
    futures = [await client.commit_soon("g", {WHERE: each}) for each in range(20)]
    await client.flush()
    assert all(each.done() for each in futures)
    await client.close()
    assert [await outcome(each) for each in futures] == [Revision(7, each) for each in range(20)]
