"""The room for messages that have begun and are not whole, of all connections."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, NamedTuple

import grpc

from offsetd_wire.compression import RefusedMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_wire.connection import Connection

    Key = tuple[Connection, int]

_LOOK_SECONDS: Final = 0.25
# While a message waits this long, the messages of a connection that have room bring so many bytes
# together in that time: half of the smallest window, so a client that is a second away does.
_RATE_BYTES: Final = 32 << 10
_RATE_SECONDS: Final = 1.0
# After such a delay it is this process that stood still, not its clients.
_STALL_SECONDS: Final = 0.5
# A message that has no room for this long is refused.
_WAIT_SECONDS_MAX: Final = 10.0
_NO_LIMIT: Final = 1 << 62


class _Waiting(NamedTuple):
    size: int
    since_seconds: float


class _Arriving(NamedTuple):
    size: int
    looked_bytes: int
    looked_seconds: float


class MessageRoom:
    """A bound, in bytes, on messages that are not whole. For the thread of one event loop.

    A message gets room for all of its bytes, or none, so messages that have begun can end. What has
    no room waits in its client: the flow-control window stays closed.
    """

    def __init__(
        self,
        messages_bytes_max: int = _NO_LIMIT,
        windows_bytes_max: int = _NO_LIMIT,
        *,
        has_room_beside: Callable[[int], bool] = lambda _: True,
        on_change: Callable[[int], None] = lambda _: None,
        on_closed: Callable[[list[str]], None] = lambda _: None,
    ) -> None:
        """Messages have a room, and what waits in the windows of connections has another one.

        `has_room_beside` says whether so many bytes fit beside what the server holds elsewhere;
        `on_change` gets the bytes held, `on_closed` the peers of closed connections.
        """
        self._messages_bytes_max = messages_bytes_max
        self._windows_bytes_max = windows_bytes_max
        self._has_room_beside = has_room_beside
        self._on_change = on_change
        self._on_closed = on_closed
        self._arriving: dict[Key, _Arriving] = {}
        self._waiting: dict[Key, _Waiting] = {}
        self._windows: dict[Connection, int] = {}
        self._windows_bytes = 0
        self._wanted_windows: dict[Connection, int] = {}  # They had no room.
        self._timer: asyncio.TimerHandle | None = None
        self._due_seconds = 0.0
        self.bytes_held = 0
        """Bytes of all that has room."""

    @property
    def is_used(self) -> bool:
        """Whether a message has room or waits for it."""
        return bool(self._arriving or self._waiting)

    def ask(self, connection: Connection, number: int, size: int) -> None:
        """Gives a message its room, now or later."""
        key = (connection, number)
        if not self._waiting and self._has_room(size):
            self._give(key, size)
            return
        self._waiting[key] = _Waiting(size, time.monotonic())
        if size > self._messages_bytes_max:
            self._refuse(key)
        self._look_later()

    def end(self, connection: Connection, number: int) -> None:
        """The message is whole, or its call is over."""
        key = (connection, number)
        self._waiting.pop(key, None)
        arriving = self._arriving.pop(key, None)
        if arriving is not None:
            self._count(-arriving.size)
            self._serve()

    def set_window(self, connection: Connection, size: int) -> None:
        """Widens a connection's window by so many bytes that wait in it.

        Without room, its messages that wait are refused: they would keep one that has room from
        coming.
        """
        more = size - self._windows.get(connection, 0)
        if more > 0 and not (
            self._windows_bytes + more <= self._windows_bytes_max and self._has_room_beside(more)
        ):
            waiting = [each for each in self._waiting if each[0] is connection]
            has_room = any(each[0] is connection for each in self._arriving)
            # If no message of the connection has room, its first one stops none.
            for key in waiting if has_room else waiting[1:]:
                self._refuse(key)
            self._wanted_windows[connection] = size
            self._look_later()
            return
        self._wanted_windows.pop(connection, None)
        self._windows[connection] = size
        self._windows_bytes += more
        self._count(more)
        if not size:
            del self._windows[connection]
            self._serve()
        connection.wire.widen(size)
        connection.flush_soon()

    def forget(self, connection: Connection) -> None:
        """A connection is closed."""
        size = self._windows.pop(connection, 0)
        self._windows_bytes -= size
        self._count(-size)
        self._wanted_windows.pop(connection, None)
        for key in [each for each in (*self._arriving, *self._waiting) if each[0] is connection]:
            self.end(*key)

    def _has_room(self, size: int) -> bool:
        if self.bytes_held - self._windows_bytes + size > self._messages_bytes_max:
            return False
        return not self._arriving or self._has_room_beside(size)

    def _give(self, key: Key, size: int) -> None:
        connection, number = key
        held = connection.wire.held_bytes(number)
        self._arriving[key] = _Arriving(size, held, time.monotonic())
        self._count(size)
        connection.wire.give_room(number)
        connection.flush_soon()

    def _count(self, size: int) -> None:
        if size:
            self.bytes_held += size
            self._on_change(self.bytes_held)

    def _serve(self) -> None:
        """Gives room in turn: first to the connection that has the least, and asks for the least.

        So a client with one message is not behind one with many.
        """
        if not self._waiting:
            return
        sizes: dict[Connection, list[int]] = {}
        for connection, _ in self._arriving:
            sizes.setdefault(connection, [0, 0])[0] += 1
        for connection, _ in self._waiting:
            sizes.setdefault(connection, [0, 0])[1] += 1
        for key in sorted(self._waiting, key=lambda each: sizes[each[0]]):
            size = self._waiting[key].size
            if not self._has_room(size):
                return
            del self._waiting[key]
            self._give(key, size)

    def _look_later(self) -> None:
        if self._timer is None:
            self._due_seconds = time.monotonic() + _LOOK_SECONDS
            self._timer = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._timer = None
        now_seconds = time.monotonic()
        if now_seconds - self._due_seconds > _STALL_SECONDS:
            self._forgive(now_seconds - self._due_seconds)
        for connection, size in list(self._wanted_windows.items()):
            self.set_window(connection, size)
        self._serve()
        waited = [(key, now_seconds - each.since_seconds) for key, each in self._waiting.items()]
        for key, seconds in waited:
            if seconds > _WAIT_SECONDS_MAX:
                self._refuse(key)
        if any(seconds > _RATE_SECONDS for _, seconds in waited):
            self._close_slow(now_seconds)
        if self._waiting or self._wanted_windows:
            self._look_later()

    def _forgive(self, late_seconds: float) -> None:
        """Takes off the time in which this process read nothing."""
        for key, waiting in self._waiting.items():
            self._waiting[key] = waiting._replace(
                since_seconds=waiting.since_seconds + late_seconds
            )
        for key, arriving in self._arriving.items():
            self._arriving[key] = arriving._replace(
                looked_seconds=arriving.looked_seconds + late_seconds
            )

    def _refuse(self, key: Key) -> None:
        connection, number = key
        self._waiting.pop(key, None)
        details = (
            f"{self.bytes_held} bytes of messages that are not whole are on their way, and there is"
            " no room for this one"
        )
        connection.refuse(number, RefusedMessage(grpc.StatusCode.RESOURCE_EXHAUSTED, details))

    def _close_slow(self, now_seconds: float) -> None:
        """Closes the connections whose messages have room and do not come.

        All calls of a connection share its window, so their bytes count together.
        """
        brought: dict[Connection, int] = {}
        for key, each in list(self._arriving.items()):
            if now_seconds - each.looked_seconds < _RATE_SECONDS:
                continue
            connection, number = key
            held = connection.wire.held_bytes(number)
            brought[connection] = brought.get(connection, 0) + held - each.looked_bytes
            self._arriving[key] = _Arriving(each.size, held, now_seconds)
        slow = [connection for connection, size in brought.items() if size < _RATE_BYTES]
        for connection in slow:
            connection.abort()
            self.forget(connection)
        if slow:
            self._on_closed([each.peer for each in slow])
