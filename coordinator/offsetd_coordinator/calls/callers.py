"""The connection and peer of the call that is being answered."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from offsetd_coordinator.calls.connections import Connection

_CONNECTION: Final[ContextVar[Connection | None]] = ContextVar("connection", default=None)


def note_connection(connection: Connection) -> None:
    """Notes the connection of this call only: each call is answered in a task of its own."""
    _CONNECTION.set(connection)


def connection() -> Connection | None:
    """The connection of the current call; None where the server itself makes the call."""
    return _CONNECTION.get()


def peer() -> str:
    """The peer as gRPC names it, like `ipv4:127.0.0.1:50522`; empty for the server's own calls."""
    known = _CONNECTION.get()
    return "" if known is None else known.peer
