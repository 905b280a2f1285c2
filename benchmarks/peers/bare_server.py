"""`python bare_server.py PORT [FILE]`: generic handlers on raw bytes, prepared answers.

With a file, a call is answered after some bytes are written into the file and synced. An answer on
a stream has a sequence that means "the oldest of this stream".
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import uvloop
from offsetd.v1 import offset_service_pb2, types_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SERVICE = "offsetd.v1.OffsetService"
OLDEST = (1 << 20) - 1
_COMMITTED = offset_service_pb2.CommitOffsetsResponse(
    revision=types_pb2.Revision(log_partition=49, log_offset=1_000_000)
)
_RESULT = offset_service_pb2.CommitResult(sequence=OLDEST, committed=_COMMITTED)
OPTIONS = [
    ("grpc.so_reuseport", 0),
    # Otherwise gRPC refuses some calls if more than 1,000 wait.
    ("grpc.server.max_pending_requests", 1 << 20),
    ("grpc.server.max_pending_requests_hard_limit", 1 << 20),
]
UNARY_ANSWER = _COMMITTED.SerializeToString()
_SYNCED_BYTES = 512  # The bytes that the journal writes for a commit of one partition.
_SYNCED_FILE_BYTES = 1 << 25
STREAM_ANSWER = offset_service_pb2.StreamCommitsResponse(results=[_RESULT]).SerializeToString()


async def commit(_: bytes, __: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
    """Takes the bytes of a commit, and answers."""
    return UNARY_ANSWER


class SyncedFile:
    """A file for synced writes. Like the journal's files, it already has its full size."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        os.write(self._descriptor, bytes(size_bytes))
        os.fsync(self._descriptor)
        self._positions = itertools.cycle(range(0, size_bytes, _SYNCED_BYTES))

    def write(self) -> None:
        """Makes one write with one `fdatasync`, after the previous write."""
        os.pwrite(self._descriptor, bytes(_SYNCED_BYTES), next(self._positions))
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)

    async def commit(self, _: bytes, __: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        """Takes the bytes of a commit, writes other bytes, and answers."""
        self.write()
        return UNARY_ANSWER


async def stream(
    requests: AsyncIterator[bytes], _: grpc.aio.ServicerContext[bytes, bytes]
) -> AsyncIterator[bytes]:
    """Sends one answer to each message."""
    async for _request in requests:
        yield STREAM_ANSWER


async def serve(port: int, path: str | None = None) -> None:
    """Serves until it is killed."""
    answer = commit if path is None else SyncedFile(Path(path), _SYNCED_FILE_BYTES).commit
    server = grpc.aio.server(options=OPTIONS)
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "CommitOffsets": grpc.unary_unary_rpc_method_handler(answer),
        "StreamCommits": grpc.stream_stream_rpc_method_handler(stream),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), *sys.argv[2:]))
