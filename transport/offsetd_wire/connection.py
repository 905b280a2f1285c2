"""One connection: bytes of the socket in, events of calls out."""

from __future__ import annotations

import asyncio
import random
import ssl
import time
from typing import TYPE_CHECKING, Any, Final, cast

import grpc

from offsetd_wire._wire import Wire
from offsetd_wire.call import Call
from offsetd_wire.compression import too_large
from offsetd_wire.sockets import peer_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from offsetd_wire.compression import RefusedMessage
    from offsetd_wire.limits import Limits
    from offsetd_wire.message_room import MessageRoom

# The kinds of events, as the native part numbers them.
_CALL, _MESSAGE, _TOO_LARGE, _HALF_CLOSED, _SENT, _CLOSED, _BAD_CALL = range(7)
_WANTS_ROOM, _WAITING = 7, 8
_ENDS_OF_MESSAGES: Final = (_MESSAGE, _CLOSED, _TOO_LARGE)
_AGE_JITTER: Final = 0.1
# With more unread bytes than this, the socket is read no further.
_UNREAD_BYTES_MAX: Final = 64 << 10


class Connection(asyncio.Protocol):
    """A client's connection: it gives each call to `begin`, and is in `connections` while open."""

    def __init__(
        self,
        limits: Limits,
        connections: set[Connection],
        begin: Callable[[Call, str, bytes | None], None],
        room: MessageRoom,
    ) -> None:
        self.limits = limits
        self.wire = Wire(
            limits.message_bytes_max,
            limits.metadata_bytes_max,
            limits.streams_max,
            limits.ping_interval_ms,
            limits.ping_strikes_max,
            bool(limits.permits_pings_without_calls),
        )
        self.peer = ""
        self.auth_context: Mapping[str, list[bytes]] = {}
        self._connections = connections
        self._begin = begin
        self._room = room
        # Clients that came together do not all have to come again at once.
        jitter = random.uniform(1 - _AGE_JITTER, 1 + _AGE_JITTER)
        self.age_ms_max = limits.age_ms_max * jitter
        """The age at which the client is asked to end it."""
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._calls: dict[int, Call] = {}
        self._is_flushing = False
        self._is_blocked = False
        self._reads = True
        # Calls whose answers have left HTTP/2, but perhaps not this process.
        self._sent: list[Call] = []
        self._ended: list[tuple[Call, bool]] = []
        self._opened_seconds = self._received_seconds = time.monotonic()
        self._idle_since_seconds = self._opened_seconds
        self._draining_seconds: float | None = None
        self._pinged_seconds: float | None = None

    # What asyncio tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open; with TLS, its handshake is over."""
        # The ones of uvloop have the methods without the base class.
        opened = self._transport = cast("asyncio.Transport", transport)
        self.peer = peer_name(transport.get_extra_info("peername"))
        self.auth_context = _auth_context(transport.get_extra_info("ssl_object"))
        if len(self._connections) >= self.limits.connections_max:
            opened.abort()
            return
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Bytes have arrived."""
        self._received_seconds = time.monotonic()
        self._handle(self.wire.receive(data))
        if self._is_blocked and self._reads and self.wire.unread_bytes() > _UNREAD_BYTES_MAX:
            self._reads = False
            assert self._transport is not None, "it gave these bytes"
            self._transport.pause_reading()
        self.flush_soon()

    def eof_received(self) -> bool:
        """The client sends no more bytes. So its calls cannot be answered as HTTP/2 wants it."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """The socket is closed."""
        self._connections.discard(self)
        self._handle(self.wire.receive(b""))
        self._room.forget(self)
        self._transport = None
        self._is_blocked = False
        for call in list(self._calls.values()):
            self._ended.append((call, True))
        self._calls.clear()
        self._tell_ends()

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        self._is_blocked = True
        self.wire.set_blocked(True)

    def resume_writing(self) -> None:
        """The client has read."""
        self._is_blocked = False
        self.wire.set_blocked(False)
        self._flush()
        if not self._reads and self._transport is not None and not self._is_blocked:
            self._reads = True
            self._transport.resume_reading()

    # What calls ask.

    def want(self, number: int) -> None:
        """Reads one more message of a call."""
        self.wire.want(number)
        self._handle(self.wire.drive())
        self.flush_soon()

    def refuse(self, number: int, refusal: RefusedMessage) -> None:
        """Takes no further message of a call."""
        self.wire.refuse(number)
        call = self._calls.get(number)
        if call is not None:
            call.note_refused(refusal)
        self.flush_soon()

    def send(self, number: int, content: bytes) -> None:
        """Sends a message of a call."""
        self.wire.send(number, content)
        self.flush_soon()

    def flush_soon(self) -> None:
        """Sends what there is, once the other steps of this turn of the loop are done."""
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    # What the server asks.

    @property
    def working(self) -> list[asyncio.Future[None]]:
        """For each call that a handler works on: a future that is done when that work ends."""
        return [
            each.over() if each.task is None else each.task
            for each in self._calls.values()
            if each.task is not None or each.is_joined
        ]

    def drain(self) -> None:
        """Tells the client to make no further calls; the connection ends with its last one."""
        if self._draining_seconds is None:
            self._draining_seconds = time.monotonic()
            self.wire.drain()
            self.flush_soon()

    def abort(self) -> None:
        """Ends the connection and its calls at once."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Ends the connection, behind what was written."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def look(self, now_seconds: float) -> None:
        """Ends the connection if it is too old, idle, dead, or never says what it wants."""
        limits = self.limits
        age_ms = 1000 * (now_seconds - self._opened_seconds)
        if not self.wire.is_open():
            if age_ms > limits.handshake_ms_max:
                self.abort()
            return
        if self._draining_seconds is not None:
            if 1000 * (now_seconds - self._draining_seconds) > limits.age_grace_ms:
                self.abort()
        elif age_ms > self.age_ms_max or (
            not self._calls and 1000 * (now_seconds - self._idle_since_seconds) > limits.idle_ms_max
        ):
            self.drain()
        self._look_for_life(now_seconds)

    def _look_for_life(self, now_seconds: float) -> None:
        """Pings a quiet client, and ends a connection whose client does not answer."""
        if self._pinged_seconds is not None:
            awaits_pong = self.wire.awaits_pong()
            if self._received_seconds >= self._pinged_seconds or not awaits_pong:
                self._pinged_seconds = None
            elif 1000 * (now_seconds - self._pinged_seconds) > self.limits.keepalive_reply_ms_max:
                self.abort()
        elif 1000 * (now_seconds - self._received_seconds) > self.limits.keepalive_ms:
            self._pinged_seconds = now_seconds
            self.wire.ping()
            self.flush_soon()

    # How it works.

    def _flush(self) -> None:
        self._is_flushing = False
        self._handle(self.wire.drive())
        transport = self._transport
        if transport is None:
            return
        leaving = self.wire.leaving()
        if leaving:
            transport.write(leaving)
        if not self._is_blocked:
            self._tell_ends()
        if not self.wire.lives():
            transport.close()

    def _tell_ends(self) -> None:
        """Tells calls what has left, now that the socket has taken it."""
        sent, self._sent = self._sent, []
        for call in sent:
            call.note_sent()
        ended, self._ended = self._ended, []
        for call, is_broken_off in ended:
            call.note_closed(is_broken_off=is_broken_off)

    def _handle(self, events: list[tuple[Any, ...]]) -> None:
        for place, event in enumerate(events):
            kind, number = event[0], event[1]
            if kind == _CALL:
                _, _, path, metadata, timeout_seconds, encoding = event
                call = self._calls[number] = Call(self, number, metadata, timeout_seconds, encoding)
                self._begin(call, path, _message_of(number, events, place + 1))
                continue
            if kind == _BAD_CALL:
                self.wire.finish(
                    number, grpc.StatusCode.INTERNAL.value[0], "bad metadata or grpc-timeout", ()
                )
                continue
            if kind == _WANTS_ROOM:
                self._room.ask(self, number, event[2])
                continue
            if kind == _WAITING:
                self._room.set_window(self, event[2])
                continue
            if self._room.is_used and kind in _ENDS_OF_MESSAGES:
                self._room.end(self, number)
            known = self._calls.get(number)
            if known is None:
                continue
            if kind == _MESSAGE:
                known.note_message(event[3], is_compressed=event[2])
            elif kind == _CLOSED:
                self._note_closed(known, is_broken_off=event[2])
            elif kind == _SENT:
                self._sent.append(known)
            elif kind == _HALF_CLOSED:
                known.note_half_closed()
            elif kind == _TOO_LARGE:
                known.note_refused(too_large(event[2], self.limits.message_bytes_max))

    def _note_closed(self, call: Call, *, is_broken_off: bool) -> None:
        del self._calls[call.number]
        if not self._calls:
            self._idle_since_seconds = time.monotonic()
        if is_broken_off:
            call.note_closed(is_broken_off=True)
        else:
            self._ended.append((call, False))


def _message_of(number: int, events: list[tuple[Any, ...]], place: int) -> bytes | None:
    """The message that came with a call; None if it did not, or is compressed."""
    if place == len(events):
        return None
    event = events[place]
    is_plain = event[0] == _MESSAGE and event[1] == number and not event[2]
    return event[3] if is_plain else None


def _auth_context(found: object) -> Mapping[str, list[bytes]]:
    """The TLS properties of the client, by gRPC's names."""
    certificate = getattr(found, "getpeercert", lambda _: None)(True)
    if found is None:
        return {}
    known = {"transport_security_type": [b"ssl"]}
    if certificate:
        known["x509_pem_cert"] = [ssl.DER_cert_to_PEM_cert(certificate).encode()]
    return known
