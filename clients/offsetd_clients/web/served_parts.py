"""Parts of a page that the server may refuse: each is there, or says why not."""

import asyncio
from collections.abc import Awaitable
from typing import Generic, TypeVar

import attrs

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.calling.retry import RetryPolicy
from offsetd_clients.errors import (
    AuthorizationFailed,
    ClientClosed,
    DeadlineExceeded,
    OffsetdError,
    Unavailable,
)

Value = TypeVar("Value")
LOST = (Unavailable, DeadlineExceeded, ClientClosed)
_ANSWER_AGE_S_MAX = 0.5
_TIMEOUT_S = 0.7


@attrs.frozen
class Part(Generic[Value]):
    """A value, or else the reason why it is not there."""

    value: Value | None
    missing: str = ""
    is_forbidden: bool = False


async def part(call: Awaitable[Value]) -> Part[Value]:
    """The answer of a call, or its refusal. A lost server is raised: it is the whole page's."""
    try:
        return Part(await call)
    except LOST:
        raise
    except OffsetdError as error:
        return Part(None, str(error), isinstance(error, AuthorizationFailed))


class Pulse:
    """Whether the server answers, asked at most twice a second for all open pages together."""

    def __init__(self, client: AsyncOffsetClient) -> None:
        # A page asks each second, and says within 3 s that the server is lost.
        self._client = client.with_retry(RetryPolicy(timeout_s=_TIMEOUT_S))
        self._lock = asyncio.Lock()
        self._asked_at_s = float("-inf")
        self._state = "lost"

    async def state(self) -> str:
        """`serving`, `not-serving` (it loads, or stops), or `lost`."""
        async with self._lock:
            loop = asyncio.get_running_loop()
            if loop.time() - self._asked_at_s > _ANSWER_AGE_S_MAX:
                self._state = await self._asked()
                self._asked_at_s = loop.time()
            return self._state

    async def _asked(self) -> str:
        try:
            return "serving" if await self._client.is_serving() else "not-serving"
        except OffsetdError:
            return "lost"
