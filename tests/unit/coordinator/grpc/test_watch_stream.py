"""WatchOffsets over a simulated disk: what comes, when it ends, and where it goes on."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from typing import TYPE_CHECKING, Any

import attrs
import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from offsetd.v1 import history_pb2, offset_service_pb2
from offsetd_coordinator.calls.admission import Admission
from offsetd_coordinator.counters import CallCounters
from offsetd_coordinator.grpc.watch_stream import WatchService
from offsetd_coordinator.messages import statuses
from offsetd_coordinator.status_codes import StatusCode
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from patience import PATIENCE_SECONDS
from serving_nodes import ServingNode, serving_node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

REQUEST = history_pb2.WatchOffsetsRequest


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, PATIENCE_SECONDS))


class Client:
    """One call: what was sent to it, and how it ended."""

    def __init__(self, service: WatchService, *, reads: bool = True, **fields: Any) -> None:
        self.messages: asyncio.Queue[history_pb2.WatchOffsetsResponse] = asyncio.Queue()
        self.reading = asyncio.Event()
        if reads:
            self.reading.set()
        self.code: grpc.StatusCode | None = None
        self.reason = ""
        self.metadata: dict[str, str] = {}
        self.token = ""
        handler: Any = service.handler()
        request = REQUEST(**fields).SerializeToString()
        self.task = asyncio.ensure_future(handler.unary_stream(request, self))

    def time_remaining(self) -> None:
        return None

    def peer(self) -> str:
        return ""

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    async def write(self, message: bytes) -> None:
        await self.reading.wait()
        await self.messages.put(history_pb2.WatchOffsetsResponse.FromString(message))

    def set_code(self, code: grpc.StatusCode) -> None:
        self.code = code

    def set_details(self, details: str) -> None:
        pass

    def set_trailing_metadata(self, metadata: tuple[tuple[str, bytes], ...]) -> None:
        ((key, raw),) = metadata
        assert key == statuses.STATUS_KEY
        status = status_pb2.Status.FromString(raw)
        information = error_details_pb2.ErrorInfo()
        status.details[0].Unpack(information)
        self.reason, self.metadata = information.reason, dict(information.metadata)

    async def message(self) -> history_pb2.WatchOffsetsResponse:
        message = await self.messages.get()
        self.token = message.token
        return message

    async def events(self, count: int) -> list[tuple[str, int, int | None]]:
        """So many: group, partition, offset."""
        found: list[tuple[str, int, int | None]] = []
        while len(found) < count:
            for event in (await self.message()).events:
                committed = event.WhichOneof("change") == "committed"
                offset = event.committed.offset if committed else None
                found.append((event.group_id, event.partition, offset))
        return found

    async def events_that_came(self) -> list[str]:
        """The groups of all that was sent, by a call that has ended."""
        found: list[str] = []
        while not self.messages.empty():
            found += [event.group_id for event in (await self.message()).events]
        return found


@contextlib.asynccontextmanager
async def watched(**options: Any) -> AsyncIterator[tuple[ServingNode, WatchService]]:
    async with serving_node(**options) as node:
        service = WatchService(
            node.node,
            Admission(1 << 20),
            CallCounters(),
            request_bytes_max=1 << 20,
            method_access=None,
        )
        yield node, service


async def closed(*clients: Client) -> None:
    for client in clients:
        client.task.cancel()
    await asyncio.wait([client.task for client in clients])


async def delete(node: ServingNode, group_id: str, topic: str = "orders") -> None:
    request = offset_service_pb2.DeleteOffsetsRequest(group_id=group_id, topics=[topic])
    await node.offsets.delete_offsets(request.SerializeToString())


def test_a_watcher_sees_what_comes_after_it_has_begun() -> None:
    async def test() -> None:
        async with watched() as (node, service):
            await node.commit("g", 1)
            client = Client(service)
            first = await client.message()
            assert not first.events
            assert first.token
            await node.commit("g", 2, partitions=2)
            await node.commit("h", 3)
            assert sorted(await client.events(3)) == [("g", 0, 2), ("g", 1, 2), ("h", 0, 3)]
            await delete(node, "h")
            assert await client.events(1) == [("h", 0, None)]
            assert service._watches.watchers == 1
            await closed(client)
            assert (service._watches.watchers, service._watches.cut_off) == (0, 0)
            assert service.watchers is not None
            assert service.watchers.count == 0
            assert node.runtime.log.on_durable is None

    run(test())


@pytest.mark.parametrize(
    ("fields", "groups"),
    [
        ({}, {"ab", "ac", "b"}),
        ({"group_ids": ["b"]}, {"b"}),
        ({"group_ids": ["b", "ab"]}, {"ab", "b"}),
        ({"group_id_prefix": "a"}, {"ab", "ac"}),
        ({"topics": ["orders"], "group_ids": ["ab"]}, {"ab"}),
    ],
)
def test_a_watcher_sees_what_it_asks_for_and_all_of_it_from_the_oldest_on(
    fields: dict[str, Any], groups: set[str]
) -> None:
    async def test() -> None:
        async with watched() as (node, service):
            for group in ("ab", "ac", "b"):
                await node.commit(group, 1, topic="others" if fields.get("topics") else "orders")
                await node.commit(group, 7)
            each = 1 if fields.get("topics") else 2
            client = Client(service, from_oldest=True, **fields)
            found = await client.events(each * len(groups))
            assert {group for group, _, _ in found} == groups
            await node.commit(min(groups), 8)
            assert (await client.events(1))[0] == (min(groups), 0, 8)
            await closed(client)

    run(test())


def test_a_watcher_goes_on_at_its_token_with_nothing_lost_and_nothing_twice() -> None:
    async def test() -> None:
        async with watched() as (node, service):
            client = Client(service, group_ids=["g"])
            await client.message()
            tokens, expected = {0: client.token}, []
            for value in range(200):
                expected.append(("g", 0, value))
                await node.commit("g", value)
                if value % 20 == 0:
                    behind = max(tokens)
                    assert await client.events(value + 1 - behind) == expected[behind:]
                    tokens[value + 1] = client.token
            await closed(client)
            for behind, token in tokens.items():
                again = Client(service, group_ids=["g"], token=token)
                assert await again.events(200 - behind) == expected[behind:]
                await closed(again)

    run(test())


def test_many_events_come_in_messages_each_with_a_token_of_its_own() -> None:
    async def test() -> None:
        async with watched() as (node, service):
            await node.commit("g", 5, partitions=1000)
            client = Client(service, from_oldest=True, group_ids=["g"])
            sizes, tokens = [], []
            while sum(sizes) < 1000:
                message = await client.message()
                sizes.append(len(message.events))
                tokens.append(message.token)
            assert max(sizes) <= 200
            await closed(client)
            left = 1000
            for size, token in zip(sizes, tokens, strict=True):
                left -= size
                again = Client(service, token=token, group_ids=["g"])
                assert [each[1] for each in await again.events(left)] == list(
                    range(1000 - left, 1000)
                )
                await closed(again)

    run(test())


def test_a_call_with_an_end_sends_what_is_before_it_and_ends() -> None:
    async def test() -> None:
        async with watched() as (node, service):
            # Its messages end within the batch, and so do their tokens.
            await node.commit("g", 5, partitions=500)
            for group in ("h", "i"):
                await node.commit(group, 6)
            client = Client(service, from_oldest=True)
            tokens, count = [], 0
            while count < 502:
                count += len((await client.message()).events)
                tokens.append((client.token, count))
            await closed(client)
            await node.commit("g", 7, partitions=500)
            for first in range(len(tokens)):
                for until, behind in tokens[first:]:
                    token, before = tokens[first]
                    ended = Client(service, token=token, until_token=until)
                    await ended.task
                    assert ended.code is None
                    assert len(await ended.events_that_came()) == behind - before
                    assert ended.token == until
            # From now on, what was before is sent already.
            ended = Client(service, until_token=tokens[0][0])
            await ended.task
            assert (ended.code, await ended.events_that_came()) == (None, [])

    run(test())


def test_only_durable_events_leave() -> None:
    async def test() -> None:
        async with watched(flushing=False) as (node, service):
            client = Client(service)
            await client.message()
            commit = asyncio.ensure_future(node.commit("g", 1))
            await asyncio.sleep(0.05)
            assert client.messages.empty()
            node.runtime.start()
            await commit
            assert await client.events(1) == [("g", 0, 1)]
            await closed(client)

    run(test())


def test_a_log_that_cannot_be_written_for_a_watcher_stops_the_server() -> None:
    async def test() -> None:
        async with watched() as (node, service):
            client = Client(service)
            await client.message()
            fault = Fault(errno=errno.EIO, kind=OperationKind.WRITE, path="*.log", nth=1)
            node.files.faults.append(fault)
            await node.commit("g", 1)  # Of which only the journal has to know.
            await asyncio.wait([client.task])
            assert client.code is grpc.StatusCode.UNAVAILABLE
            assert [str(each) for each in node.failures] == [str(node.store.failed)]
            node.failures.clear()

    run(test())


def test_a_quiet_watcher_gets_tokens() -> None:
    async def test() -> None:
        async with watched() as (node, service):
            client = Client(service, group_ids=["g"], progress_interval={"nanos": 1_000_000})
            first = (await client.message()).token
            second = await client.message()
            assert (second.token, len(second.events)) == (first, 0)
            # Of what is not watched, tokens tell all the same.
            partition = node.runtime.partition_of(b"g")
            other = next(
                name
                for name in map(str, range(1000))
                if node.runtime.partition_of(name.encode()) == partition
            )
            await node.commit(other, 1)
            while (await client.message()).token == first:
                pass
            await closed(client)

    run(test())


def test_a_watcher_that_does_not_read_is_cut_off_with_its_token() -> None:
    async def test() -> None:
        async with watched() as (node, service):
            applied = node.own.shard.applied
            configs = applied.configs.with_changes(None, {"watch.idle.max.ms": "100"})
            node.own.shard._applied = attrs.evolve(applied, configs=configs)
            client = Client(service, reads=False)
            await client.task
            assert client.code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert client.reason == "WATCHER_TOO_SLOW"
            client.reading.set()
            assert (await client.message()).token == client.metadata["token"]
            assert service.watchers is not None
            assert service.watchers.count == 0
            assert (service._watches.watchers, service._watches.cut_off) == (0, 1)

    run(test())


def test_a_client_that_goes_away_while_it_is_sent_to_is_no_defect(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def test() -> None:
        async with watched() as (node, service):
            client = Client(service)
            await client.message()
            client.write = gone  # type: ignore[method-assign]
            await node.commit("g", 1)
            await client.task
            assert client.code is None
            codes = service._counters.codes
            assert (codes[StatusCode.CANCELLED], sum(codes)) == (1, 1)

    async def gone(message: bytes) -> None:
        raise grpc.aio.InternalError

    run(test())
    assert "defect" not in "".join(capsys.readouterr())


def test_watchers_end_when_the_server_drains() -> None:
    async def test() -> None:
        async with watched() as (node, service):
            reads, stuck = Client(service), Client(service, reads=False)
            await reads.message()
            node.node.drain()
            for client in (reads, stuck):
                await client.task
                assert client.code is grpc.StatusCode.UNAVAILABLE
                assert client.reason == "COORDINATOR_NOT_AVAILABLE"

    run(test())


def test_what_is_no_token_or_of_another_call_is_refused() -> None:
    async def test() -> None:
        async with watched() as (_, service):
            client = Client(service, group_ids=["g"])
            await client.message()
            for fields in (
                {"token": "?"},
                {"token": client.token},
                {"token": client.token, "group_ids": ["g"], "topics": ["t"]},
                {"token": client.token, "group_ids": ["g"], "from_oldest": True},
                {"until_token": "?", "group_ids": ["g"]},
                {"until_token": client.token},
            ):
                refused = Client(service, **fields)
                await refused.task
                assert refused.code is grpc.StatusCode.INVALID_ARGUMENT
            await closed(client)

    run(test())


def test_a_token_from_the_future_is_refused() -> None:
    async def test() -> None:
        async with watched() as (node, service):
            async with watched() as (other, others):
                await other.commit("g", 1)
                others._node.folder_id = node.store.folder_id  # As a copy from a backup has.
                client = Client(others)
                await client.message()
                await closed(client)
            for field in ("token", "until_token"):
                refused = Client(service, **{field: client.token})
                await refused.task
                assert refused.code is grpc.StatusCode.OUT_OF_RANGE
                assert refused.reason == "OFFSET_OUT_OF_RANGE"

    run(test())


def test_what_was_cleaned_away_is_compacted_with_the_oldest_token() -> None:
    async def test() -> None:
        async with watched(cleaning=True) as (node, service):
            client = Client(service)
            await client.message()
            await closed(client)
            for value in range(5):
                await node.commit("g", value)
            partition = node.runtime.partition_of(b"g")
            (log_partition,) = [
                each
                for each in node.store.logs
                if each.topic == "__consumer_offsets" and each.partition == partition
            ]
            node.clock.advance(120_000)
            rounds = node.upkeep.cleaner.compact([log_partition], rolls_active=True)
            await asyncio.wrap_future(rounds[log_partition])
            await node.commit("g", 9)
            refused = Client(service, token=client.token)
            await refused.task
            assert (refused.code, refused.reason) == (grpc.StatusCode.OUT_OF_RANGE, "COMPACTED")
            assert refused.messages.empty()  # It has not begun.
            again = Client(service, token=refused.metadata["oldest_token"])
            found = await again.events(1)
            assert found[-1] in [("g", 0, 4), ("g", 0, 9)]
            assert int(refused.metadata["oldest_revision"]) in (4, 5)
            await closed(again)

    run(test())
