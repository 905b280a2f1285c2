"""The base of all parts of a client. It makes their calls."""

import os
from typing import Any

import attrs

from offsetd_clients.aio.servers import Servers
from offsetd_clients.calling.retry import RetryPolicy
from offsetd_clients.calling.tracing import Tracing


class Calls:
    """The servers and the retry policy that every part of a client uses."""

    _servers: Servers
    _retry: RetryPolicy
    _tracing: Tracing | None

    async def _call(self, name: str, request: Any, *, wait_s: float | None = None) -> Any:
        """Makes the call. `wait_s` is its timeout if it may have to wait for other members."""
        policy = self._retry
        if wait_s is not None:
            policy = attrs.evolve(policy, timeout_s=wait_s, try_timeout_s=wait_s)
        return await self._servers.call(name, request, policy)


def new_id() -> str:
    """A new request id."""
    return os.urandom(16).hex()  # This is as unique as a UUID, and takes a fifth of the time.
