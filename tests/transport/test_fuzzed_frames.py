"""Sessions of real clients, with damage: the codec neither panics nor keeps a stream.

`OFFSETD_FUZZ_SECONDS=600` lets it look for longer. `OFFSETD_NIGHTLY` does so, too.
"""

from __future__ import annotations

import os
import random
import struct
import time
from typing import TYPE_CHECKING, Any, Final

import pytest
from chance import session_seed
from raw_http2 import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    call_headers,
    frame,
    grpc_message,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_wire = pytest.importorskip("offsetd_wire._wire", reason="offsetd-wire is not installed")

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_PRIORITY: Final = 2
_MESSAGE_BYTES_MAX: Final = 10_000
_CALL, _MESSAGE, _TOO_LARGE, _, _, _CLOSED, _BAD_CALL, _WANTS_ROOM, _WAITING = range(9)
SECONDS: Final = float(
    os.environ.get("OFFSETD_FUZZ_SECONDS", "600" if os.environ.get("OFFSETD_NIGHTLY") else "3")
)


def _sessions() -> list[list[bytes]]:
    """Frames of valid sessions, one list each."""
    opened = [_PREFACE, frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 1 << 20))]
    headers = call_headers("/test.Echo/Unary", grpc_timeout="5S", x_bin="AAEC")
    split = [frame(HEADERS, 0, 1, headers[:40]), frame(CONTINUATION, END_HEADERS, 1, headers[40:])]
    message = grpc_message(bytes(range(256)) * 8)
    parts = [message[each : each + 300] for each in range(0, len(message), 300)]
    calls = [
        part
        for each in range(1, 21, 2)
        for part in (
            frame(HEADERS, END_HEADERS, each, headers),
            frame(DATA, END_STREAM, each, grpc_message(b"x" * each)),
        )
    ]
    streamed = [
        frame(HEADERS, END_HEADERS, 1, headers),
        *(frame(DATA, 0, 1, part) for part in parts),
        frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 1000)),
        frame(DATA, END_STREAM, 1, grpc_message(b"")),
    ]
    many = [frame(DATA, 0, 1, grpc_message(bytes(9000))) for _ in range(20)]
    control = [
        frame(SETTINGS, ACK, 0),
        frame(PING, 0, 0, bytes(8)),
        frame(PING, ACK, 0, bytes(8)),
        frame(_PRIORITY, 0, 3, struct.pack(">IB", 0, 16)),
        frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 70_000)),
        frame(99, 0, 5, b"unknown"),
        frame(RST_STREAM, 0, 1, struct.pack(">I", 8)),
        frame(GOAWAY, 0, 0, struct.pack(">II", 0, 0)),
    ]
    begun = frame(HEADERS, END_HEADERS, 1, headers)
    unended = [frame(DATA, 0, 1, struct.pack(">BI", 1, 5000) + bytes(40))]
    return [
        opened + calls,
        opened + streamed + control,
        opened + split + [frame(DATA, END_STREAM, 1, message)] + control,
        [*opened, begun, *many, *control],
        [*opened, begun, *unended, *control[:5], *calls[2:]],
    ]


SESSIONS: Final = _sessions()


def _drop(frames: list[bytes], chance: random.Random) -> None:
    del frames[chance.randrange(len(frames))]


def _repeat(frames: list[bytes], chance: random.Random) -> None:
    frames.insert(chance.randrange(len(frames)), chance.choice(frames))


def _swap(frames: list[bytes], chance: random.Random) -> None:
    first, second = (chance.randrange(len(frames)) for _ in range(2))
    frames[first], frames[second] = frames[second], frames[first]


def _cross(frames: list[bytes], chance: random.Random) -> None:
    frames.insert(chance.randrange(len(frames)), chance.choice(chance.choice(SESSIONS)))


def _change(frames: list[bytes], chance: random.Random) -> None:
    place = chance.randrange(len(frames))
    changed = bytearray(frames[place])
    for _ in range(chance.randint(1, 4)):
        if changed:
            changed[chance.randrange(len(changed))] = chance.choice((0, 1, 127, 128, 255)) ^ (
                chance.randrange(256) if chance.random() < 0.5 else 0
            )
    frames[place] = bytes(changed)


def _head(frames: list[bytes], chance: random.Random) -> None:
    """Another kind, flags or stream, with the size as it is."""
    place = chance.randrange(len(frames))
    whole = frames[place]
    if len(whole) >= 9:
        flags = chance.choice((0, 1, 4, 5, 8, 32, 40, 255))
        kind, stream = chance.randrange(12), chance.choice((0, 1, 2, 3, 5, 1 << 31 | 1, 2**31 - 1))
        frames[place] = whole[:3] + struct.pack(">BBI", kind, flags, stream) + whole[9:]


def _resize(frames: list[bytes], chance: random.Random) -> None:
    place = chance.randrange(len(frames))
    size = chance.randrange(len(frames[place]) + 1)
    frames[place] = frames[place][:size] + chance.randbytes(chance.randrange(20))


CHANGES: Final[tuple[Callable[[list[bytes], random.Random], None], ...]] = (
    _drop,
    _repeat,
    _swap,
    _cross,
    _change,
    _head,
    _resize,
)


def damaged(chance: random.Random) -> bytes:
    """One session, with some damage."""
    frames = list(chance.choice(SESSIONS))
    for _ in range(chance.randint(0, 5)):
        if frames:
            chance.choice(CHANGES)(frames, chance)
    return b"".join(frames)


class Handlers:
    """Answers calls in every way that the server does, as chance has it."""

    def __init__(self, wire: Any, chance: random.Random) -> None:
        self.open: set[int] = set()
        self._wire = wire
        self._chance = chance

    def take(self, events: list[tuple[Any, ...]]) -> None:
        """Does what the server does with events."""
        for event in events:
            kind, number = event[:2]
            if kind in (_CALL, _BAD_CALL):
                self.open.add(number)
            if kind == _CLOSED:
                self.open.discard(number)
            elif kind == _WANTS_ROOM and self._chance.random() < 0.7:
                self._wire.give_room(number)
            elif kind == _WAITING:
                self._wire.widen(event[2])

    def act(self) -> None:
        """Does something for one call, which may be over."""
        wire, number = self._wire, self._chance.randint(1, 12)
        acts: tuple[Callable[[], object], ...] = (
            lambda: wire.want(number),
            lambda: wire.send(number, bytes(self._chance.choice((0, 10, 100_000)))),
            lambda: wire.answer(number, b"answer"),
            lambda: wire.finish(number, 5, "no\u2603", [("why-bin", b"\x00")]),
            lambda: wire.set_initial_metadata(number, [("a", b"b")]),
            lambda: wire.open(number),
            lambda: wire.give_room(number),
            lambda: wire.refuse(number),
            wire.ping,
            wire.awaits_pong,
            wire.drain,
            lambda: wire.set_blocked(self._chance.random() < 0.5),
            wire.leaving,
        )
        self._chance.choice(acts)()


def endure(session: bytes, chance: random.Random) -> None:
    """Gives a session to the codec in parts, while handlers act; then the client hangs up."""
    wire = _wire.Wire(_MESSAGE_BYTES_MAX, 16_384, 8, 10_000, 2, True)
    handlers = Handlers(wire, chance)
    place = 0
    while place < len(session):
        size = chance.choice((1, 9, 50, 1000, 100_000))
        handlers.take(wire.receive(session[place : place + size]))
        place += size
        for _ in range(chance.randrange(4)):
            handlers.act()
        handlers.take(wire.drive())
    wire.set_blocked(False)
    handlers.take(wire.receive(b""))
    handlers.take(wire.drive())
    assert not wire.lives()
    assert not handlers.open, "calls were not told that they are over"


def test_damaged_sessions_neither_panic_nor_leave_a_call() -> None:
    seed = session_seed()
    until_seconds = time.monotonic() + SECONDS
    count = 0
    while time.monotonic() < until_seconds:
        chance = random.Random(f"{seed} {count}")
        session = damaged(chance)
        try:
            endure(session, chance)
        except BaseException as error:  # A panic of Rust is no Exception.
            raise AssertionError(f"seed {seed}, input {count}: {session!r}") from error
        count += 1
    print(f"{count} inputs")
    assert count > 100
