# Made from aio/calls.py by .ci/sync_from_aio: change that, then run `make sync`.
"""How each part of a client makes its calls."""

import os
from typing import Any

import attrs

from offsetd_clients.retry import RetryPolicy
from offsetd_clients.sync.servers import Servers


class Calls:
    """What every part of a client builds on: servers, and when a call is made again."""

    _servers: Servers
    _retry: RetryPolicy

    def _call(self, name: str, request: Any, *, wait_s: float | None = None) -> Any:
        """The answer. `wait_s`: one that others may keep waiting so long."""
        policy = self._retry
        if wait_s is not None:
            policy = attrs.evolve(policy, timeout_s=wait_s, try_timeout_s=wait_s)
        return self._servers.call(name, request, policy)


def new_id() -> str:
    """A name for a request."""
    return os.urandom(16).hex()  # As good as a UUID, and made in a fifth of the time.
