"""Who makes the call that is being answered."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_PEER: Final[ContextVar[Callable[[], str] | None]] = ContextVar("peer", default=None)


def note_peer(peer: Callable[[], str]) -> None:
    """Keeps the peer of this call, and of this one alone: each is answered in a task of its own.

    It is asked for when it is needed: few calls need it.
    """
    _PEER.set(peer)


def peer() -> str:
    """As gRPC names it, like `ipv4:127.0.0.1:50522`; empty where the call came from inside."""
    asked = _PEER.get()
    return "" if asked is None else asked()
