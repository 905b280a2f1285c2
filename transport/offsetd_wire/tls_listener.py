"""A listener whose connections count before their TLS handshake."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Collection

    from offsetd_wire.connection import Connection
    from offsetd_wire.limits import Limits

# After an error of accept, as for want of descriptors.
_PAUSE_SECONDS: Final = 0.1


class TlsListener:
    """Accepts connections, and gives those to `make` whose handshake is over.

    asyncio's own server tells of a connection only behind its handshake, so clients that never end
    theirs would not count in the limit of connections.
    """

    def __init__(
        self,
        listening: socket.socket,
        context: ssl.SSLContext,
        limits: Limits,
        make: Callable[[], Connection],
    ) -> None:
        self._listening = listening
        self._context = context
        self._limits = limits
        self._make = make
        self._handshakes: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Task[None] | None = None

    def start(self, connections: Collection[Connection], *, backlog: int) -> None:
        """Listens. Together with `connections`, handshakes are as many as the limit allows."""
        self._listening.setblocking(False)
        self._listening.listen(backlog)
        self._accepting = asyncio.get_running_loop().create_task(self._accept(connections))

    def close(self) -> None:
        """Takes no more connections, and ends the handshakes."""
        if self._accepting is not None:
            self._accepting.cancel()
        for each in self._handshakes:
            each.cancel()
        self._listening.close()

    async def _accept(self, connections: Collection[Connection]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._listening)
            except OSError:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if len(connections) + len(self._handshakes) >= self._limits.connections_max:
                accepted.close()
                continue
            task = loop.create_task(self._shake_hands(accepted))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            # A handshake that fails or takes too long ends the socket.
            with contextlib.suppress(OSError):
                await loop.connect_accepted_socket(
                    self._make,
                    accepted,
                    ssl=self._context,
                    ssl_handshake_timeout=self._limits.handshake_ms_max / 1000,
                )
        except asyncio.CancelledError:
            accepted.close()
            raise
