"""Listening addresses: checks whether a port is free, and finds a free one."""

from __future__ import annotations

import errno
import ipaddress
import socket
from typing import Final

from offsetd_storage.configuration.setting_kinds import UNIX_PREFIXES

_PORTS_TRIED: Final = 100
_PORT_MAX: Final = 65_535


def listen_error(address: str) -> OSError | None:
    """The error if the server cannot listen on HOST:PORT, else None. None for a Unix socket.

    gRPC reports only that listening failed.
    """
    if address.startswith(UNIX_PREFIXES):
        return None
    host, _, port = address.rpartition(":")
    try:
        resolved = socket.getaddrinfo(
            host.strip("[]") or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, socket_address in resolved:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(socket_address)
    except OSError as error:
        return error
    return None


def next_free_address(address: str, error: OSError) -> str | None:
    """HOST with the next free port; None if there is none, or another port would not help."""
    if error.errno not in (errno.EADDRINUSE, errno.EACCES):
        return None
    host, _, port = address.rpartition(":")
    first = int(port) + 1
    for candidate in range(first, min(first + _PORTS_TRIED, _PORT_MAX + 1)):
        near = f"{host}:{candidate}"
        if listen_error(near) is None:
            return near
    return None


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach HOST:PORT.

    Returns False for all names but `localhost`, because names are not resolved.
    """
    if address.startswith(UNIX_PREFIXES):
        return True
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
