"""Makes unary calls at given times, many at once on one connection, with its own HTTP/2.

The loop is open: the latency of a call counts from the time at which it was due, even if it could
not be sent then.
"""

from __future__ import annotations

import math
import selectors
import socket
import struct
import time
from array import array
from typing import TYPE_CHECKING

from benchmarks.harness import http2_load as http2

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SILENCE_S_MAX = 30.0
_TICK_S = 0.1


class OpenCalls:
    """One connection, and the due times of its open calls."""

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
        """Waits for bytes. Returns the due times of the calls that have ended successfully.

        Raises LoadFailed if a call failed.
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
    """Raises LoadFailed if a stream's window is small.

    This module does not track the windows of streams: they must be larger than any message here.
    """
    for name, value in struct.iter_unpack(">HI", settings):
        if name == http2.INITIAL_WINDOW_SIZE and value < http2.WINDOW_DEFAULT:
            raise http2.LoadFailed(f"the server's streams have a window of only {value} bytes")


class Caller:
    """Makes calls over some connections, and notes their latencies."""

    def __init__(self, connections: Sequence[OpenCalls]) -> None:
        self.connections = connections
        self.latencies = array("d")  # Latencies in seconds, in the order of the answers.

    @property
    def next_due(self) -> float:
        """The time of the next call, by the performance counter.

        It is infinite if the next call must wait for an answer.
        """
        raise NotImplementedError

    def send_due(self) -> None:
        """Sends the calls that are due, if the connections have room for them."""
        raise NotImplementedError

    def take_answers(self, connection: OpenCalls) -> None:
        """Waits for bytes on one of the connections."""
        due = connection.take_answers()
        now = time.perf_counter()
        self.latencies.extend(now - each for each in due)


class Schedule(Caller):
    """Repeats the same calls, evenly spread over a period."""

    def __init__(
        self, connections: Sequence[OpenCalls], messages: Sequence[bytes], *, period_s: float
    ) -> None:
        super().__init__(connections)
        # How late calls were sent, in seconds: the delay that the caller itself adds.
        self.lateness = array("d")
        self._messages = messages
        self._interval_s = period_s / len(messages)
        self._started = time.perf_counter()
        self._sent = 0

    @property
    def next_due(self) -> float:
        return self._started + self._sent * self._interval_s

    def send_due(self) -> None:
        while (due := self.next_due) <= time.perf_counter():
            # A message always uses the same connection.
            number = self._sent % len(self._messages)
            connection = self.connections[number % len(self.connections)]
            if not connection.call(self._messages[number], due):
                return
            self.lateness.append(time.perf_counter() - due)
            self._sent += 1


class OneByOne(Caller):
    """Makes one call after the other: each begins after the answer to the one before."""

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
    """Lets all callers call for `seconds`, then waits for the missing answers."""
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
