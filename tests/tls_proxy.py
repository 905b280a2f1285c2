"""A proxy that speaks TLS, in front of a server that does not."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from certificates import Authority, Issued


@contextmanager
def tls_proxy(
    server_address: str, issued: Issued, *, clients_of: Authority | None = None
) -> Iterator[str]:
    """An address at which TLS is spoken; `clients_of`: only by those whom it has signed."""
    context = issued.server_context()
    context.set_alpn_protocols(["h2"])
    if clients_of is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients_of.pem.decode())
    host, _, port = server_address.rpartition(":")

    async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while carried := await source.read(65_536):
                target.write(carried)
                await target.drain()
        target.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(carry(reader, far_writer), carry(far_reader, writer))

    async def listen() -> asyncio.Server:
        return await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # Handshakes that fail are what tests are about.
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(listen(), loop).result(60)
    try:
        yield "{}:{}".format(*server.sockets[0].getsockname())
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()
