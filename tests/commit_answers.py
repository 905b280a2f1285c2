"""How a fake server answers streams of commits, and what it was sent."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from offsetd.v1 import offset_service_pb2, types_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fake_server import FakeServer

WAIT_S = 60.0
Response = offset_service_pb2.StreamCommitsResponse


def committed(commit: Any) -> Any:
    """An OK whose revision is the offset that was committed."""
    revision = types_pb2.Revision(log_partition=7, log_offset=commit.commit.offsets[0].offset)
    response = offset_service_pb2.CommitOffsetsResponse(revision=revision)
    return offset_service_pb2.CommitResult(sequence=commit.sequence, committed=response)


def answer_all(messages: Iterator[Any], _context: Any) -> Iterator[Any]:
    for message in messages:
        yield Response(results=[committed(each) for each in message.commits])


def commits_in(server: FakeServer) -> list[Any]:
    return [each.commit for message in server.messages for each in message.commits]


def offsets_in(server: FakeServer) -> list[int]:
    return [each.offsets[0].offset for each in commits_in(server)]


def silence(messages: Iterator[Any], context: Any) -> Iterator[Any]:
    """Takes a message, and answers nothing until the call is over."""
    over = threading.Event()
    if context.add_callback(over.set):
        next(messages)
        over.wait()
    yield from ()


async def poll(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110  # It is set in other threads.
            await asyncio.sleep(0.005)
