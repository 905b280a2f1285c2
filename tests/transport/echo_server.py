"""A server of raw messages, one method of each kind, on the transport that a test names."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SERVICE: Final = "test.Echo"
FAILED: Final = "it is %d %% full,\nand \u2603"
TRAILER: Final = ("why-bin", b"\x00\xff")


async def unary(message: bytes, context: Any) -> bytes:
    """Gives the message back; some messages ask for something else."""
    if message == b"fail":
        context.set_trailing_metadata((TRAILER,))
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, FAILED)
    if message == b"code":
        context.set_code(grpc.StatusCode.NOT_FOUND)
        context.set_details("nothing")
        return b""
    if message == b"metadata":
        return repr(sorted(map(tuple, context.invocation_metadata()))).encode()
    if message == b"peer":
        return str(context.peer()).encode()
    if message == b"deadline":
        return repr(context.time_remaining()).encode()
    if message == b"defect":
        raise RuntimeError("a defect")
    if message == b"wait":
        await asyncio.sleep(3600)
    return message


async def server_stream(message: bytes, _: Any) -> AsyncIterator[bytes]:
    """Sends as many messages of 1,000 bytes as the message says."""
    for number in range(int(message)):
        yield b"%06d" % number + bytes(994)


async def client_stream(_: Any, context: Any) -> bytes:
    """Answers with the number of messages and of their bytes."""
    count = size = 0
    while (message := await context.read()) is not grpc.aio.EOF:
        count, size = count + 1, size + len(message)
    return b"%d %d" % (count, size)


async def both(messages: AsyncIterator[bytes], context: Any) -> None:
    """Gives each message back."""
    async for message in messages:
        await context.write(message)


async def pause(_: Any, context: Any) -> bytes:
    """Reads one message, and then no more."""
    await context.read()
    await asyncio.sleep(3600)
    return b""


class Endings:
    """Counts the calls that are over."""

    def __init__(self) -> None:
        self.ended = 0

    async def call(self, message: bytes, context: Any) -> bytes:
        """As `unary`, and counts the end."""
        context.add_done_callback(self._note)
        return await unary(message, context)

    def _note(self, _: Any) -> None:
        self.ended += 1


@contextlib.asynccontextmanager
async def serving(
    transport: str,
    *,
    options: tuple[tuple[str, Any], ...] = (),
    endings: Endings | None = None,
    tls: Any = None,
    servers: list[Any] | None = None,
    room: Any = None,
) -> AsyncIterator[int]:
    """The port of a server on `grpcio` or `wire`. The server itself is added to `servers`."""
    server: Any
    if transport == "wire":
        from offsetd_wire import Server

        server = Server(options, room=room)
    else:
        server = grpc.aio.server(options=options)
    methods = {
        "Unary": grpc.unary_unary_rpc_method_handler(unary if endings is None else endings.call),
        "ServerStream": grpc.unary_stream_rpc_method_handler(server_stream),
        "ClientStream": grpc.stream_unary_rpc_method_handler(client_stream),
        "Pause": grpc.stream_unary_rpc_method_handler(pause),
        "Both": grpc.stream_stream_rpc_method_handler(both),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    if tls is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        port = server.add_secure_port("127.0.0.1:0", tls)
    await server.start()
    if servers is not None:
        servers.append(server)
    try:
        yield port
    finally:
        await server.stop(0)
