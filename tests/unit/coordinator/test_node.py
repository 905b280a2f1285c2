"""offsetd_coordinator.node: what calls come to that arrive before their server serves."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest
from listening_servers import listening
from offsetd.v1 import admin_service_pb2, group_service_pb2, history_pb2, offset_service_pb2
from offsetd_coordinator import node as node_module
from offsetd_coordinator import server_folder as folder_module
from offsetd_coordinator.errors import CoordinatorLoadInProgress
from offsetd_coordinator.node import Node, NodeState
from server_process import Stubs
from serving_nodes import WAIT_SECONDS

if TYPE_CHECKING:
    from listening_servers import ListeningServer

NOT_SOON_SECONDS = 1e6


def new_node() -> Node:
    return Node(node_id="n1", address="127.0.0.1:7171", start_ms=0)


@pytest.mark.parametrize(("longest", "remaining"), [(0.001, None), (NOT_SOON_SECONDS, 0.002)])
async def test_a_load_is_waited_for_no_longer_than_a_call_may_be_kept(
    monkeypatch: pytest.MonkeyPatch, longest: float, remaining: float | None
) -> None:
    monkeypatch.setattr(node_module, "_LOAD_WAIT_SECONDS", longest)
    node = new_node()
    await asyncio.wait_for(node.load_ended(remaining), WAIT_SECONDS)
    assert node.state is NodeState.LOADING
    with pytest.raises(CoordinatorLoadInProgress):
        node.serving()


class HeldLoad:
    """A load that goes on when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.may_go_on = threading.Event()
        real_load: Any = vars(folder_module)["load"]

        def load(*arguments: Any) -> None:
            assert self.may_go_on.wait(WAIT_SECONDS)
            real_load(*arguments)

        monkeypatch.setattr(folder_module, "load", load)
        monkeypatch.setattr(node_module, "_LOAD_WAIT_SECONDS", NOT_SOON_SECONDS)


def commit() -> offset_service_pb2.CommitOffsetsRequest:
    return offset_service_pb2.CommitOffsetsRequest(
        group_id="g", offsets=[offset_service_pb2.OffsetCommit(topic="orders", offset=1)]
    )


async def sent_before_the_end_of_loading(listens: ListeningServer) -> list[Any]:
    """A call of each kind; the last of them has arrived."""
    untyped_channel: Any = listens.channel
    stubs = Stubs(untyped_channel)
    in_stream = offset_service_pb2.StreamCommitsRequest(
        commits=[offset_service_pb2.SequencedCommit(sequence=1, commit=commit())]
    )
    file_format = admin_service_pb2.OFFSET_FORMAT_JSONL
    options = admin_service_pb2.ImportOffsetsOptions(format=file_format)
    called = [
        stubs.offsets.StreamCommits(iter([in_stream])).read(),
        stubs.offsets.WatchOffsets(history_pb2.WatchOffsetsRequest()).read(),
        stubs.admin.ExportOffsets(
            admin_service_pb2.ExportOffsetsRequest(format=file_format)
        ).read(),
        stubs.admin.ImportOffsets(iter([admin_service_pb2.ImportOffsetsRequest(options=options)])),
        stubs.groups.ListGroups(group_service_pb2.ListGroupsRequest()),
        stubs.offsets.CommitOffsets(commit()),
    ]
    calls = [asyncio.ensure_future(each) for each in called]
    async with asyncio.timeout(WAIT_SECONDS):
        while listens.server.admission.requests < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    return calls


async def test_calls_that_come_while_a_server_loads_are_answered_when_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = HeldLoad(monkeypatch)
    async with listening() as listens:
        calls = await sent_before_the_end_of_loading(listens)
        assert not any(each.done() for each in calls)
        held.may_go_on.set()
        for each in calls:
            await asyncio.wait_for(each, WAIT_SECONDS)
    assert listens.server.admission.requests == 0


async def test_calls_that_wait_for_a_load_hear_of_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    held = HeldLoad(monkeypatch)
    async with listening() as listens:
        calls = await sent_before_the_end_of_loading(listens)
        listens.server.stop()
        await asyncio.wait_for(listens.life, WAIT_SECONDS)
        assert listens.server.admission.requests == 0
        for each in calls:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await asyncio.wait_for(each, WAIT_SECONDS)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
            assert refused.value.details() == "the server is stopping"
        held.may_go_on.set()
