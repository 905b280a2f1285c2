"""A load generator with little overhead: it implements HTTP/2 itself, to measure only the server.

It implements just enough of HTTP/2 and gRPC to call one method with many messages. It checks every
answer: a failed call has no message, and the results of a stream are counted one by one.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from array import array
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import attrs

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Iterator

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
INITIAL_WINDOW_SIZE = 4
_WINDOW_MAX = 2**31 - 1
WINDOW_DEFAULT = 65_535
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FRAME_BYTES_MAX: Final = 16_384  # The largest frame of HTTP/2, unless the server says another.
_SILENCE_SECONDS_MAX = 30.0
FRAME_HEADER = struct.Struct(">IBI")  # Length (24 bits) and kind, flags, stream.
# The headers after the server's table has them: two static entries, and the newest four.
INDEXED_HEADERS = b"\x83\x86\xc1\xc0\xbf\xbe"


class LoadFailed(Exception):
    """The server answered with an error, or did not answer."""


class TlsAddress(NamedTuple):
    """An address at which TLS is spoken. Each connection takes the next context."""

    host: str
    port: int
    contexts: Iterator[ssl.SSLContext]


Address: TypeAlias = tuple[str, int] | TlsAddress


def frame(kind: int, flags: int, stream_id: int, payload: bytes) -> bytes:
    """One HTTP/2 frame."""
    return FRAME_HEADER.pack(len(payload) << 8 | kind, flags, stream_id) + payload


# The first bytes of a client. They announce large windows, so that the server never waits for one.
OPENING = (
    _PREFACE
    + frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, _WINDOW_MAX))
    + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", _WINDOW_MAX - WINDOW_DEFAULT))
)


def grpc_message(message: bytes) -> bytes:
    """A message in the encoding of DATA frames."""
    return struct.pack(">BI", 0, len(message)) + message


def result_sequences(message: bytes) -> list[int]:
    """The sequences in a StreamCommitsResponse. Raises LoadFailed if a commit failed."""
    position, sequences = 0, []
    while position < len(message):
        end = position + 2 + message[position + 1]
        if message[position] != 0x0A or message[position + 1] > 0x7F:
            raise LoadFailed("a result longer than a success is")
        position += 2
        sequence = 0
        if message[position] == 0x08:  # The sequence, a varint; absent if 0.
            position, shift = position + 1, 0
            while message[position] & 0x80:
                sequence |= (message[position] & 0x7F) << shift
                position, shift = position + 1, shift + 7
            sequence |= message[position] << shift
            position += 1
        if message[position] != 0x12:
            raise LoadFailed("a commit failed")
        position = end
        sequences.append(sequence)
    return sequences


def literal_headers(path: str) -> bytes:
    """The headers of a connection's first call. The server's table keeps them (RFC 7541)."""

    def text(value: str) -> bytes:
        return bytes([len(value)]) + value.encode()

    return (
        b"\x83\x86"  # POST, http
        + (b"\x44" + text(path))
        + (b"\x41" + text("localhost"))
        + (b"\x40" + text("te") + text("trailers"))
        + (b"\x5f" + text("application/grpc"))
    )


class Connection:
    """A client connection with one open call at a time, always of the same method."""

    def __init__(self, address: Address, path: str) -> None:
        self.socket = socket.create_connection(address[:2], timeout=_SILENCE_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if isinstance(address, TlsAddress):
            context = next(address.contexts)
            self.socket = context.wrap_socket(self.socket, server_hostname=address.host)
        self.socket.sendall(OPENING)
        self._headers = literal_headers(path)
        self._stream_id = -1
        self._unparsed = b""
        self._unread = bytearray()
        self._window = self._stream_window = self._initial_window = WINDOW_DEFAULT
        self.ended = False

    def open_call(self) -> bytes:
        """The frame that opens the next call. The caller must send it."""
        self._stream_id += 2
        self._stream_window = self._initial_window
        self.ended = False
        block, self._headers = self._headers, INDEXED_HEADERS
        return frame(HEADERS, END_HEADERS, self._stream_id, block)

    def may_send(self, size: int) -> bool:
        """Whether the server's flow control now allows `size` bytes of messages."""
        return size <= self._window and size <= self._stream_window

    def messages_frame(self, payload: bytes, *, end: bool = False) -> bytes:
        """The frame that carries whole messages. The caller must send it."""
        self._window -= len(payload)
        self._stream_window -= len(payload)
        return frame(DATA, END_STREAM if end else 0, self._stream_id, payload)

    def receive(self) -> list[bytes]:
        """Waits for bytes from the server; returns the messages that are complete."""
        received = self.socket.recv(1 << 18)
        if not received:
            raise LoadFailed("the server closed the connection")
        buffer = self._unparsed + received
        position, size = 0, len(buffer)
        while size - position >= 9:
            length_kind, flags, stream_id = FRAME_HEADER.unpack_from(buffer, position)
            length, kind = length_kind >> 8, length_kind & 0xFF
            if size - position - 9 < length:
                break
            position += 9
            self._take(kind, flags, stream_id, buffer[position : position + length])
            position += length
        self._unparsed = buffer[position:]
        return list(self._messages())

    def _take(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if kind == DATA:
            self._unread += payload
        elif kind == HEADERS:
            self.ended = self.ended or bool(flags & END_STREAM)
        elif kind == WINDOW_UPDATE and stream_id == 0:
            self._window += int.from_bytes(payload, "big")
        elif kind == WINDOW_UPDATE and stream_id == self._stream_id:
            self._stream_window += int.from_bytes(payload, "big")
        elif kind == SETTINGS and not flags & ACK:
            for name, value in struct.iter_unpack(">HI", payload):
                if name == INITIAL_WINDOW_SIZE:
                    self._stream_window += value - self._initial_window
                    self._initial_window = value
            self.socket.sendall(frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            self.socket.sendall(frame(PING, ACK, 0, payload))
        elif kind in (RST_STREAM, GOAWAY):
            raise LoadFailed(f"the server ended the call: frame {kind}, {payload!r}")

    def _messages(self) -> Iterator[bytes]:
        while len(self._unread) >= 5:
            end = 5 + int.from_bytes(self._unread[1:5], "big")
            if len(self._unread) < end:
                return
            yield bytes(self._unread[5:end])
            del self._unread[:end]


def unary_rate(
    address: Address,
    path: str,
    messages: Iterable[bytes],
    *,
    connections: int,
    seconds: float,
) -> float:
    """Calls a second, with one call in flight on each connection. `messages` must be endless."""
    source = iter(messages)
    selector = selectors.DefaultSelector()
    for _ in range(connections):
        connection = Connection(address, path)
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        _send_call(connection, next(source))
    done, answered = 0, 0
    warm_until = time.perf_counter() + seconds / 4
    started, end = 0.0, warm_until + seconds
    while (now := time.perf_counter()) < end:
        if not started and now >= warm_until:
            started, done = now, 0
        for key, _ in _ready(selector):
            connection = key.data
            answered += len(connection.receive())
            if connection.ended:
                done += 1
                answered -= 1
                if answered < -connections:
                    raise LoadFailed("a call failed")
                _send_call(connection, next(source))
    elapsed = time.perf_counter() - started
    _close(selector)
    return done / elapsed


def unary_latencies(
    address: Address, path: str, messages: Iterable[bytes], *, calls: int
) -> list[float]:
    """The seconds of each of `calls` calls, one after the other on one connection."""
    connection = Connection(address, path)
    latencies = []
    for _, message in zip(range(calls), messages, strict=False):
        start = time.perf_counter()
        _send_call(connection, message)
        answers = 0
        while not connection.ended:
            answers += len(connection.receive())
        latencies.append(time.perf_counter() - start)
        if answers != 1:
            raise LoadFailed("a call failed")
    connection.socket.close()
    return latencies


def stream_rate(
    address: Address,
    path: str,
    messages: Iterable[bytes],
    *,
    streams: int,
    window: int,
    seconds: float,
    counted: bool,
) -> float:
    """Messages answered a second, with `window` unanswered on each of `streams` streams.

    With `counted`, an answer holds results, each for one message. Otherwise each message has an
    answer.
    """
    source = iter(messages)
    selector = selectors.DefaultSelector()
    credit: dict[Connection, int] = {}
    for _ in range(streams):
        connection = Connection(address, path)
        connection.socket.sendall(connection.open_call())
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        credit[connection] = window
    waiting: dict[Connection, deque[bytes]] = {connection: deque() for connection in credit}
    done = 0
    warm_until = time.perf_counter() + seconds / 4
    started, end = 0.0, warm_until + seconds
    while (now := time.perf_counter()) < end:
        if not started and now >= warm_until:
            started, done = now, 0
        for connection, free in credit.items():
            queue = waiting[connection]
            queue.extend(grpc_message(next(source)) for _ in range(free))
            credit[connection] = 0
            _send_waiting(connection, queue)
        for key, _ in _ready(selector):
            answers = key.data.receive()
            if key.data.ended:
                raise LoadFailed("the server ended a stream")
            count = (
                sum(len(result_sequences(answer)) for answer in answers)
                if counted
                else len(answers)
            )
            done += count
            credit[key.data] += count
    elapsed = time.perf_counter() - started
    _close(selector)
    return done / elapsed


def coalesced_rate(
    address: Address,
    path: str,
    commit_of: Callable[[int], bytes],
    *,
    callers: int,
    streams: int,
    seconds: float,
) -> float:
    """Commits a second of callers in a closed loop: a message has the commits of all that wait.

    `commit_of` gives the StreamCommitsRequest with a caller's next commit, whose sequence is the
    caller's number.
    """
    selector = selectors.DefaultSelector()
    waiting: dict[Connection, list[int]] = {}
    for number in range(streams):
        connection = Connection(address, path)
        connection.socket.sendall(connection.open_call())
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        waiting[connection] = list(range(number, callers, streams))
    done = 0
    warm_until = time.perf_counter() + seconds / 4
    started, end = 0.0, warm_until + seconds
    while (now := time.perf_counter()) < end:
        if not started and now >= warm_until:
            started, done = now, 0
        for connection, numbers in waiting.items():
            message = grpc_message(b"".join(map(commit_of, numbers)))
            if numbers and connection.may_send(len(message)):
                steps = range(0, len(message), _FRAME_BYTES_MAX)
                pieces = (message[step : step + _FRAME_BYTES_MAX] for step in steps)
                connection.socket.sendall(b"".join(map(connection.messages_frame, pieces)))
                waiting[connection] = []
        for key, _ in _ready(selector):
            for answer in key.data.receive():
                answered = result_sequences(answer)
                done += len(answered)
                waiting[key.data] += answered
    elapsed = time.perf_counter() - started
    _close(selector)
    return done / elapsed


@attrs.frozen(kw_only=True)
class Latencies:
    """Commits in the order of their answers."""

    ended: array[float]  # Times by the wall clock, in seconds since 1970.
    seconds: array[float]  # The seconds from the sending to the answer.


def stream_latencies(
    address: Address,
    path: str,
    messages: Iterable[tuple[int, bytes]],
    *,
    streams: int,
    window: int,
    seconds: float,
) -> Latencies:
    """Sends as `stream_rate` does, and returns the latency of each commit.

    A message holds one commit and comes with its sequence. A sequence must not be sent again in a
    stream before it is answered.
    """
    source = iter(messages)
    selector = selectors.DefaultSelector()
    calls = [_StreamOfCommits(Connection(address, path), window) for _ in range(streams)]
    for call in calls:
        call.connection.socket.sendall(call.connection.open_call())
        selector.register(call.connection.socket, selectors.EVENT_READ, call)
    latencies = Latencies(ended=array("d"), seconds=array("d"))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for call in calls:
            call.send(source)
        for key, _ in _ready(selector):
            key.data.take_answers(latencies)
    _close(selector)
    return latencies


class _StreamOfCommits:
    """A stream, and the sending times of its unanswered commits, by sequence."""

    def __init__(self, connection: Connection, window: int) -> None:
        self.connection = connection
        self._free = window
        self._sent: dict[int, float] = {}
        self._waiting: deque[bytes] = deque()

    def send(self, source: Iterator[tuple[int, bytes]]) -> None:
        """Sends as many messages as the window allows."""
        now = time.perf_counter()
        for _ in range(self._free):
            sequence, message = next(source)
            self._sent[sequence] = now
            self._waiting.append(grpc_message(message))
        self._free = 0
        _send_waiting(self.connection, self._waiting)

    def take_answers(self, latencies: Latencies) -> None:
        """Waits for answers, and notes their latencies."""
        answers = self.connection.receive()
        if self.connection.ended:
            raise LoadFailed("the server ended a stream")
        now, wall = time.perf_counter(), time.time()
        for answer in answers:
            for sequence in result_sequences(answer):
                latencies.ended.append(wall)
                latencies.seconds.append(now - self._sent.pop(sequence))
                self._free += 1


def _send_call(connection: Connection, message: bytes) -> None:
    opening = connection.open_call()
    connection.socket.sendall(opening + connection.messages_frame(grpc_message(message), end=True))


def _send_waiting(connection: Connection, queue: deque[bytes]) -> None:
    """Sends one frame for each message, all in one call to the kernel."""
    frames = []
    while queue and connection.may_send(len(queue[0])):
        frames.append(connection.messages_frame(queue.popleft()))
    if frames:
        connection.socket.sendall(b"".join(frames))


def _ready(selector: selectors.BaseSelector) -> list[tuple[selectors.SelectorKey, int]]:
    ready = selector.select(_SILENCE_SECONDS_MAX)
    if not ready:
        raise LoadFailed("the server is silent")
    return ready


def _close(selector: selectors.BaseSelector) -> None:
    for key in list(selector.get_map().values()):
        connection = getattr(key.data, "connection", key.data)
        connection.socket.close()
    selector.close()
