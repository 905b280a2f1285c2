"""The TCP connections that the process has accepted, as the operating system's kernel knows them.

The system calls here keep the interpreter's lock: each takes a microsecond. If each released the
lock, the thread would wait for the lock hundreds of times while the event loop is busy.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import struct
import sys
from typing import Final, NamedTuple

_libc: Final = ctypes.PyDLL(None, use_errno=True)
_FIRST_DESCRIPTOR: Final = 3
# A new descriptor is the lowest free number. So the search ends after this many closed ones in a
# row.
_CLOSED_IN_A_ROW: Final = 256
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)
_SO_COOKIE: Final = 57
_COOKIE_BYTES: Final = 8
# In the kernel's tcp_info: the state, and tcpi_bytes_received.
_STATE_AT: Final = 0
_ENDED: Final = 7
_LISTENS: Final = 10
_RECEIVED = struct.Struct("=Q")
_RECEIVED_AT: Final = 128
_TCP_INFO_BYTES: Final = 136
_MAPPED: Final = "::ffff:"


class Socket(NamedTuple):
    """An accepted connection."""

    descriptor: int
    number: int
    """The kernel's identifier of the connection, which is never used again."""
    peer: str
    received_bytes: int
    has_ended: bool
    """Whether the kernel has ended the connection. gRPC may not know it yet."""


class AcceptedSockets:
    """The accepted connections of one port. For one thread."""

    def __init__(self, port: int) -> None:
        self._port = port
        # Peers by the connections' numbers; None for a connection of another port.
        self._peers: dict[int, str | None] = {}
        self._last_descriptor = _FIRST_DESCRIPTOR
        self._tcp_info = _Option(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        self._cookie = _Option(socket.SOL_SOCKET, _SO_COOKIE, _COOKIE_BYTES)

    def look(self) -> list[Socket]:
        """All connections that are open now."""
        found = []
        peers: dict[int, str | None] = {}
        is_tcp, tcp_info = self._tcp_info.read, self._tcp_info.value
        descriptor, last = _FIRST_DESCRIPTOR, self._last_descriptor
        last_open = _FIRST_DESCRIPTOR
        while descriptor <= last + _CLOSED_IN_A_ROW:
            if is_tcp(descriptor):
                last_open = descriptor
                if tcp_info[_STATE_AT] != _LISTENS:
                    number = self._number(descriptor)
                    if number not in self._peers:
                        self._peers[number] = _peer_of(descriptor, self._port)
                    peer = peers[number] = self._peers[number]
                    if peer is not None:
                        (received,) = _RECEIVED.unpack_from(tcp_info, _RECEIVED_AT)
                        has_ended = tcp_info[_STATE_AT] == _ENDED
                        found.append(Socket(descriptor, number, peer, received, has_ended))
            elif ctypes.get_errno() != errno.EBADF:
                last_open = descriptor
            if last < last_open:
                last = last_open
            descriptor += 1
        self._peers = peers
        self._last_descriptor = last_open
        return found

    def close(self, known: Socket) -> bool:
        """Ends a connection for both sides, so that gRPC closes it; False if it had ended already.

        gRPC may miss the end: it waits for a new event after the last byte, and the event of the
        end may have come before. So call this again while the socket exists.
        """
        try:
            # The original descriptor may be reused during this call, so this is a duplicate.
            duplicate = socket.socket(fileno=os.dup(known.descriptor))
        except OSError:
            return False
        with duplicate, contextlib.suppress(OSError):
            if self._number(duplicate.fileno()) != known.number:
                return False
            # Unsent data is discarded when gRPC closes the connection.
            linger = struct.pack("ii", 1, 0)
            duplicate.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            duplicate.shutdown(socket.SHUT_RDWR)  # gRPC notices it, even if the call fails.
        return True

    def _number(self, descriptor: int) -> int:
        if not self._cookie.read(descriptor):
            return 0
        return int.from_bytes(self._cookie.value, sys.byteorder)


class _Option:
    """Room for one option of a socket."""

    def __init__(self, level: int, name: int, size_bytes: int) -> None:
        buffer = ctypes.create_string_buffer(size_bytes)
        self.value = memoryview(buffer).cast("B")
        self._size = ctypes.c_uint32()
        self._size_bytes = size_bytes
        self._arguments = level, name, buffer, ctypes.byref(self._size)

    def read(self, descriptor: int) -> bool:
        """Puts a socket's option into `value`; returns False if there is no such socket."""
        size = self._size
        size.value = self._size_bytes
        return not _libc.getsockopt(descriptor, *self._arguments) and size.value == self._size_bytes


def _peer_of(descriptor: int, port: int) -> str | None:
    """The peer's name; None if the descriptor is not a connection of this port."""
    try:
        looked_at = socket.socket(fileno=descriptor)
    except OSError:
        return None
    try:
        if looked_at.family not in _FAMILIES or looked_at.getsockname()[1] != port:
            return None
        return peer_name(*looked_at.getpeername()[:2])
    except OSError:
        return ""  # The connection has ended already.
    finally:
        looked_at.detach()


def peer_name(host: str, port: int) -> str:
    """The name that gRPC gives a peer."""
    host = host.removeprefix(_MAPPED) if "." in host else host
    return f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"
