"""Programs that try to make a server hold memory: what they send is allowed, but never ends.

Each opens its connections, does its harm with as many threads, and holds the connections open
until it is closed. None of them answers for what the server does with it: connections may be cut
at any time.
"""

from __future__ import annotations

import contextlib
import struct
import threading
from functools import partial
from typing import TYPE_CHECKING, Self

from offsetd.v1 import offset_service_pb2
from raw_http2 import (
    RawConnection,
    call_headers,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

FETCH_PATH = "/offsetd.v1.OffsetService/FetchOffsets"
HISTORY_PATH = "/offsetd.v1.OffsetService/ListOffsetHistory"
COMMIT_PATH = "/offsetd.v1.OffsetService/CommitOffsets"
_FRAME_BYTES = 16_384
_SILENCE_SECONDS = 1.0


class Attack:
    """Connections that all do the same, again and again if they are cut, until it is closed."""

    def __init__(
        self,
        address: str,
        connections: int,
        program: Callable[[RawConnection], None],
        connect: Callable[[str], RawConnection] | None = None,
    ) -> None:
        self.cuts = 0
        self._connect = connect or partial(RawConnection, window=0)
        self._address = address
        self._program = program
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._attack, daemon=True) for _ in range(connections)
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(60)

    def _attack(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(OSError):
                connection = self._connect(self._address)
                with contextlib.closing(connection):
                    self._program(connection)
                    # Nothing is read any more; only that the connection is gone is noticed.
                    while not self._ended.is_set() and not connection.is_gone(0.05):
                        pass
            self.cuts += 1
            self._ended.wait(0.01)


def never_read(path: str, message: bytes, calls: int) -> Callable[[RawConnection], None]:
    """Asks, and has a window of 0 for the answers."""

    def program(connection: RawConnection) -> None:
        for number in range(calls):
            stream_id = 2 * number + 1
            connection.open_call(stream_id, call_headers(path))
            connection.send_message(stream_id, message, end=True)

    return program


def never_ended(path: str, claimed: int, sent: int, calls: int) -> Callable[[RawConnection], None]:
    """Begins a message of `claimed` bytes in each call, and stops after `sent` of them."""

    def program(connection: RawConnection) -> None:
        left = {}
        for number in range(calls):
            stream_id = 2 * number + 1
            connection.open_call(stream_id, call_headers(path))
            connection.send_part(stream_id, struct.pack(">BI", 0, claimed))
            left[stream_id] = sent
        while left:
            progress = 0
            for stream_id in list(left):
                size = min(
                    left[stream_id],
                    connection.windows[0],
                    connection.windows[stream_id],
                    _FRAME_BYTES,
                )
                if size > 0:
                    connection.send_part(stream_id, bytes(size))
                    left[stream_id] -= size
                    progress += size
                if not left[stream_id]:
                    del left[stream_id]
            if not connection.take_frames(0.0 if progress else _SILENCE_SECONDS) and not progress:
                return

    return program


def without_message(path: str, calls: int) -> Callable[[RawConnection], None]:
    """Opens calls, and says nothing more."""

    def program(connection: RawConnection) -> None:
        for number in range(calls):
            connection.open_call(2 * number + 1, call_headers(path))

    return program


def fetch(group_id: str) -> bytes:
    """A request for all offsets of a group."""
    return offset_service_pb2.FetchOffsetsRequest(
        groups=[offset_service_pb2.GroupSelection(group_id=group_id)]
    ).SerializeToString()
