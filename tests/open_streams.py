"""Streams of commits without gRPC: their contexts, and calls that run in tasks of their own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from offsetd.v1 import offset_service_pb2
from offsetd_coordinator.calls.admission import Admission
from offsetd_coordinator.counters import StreamCounters
from offsetd_coordinator.grpc.commit_stream import CommitStream
from serving_nodes import WAIT_SECONDS

if TYPE_CHECKING:
    from serving_nodes import ServingNode


class StreamContext:
    """A stream's context: messages go in by `send`, results come out by `result`."""

    def __init__(self) -> None:
        self._incoming: asyncio.Queue[Any] = asyncio.Queue()
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self._results: list[offset_service_pb2.CommitResult] = []
        self.reads = 0
        self.writes = 0
        self.bytes_written = self.largest_write = 0
        self.writable = asyncio.Event()
        self.writable.set()
        self.remaining_seconds: float | None = None
        self.code: grpc.StatusCode | None = None
        self.status = Status()

    def send(self, *commits: tuple[int, offset_service_pb2.CommitOffsetsRequest]) -> int:
        """One message with some commits; how many bytes it has."""
        message = offset_service_pb2.StreamCommitsRequest(
            commits=[
                offset_service_pb2.SequencedCommit(sequence=sequence, commit=commit)
                for sequence, commit in commits
            ]
        )
        self.send_bytes(message.SerializeToString())
        return message.ByteSize()

    def send_bytes(self, message: bytes) -> None:
        self._incoming.put_nowait(message)

    def half_close(self) -> None:
        self._incoming.put_nowait(grpc.aio.EOF)

    async def result(self) -> offset_service_pb2.CommitResult:
        """The next result, whatever message it comes in."""
        while not self._results:
            message = await asyncio.wait_for(self._outgoing.get(), WAIT_SECONDS)
            response = offset_service_pb2.StreamCommitsResponse.FromString(message)
            self._results += response.results
        return self._results.pop(0)

    async def read(self) -> Any:
        message = await self._incoming.get()
        self.reads += 1
        return message

    async def write(self, message: bytes) -> None:
        await self.writable.wait()
        self.writes += 1
        self.bytes_written += len(message)
        self.largest_write = max(self.largest_write, len(message))
        self._outgoing.put_nowait(message)

    def peer(self) -> str:
        return "ipv4:127.0.0.1:5"

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    def time_remaining(self) -> float | None:
        return self.remaining_seconds

    def set_code(self, code: grpc.StatusCode) -> None:
        self.code = code

    def set_details(self, details: str) -> None:
        """The status has it too."""

    def set_trailing_metadata(self, trailers: tuple[tuple[str, bytes], ...]) -> None:
        self.status = Status.FromString(dict(trailers)["grpc-status-details-bin"])

    @property
    def reason(self) -> str:
        info = ErrorInfo()
        self.status.details[0].Unpack(info)
        return str(info.reason)


class OpenStream:
    """A stream that runs in a task of its own."""

    def __init__(
        self,
        serving: ServingNode,
        *,
        unanswered_max: int = 1024,
        bytes_max: int = 1 << 20,
        request_bytes_max: int = 1 << 20,
    ) -> None:
        self.context = StreamContext()
        self.admission = Admission(bytes_max)
        self.counters = StreamCounters()
        context: Any = self.context
        self.connection = self.admission.connections.open_call(context)
        stream = CommitStream(
            serving.node,
            self.admission,
            serving.parser,
            context,
            self.connection,
            self.counters,
            unanswered_max=unanswered_max,
            method_access=None,
            request_bytes_max=request_bytes_max,
        )
        self.task = asyncio.create_task(stream.run())

    async def end(self) -> None:
        """Waits for the call's end; nothing may be left of it."""
        await self.end_with(requests=0, bytes_taken=0)

    async def end_with(self, *, requests: int, bytes_taken: int) -> None:
        """Waits for the call's end; only what others have taken may be left."""
        await asyncio.wait_for(self.task, WAIT_SECONDS)
        await settled()
        self.check_nothing_is_left(requests, bytes_taken)

    def check_nothing_is_left(self, requests: int = 0, bytes_taken: int = 0) -> None:
        assert (self.admission.requests, self.admission.bytes_taken) == (requests, bytes_taken)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not [task for task in others if "CommitStream" in repr(task.get_coro())]


async def settled() -> None:
    """Lets every task run until it waits for something."""
    for _ in range(100):
        await asyncio.sleep(0)
