"""Ports for servers that a test starts."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

# Below those that Linux gives to whoever asks for any: what runs beside is not given one of them
# before the server listens, nor while it is down.
_PORTS = range(20_000, 32_768)


def free_ports(how_many: int) -> list[int]:
    """Ports of loopback that nobody listens on."""
    free: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if len(free) == how_many:
            break
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            free.append(port)
    assert len(free) == how_many, "no port is free"
    return free
