"""Unary calls that are due at given times, many open at once on one connection, HTTP/2 by hand.

The loop is open: a call that could not be sent when it was due counts from when it was due.
"""

from __future__ import annotations

import math
import selectors
import socket
import struct
import time
from array import array
from typing import TYPE_CHECKING

from benchmarks import http2_load as http2

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SILENCE_S_MAX = 30.0
_TICK_S = 0.1


class OpenCalls:
    """One connection, and when the calls that are open on it were due."""

    def __init__(self, address: tuple[str, int], path: str) -> None:
        self.socket = socket.create_connection(address, timeout=_SILENCE_S_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(http2.OPENING)
        self.due: dict[int, float] = {}
        self._answered: set[int] = set()
        self._headers = http2.literal_headers(path)
        self._stream_id = -1
        self._window = http2.WINDOW_DEFAULT
        self._unparsed = b""

    def call(self, message: bytes, due: float) -> bool:
        """Sends a call, unless flow control has no room for it now."""
        payload = http2.grpc_message(message)
        if len(payload) > self._window:
            return False
        self._window -= len(payload)
        self._stream_id += 2
        self.due[self._stream_id] = due
        block, self._headers = self._headers, http2.INDEXED_HEADERS
        self.socket.sendall(
            http2.frame(http2.HEADERS, http2.END_HEADERS, self._stream_id, block)
            + http2.frame(http2.DATA, http2.END_STREAM, self._stream_id, payload)
        )
        return True

    def take_answers(self) -> list[float]:
        """Waits for bytes; returns when the calls were due that have ended now, all with success.

        LoadFailed if one failed.
        """
        received = self.socket.recv(1 << 18)
        if not received:
            raise http2.LoadFailed("the server closed the connection")
        buffer = self._unparsed + received
        position, ended = 0, []
        while len(buffer) - position >= http2.FRAME_HEADER.size:
            length_kind, flags, stream_id = http2.FRAME_HEADER.unpack_from(buffer, position)
            begin = position + http2.FRAME_HEADER.size
            end = begin + (length_kind >> 8)
            if len(buffer) < end:
                break
            if (due := self._take(length_kind & 0xFF, flags, stream_id, buffer[begin:end])) >= 0:
                ended.append(due)
            position = end
        self._unparsed = buffer[position:]
        return ended

    def _take(self, kind: int, flags: int, stream_id: int, payload: bytes) -> float:
        if kind == http2.DATA:
            self._answered.add(stream_id)
        elif kind == http2.HEADERS and flags & http2.END_STREAM:
            if stream_id not in self._answered:
                raise http2.LoadFailed("a call failed")
            self._answered.remove(stream_id)
            return self.due.pop(stream_id)
        elif kind == http2.WINDOW_UPDATE and stream_id == 0:
            self._window += int.from_bytes(payload, "big")
        elif kind == http2.SETTINGS and not flags & http2.ACK:
            _refuse_small_windows(payload)
            self.socket.sendall(http2.frame(http2.SETTINGS, http2.ACK, 0, b""))
        elif kind == http2.PING and not flags & http2.ACK:
            self.socket.sendall(http2.frame(http2.PING, http2.ACK, 0, payload))
        elif kind in (http2.RST_STREAM, http2.GOAWAY):
            raise http2.LoadFailed(f"the server ended a call: frame {kind}, {payload!r}")
        return -1.0


def _refuse_small_windows(settings: bytes) -> None:
    """Of a stream's window nobody keeps count: it is larger than any message here."""
    for name, value in struct.iter_unpack(">HI", settings):
        if name == http2.INITIAL_WINDOW_SIZE and value < http2.WINDOW_DEFAULT:
            raise http2.LoadFailed(f"the server's streams have a window of only {value} bytes")


class Caller:
    """Who calls over some connections, and how long the calls took."""

    def __init__(self, connections: Sequence[OpenCalls]) -> None:
        self.connections = connections
        self.latencies = array("d")  # In seconds, in the order of the answers.

    @property
    def next_due(self) -> float:
        """By the performance counter; infinite while there is an answer to wait for."""
        raise NotImplementedError

    def send_due(self) -> None:
        """Sends what is due, as far as the connections take it."""
        raise NotImplementedError

    def take_answers(self, connection: OpenCalls) -> None:
        """Waits for bytes on one of the connections."""
        due = connection.take_answers()
        now = time.perf_counter()
        self.latencies.extend(now - each for each in due)


class Schedule(Caller):
    """The same calls over and over, evenly spread over a period."""

    def __init__(
        self, connections: Sequence[OpenCalls], messages: Sequence[bytes], *, period_s: float
    ) -> None:
        super().__init__(connections)
        self.lateness = array("d")  # In seconds, of the sending: what the caller itself adds.
        self._messages = messages
        self._interval_s = period_s / len(messages)
        self._started = time.perf_counter()
        self._sent = 0

    @property
    def next_due(self) -> float:
        return self._started + self._sent * self._interval_s

    def send_due(self) -> None:
        while (due := self.next_due) <= time.perf_counter():
            # Always the same connection for a message.
            number = self._sent % len(self._messages)
            connection = self.connections[number % len(self.connections)]
            if not connection.call(self._messages[number], due):
                return
            self.lateness.append(time.perf_counter() - due)
            self._sent += 1


class OneByOne(Caller):
    """One call after the other, each once the one before is answered."""

    def __init__(self, connection: OpenCalls, messages: Iterator[bytes]) -> None:
        super().__init__([connection])
        self._messages = messages

    @property
    def next_due(self) -> float:
        return math.inf if self.connections[0].due else time.perf_counter()

    def send_due(self) -> None:
        connection = self.connections[0]
        if not connection.due:
            connection.call(next(self._messages), time.perf_counter())


def run(callers: Sequence[Caller], *, seconds: float) -> None:
    """Lets all of them call for so long, then waits for the answers that are still due."""
    with selectors.DefaultSelector() as selector:
        for caller in callers:
            for connection in caller.connections:
                selector.register(connection.socket, selectors.EVENT_READ, (caller, connection))
        heard = time.perf_counter()
        end = heard + seconds
        while (now := time.perf_counter()) < end or _is_any_open(callers):
            if now - heard > _SILENCE_S_MAX:
                raise http2.LoadFailed("the server is silent")
            wake = now + _TICK_S
            if now < end:
                for caller in callers:
                    caller.send_due()
                wake = min(wake, *(caller.next_due for caller in callers))
            for key, _ in selector.select(max(0.0, wake - time.perf_counter())):
                caller, connection = key.data
                caller.take_answers(connection)
                heard = time.perf_counter()


def _is_any_open(callers: Sequence[Caller]) -> bool:
    return any(connection.due for caller in callers for connection in caller.connections)
