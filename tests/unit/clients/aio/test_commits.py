"""offsetd_clients.aio.commits, and what is made of it for threads: commits over a stream."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from commit_answers import Response, answer_all, commits_in, committed, offsets_in, poll, silence
from fake_server import FakeServer, abort, outcome
from google.rpc.code_pb2 import Code
from google.rpc.status_pb2 import Status
from offsetd.v1 import offset_service_pb2
from offsetd_clients import (
    AsyncOffsetClient,
    ClientClosed,
    CommitsUnanswered,
    DeadlineExceeded,
    EpochFenced,
    InvalidRequest,
    OffsetClient,
    OffsetConflict,
    OverLimit,
    RetryPolicy,
    Revision,
    TopicPartition,
    Unavailable,
)
from offsetd_clients.aio import commits as aio_commits
from offsetd_clients.calling import commit_queue
from offsetd_clients.sync import commits as sync_commits
from patience import PATIENCE_SECONDS as WAIT_S

WHERE = TopicPartition("orders", 0)
Connect = Callable[..., Any]


def refused(commit: Any, status: Status) -> Any:
    return offset_service_pb2.CommitResult(sequence=commit.sequence, error=status)


def policy(timeout_s: float = WAIT_S, **more: float) -> RetryPolicy:
    return RetryPolicy(timeout_s=timeout_s, wait_initial_s=0.001, wait_max_s=0.01, **more)


async def commit_each(client: Any, offsets: Iterable[int]) -> list[Any]:
    """All at the same time; what each returned or raised."""
    calls = (client.commit(f"g{each}", {WHERE: each}) for each in offsets)
    return await asyncio.gather(*calls, return_exceptions=True)


async def test_commits_go_over_a_stream_and_each_caller_has_its_own_answer(
    fake_server: FakeServer, connect: Connect
) -> None:
    fake_server.answer_stream = answer_all
    async with connect(fake_server.address) as client:
        assert await client.commit("g", {WHERE: 5}) == Revision(7, 5)
        found = await commit_each(client, range(10))
    assert found == [Revision(7, each) for each in range(10)]
    assert fake_server.requests == []
    assert len({each.request_id for each in commits_in(fake_server)}) == 11


async def test_a_commit_may_be_a_message_of_the_contract_that_has_a_request_id(
    fake_server: FakeServer, connect: Connect
) -> None:
    fake_server.answer_stream = answer_all
    offsets = [offset_service_pb2.OffsetCommit(topic="orders", offset=5)]
    request = offset_service_pb2.CommitOffsetsRequest(group_id="g", offsets=offsets)
    async with connect(fake_server.address) as client:
        with pytest.raises(ValueError, match="request id"):
            await client.commit_request_soon(request)
        request.request_id = "mine"
        assert await outcome(await client.commit_request_soon(request)) == Revision(7, 5)
    assert [each.request_id for each in commits_in(fake_server)] == ["mine"]


async def test_who_hears_of_a_commit_goes_on_before_the_next_is_told(
    fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_queue, "_PORTION_BYTES", 1)
    fake_server.answer_stream = answer_all
    async with AsyncOffsetClient(fake_server.address, retry=policy()) as client:
        futures = [await client.commit_soon("g", {WHERE: each}) for each in range(3)]
        for each, future in enumerate(futures):
            assert await future == Revision(7, each)
            assert not any(later.done() for later in futures[each + 1 :])
    assert [len(each.commits) for each in fake_server.messages] == [3]


async def test_what_waits_goes_in_one_message_and_is_answered_in_any_order(
    fake_server: FakeServer, connect: Connect
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def answer(messages: Iterator[Any], _context: Any) -> Iterator[Any]:
        first = next(messages)
        begun.set()
        assert go_on.wait(WAIT_S)
        yield Response(results=map(committed, first.commits))
        for message in messages:
            for each in reversed(message.commits):
                yield Response(results=[committed(each)])

    fake_server.answer_stream = answer
    async with connect(fake_server.address) as client:
        futures = [await client.commit_soon("g", {WHERE: 0})]
        assert await asyncio.to_thread(begun.wait, WAIT_S)
        futures += [await client.commit_soon("g", {WHERE: each}) for each in range(1, 50)]
        assert not futures[0].done()
        go_on.set()
        found = [await outcome(future) for future in futures]
    assert found == [Revision(7, each) for each in range(50)]
    assert offsets_in(fake_server) == list(range(50))


async def test_all_that_is_handed_in_before_the_stream_is_there_goes_in_one_message(
    fake_server: FakeServer, connect: Connect
) -> None:
    refusals = iter([True])

    def answer(messages: Iterator[Any], context: Any) -> Iterator[Any]:
        if next(refusals, False):
            assert all_in.wait(WAIT_S)
            abort(context, Status(code=Code.UNAVAILABLE))
        yield from answer_all(messages, context)

    all_in = threading.Event()
    fake_server.answer_stream = answer
    async with connect(fake_server.address, retry=policy()) as client:
        futures = [await client.commit_soon("g", {WHERE: each}) for each in range(100)]
        all_in.set()
        assert [await outcome(each) for each in futures] == [Revision(7, n) for n in range(100)]
    assert [len(message.commits) for message in fake_server.messages[-1:]] == [100]


async def test_a_refused_commit_is_its_callers_error_alone_and_the_stream_goes_on(
    fake_server: FakeServer, connect: Connect, failed: Callable[..., Status]
) -> None:
    conflicts = '[{"topic":"orders","partition":0,"offset":9,"revision":3}]'
    refusals = {
        1: failed("INVALID_ARGUMENT", "INVALID_TOPIC", violations={"offsets[0].topic": "empty"}),
        2: failed("ABORTED", "OFFSET_CONFLICT", conflicts=conflicts, conflict_count="1"),
        3: failed("FAILED_PRECONDITION", "EPOCH_FENCED", holder="b", holder_epoch="8"),
        4: failed("RESOURCE_EXHAUSTED", "DISK_FULL"),
    }

    def answer(messages: Iterator[Any], _context: Any) -> Iterator[Any]:
        for message in messages:
            for each in message.commits:
                refusal = refusals.get(each.commit.offsets[0].offset)
                yield Response(results=[refused(each, refusal) if refusal else committed(each)])

    fake_server.answer_stream = answer
    async with connect(fake_server.address) as client:
        found = await commit_each(client, range(6))
        assert await client.commit("g", {WHERE: 7}) == Revision(7, 7)
    assert [type(each) for each in found] == [
        Revision,
        InvalidRequest,
        OffsetConflict,
        EpochFenced,
        OverLimit,
        Revision,
    ]
    assert found[1].field_violations[0].field == "offsets[0].topic"
    assert found[2].conflicts[0].offset == 9
    assert (found[3].holder, found[3].holder_epoch) == ("b", 8)
    assert not any(each.outcome_unknown for each in found[1:5])
    assert len(commits_in(fake_server)) == 7, "none of these is sent again"


@pytest.mark.parametrize("end", ["aborted", "without an answer"])
async def test_a_stream_that_breaks_is_opened_again_and_what_has_no_answer_sent_in_its_order(
    fake_server: FakeServer, connect: Connect, end: str
) -> None:
    streams = []

    def answer(messages: Iterator[Any], context: Any) -> Iterator[Any]:
        streams.append(context)
        if len(streams) > 2:
            yield from answer_all(messages, context)
        seen = 0
        for message in messages:
            seen += len(message.commits)
            if seen >= 20:
                break
        if end == "aborted":
            abort(context, Status(code=Code.UNAVAILABLE, message="gone"))

    fake_server.answer_stream = answer
    async with connect(fake_server.address, retry=policy()) as client:
        futures = [await client.commit_soon("g", {WHERE: each}) for each in range(20)]
        assert [await outcome(each) for each in futures] == [Revision(7, n) for n in range(20)]
    offsets = offsets_in(fake_server)
    assert offsets == [*range(20)] * 3
    ids = [each.request_id for each in commits_in(fake_server)]
    assert ids[:20] == ids[20:40] == ids[40:]


async def test_a_commit_that_cannot_be_sent_again_in_time_has_the_error_of_its_stream(
    fake_server: FakeServer, connect: Connect, failed: Callable[..., Status]
) -> None:
    def answer(messages: Iterator[Any], context: Any) -> Iterator[Any]:
        next(messages)
        abort(context, failed("UNAVAILABLE", "STORAGE_FAILED", retry_after_ms=3_600_000))
        yield

    fake_server.answer_stream = answer
    async with connect(fake_server.address, retry=policy()) as client:
        with pytest.raises(Unavailable, match="it went wrong") as raised:
            await client.commit("g", {WHERE: 1})
    assert raised.value.reason == "STORAGE_FAILED"
    assert raised.value.outcome_unknown
    assert len(commits_in(fake_server)) == 1


async def test_what_an_earlier_stream_may_have_done_is_not_forgotten(
    fake_server: FakeServer, connect: Connect, failed: Callable[..., Status]
) -> None:
    streams = []

    def answer(messages: Iterator[Any], context: Any) -> Iterator[Any]:
        streams.append(context)
        message = next(messages)
        if len(streams) == 1:
            abort(context, Status(code=Code.UNAVAILABLE))
        conflict = failed("ABORTED", "OFFSET_CONFLICT")
        yield Response(results=[refused(each, conflict) for each in message.commits])

    fake_server.answer_stream = answer
    async with connect(fake_server.address, retry=policy()) as client:
        with pytest.raises(OffsetConflict) as raised:
            await client.commit("g", {WHERE: 1})
    assert raised.value.outcome_unknown


async def test_a_commit_that_is_refused_for_now_is_sent_again(
    fake_server: FakeServer, connect: Connect, failed: Callable[..., Status]
) -> None:
    times = []

    def answer(messages: Iterator[Any], _context: Any) -> Iterator[Any]:
        for message in messages:
            for each in message.commits:
                times.append(each.commit.request_id)
                late = failed("RESOURCE_EXHAUSTED", "COMMIT_RATE_EXCEEDED", retry_after_ms=1)
                yield Response(results=[refused(each, late) if len(times) < 4 else committed(each)])

    fake_server.answer_stream = answer
    async with connect(fake_server.address, retry=policy()) as client:
        assert await client.commit("g", {WHERE: 1}) == Revision(7, 1)
    assert len(times) == 4
    assert len(set(times)) == 1


async def test_who_brings_more_than_may_be_unanswered_waits_for_room(
    fake_server: FakeServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_queue, "COMMITS_MAX", 3)
    go_on = threading.Event()

    def answer(messages: Iterator[Any], context: Any) -> Iterator[Any]:
        assert go_on.wait(WAIT_S)
        yield from answer_all(messages, context)

    fake_server.answer_stream = answer
    async with connect(fake_server.address, retry=policy()) as client:
        futures = [await client.commit_soon("g", {WHERE: each}) for each in range(3)]
        fourth = asyncio.ensure_future(client.commit_soon("g", {WHERE: 3}))
        await asyncio.wait([fourth], timeout=0.05)
        assert not fourth.done()
        go_on.set()
        futures.append(await fourth)
        assert [await outcome(each) for each in futures] == [Revision(7, n) for n in range(4)]


@pytest.mark.parametrize("streams", [True, False])
async def test_cancelled_commits_make_room_at_once(
    fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch, streams: bool
) -> None:
    monkeypatch.setattr(commit_queue, "COMMITS_MAX", 3)
    fake_server.answer_stream = answer_all
    fake_server.answer_each = lambda _: offset_service_pb2.CommitOffsetsResponse()
    retry = policy(7200.0)  # Half of that later somebody looks at deadlines, and at room.
    async with AsyncOffsetClient(
        fake_server.address, retry=retry, stream_commits=streams
    ) as client:
        for each in range(2):  # With the second it is known when that is.
            await (await client.commit_soon("g", {WHERE: each}))
        for each in range(3):
            (await client.commit_soon("g", {WHERE: each})).cancel()
        async with asyncio.timeout(WAIT_S):
            future = await client.commit_soon("g", {WHERE: 3})
            assert isinstance(await future, Revision)


async def test_room_that_does_not_come_in_time_is_an_error_of_what_was_never_sent(
    fake_server: FakeServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_queue, "COMMITS_MAX", 0)
    async with connect(fake_server.address, retry=policy(0.2)) as client:
        with pytest.raises(DeadlineExceeded, match="could not be sent within") as raised:
            await client.commit_soon("g", {WHERE: 1})
    assert not raised.value.outcome_unknown


async def test_a_commit_without_an_answer_ends_with_its_deadline(
    fake_server: FakeServer, connect: Connect
) -> None:
    def answer(messages: Iterator[Any], context: Any) -> Iterator[Any]:
        yield Response(results=map(committed, next(messages).commits))
        yield from silence(messages, context)

    fake_server.answer_stream = answer
    async with connect(fake_server.address, retry=policy(1.0)) as client:
        await client.commit("g", {WHERE: 0})
        with pytest.raises(DeadlineExceeded, match="no answer within") as raised:
            await client.commit("g", {WHERE: 1})
    assert raised.value.outcome_unknown


async def test_a_stream_that_does_not_answer_is_replaced_while_there_is_time(
    fake_server: FakeServer, connect: Connect
) -> None:
    streams = []

    def answer(messages: Iterator[Any], context: Any) -> Iterator[Any]:
        streams.append(context)
        yield from (silence if len(streams) == 1 else answer_all)(messages, context)

    fake_server.answer_stream = answer
    async with connect(fake_server.address, retry=policy(try_timeout_s=0.2)) as client:
        assert await client.commit("g", {WHERE: 1}) == Revision(7, 1)
    first, second = commits_in(fake_server)
    assert first == second, "a late first try must not be applied twice"


async def test_commits_that_wait_when_the_client_closes_say_so(
    fake_server: FakeServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_queue, "COMMITS_MAX", 1)
    fake_server.answer_stream = silence
    client = connect(fake_server.address)
    sent = await client.commit_soon("g", {WHERE: 0})
    await poll(lambda: fake_server.messages)
    waiting = asyncio.ensure_future(client.commit("g", {WHERE: 1}))
    await asyncio.sleep(0.05)
    with pytest.raises(CommitsUnanswered):
        await client.close(timeout_s=0)
    with pytest.raises(ClientClosed, match="an answer was awaited") as raised:
        await outcome(sent)
    assert raised.value.outcome_unknown
    with pytest.raises(ClientClosed, match="the client is closed") as raised:
        await waiting
    assert not raised.value.outcome_unknown
    with pytest.raises(ClientClosed):
        await client.commit_soon("g", {WHERE: 2})
    await client.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("offsetd ")]


async def test_a_stream_with_nothing_to_send_ends_and_another_begins(
    fake_server: FakeServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (aio_commits, sync_commits):
        monkeypatch.setattr(module, "IDLE_S_MAX", 0.01)
    ended = []

    def answer(messages: Iterator[Any], context: Any) -> Iterator[Any]:
        yield from answer_all(messages, context)
        ended.append(context)

    fake_server.answer_stream = answer
    async with connect(fake_server.address) as client:
        for offset in range(3):
            assert await client.commit("g", {WHERE: offset}) == Revision(7, offset)
            await poll(lambda expected=offset + 1: len(ended) == expected)


async def test_a_client_that_was_closed_in_a_callback_waits_for_nobody(
    fake_server: FakeServer,
) -> None:
    """The callback runs in the work in the background, which cannot wait for itself."""
    fake_server.answer_stream = answer_all
    client = OffsetClient(fake_server.address)
    future = await asyncio.to_thread(client.commit_soon, "g", {WHERE: 0})
    closed = threading.Event()
    future.add_done_callback(lambda _: (client.close(), closed.set()))
    assert await asyncio.to_thread(closed.wait, WAIT_S)


async def test_threads_of_a_client_that_nobody_has_any_more_end_when_all_is_answered(
    fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_commits, "IDLE_S_MAX", 0.01)
    go_on = threading.Event()

    def answer(messages: Iterator[Any], context: Any) -> Iterator[Any]:
        assert go_on.wait(WAIT_S)
        yield from answer_all(messages, context)

    def threads() -> list[str]:
        return [each.name for each in threading.enumerate() if each.name.startswith("offsetd ")]

    def hand_in() -> list[Any]:
        client = OffsetClient(fake_server.address).with_retry(policy())
        return [client.commit_soon("g", {WHERE: each}) for each in range(3)]

    fake_server.answer_stream = answer
    futures = await asyncio.to_thread(hand_in)
    assert len(threads()) == 2
    go_on.set()
    assert [await outcome(each) for each in futures] == [Revision(7, each) for each in range(3)]
    await poll(lambda: not threads())
