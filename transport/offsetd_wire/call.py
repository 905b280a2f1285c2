"""One call, as its handler sees it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NoReturn

import grpc
import grpc.aio

from offsetd_wire.compression import RefusedMessage, decompressed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping

    from offsetd_wire.connection import Connection

    Metadata = Iterable[tuple[str, str | bytes]]

_OK: Final = 0


class Call:
    """A call with the surface of `grpc.aio.ServicerContext`. For the thread of its event loop."""

    def __init__(
        self,
        connection: Connection,
        number: int,
        metadata: tuple[tuple[str, str | bytes], ...],
        timeout_seconds: float | None,
        encoding: str | None,
    ) -> None:
        self.number = number
        self.handler: grpc.RpcMethodHandler[Any, Any] | None = None
        self.task: asyncio.Task[None] | None = None
        self.is_joined = False
        """Whether a handler of several calls has it, so that it has no task."""
        self._connection = connection
        self._metadata = metadata
        self._encoding = encoding
        self._messages: deque[tuple[bytes, bool]] = deque()
        self._has_read = False
        self._is_half_closed = False
        self._refused: RefusedMessage | None = None
        self._arrival: asyncio.Future[None] | None = None
        self._departure: asyncio.Future[None] | None = None
        self._is_done = False
        self._is_cancelled = False
        self._has_ended = False  # It has a status, which may not have left.
        self._code: Any = None
        self._details = ""
        self._trailing: tuple[tuple[str, str | bytes], ...] = ()
        self._callbacks: list[Callable[[Any], None]] = []
        self._over: asyncio.Future[None] | None = None
        self._deadline_seconds: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        if timeout_seconds is not None:
            self._deadline_seconds = time.monotonic() + timeout_seconds
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(timeout_seconds, self._expire)

    # What the connection tells.

    def note_message(self, content: bytes, *, is_compressed: bool) -> None:
        """A message has arrived."""
        self._messages.append((content, is_compressed))
        _wake(self._arrival)

    def note_half_closed(self) -> None:
        """Notes that the client sends no more."""
        self._is_half_closed = True
        _wake(self._arrival)

    def note_refused(self, refused: RefusedMessage) -> None:
        """Notes that the next message cannot be read."""
        self._refused = refused
        _wake(self._arrival)

    def note_sent(self) -> None:
        """Notes that all written bytes have left."""
        _wake(self._departure)

    def note_closed(self, *, is_broken_off: bool) -> None:
        """Notes that the call is over."""
        if self._is_done:
            return
        self._is_done = True
        self._is_cancelled = is_broken_off
        if self._timer is not None:
            self._timer.cancel()
        if is_broken_off and self.task is not None:
            self.task.cancel()
        _wake(self._departure)
        _wake(self._over)
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def over(self) -> asyncio.Future[None]:
        """A future that is done when the call ends."""
        if self._over is None:
            self._over = asyncio.get_running_loop().create_future()
        return self._over

    def _expire(self) -> None:
        if self._is_done or self._has_ended:
            return
        if self.task is not None:
            self.task.cancel()
        self.end(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")

    # What a handler asks.

    async def read(self) -> Any:
        """The next message, or `grpc.aio.EOF`.

        A message that cannot be read ends the call, and cancels its handler.
        """
        if self._has_read and not self._messages:
            self._connection.want(self.number)
        self._has_read = True
        while not self._messages:
            if self._refused is not None:
                self._refuse(self._refused)
            if self._is_half_closed:
                return grpc.aio.EOF
            if self._is_done:
                raise asyncio.CancelledError
            self._arrival = asyncio.get_running_loop().create_future()
            try:
                await self._arrival
            finally:
                self._arrival = None
        content, is_compressed = self._messages.popleft()
        if is_compressed:
            bytes_max = self._connection.limits.message_bytes_max
            try:
                content = decompressed(content, self._encoding, bytes_max=bytes_max)
            except RefusedMessage as refused:
                self._refuse(refused)
        deserialize = None if self.handler is None else self.handler.request_deserializer
        return content if deserialize is None else deserialize(content)

    def _refuse(self, refused: RefusedMessage) -> NoReturn:
        """Ends the call for a message that cannot be read, and its handler."""
        self.end(refused.code, refused.details)
        if self.task is not None:
            self.task.cancel()
        raise asyncio.CancelledError

    async def requests(self) -> AsyncIterator[Any]:
        """All messages of the client."""
        while (message := await self.read()) is not grpc.aio.EOF:
            yield message

    async def write(self, message: Any) -> None:
        """Sends a message; returns when it has left for the client."""
        if self._is_done:
            raise asyncio.CancelledError
        departure = self._departure = asyncio.get_running_loop().create_future()
        self._connection.send(self.number, self._serialized(message))
        if departure.done():
            return
        await departure
        if self._is_cancelled:
            raise asyncio.CancelledError

    async def send_initial_metadata(self, initial_metadata: Metadata) -> None:
        """Sends the first headers, with these among them."""
        wire = self._connection.wire
        wire.set_initial_metadata(self.number, _as_bytes(initial_metadata))
        wire.open(self.number)
        self._connection.flush_soon()

    def answer(self, message: Any) -> None:
        """Ends a call of one answer: with it, or with the status that its handler has set."""
        if self._is_done or self._has_ended:
            return
        if self._code_number() != _OK:
            self.end(self._code, self._details)
            return
        content = self._serialized(message)
        if self._trailing or self._details:
            self._connection.wire.send(self.number, content)
            self.end(grpc.StatusCode.OK, self._details)
            return
        self._has_ended = True
        self._connection.wire.answer(self.number, content)
        self._connection.flush_soon()

    def end_stream(self) -> None:
        """Ends a call of several answers with the status that its handler has set."""
        code = grpc.StatusCode.OK if self._code is None else self._code
        self.end(code, self._details)

    def end(self, code: Any, details: str) -> None:
        """Ends the call with a status, unless it has one."""
        if self._is_done or self._has_ended:
            return
        self._has_ended = True
        self._code, self._details = code, details
        trailing = _as_bytes(self._trailing)
        self._connection.wire.finish(self.number, self._code_number(), details, trailing)
        self._connection.flush_soon()

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()
    ) -> NoReturn:
        """Ends the call with a status, and its handler by an exception."""
        self._code, self._details = code, details
        if trailing_metadata:
            self._trailing = tuple(trailing_metadata)
        raise grpc.aio.AbortError("Locally aborted.")

    def invocation_metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        """The call's metadata, without what is of the protocol."""
        return self._metadata

    def time_remaining(self) -> float | None:
        """Seconds until the deadline; None if there is none."""
        if self._deadline_seconds is None:
            return None
        return max(0.0, self._deadline_seconds - time.monotonic())

    def peer(self) -> str:
        """The client's address, as gRPC names it."""
        return self._connection.peer

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """What TLS says of the client; empty without TLS."""
        return self._connection.auth_context

    def peer_identity_key(self) -> str | None:
        """The name of the client's identity in `auth_context`."""
        return "x509_common_name" if "x509_pem_cert" in self.auth_context() else None

    def peer_identities(self) -> Iterable[bytes] | None:
        """The client's identities; None without a certificate."""
        return self.auth_context().get("x509_pem_cert")

    def set_code(self, code: grpc.StatusCode) -> None:
        """Sets the status of the call's end."""
        self._code = code

    def set_details(self, details: str) -> None:
        """Sets the text of the status."""
        self._details = details

    def set_trailing_metadata(self, trailing_metadata: Metadata) -> None:
        """Sets the metadata of the call's end."""
        self._trailing = tuple(trailing_metadata)

    def code(self) -> Any:
        """The status that was set."""
        return self._code

    def details(self) -> str:
        """The text that was set."""
        return self._details

    def trailing_metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        """The metadata that was set."""
        return self._trailing

    def set_compression(self, compression: grpc.Compression) -> None:
        """Answers are never compressed."""

    def disable_next_message_compression(self) -> None:
        """Answers are never compressed."""

    def done(self) -> bool:
        """Whether the call is over."""
        return self._is_done

    def cancelled(self) -> bool:
        """Whether the call was broken off."""
        return self._is_cancelled

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Calls `callback` with this call when it is over, and its answers have left."""
        if self._is_done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def _code_number(self) -> int:
        code = self._code
        if code is None:
            return _OK
        return int(code.value[0]) if isinstance(code, grpc.StatusCode) else int(code)

    def _serialized(self, message: Any) -> bytes:
        serialize = None if self.handler is None else self.handler.response_serializer
        return bytes(message) if serialize is None else serialize(message)


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)


def _as_bytes(metadata: Metadata) -> list[tuple[str, bytes]]:
    return [
        (name, value if isinstance(value, bytes) else value.encode("ascii", "backslashreplace"))
        for name, value in metadata
    ]
