"""HTTP/2 by hand, for what no gRPC client would send."""

from __future__ import annotations

import select
import socket
import struct

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
CONTINUATION = 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1
INITIAL_WINDOW_SIZE = 4
_SECONDS_MAX = 60
_AT_ONCE_SECONDS = 0.0001
_WINDOW_DEFAULT = 65_535
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FRAME = struct.Struct(">IBI")  # Length (24 bits) and kind, flags, stream.


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """One frame."""
    return _FRAME.pack(len(payload) << 8 | kind, flags, stream_id) + payload


def header(name: str, value: str) -> bytes:
    """A header that no table keeps."""

    def text(part: str) -> bytes:
        encoded = part.encode()
        assert len(encoded) < 127, "longer ones need an integer of several bytes"
        return bytes([len(encoded)]) + encoded

    return b"\0" + text(name) + text(value)


def call_headers(path: str, **others: str) -> bytes:
    """The headers of a gRPC call; underscores stand for dashes."""
    fixed = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "localhost",
        "te": "trailers",
        "content-type": "application/grpc",
    }
    named = {name.replace("_", "-"): value for name, value in others.items()}
    return b"".join(header(name, value) for name, value in {**fixed, **named}.items())


def grpc_message(message: bytes) -> bytes:
    """A message as it stands in DATA frames."""
    return struct.pack(">BI", 0, len(message)) + message


class RawConnection:
    """A connection that has sent its preface. It takes answers of `window` bytes for each call."""

    def __init__(self, address: str, *, window: int = _WINDOW_DEFAULT) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=_SECONDS_MAX)
        settings = struct.pack(">HI", INITIAL_WINDOW_SIZE, window)
        self.socket.sendall(_PREFACE + frame(SETTINGS, 0, 0, settings))
        self.windows = {0: _WINDOW_DEFAULT}
        """What the server still takes: of the connection (0), and of each call."""
        self._window_of_calls = _WINDOW_DEFAULT
        self._unread = b""

    def open_call(self, stream_id: int, headers: bytes) -> None:
        """Sends the headers of a call."""
        self.windows[stream_id] = self._window_of_calls
        self.send(frame(HEADERS, END_HEADERS, stream_id, headers))

    def send_message(self, stream_id: int, message: bytes, *, end: bool = False) -> None:
        """Sends a message, of a size that the server takes now."""
        self.send_part(stream_id, grpc_message(message), end=end)

    def send_part(self, stream_id: int, payload: bytes, *, end: bool = False) -> None:
        """Sends a part of a message, of a size that the server takes now."""
        for each in (0, stream_id):
            self.windows[each] -= len(payload)
        self.send(frame(DATA, END_STREAM if end else 0, stream_id, payload))

    def send(self, *frames: bytes) -> None:
        """Sends frames in one piece."""
        self.socket.sendall(b"".join(frames))

    def wait_for_room(self, stream_id: int, size: int, seconds: float) -> bool:
        """Whether the server takes `size` more bytes, at the latest after `seconds` of silence."""
        self.socket.settimeout(seconds)
        try:
            while min(self.windows[0], self.windows[stream_id]) < size:
                self._receive_frame()
        except TimeoutError:
            return False
        finally:
            self.socket.settimeout(_SECONDS_MAX)
        return True

    def take_frames(self, seconds: float) -> bool:
        """Takes what the server has sent; whether there was anything after so many seconds."""
        self.socket.settimeout(seconds or _AT_ONCE_SECONDS)
        taken = False
        try:
            while True:
                self._receive_frame()
                taken = True
                self.socket.settimeout(_AT_ONCE_SECONDS)
        except TimeoutError:
            return taken
        finally:
            self.socket.settimeout(_SECONDS_MAX)

    def is_gone(self, seconds: float) -> bool:
        """Whether the server has hung up, at the latest after so many seconds."""
        poll = select.poll()
        poll.register(self.socket, select.POLLRDHUP)
        return bool(poll.poll(seconds * 1000))

    def wait_for_end(self, stream_id: int) -> bytes:
        """All header blocks of a call, once it has ended or was reset."""
        blocks = b""
        while True:
            kind, flags, stream, payload = self._receive_frame()
            if stream != stream_id:
                continue
            if kind == HEADERS:
                blocks += payload
            if kind == RST_STREAM or (kind in (HEADERS, DATA) and flags & END_STREAM):
                return blocks

    def wait_for_reset(self, stream_id: int) -> int:
        """The code with which the server resets a call."""
        while True:
            kind, _, stream, payload = self._receive_frame()
            if stream == stream_id and kind == RST_STREAM:
                return int.from_bytes(payload)

    def wait_for_go_away(self) -> tuple[int, bytes]:
        """The code and the text with which the server ends the connection."""
        while True:
            kind, _, _, payload = self._receive_frame()
            if kind == GOAWAY and (code := int.from_bytes(payload[4:8])):
                return code, payload[8:]

    def close(self) -> None:
        """Hangs up."""
        self.socket.close()

    def _receive_frame(self) -> tuple[int, int, int, bytes]:
        while True:
            if len(self._unread) >= _FRAME.size:
                length_kind, flags, stream_id = _FRAME.unpack_from(self._unread)
                end = _FRAME.size + (length_kind >> 8)
                if len(self._unread) >= end:
                    payload, self._unread = self._unread[_FRAME.size : end], self._unread[end:]
                    self._note(length_kind & 0xFF, flags, stream_id, payload)
                    return length_kind & 0xFF, flags, stream_id, payload
            received = self.socket.recv(65_536)
            if not received:
                raise ConnectionError("the server closed the connection")
            self._unread += received

    def _note(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if kind == WINDOW_UPDATE and stream_id in self.windows:
            self.windows[stream_id] += int.from_bytes(payload)
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, payload))
        elif kind == SETTINGS and not flags & ACK:
            for name, value in struct.iter_unpack(">HI", payload):
                if name == INITIAL_WINDOW_SIZE:
                    for each in self.windows.keys() - {0}:
                        self.windows[each] += value - self._window_of_calls
                    self._window_of_calls = value
            self.send(frame(SETTINGS, ACK, 0))
