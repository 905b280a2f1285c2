"""Listening sockets by gRPC's form of addresses, and gRPC's names of peers."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import Any, Final

_UNIX: Final = "unix:"
_ABSTRACT: Final = "unix-abstract:"
_MAPPED: Final = "::ffff:"


def bind(address: str) -> tuple[list[socket.socket], int]:
    """Bound sockets of HOST:PORT or a Unix socket, and the port (1 for a Unix socket).

    A name with several addresses has a socket of each, all with one port. Raises OSError.
    """
    if address.startswith((_UNIX, _ABSTRACT)):
        return [_bind_unix(address)], 1
    host, _, text = address.rpartition(":")
    resolved = socket.getaddrinfo(
        host.strip("[]") or None, text, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    port = 0
    try:
        for family, kind, protocol, _, where in resolved:
            bound = socket.socket(family, kind, protocol)
            sockets.append(bound)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6 and len(resolved) == 1:
                with contextlib.suppress(OSError):  # Then it is IPv6 alone.
                    bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            bound.bind((where[0], port or where[1], *where[2:]))
            port = bound.getsockname()[1]
    except OSError:
        for each in sockets:
            each.close()
        raise
    return sockets, port


def _bind_unix(address: str) -> socket.socket:
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if address.startswith(_ABSTRACT):
            bound.bind("\0" + address.removeprefix(_ABSTRACT))
        else:
            path = Path(address.removeprefix(_UNIX).removeprefix("//"))
            if path.is_socket():
                path.unlink(missing_ok=True)  # Left by a process that did not close it.
            bound.bind(str(path))
    except OSError:
        bound.close()
        raise
    return bound


def peer_name(where: Any) -> str:
    """The name that gRPC gives a peer: `ipv4:127.0.0.1:50522`, `ipv6:%5B::1%5D:50522`, `unix:`."""
    if not isinstance(where, tuple):
        return _UNIX
    host, port = where[:2]
    if "." in host:
        return f"ipv4:{host.removeprefix(_MAPPED)}:{port}"
    return f"ipv6:%5B{host}%5D:{port}"
