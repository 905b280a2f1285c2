"""`python bare_server.py PORT`: generic handlers on raw bytes, ready-made answers.

An answer on a stream has a sequence that stands for "the oldest of this stream".
"""

from __future__ import annotations

import sys
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
    # gRPC else refuses some of more than 1,000 calls that wait.
    ("grpc.server.max_pending_requests", 1 << 20),
    ("grpc.server.max_pending_requests_hard_limit", 1 << 20),
]
UNARY_ANSWER = _COMMITTED.SerializeToString()
STREAM_ANSWER = offset_service_pb2.StreamCommitsResponse(results=[_RESULT]).SerializeToString()


async def commit(_: bytes, __: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
    """Takes the bytes, answers."""
    return UNARY_ANSWER


async def stream(
    requests: AsyncIterator[bytes], _: grpc.aio.ServicerContext[bytes, bytes]
) -> AsyncIterator[bytes]:
    """One answer to each message."""
    async for _request in requests:
        yield STREAM_ANSWER


async def serve(port: int) -> None:
    """Serves until it is killed."""
    server = grpc.aio.server(options=OPTIONS)
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "CommitOffsets": grpc.unary_unary_rpc_method_handler(commit),
        "StreamCommits": grpc.stream_stream_rpc_method_handler(stream),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
