"""The caller and the connection of the call that is being answered."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from offsetd_coordinator.calls.caller import Caller

if TYPE_CHECKING:
    from offsetd_coordinator.calls.access_control import Access
    from offsetd_coordinator.calls.connections import Connection
    from offsetd_coordinator.quotas.caller_quotas import CallerQuotas


SERVER: Final = Caller()
"""The caller of calls that the server itself makes."""

_CONNECTION: Final[ContextVar[Connection | None]] = ContextVar("connection", default=None)
_ACCESS: Final[ContextVar[Access | None]] = ContextVar("access", default=None)


def note_connection(connection: Connection) -> None:
    """Notes the connection of this call only: each call is answered in a task of its own."""
    _CONNECTION.set(connection)


def note_access(access: Access) -> None:
    """Notes the rights of the caller of this call only."""
    _ACCESS.set(access)


def access() -> Access | None:
    """The rights of the current call's caller. None: everybody may do everything."""
    return _ACCESS.get()


def quotas() -> CallerQuotas | None:
    """The quotas of the current call's caller; None without quotas."""
    access = _ACCESS.get()
    return None if access is None else access.quotas


def connection() -> Connection | None:
    """The connection of the current call; None if the server itself makes the call."""
    return _CONNECTION.get()


def caller() -> Caller:
    """The caller of the current call."""
    access = _ACCESS.get()
    if access is not None:
        return access.caller
    known = _CONNECTION.get()
    return SERVER if known is None else Caller(address=known.peer)
