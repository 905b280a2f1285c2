"""A TCP proxy that passes everything on late, as a distant network does."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_BYTES = 1 << 16


@contextmanager
def delayed(host: str, port: int, *, seconds_each_way: float) -> Iterator[int]:
    """The port of 127.0.0.1 that leads to `host` and `port`, in a `with` block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, port)
        with suppress(asyncio.CancelledError):  # The block has ended.
            await asyncio.gather(
                _pass_on(reader, far_writer, seconds_each_way),
                _pass_on(far_reader, writer, seconds_each_way),
            )

    async def begin() -> asyncio.Server:
        return await asyncio.start_server(serve, "127.0.0.1", 0)

    server = asyncio.run_coroutine_threadsafe(begin(), loop).result(30)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(_end(server), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


async def _end(server: asyncio.Server) -> None:
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float
) -> None:
    """Each piece leaves so many seconds after it came; pieces do not wait for each other."""
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        while piece := await reader.read(_BYTES):
            loop.call_later(seconds, _write, writer, piece)
    loop.call_later(seconds, writer.close)


def _write(writer: asyncio.StreamWriter, piece: bytes) -> None:
    if not writer.is_closing():
        writer.write(piece)
