"""The server: ports, handlers, drain."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import grpc
import grpc.aio

from offsetd_wire.connection import Connection
from offsetd_wire.limits import limits_of
from offsetd_wire.message_room import MessageRoom
from offsetd_wire.sockets import bind
from offsetd_wire.tls_listener import TlsListener

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Iterable

    from offsetd_wire.call import Call

    Handler = grpc.RpcMethodHandler[Any, Any]
    Join = Callable[[list[tuple[Call, bytes]]], Iterable[Call]]

_log = logging.getLogger(__name__)

_BACKLOG: Final = 4096
_LOOK_SECONDS: Final = 1.0


class _Method(NamedTuple):
    """The call for which a generic handler is asked for a method handler."""

    method: str
    invocation_metadata: tuple[tuple[str, str | bytes], ...]


class Server:
    """A server with the surface of `grpc.aio.Server`. For one event loop, which runs it."""

    def __init__(
        self, options: Iterable[tuple[str, Any]] = (), *, room: MessageRoom | None = None
    ) -> None:
        """`options` are gRPC's channel options; those that are no limits are ignored.

        `room` bounds what all messages hold that are not whole; without it there is no bound.
        """
        self._limits = limits_of(options)
        self._room = MessageRoom() if room is None else room
        self._generic: list[grpc.GenericRpcHandler] = []
        self._found: dict[str, Handler] = {}
        self._joining: dict[Join, list[tuple[Call, bytes]]] = {}
        self._ports: list[tuple[list[socket.socket], ssl.SSLContext | None]] = []
        self._listeners: list[asyncio.Server | TlsListener] = []
        self.connections: set[Connection] = set()
        """The connections that are open."""
        self._looking: asyncio.Task[None] | None = None
        self._has_stopped = asyncio.Event()

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Adds handlers. For each call, they are asked in this order."""
        self._generic.extend(handlers)

    def add_registered_method_handlers(self, service: str, methods: object) -> None:
        """Adds nothing: generated code registers the same methods as generic handlers."""

    def add_insecure_port(self, address: str) -> int:
        """Binds an address; returns its port. Raises OSError."""
        return self._add_port(address, None)

    def add_secure_port(self, address: str, context: ssl.SSLContext) -> int:
        """Binds an address for TLS; returns its port. Raises OSError.

        To exchange certificates, let `context.sni_callback` give each handshake its own context.
        """
        context.set_alpn_protocols(["h2"])
        return self._add_port(address, context)

    def _add_port(self, address: str, context: ssl.SSLContext | None) -> int:
        sockets, port = bind(address)
        self._ports.append((sockets, context))
        return port

    async def start(self) -> None:
        """Listens."""
        loop = asyncio.get_running_loop()
        for sockets, context in self._ports:
            for each in sockets:
                if context is None:
                    self._listeners.append(
                        await loop.create_server(self._connection, sock=each, backlog=_BACKLOG)
                    )
                else:
                    listener = TlsListener(each, context, self._limits, self._connection)
                    listener.start(self.connections, backlog=_BACKLOG)
                    self._listeners.append(listener)
        self._looking = asyncio.create_task(self._look())

    async def stop(self, grace: float | None) -> None:
        """Takes no more connections and calls. Calls that last have `grace` seconds."""
        for listener in self._listeners:
            listener.close()
        for connection in list(self.connections):
            connection.drain()
        working = [each for connection in self.connections for each in connection.working]
        if working and grace != 0:
            await asyncio.wait(working, timeout=grace)
        for connection in list(self.connections):
            if any(not each.done() for each in connection.working):
                connection.abort()
            else:
                connection.close()
        if self._looking is not None:
            self._looking.cancel()
        self._has_stopped.set()

    # The signature is gRPC's.
    async def wait_for_termination(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109
        """Waits until `stop` has ended; False if `timeout` seconds passed first."""
        try:
            await asyncio.wait_for(self._has_stopped.wait(), timeout)
        except TimeoutError:
            return False
        return True

    def _connection(self) -> Connection:
        return Connection(self._limits, self.connections, self._begin, self._room)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now_seconds = time.monotonic()
            for connection in list(self.connections):
                connection.look(now_seconds)

    def _begin(self, call: Call, path: str, message: bytes | None) -> None:
        """Begins a call; `message` is its first one, if it has come with it."""
        handler = self._handler(path, call.invocation_metadata())
        if handler is None:
            call.end(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
            return
        call.handler = handler
        join = None if message is None else getattr(handler, "join", None)
        if join is None:
            _start(call)
            return
        assert message is not None, "without one, nothing is joined"
        call.is_joined = True
        if not self._joining:
            asyncio.get_running_loop().call_soon(self._hand_over)
        self._joining.setdefault(join, []).append((call, message))

    def _hand_over(self) -> None:
        """Gives the calls of this turn of the loop to their handlers, those of each together."""
        joining, self._joining = self._joining, {}
        for join, calls in joining.items():
            open_calls = [each for each in calls if not each[0].done()]
            try:
                left = join(open_calls)
            except Exception as error:  # noqa: BLE001  A defect of the handler ends its calls only.
                for call, _ in open_calls:
                    _end_for_defect(call, error)
                continue
            for call in left:
                call.is_joined = False
                _start(call)

    def _handler(self, path: str, metadata: tuple[tuple[str, str | bytes], ...]) -> Handler | None:
        found = self._found.get(path)
        if found is not None:
            return found
        for generic in self._generic:
            handler = generic.service(cast("grpc.HandlerCallDetails", _Method(path, metadata)))
            if handler is not None:
                self._found[path] = handler
                return handler
        return None


def _start(call: Call) -> None:
    """Lets the handler answer this call alone."""
    call.task = asyncio.get_running_loop().create_task(_run(call))


async def _run(call: Call) -> None:
    handler = call.handler
    assert handler is not None, "it was found when the call began"
    try:
        await _answer(call, handler)
    except asyncio.CancelledError:
        # A call whose server ends it has a status; one that its client ended needs none.
        call.end(grpc.StatusCode.CANCELLED, "the call was cancelled")
    except grpc.aio.AbortError:
        call.end_stream()
    except Exception as error:  # noqa: BLE001  A defect of the handler ends its call only.
        _end_for_defect(call, error)


def _end_for_defect(call: Call, error: Exception) -> None:
    _log.error("a handler failed", exc_info=error)
    call.end(grpc.StatusCode.UNKNOWN, f"Unexpected {type(error)}: {error}")


async def _answer(call: Call, handler: Handler) -> None:
    if handler.request_streaming:
        asked: Any = call.requests()
    else:
        asked = await call.read()
        if asked is grpc.aio.EOF:
            call.end(grpc.StatusCode.INTERNAL, "the call has no message")
            return
    function: Callable[[Any, Any], Any] = getattr(
        handler,
        f"{'stream' if handler.request_streaming else 'unary'}_"
        f"{'stream' if handler.response_streaming else 'unary'}",
    )
    answered = function(asked, call)
    if not handler.response_streaming:
        call.answer(await answered)
        return
    if hasattr(answered, "__aiter__"):
        async for message in answered:
            await call.write(message)
    else:
        await answered
    call.end_stream()
