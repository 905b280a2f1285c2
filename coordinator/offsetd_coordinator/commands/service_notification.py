"""Tells systemd that the server serves: units of `Type=notify` wait for that."""

import asyncio
import logging
import os
import socket
from typing import Final

_ADDRESS: Final = "NOTIFY_SOCKET"  # sd_notify(3)
_log = logging.getLogger(__name__)


async def notify_when_serving(serving: asyncio.Event) -> None:
    """Sends READY=1 once `serving` is set, if a service manager has asked for it."""
    address = os.environ.get(_ADDRESS)
    if not address:
        return
    await serving.wait()
    if address.startswith("@"):  # An abstract socket.
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as messages:
            messages.sendto(b"READY=1", address)
    except OSError as error:
        _log.warning("cannot tell the service manager that the server serves: %s", error)
