"""The connections of the readers of metrics: which wait, and which are served."""

from __future__ import annotations

import contextlib
import socket
import threading


class ReaderConnections:
    """Limits the connections. Each has a thread of its own, which calls the methods.

    A connection waits from `enter` to `admit`: for TLS, for the request, for the token. If more
    than `waiting_max` wait, the one that has waited longest is closed. So readers that are silent
    or strangers keep no other reader out.
    """

    def __init__(self, *, waiting_max: int, served_max: int) -> None:
        self._waiting_max = waiting_max
        self._served_max = served_max
        self._lock = threading.Lock()
        # By thread, the oldest first. These are duplicates, because TLS takes a socket over.
        self._waiting: dict[int, socket.socket] = {}
        self._served: set[int] = set()

    def enter(self, connection: socket.socket) -> None:
        """Lets the connection of this thread wait. Raises OSError."""
        duplicate = connection.dup()
        with self._lock:
            if len(self._waiting) >= self._waiting_max:
                oldest = self._waiting.pop(next(iter(self._waiting)))
                with contextlib.suppress(OSError):  # The reader has closed it.
                    oldest.shutdown(socket.SHUT_RDWR)
                oldest.close()
            self._waiting[threading.get_ident()] = duplicate

    def admit(self) -> bool:
        """Whether this thread's connection is served now, until it leaves. It may be one too many.

        False, too, if the connection has been closed because others came.
        """
        thread = threading.get_ident()
        with self._lock:
            if thread not in self._waiting or len(self._served) >= self._served_max:
                return False
            self._waiting.pop(thread).close()
            self._served.add(thread)
            return True

    def leave(self) -> None:
        """Forgets the connection of this thread."""
        thread = threading.get_ident()
        with self._lock:
            self._served.discard(thread)
            if thread in self._waiting:
                self._waiting.pop(thread).close()
