"""A loopback of one's own: for what has to use a port that others may use, too."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Brings up `lo`, says so, and keeps the namespace until its input ends.
_HOLD = """
import fcntl, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
print("up", flush=True)
sys.stdin.read()
"""


@contextmanager
def private_network(*needed_ports: int) -> Iterator[list[str]]:
    """Yields what to put before a command, so that it runs in a network of its own.

    Nothing, where the system does not allow such: then the ports must be free here.
    """
    holder = subprocess.Popen(
        ["unshare", "--net", "--map-root-user", sys.executable, "-c", _HOLD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        if holder.stdout.readline() == b"up\n":
            target = ["--target", str(holder.pid)]
            yield ["nsenter", *target, "--user", "--net", "--preserve-credentials", "--"]
        else:
            for port in needed_ports:
                with socket.socket() as free:
                    free.bind(("127.0.0.1", port))
            yield []
    finally:
        holder.stdin.close()
        holder.stdout.close()
        holder.wait()
