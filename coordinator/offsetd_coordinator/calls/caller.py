"""The party that makes a call."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote


class Caller(NamedTuple):
    """The party that made a call."""

    principal: str = ""
    """`User:NAME`; empty if the server does not ask callers for their identity."""
    address: str = ""
    """The peer's name in the transport, like `ipv4:127.0.0.1:50522`."""
    client_id: str = ""
    """The name that the client gives itself; empty without one."""

    @property
    def host(self) -> str:
        """The address without the port; `unix` for a Unix socket."""
        kind, _, address = self.address.partition(":")
        if not kind.startswith("ipv"):
            return kind
        return unquote(address).rpartition(":")[0].strip("[]")
