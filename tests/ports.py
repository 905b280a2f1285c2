"""Ports for servers that a test starts."""

from __future__ import annotations

import os
import random
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

# Below those that Linux gives to whoever asks for any: what runs beside is not given one of them
# before the server listens, nor while it is down.
PORTS: Final = range(20_000, 32_768)
_given: set[int] = set()


def free_ports(how_many: int) -> list[int]:
    """Ports of loopback that nobody listens on, and that nobody in this process was given before.

    Between this call and the start of its server, a port looks free to the next call.
    """
    unused = [port for port in ports_of_worker(os.environ) if port not in _given]
    free: list[int] = []
    for port in random.sample(unused, len(unused)):
        if len(free) == how_many:
            break
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            free.append(port)
    _given.update(free)
    assert len(free) == how_many, "no port is free"
    return free


def ports_of_worker(environment: Mapping[str, str]) -> range:
    """The ports that only this worker of pytest-xdist gives; all of them without workers."""
    worker = environment.get("PYTEST_XDIST_WORKER", "gw0")
    count = int(environment.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return PORTS[int(worker.removeprefix("gw")) % count :: count]
