"""Admission of calls: a bound on the bytes of requests and answers, and a time for each message.

Unary methods are registered as if their requests were streamed, and read their message here. gRPC
calls the handler of a unary method only after the message has arrived, so the server would not know
of the calls before that.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from offsetd_coordinator.calls.connections import AnswerBudget, Connections
from offsetd_coordinator.errors import DeadlineSpent, TooManyBytesInFlight

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
                "the call's message was incomplete after {receive_ms} ms: nothing was done",
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


class Admission:
    """A bound, in bytes, on the unanswered requests of all connections.

    Answers count too, and take at most half of the bound. Incomplete messages count
    if the transport counts them: they take at most a quarter, or what one message needs.

    If nothing else is in flight, a request of any size is taken: another limit bounds the size of
    one request. For the event loop's thread.
    """

    def __init__(
        self,
        bytes_max: int,
        *,
        receive_ms_max: int = RECEIVE_MS_MAX_DEFAULT,
        is_encrypted: bool = False,
    ) -> None:
        self.bytes_max = bytes_max
        self.bytes_taken = 0
        self.requests = 0
        self.unended_bytes = 0
        """Bytes of incomplete messages, if the transport counts them."""
        # Answers get one half of the bytes. The other half is only for requests. So clients that do
        # not read their answers cannot block commits.
        self.answers = AnswerBudget(bytes_max // 2, self._take_waiting)
        self.connections = Connections(self.answers, is_encrypted=is_encrypted)
        self.begun = IncompleteCalls(receive_ms_max)
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def take(self, size: int) -> None:
        """Counts a request. Raises TooManyBytesInFlight if it exceeds the bound."""
        if not self.has_room(size):
            raise TooManyBytesInFlight(
                "{bytes_taken} bytes of requests wait for an answer, and {size_bytes} more would "
                "exceed {bytes_max}",
                bytes_taken=self.bytes_taken,
                size_bytes=size,
                bytes_max=self.bytes_max,
            )
        self._count_in(size)

    async def take_in_turn(self, size: int) -> None:
        """Waits until the request fits the bound, after earlier waiters, and counts it."""
        if not self._waiting and self.has_room(size):
            self._count_in(size)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting.remove((size, turn))
                self._take_waiting()
            else:
                self.give_back(size)
            raise

    def note_unended(self, size: int) -> None:
        """Sets the bytes received of incomplete messages."""
        self.unended_bytes = size
        if self._waiting:
            self._take_waiting()

    def has_room_beside(self, size: int) -> bool:
        """Whether `size` more bytes of incomplete messages fit."""
        return self._bytes_held() + size <= self.bytes_max

    def give_back(self, size: int) -> None:
        """Removes a request from the count, once it is answered or abandoned."""
        self.bytes_taken -= size
        self.requests -= 1
        assert self.bytes_taken >= 0 <= self.requests, "more is given back than was taken"
        if self._waiting:
            self._take_waiting()

    def has_room(self, size: int) -> bool:
        """Whether a request of this size would be taken."""
        return not self.bytes_taken or self.has_room_beside(size)

    def _bytes_held(self) -> int:
        # A single answer may be larger than the bound of all answers. The excess does not count,
        # so that half of the bytes stays free for requests.
        answers = min(self.answers.bytes_held, self.answers.bytes_max)
        return self.bytes_taken + answers + self.unended_bytes

    def _count_in(self, size: int) -> None:
        self.bytes_taken += size
        self.requests += 1

    def _take_waiting(self) -> None:
        while self._waiting and self.has_room(self._waiting[0][0]):
            size, turn = self._waiting[0]
            if turn.cancelled():
                return  # Its own task runs next, and wakes the next waiter.
            self._waiting.popleft()
            self._count_in(size)
            turn.set_result(None)
