"""The caller and the connection of the call that is being answered."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from offsetd_coordinator.calls.connections import Connection


class Caller(NamedTuple):
    """The party that made a call."""

    principal: str = ""
    """The authenticated name; empty for an anonymous caller."""
    address: str = ""
    """The peer's name in the transport, like `ipv4:127.0.0.1:50522`."""
    client_id: str = ""
    """The name that the client gives itself; empty without one."""


SERVER: Final = Caller()
"""The caller of calls that the server itself makes."""

_CONNECTION: Final[ContextVar[Connection | None]] = ContextVar("connection", default=None)


def note_connection(connection: Connection) -> None:
    """Notes the connection of this call only: each call is answered in a task of its own."""
    _CONNECTION.set(connection)


def connection() -> Connection | None:
    """The connection of the current call; None if the server itself makes the call."""
    return _CONNECTION.get()


def caller() -> Caller:
    """The caller of the current call."""
    known = _CONNECTION.get()
    return SERVER if known is None else Caller(address=known.peer)
