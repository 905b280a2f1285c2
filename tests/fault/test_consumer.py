"""Consumers against a real server; each case holds for the one of asyncio and that of threads."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

import attrs
import pytest
import pytest_asyncio
from consumer_twins import QUICK, WAIT_S, Lines, Twin
from offsetd_clients import (
    ConsumerFenced,
    GroupState,
    Item,
    LeaseTerms,
    NotAssigned,
    OffsetClient,
    OffsetToCommit,
    PollIntervalExceeded,
    SourceBroken,
    StartUnknown,
    TopicPartition,
    Unavailable,
)
from ports import free_ports
from server_process import ServerProcess, poll

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

SETTINGS = {"group.initial.rebalance.delay.ms": 50, "group.min.session.timeout.ms": 500}
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
MANUAL = attrs.evolve(QUICK, auto_commit_interval_s=None)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("data"), settings=SETTINGS) as process:
        yield process.wait_until_serving()
        process.stop_well()


@pytest_asyncio.fixture(params=["aio", "sync"])
async def twin(
    request: pytest.FixtureRequest, server: ServerProcess, group: str
) -> AsyncIterator[Twin]:
    twin = Twin(request.param, server.address, group)
    yield twin
    await twin.end()


def stored(client: OffsetClient, group: str) -> dict[TopicPartition, int]:
    return {each: committed.offset for each, committed in client.fetch(group).items()}


async def test_items_are_handed_out_and_what_is_processed_is_committed(
    twin: Twin, client: OffsetClient
) -> None:
    source = Lines(a=[3, 2])
    consumer = twin.consumer(source)
    assert await consumer.take(5) == ["a:0@0", "a:0@1", "a:0@2", "a:1@0", "a:1@1"]
    assert consumer.it.assignment == {A0, A1}
    last = {A0: 3, A1: 2}
    behind = [each for each in last if consumer.it.positions[each] != last[each]]
    assert len(behind) == 1, "the last item is not known to be processed"
    await consumer.close()
    assert stored(client, twin.group) == last | {behind[0]: last[behind[0]] - 1}
    assert client.get_group(twin.group).state == GroupState.EMPTY
    assert twin.told == [("", "assigned", "a:0", "a:1"), ("", "revoked", "a:0", "a:1")]
    assert source.assigned == [{A0, A1}, set()]
    # Who comes next gets that one again, and commits it while it waits for more.
    consumer = twin.consumer(source)
    assert await consumer.take(1) == [f"{behind[0]}@{last[behind[0]] - 1}"]
    assert await consumer.poll() == []
    await asyncio.to_thread(poll, lambda: consumer.it.committed == last, WAIT_S)
    assert stored(client, twin.group) == last
    fetched = client.fetch(twin.group)[behind[0]]
    assert (fetched.leader_epoch, fetched.end_offset) == (7, last[behind[0]])
    assert consumer.it.lag == {A0: 0, A1: 0}


async def test_only_commit_commits_where_it_is_not_automatic(
    twin: Twin, client: OffsetClient
) -> None:
    consumer = twin.consumer(Lines(a=[9]), MANUAL)
    items = await consumer.poll(3, timeout_s=WAIT_S)
    await consumer.commit()
    assert stored(client, twin.group) == {A0: 0}, "where it began, and no further"
    await consumer.commit(items[1])
    assert stored(client, twin.group) == {A0: 2}
    revision = client.fetch(twin.group)[A0].revision
    await consumer.commit()
    assert client.fetch(twin.group)[A0].revision == revision, "unchanged, so not sent"
    assert [each.offset for each in await consumer.poll(1)] == [3]
    await consumer.commit()
    assert stored(client, twin.group) == {A0: 3}
    await consumer.commit({A0: 1})
    assert stored(client, twin.group) == {A0: 1}
    await consumer.commit({A0: OffsetToCommit(2, metadata="so far")})
    assert client.fetch(twin.group)[A0].metadata == "so far"
    for what in ({B0: 1}, {}, Item(B0, 0, 1, "other")):
        with pytest.raises(NotAssigned):
            await consumer.commit(what)
    await consumer.close()
    assert stored(client, twin.group) == {A0: 2}


async def test_explicitly_acknowledged_items_alone_count(twin: Twin, client: OffsetClient) -> None:
    consumer = twin.consumer(Lines(a=[9]), attrs.evolve(QUICK, acknowledgement="explicit"))
    first = await consumer.poll(4, timeout_s=WAIT_S)
    await consumer.poll(2)
    assert consumer.it.positions == {A0: 0}
    consumer.it.ack(first[2])
    assert consumer.it.positions == {A0: 3}
    await consumer.close()
    assert stored(client, twin.group) == {A0: 3}
    with pytest.raises(NotAssigned):
        consumer.it.ack(first[3])


@pytest.mark.parametrize(
    ("start", "first"),
    [("earliest", 2), ("latest", 10), (lambda each: each.partition + 4, 4)],
    ids=["earliest", "latest", "a function"],
)
async def test_where_nothing_is_committed_the_start_is_said_and_committed(
    twin: Twin, client: OffsetClient, start: Any, first: int
) -> None:
    source = Lines(a=[10])
    source.earliest = 2
    consumer = twin.consumer(source, attrs.evolve(QUICK, start=start))
    await consumer.until_assigned(A0)
    await asyncio.to_thread(poll, lambda: A0 in stored(client, twin.group), WAIT_S)
    assert stored(client, twin.group)[A0] == first
    source.ends[A0] = 12
    await consumer.close()
    # What came meanwhile is not passed over by the next.
    again = twin.consumer(source, attrs.evolve(QUICK, start=start))
    assert (await again.next()).offset == first  # type: ignore[union-attr]


@pytest.mark.parametrize("start", ["error", "latest"])
async def test_a_start_that_nobody_knows_is_an_error(
    twin: Twin, client: OffsetClient, start: Any
) -> None:
    source = Lines(a=[10])
    source.latest_is_known = False
    consumer = twin.consumer(source, attrs.evolve(QUICK, start=start))
    for _ in range(2):
        with pytest.raises(StartUnknown, match="a:0"):
            await consumer.next()
    source.starts = {A0: 4}
    assert (await consumer.next()).offset == 4  # type: ignore[union-attr]


async def test_a_seek_goes_back_or_on(twin: Twin, client: OffsetClient) -> None:
    consumer = twin.consumer(Lines(a=[9, 0]))
    await consumer.take(3)
    consumer.it.seek(A0, 1)
    assert (await consumer.next()).offset == 1  # type: ignore[union-attr]
    consumer.it.seek(A0, 7)
    assert await consumer.take(2) == ["a:0@7", "a:0@8"]
    with pytest.raises(NotAssigned):
        consumer.it.seek(B0, 0)
    await consumer.close()
    assert stored(client, twin.group)[A0] == 8


async def test_members_share_and_what_is_revoked_is_committed_before(
    twin: Twin, client: OffsetClient
) -> None:
    source = Lines(a=[10**9, 10**9])
    first = twin.consumer(source, name="1")
    seen = [await first.next() for _ in range(50)]
    second = twin.consumer(source, name="2")
    share = asyncio.ensure_future(second.next())
    while not share.done():
        seen += await first.poll(1)
    handed = await share
    assert handed is not None
    (mine,) = first.it.assignment
    (theirs,) = second.it.assignment
    assert {mine, theirs} == {A0, A1}
    assert handed.topic_partition == theirs
    # It goes on right behind what the first had processed: neither a gap nor the same again.
    given = [each.offset for each in seen if each is not None and each.topic_partition == theirs]
    assert handed.offset == len(given)
    assert twin.told[:2] == [("1", "assigned", "a:0", "a:1"), ("1", "revoked", "a:0", "a:1")]
    assert set(twin.told[2:]) == {("1", "assigned", str(mine)), ("2", "assigned", str(theirs))}
    await first.close()
    await second.until_assigned(A0, A1)


async def test_new_partitions_and_topics_are_found(twin: Twin, client: OffsetClient) -> None:
    source = Lines(a=[1])
    consumer = twin.consumer(source)
    assert await consumer.take(1) == ["a:0@0"]
    source.ends[A1] = 1
    assert await consumer.take(1) == ["a:1@0"]
    source.ends[B0] = 1
    assert await consumer.take(1) == ["b:0@0"]
    assert consumer.it.assignment == {A0, A1, B0}
    del source.ends[B0]
    await consumer.until_assigned(A0, A1)
    with pytest.raises(NotAssigned):
        await consumer.commit({B0: 1})


async def test_an_operator_fences_a_member_which_then_joins_again(
    twin: Twin, client: OffsetClient
) -> None:
    consumer = twin.consumer(Lines(a=[100]), attrs.evolve(QUICK, auto_commit_interval_s=50))
    await consumer.take(1)  # No more before the commit: asking for the next item acknowledges one.
    await asyncio.to_thread(poll, lambda: consumer.it.committed == {A0: 0}, WAIT_S)
    await consumer.take(4)
    client.remove_members(twin.group, None)
    with pytest.raises(ConsumerFenced) as fenced:
        await consumer.go_on()
    assert (fenced.value.reason, fenced.value.partitions) == ("UNKNOWN_MEMBER_ID", (A0,))
    assert twin.told[-1] == ("", "lost", "a:0")
    assert consumer.it.assignment == set()
    assert stored(client, twin.group) == {A0: 0}, "only where it began"
    assert await consumer.take(2) == ["a:0@0", "a:0@1"]


async def test_a_commit_of_a_fenced_member_is_an_error(twin: Twin, client: OffsetClient) -> None:
    slow = attrs.evolve(MANUAL, heartbeat_interval_s=4.9)
    consumer = twin.consumer(Lines(a=[100]), slow)
    item = await consumer.next()
    client.remove_members(twin.group, None)
    with pytest.raises(ConsumerFenced) as fenced:
        await consumer.commit(item)
    assert fenced.value.partitions == (A0,)
    assert twin.told[-1] == ("", "lost", "a:0")
    assert stored(client, twin.group) == {}


async def test_what_is_revoked_may_be_committed_by_hand(twin: Twin, client: OffsetClient) -> None:
    items: list[Any] = []
    consumer: Any = None

    def commit_last(_partitions: Any) -> Any:
        return consumer.it.commit(items[-1])  # With asyncio, awaited by who calls this.

    source = Lines(a=[7])
    consumer = twin.consumer(source, MANUAL, on_revoked=commit_last)
    items += await consumer.poll(7, timeout_s=WAIT_S)
    source.ends[A1] = 0
    await consumer.until_assigned(A0, A1)
    assert stored(client, twin.group)[A0] == 7


async def test_a_static_member_keeps_its_place(twin: Twin, client: OffsetClient) -> None:
    static = attrs.evolve(QUICK, instance_id="host-1")
    consumer = twin.consumer(Lines(a=[100]), static)
    await consumer.take(5)
    generation_id = consumer.it.generation_id
    await consumer.close()
    assert client.get_group(twin.group).state == GroupState.STABLE
    consumer = twin.consumer(Lines(a=[100]), static)
    assert await consumer.take(1) == ["a:0@4"]
    assert consumer.it.generation_id == generation_id
    # Another takes its name: that is the end of this one.
    other = twin.consumer(Lines(a=[100]), static)
    assert await other.next() is not None
    for _ in range(2):
        with pytest.raises(ConsumerFenced) as fenced:
            await consumer.go_on()
        assert fenced.value.reason == "FENCED_INSTANCE_ID"
    assert await other.next() is not None


async def test_one_holds_the_lease_and_another_stands_by(twin: Twin, client: OffsetClient) -> None:
    settings = [
        attrs.evolve(QUICK, lease=LeaseTerms(holder=f"host-{number}", ttl_s=12.0))
        for number in (1, 2)
    ]
    source = Lines(a=[10**9], b=[0])
    first, second = (twin.consumer(source, each) for each in settings)
    assert await first.take(5) == [f"a:0@{offset}" for offset in range(5)]
    assert first.it.assignment == {A0, B0}
    assert await second.poll() == []
    source.ends[A1] = 0
    await first.until_assigned(A0, A1, B0)
    epoch = first.it.generation_id
    await first.close()
    item = await second.next()
    assert item is not None
    assert item.offset > 4
    assert second.it.generation_id > epoch
    # An operator takes the lease: nothing is committed any more.
    client.acquire_group(twin.group, "operator", force=True)
    before = stored(client, twin.group)
    with pytest.raises(ConsumerFenced) as fenced:
        await second.go_on()
    assert fenced.value.reason == "EPOCH_FENCED"
    assert stored(client, twin.group) == before


async def test_one_who_asks_for_nothing_leaves(twin: Twin, client: OffsetClient) -> None:
    consumer = twin.consumer(Lines(a=[100]), attrs.evolve(QUICK, poll_interval_s_max=0.5))
    assert await consumer.poll(2, timeout_s=WAIT_S)
    await asyncio.to_thread(
        poll, lambda: client.get_group(twin.group).state == GroupState.EMPTY, WAIT_S
    )
    with pytest.raises(PollIntervalExceeded) as exceeded:
        await consumer.next()
    assert exceeded.value.partitions == (A0,)
    assert twin.told[-1] == ("", "lost", "a:0")
    assert await consumer.next() is not None


async def test_who_waits_is_woken_up(twin: Twin, client: OffsetClient) -> None:
    consumer = twin.consumer(Lines(a=[1]))
    assert await consumer.take(1) == ["a:0@0"]
    waiting = asyncio.ensure_future(consumer.next())
    await asyncio.to_thread(poll, lambda: stored(client, twin.group) == {A0: 1}, WAIT_S)
    consumer.it.wakeup()
    assert await asyncio.wait_for(waiting, WAIT_S) is None
    consumer.it.wakeup()
    assert await consumer.poll(timeout_s=math.inf) == []
    assert await consumer.poll() == []


async def test_what_the_source_raises_goes_to_who_asks(twin: Twin, client: OffsetClient) -> None:
    source = Lines(a=[5])
    consumer = twin.consumer(source)
    source.problem = OSError("unplugged")
    with pytest.raises(OSError, match="unplugged"):
        await consumer.next()
    assert await consumer.take(1) == ["a:0@0"]
    broken = Lines(a=[5])
    broken.read = lambda *_: [Item(A0, 3, 3, "")]  # type: ignore[method-assign]
    await consumer.close()
    with pytest.raises(SourceBroken, match="from 3 to 3"):
        await twin.consumer(broken).next()


async def test_a_server_that_is_not_there_is_told_at_the_start(twin: Twin) -> None:
    client = twin.client(f"127.0.0.1:{free_ports(1)[0]}", timeout_s=0.5)
    consumer = twin.consumer(Lines(a=[5]), client=client)
    for _ in range(2):
        with pytest.raises(Unavailable):
            await consumer.next()


async def test_one_may_be_closed_while_it_waits_to_be_let_in(
    twin: Twin, client: OffsetClient
) -> None:
    first = twin.consumer(Lines(a=[100]), attrs.evolve(QUICK, session_timeout_s=60.0))
    await first.take(1)
    second = twin.consumer(Lines(a=[100]))
    # The first asks for nothing, so that the second waits.
    while client.get_group(twin.group).state != GroupState.PREPARING_REBALANCE:
        assert await second.poll() == []
    async with asyncio.timeout(WAIT_S):
        await second.close()
    await first.until_assigned(A0)
    with pytest.raises(RuntimeError, match="closed"):
        await second.next()
