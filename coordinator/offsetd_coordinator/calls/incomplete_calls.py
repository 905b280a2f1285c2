"""Calls whose message has not arrived yet. They are counted, and ended if the message is late.

Unary methods are registered as if their requests were streamed, and read their message here. gRPC
calls the handler of a unary method only after the message has arrived, so the server would not know
of the calls before that.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from offsetd_coordinator.errors import DeadlineSpent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from offsetd_coordinator.calls.connections import Connection

RECEIVE_MS_MAX_DEFAULT: Final = 60_000
_LOOKS: Final = 4  # The number of checks in the time that a message may take.


class IncompleteCalls:
    """The calls of all connections that wait for their message. For the event loop's thread."""

    def __init__(self, receive_ms_max: int = RECEIVE_MS_MAX_DEFAULT) -> None:
        self._receive_ms_max = receive_ms_max
        # The oldest first.
        self._begun: dict[asyncio.Task[Any], float] = {}
        self._is_looking = False

    async def message(self, read: Callable[[], Awaitable[Any]], connection: Connection) -> Any:
        """Returns the result of `read`: the call's message, or the mark of the stream's end.

        Raises DeadlineSpent if the message does not arrive in time.
        """
        task = asyncio.current_task()
        assert task is not None, "a call has a task of its own"
        self._begun[task] = time.monotonic()
        connection.begun_calls += 1
        if not self._is_looking:
            self._is_looking = True
            self._look_later()
        try:
            return await read()
        except asyncio.CancelledError:
            if task in self._begun:
                raise
            task.uncancel()
            raise DeadlineSpent(
                "the call's message was not whole after {receive_ms} ms: nothing was done",
                receive_ms=self._receive_ms_max,
            ) from None
        finally:
            connection.begun_calls -= 1
            self._begun.pop(task, None)

    def _look_later(self) -> None:
        seconds = self._receive_ms_max / 1000 / _LOOKS
        asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        oldest_seconds = time.monotonic() - self._receive_ms_max / 1000
        late = []
        for task, since_seconds in self._begun.items():
            if since_seconds > oldest_seconds:
                break
            late.append(task)
        for task in late:
            del self._begun[task]
            task.cancel()
        self._is_looking = bool(self._begun)
        if self._is_looking:
            self._look_later()
