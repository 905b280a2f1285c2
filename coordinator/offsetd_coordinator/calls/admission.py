"""Admission: a bound on the bytes of unanswered requests and unread answers."""

from __future__ import annotations

import asyncio
from collections import deque

from offsetd_coordinator.calls.connections import AnswerBudget, Connections
from offsetd_coordinator.calls.incomplete_calls import RECEIVE_MS_MAX_DEFAULT, IncompleteCalls
from offsetd_coordinator.errors import TooManyBytesInFlight


class Admission:
    """A bound, in bytes, on the unanswered requests of all connections.

    Answers count too, and take at most half of the bound. Messages that are not whole count where
    the transport knows of them: they take at most a quarter, or what one message needs.

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
        """Bytes of messages that are not whole, where the transport counts them."""
        # Answers get one half of the bytes. The other half is only for requests. So clients that do
        # not read their answers cannot block commits.
        self.answers = AnswerBudget(bytes_max // 2, self._take_waiting)
        self.connections = Connections(self.answers, is_encrypted=is_encrypted)
        self.begun = IncompleteCalls(receive_ms_max)
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def take(self, size: int) -> None:
        """Counts a request. Raises TooManyBytesInFlight if it exceeds the bound."""
        if not self._has_room(size):
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
        if not self._waiting and self._has_room(size):
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
        """Notes the bytes of all messages that have begun and are not whole."""
        self.unended_bytes = size
        if self._waiting:
            self._take_waiting()

    def has_room_beside(self, size: int) -> bool:
        """Whether so many more bytes of unfinished messages fit."""
        return self._bytes_held() + size <= self.bytes_max

    def give_back(self, size: int) -> None:
        """Removes a request from the count, once it is answered or abandoned."""
        self.bytes_taken -= size
        self.requests -= 1
        assert self.bytes_taken >= 0 <= self.requests, "more is given back than was taken"
        if self._waiting:
            self._take_waiting()

    def _has_room(self, size: int) -> bool:
        return not self.bytes_taken or self._bytes_held() + size <= self.bytes_max

    def _bytes_held(self) -> int:
        # A single answer may be larger than the bound of all answers. The excess does not count,
        # so that half of the bytes stays free for requests.
        answers = min(self.answers.bytes_held, self.answers.bytes_max)
        return self.bytes_taken + answers + self.unended_bytes

    def _count_in(self, size: int) -> None:
        self.bytes_taken += size
        self.requests += 1

    def _take_waiting(self) -> None:
        while self._waiting and self._has_room(self._waiting[0][0]):
            size, turn = self._waiting[0]
            if turn.cancelled():
                return  # Its own task runs next, and wakes the next waiter.
            self._waiting.popleft()
            self._count_in(size)
            turn.set_result(None)
