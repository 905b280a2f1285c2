"""How each part of a client makes its calls."""

import os
from typing import Any

import attrs

from offsetd_clients.aio.servers import Servers
from offsetd_clients.retry import RetryPolicy


class Calls:
    """What every part of a client builds on: servers, and when a call is made again."""

    _servers: Servers
    _retry: RetryPolicy

    async def _call(self, name: str, request: Any, *, wait_s: float | None = None) -> Any:
        """The answer. `wait_s`: one that others may keep waiting so long."""
        policy = self._retry
        if wait_s is not None:
            policy = attrs.evolve(policy, timeout_s=wait_s, try_timeout_s=wait_s)
        return await self._servers.call(name, request, policy)


def new_id() -> str:
    """A name for a request."""
    return os.urandom(16).hex()  # As good as a UUID, and made in a fifth of the time.
