"""The connection guard closes connections that take too much memory or keep other clients out.

gRPC's core limits what one call may send and how many calls a connection has, but not the sum. It
keeps unfinished messages and endless headers to itself; no call knows of them. So a thread compares
what each socket has received with what calls have taken from it. It also knows whose answers are
unread and which connections have no call. If the sum is too large, it closes the connections that
hold most. If there are too many connections, it closes those that have had no call for the longest
time.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from offsetd_coordinator.calls.connections import IDLE, REASONS, SILENT, UNENDED, UNREAD
from offsetd_coordinator.network.process_memory import ResidentMemory, give_back_memory
from offsetd_coordinator.network.sockets import AcceptedSockets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_coordinator.calls.connections import Connection, Connections
    from offsetd_coordinator.network.sockets import Socket

_log = structlog.get_logger(__name__)

_TICK_SECONDS: Final = 0.025
# A check takes a microsecond for each descriptor, so the pause between checks grows with its time.
_LOOK_SECONDS_MIN: Final = 0.2
_LOOK_SECONDS_MAX: Final = 1.0
_PAUSE_FOR_EACH_LOOK: Final = 50
# If memory grows by more than this, the next check runs at once.
_GROWTH_BYTES: Final = 4 << 20
# A connection with fewer bytes is never closed for unfinished messages.
BEGUN_BYTES_MIN: Final = 64 << 10
# Memory of gRPC's core and of the server for a call whose message has not arrived.
_BEGUN_CALL_BYTES: Final = 20 << 10
# A connection that read nothing for this long is closed once answers use half of their budget.
_UNREAD_GIVES_WAY_SECONDS: Final = 1.0
# gRPC frees the memory of a closed connection little by little.
_GIVE_BACK_SECONDS: Final = 3.0
# A reason is logged at most once in this time, because closed clients reconnect.
_TELL_SECONDS: Final = 1.0
_TOLD_PEERS: Final = 5
_TELL_FULL_SECONDS: Final = 60.0


class ConnectionLimits(NamedTuple):
    """The limits above which connections are closed."""

    connections_max: int
    accepted_max: int
    """gRPC accepts no more than this. Above `connections_max`, the guard closes connections."""
    begun_bytes_max: int
    """Bytes of unfinished messages of all connections."""
    unread_ms_max: int


class _Known(NamedTuple):
    """The result of the last check of a socket."""

    received_bytes: int
    taken_bytes: int
    begun_bytes: int
    begun_calls: int
    since_seconds: float

    @property
    def held_bytes(self) -> int:
        """The memory that the server holds for it outside of calls."""
        return self.begun_bytes + _BEGUN_CALL_BYTES * self.begun_calls


class ConnectionGuard:
    """A thread that checks the sockets regularly, and at once when memory grows."""

    def __init__(self, connections: Connections, port: int, limits: ConnectionLimits) -> None:
        self._connections = connections
        self._limits = limits
        self._sockets = AcceptedSockets(port)
        self._closing: set[int] = set()
        self._known: dict[str, _Known] = {}
        self._next_look_seconds = 0.0
        self._give_back_until_seconds = 0.0
        self._memory = ResidentMemory()
        self._resident_bytes = 0
        self._untold: dict[str, list[str]] = {}
        self._told_seconds = 0.0
        self._next_full_seconds = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connections", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(_TICK_SECONDS):
            try:
                self._tick()
            except Exception:  # noqa: BLE001  A defect of ours; the next look may do.
                _log.exception("a look at the connections failed for a defect")

    def _tick(self) -> None:
        now_seconds = time.monotonic()
        resident_bytes = self._memory.bytes()
        has_grown = resident_bytes - self._resident_bytes > _GROWTH_BYTES
        if not has_grown and now_seconds < self._next_look_seconds:
            return
        self._resident_bytes = resident_bytes
        sockets = self._open_sockets()
        self._note_begun(sockets, now_seconds)
        closed = 0
        for reason, peer in (*self._unread_too_long(now_seconds), *self._begun_too_much()):
            closed += self._close(sockets, reason, peer)
        for reason, peer in self._too_many(sockets):
            closed += self._close(sockets, reason, peer)
        self._tell_if_full(len(sockets), now_seconds)
        for connection in self._connections.all():
            if connection.peer not in sockets:
                self._connections.forget(connection.peer)
        if closed or self._closing:
            self._give_back_until_seconds = now_seconds + _GIVE_BACK_SECONDS
        if now_seconds < self._give_back_until_seconds:
            give_back_memory()
            self._resident_bytes = self._memory.bytes()
        self._tell(now_seconds)
        took_seconds = time.monotonic() - now_seconds
        pause_seconds = max(_LOOK_SECONDS_MIN, _PAUSE_FOR_EACH_LOOK * took_seconds)
        if len(sockets) >= self._limits.connections_max:
            pause_seconds = 0.0  # Connections beyond the limit are accepted only for a moment.
        self._next_look_seconds = now_seconds + min(pause_seconds, _LOOK_SECONDS_MAX)

    def _open_sockets(self) -> dict[str, Socket]:
        """Open sockets by peer, without those being closed: these are shut down once more."""
        sockets = {}
        closing = set()
        for each in self._sockets.look():
            if each.has_ended or each.number in self._closing:
                closing.add(each.number)
                self._sockets.close(each)
            else:
                sockets[each.peer] = each
        self._closing = closing
        return sockets

    def _close(self, sockets: dict[str, Socket], reason: str, peer: str) -> bool:
        found = sockets.pop(peer, None)
        if found is None or not self._sockets.close(found):
            return False
        self._closing.add(found.number)
        self._connections.note_closed(reason)
        self._untold.setdefault(reason, []).append(peer)
        return True

    def _tell(self, now_seconds: float) -> None:
        if not self._untold or now_seconds - self._told_seconds < _TELL_SECONDS:
            return
        self._told_seconds = now_seconds
        for reason, peers in self._untold.items():
            told = ", ".join(peers[:_TOLD_PEERS])
            _log.warning("connections closed", reason=REASONS[reason], count=len(peers), peers=told)
        self._untold = {}

    def _tell_if_full(self, connections: int, now_seconds: float) -> None:
        """Logs, at most once a minute, that no connection can give way to a new one."""
        limits = self._limits
        if connections < limits.accepted_max or now_seconds < self._next_full_seconds:
            return
        self._next_full_seconds = now_seconds + _TELL_FULL_SECONDS
        _log.warning(
            "new connections are refused: all open ones have calls",
            connections=connections,
            limit=limits.connections_max,
            setting="max.connections",
        )

    def _note_begun(self, sockets: dict[str, Socket], now_seconds: float) -> None:
        """Adds the bytes received since the last check that no call has taken."""
        begun: dict[str, _Known] = {}
        for peer, each in sockets.items():
            connection = self._connections.find(peer)
            taken = connection.taken_bytes if connection else 0
            before = self._known.get(peer) or _Known(0, 0, 0, 0, now_seconds)
            more = (each.received_bytes - before.received_bytes) - (taken - before.taken_bytes)
            size = max(0, before.begun_bytes + more)
            calls = connection.begun_calls if connection else 0
            begun[peer] = _Known(each.received_bytes, taken, size, calls, before.since_seconds)
        self._known = begun

    def _begun_too_much(self) -> Iterator[tuple[str, str]]:
        """The connections to close for bytes that no call has taken, the largest first."""
        excess = sum(each.held_bytes for each in self._known.values())
        excess -= self._limits.begun_bytes_max
        for peer, each in sorted(self._known.items(), key=lambda item: -item[1].held_bytes):
            if excess <= 0 or each.held_bytes < BEGUN_BYTES_MIN:
                return
            yield UNENDED, peer
            excess -= each.held_bytes

    def _unread_too_long(self, now_seconds: float) -> Iterator[tuple[str, str]]:
        """The connections to close for unread answers, the largest first."""
        budget = self._connections.answers
        unread = [each for each in self._connections.all() if each.unread_answers > 0]
        excess = sum(each.answer_bytes for each in unread) - budget.bytes_max // 2
        for each in sorted(unread, key=lambda each: -each.answer_bytes):
            silence_seconds = now_seconds - each.unread_seconds
            is_wanted = excess > 0 or budget.waiting > 0
            gives_way = is_wanted and silence_seconds >= _UNREAD_GIVES_WAY_SECONDS
            if gives_way or silence_seconds >= self._limits.unread_ms_max / 1000:
                yield UNREAD, each.peer
                excess -= each.answer_bytes

    def _too_many(self, sockets: dict[str, Socket]) -> list[tuple[str, str]]:
        """The connections to close for newer ones: first those that never made a call, then those
        without a call now; among each kind, those idle for the longest time first.
        """
        excess = len(sockets) - self._limits.connections_max
        if excess <= 0:
            return []
        without_call = []
        for peer in sockets:
            connection = self._connections.find(peer)
            if connection is None:
                without_call.append((0, self._known[peer].since_seconds, SILENT, peer))
            elif not _is_used(connection):
                without_call.append((1, connection.idle_seconds, IDLE, peer))
        without_call.sort(key=lambda each: each[:2])
        return [(reason, peer) for _, _, reason, peer in without_call[:excess]]


def _is_used(connection: Connection) -> bool:
    return bool(connection.calls or connection.unread_answers)
