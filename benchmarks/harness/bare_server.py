"""A server for comparison: bare `grpc.aio`, generic handlers on raw bytes, empty answers.

`python -m benchmarks.harness.bare_server PORT [asyncio|uvloop]`
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SERVICE = "offsetd.v1.OffsetService"


async def commit(_: bytes, __: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
    """Takes the bytes of a commit, and returns no bytes."""
    return b""


async def stream(
    requests: AsyncIterator[bytes], _: grpc.aio.ServicerContext[bytes, bytes]
) -> AsyncIterator[bytes]:
    """Sends one empty answer to each message."""
    async for _request in requests:
        yield b""


async def serve(port: int) -> None:
    """Serves until it is killed."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "CommitOffsets": grpc.unary_unary_rpc_method_handler(commit),
        "StreamCommits": grpc.stream_stream_rpc_method_handler(stream),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    print("SERVING", flush=True)
    await server.wait_for_termination()


def main() -> None:
    """Runs the server with the options of the command line."""
    if sys.argv[2:] == ["uvloop"]:
        import uvloop  # noqa: PLC0415  # so that it is not loaded where it is not asked for

        uvloop.run(serve(int(sys.argv[1])))
    else:
        asyncio.run(serve(int(sys.argv[1])))


if __name__ == "__main__":
    main()
