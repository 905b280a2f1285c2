"""The memory budget of answers, counted from when they are built until clients have read them.

A call that reads much reserves room before it reads. Without room it waits; the call whose
connection holds least goes first. So a client that reads its answers does not wait long for one
that does not. `connection_guard` closes the connections that hold most.

For the event loop's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from offsetd_coordinator.calls import callers
from offsetd_coordinator.errors import TooManyBytesInFlight

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from offsetd_coordinator.calls.connections import Connection

WAIT_SECONDS_MAX: Final = 30.0
"""A call that has waited so long for room is refused."""
BYTES_PER_OFFSET: Final = 512
"""What an offset takes while it is read, sorted and encoded."""
COPIES: Final = 2
"""Of an answer: its own bytes, and what gRPC makes of them."""
_SMALL_BYTES: Final = 1024


class AnswerBudget:
    """A bound, in bytes, on the answers of all calls; a single answer may exceed it."""

    def __init__(self, bytes_max: int, on_room: Callable[[], None] = lambda: None) -> None:
        self.bytes_max = bytes_max
        self.bytes_held = 0
        self._on_room = on_room
        self._waiting: list[tuple[Answer, int, asyncio.Future[None]]] = []

    @property
    def waiting(self) -> int:
        """How many calls wait for room."""
        return len(self._waiting)

    def has_room(self, size: int, own: int = 0) -> bool:
        """Whether `size` more bytes fit for a call that holds `own` bytes already."""
        return self.bytes_held <= own or self.bytes_held + size <= self.bytes_max

    async def room(self, answer: Answer, size: int) -> None:
        """Waits until this many bytes are counted in. Raises TooManyBytesInFlight."""
        if self.has_room(size) and not self._waiting:
            answer.count(size)
            return
        turn = asyncio.get_running_loop().create_future()
        entry = (answer, size, turn)
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                await turn
        except BaseException as error:
            if entry in self._waiting:
                self._waiting.remove(entry)
            else:
                answer.end()
            if isinstance(error, TimeoutError):
                raise self.refusal(size) from None
            raise

    def give_back(self, size: int) -> None:
        """Counts bytes out, so that waiting calls may have them."""
        self.bytes_held -= size
        assert self.bytes_held >= 0, "more is given back than was held"
        while self._waiting:
            entry = min(self._waiting, key=lambda each: each[0].connection.answer_bytes)
            answer, wanted, turn = entry
            if not self.has_room(wanted):
                return
            self._waiting.remove(entry)
            if not turn.done():
                answer.count(wanted)
                turn.set_result(None)
        self._on_room()

    def refusal(self, size: int) -> TooManyBytesInFlight:
        """The error for an answer that has no room."""
        return TooManyBytesInFlight(
            "{bytes_taken} bytes of answers are under way, and one of {size_bytes} more would"
            " exceed {bytes_max}",
            bytes_taken=self.bytes_held,
            size_bytes=size,
            bytes_max=self.bytes_max,
        )


class Answer:
    """One call's share of the budget."""

    __slots__ = ("_budget", "_is_sent", "bytes_held", "connection")

    def __init__(self, budget: AnswerBudget, connection: Connection) -> None:
        self.connection = connection
        self.bytes_held = 0
        self._budget = budget
        self._is_sent = False

    def count(self, size: int) -> None:
        """Counts this many bytes more, or fewer, whether there is room or not."""
        self.bytes_held += size
        self.connection.answer_bytes += size
        if size < 0:
            self._budget.give_back(-size)
        else:
            self._budget.bytes_held += size

    async def reserve(self, size: int) -> None:
        """Reserves room for an answer to be built. Raises TooManyBytesInFlight.

        Only a call that holds nothing waits: one that holds some would keep it from others.
        """
        if not self.bytes_held:
            await self._budget.room(self, size)
        elif self._budget.has_room(size, self.bytes_held):
            self.count(size)
        else:
            raise self._budget.refusal(size)

    def send(self, size: int) -> None:
        """Counts the built answer until `end`. Raises TooManyBytesInFlight."""
        more = COPIES * size - self.bytes_held
        if more > 0 and not self._budget.has_room(more, self.bytes_held):
            raise self._budget.refusal(size)
        self._is_sent = True
        self.connection.hold_answer(size)
        self.count(more)

    def end(self) -> None:
        """The client's window has taken it, or the call has ended."""
        if self._is_sent:
            self._is_sent = False
            self.connection.let_go_answer()
        if self.bytes_held:
            self.count(-self.bytes_held)

    def note_done(self, _: object) -> None:
        """As `end`, for gRPC."""
        self.end()


_CURRENT: Final[ContextVar[Answer | None]] = ContextVar("answer", default=None)


async def reserve(size: int) -> None:
    """Reserves room for what the current call is about to build.

    Raises TooManyBytesInFlight.
    """
    connection = callers.connection()
    if connection is None:
        return  # The server itself makes this call.
    answer = _CURRENT.get()
    if answer is None:
        answer = Answer(connection.answers, connection)
        _CURRENT.set(answer)
    await answer.reserve(size)


async def reserve_for_change(offsets: int) -> None:
    """Counts so many offsets that a large change is about to read, but half of what all may take
    at most: others are to be answered meanwhile.

    Raises TooManyBytesInFlight.
    """
    connection = callers.connection()
    if connection is not None:
        await reserve(min(BYTES_PER_OFFSET * offsets, connection.answers.bytes_max // 2))


@contextlib.asynccontextmanager
async def room_for_change(offsets: int) -> AsyncIterator[None]:
    """A context that counts the same for a change that may outlive its call.

    Nothing more is counted where its call has counted something already.
    """
    connection, answer = callers.connection(), _CURRENT.get()
    if connection is None or (answer is not None and answer.bytes_held):
        yield
        return
    answer = Answer(connection.answers, connection)
    await answer.reserve(min(BYTES_PER_OFFSET * offsets, connection.answers.bytes_max // 2))
    try:
        yield
    finally:
        answer.end()


def let_go() -> None:
    """Gives back what this call has reserved."""
    answer = _CURRENT.get()
    if answer is not None:
        answer.end()


def sent(connection: Connection, size: int) -> Answer | None:
    """Counts the built answer of this call; the caller ends that with `end`.

    None: it is so small that its call costs more. Raises TooManyBytesInFlight.
    """
    answer = _CURRENT.get()
    if answer is None:
        if size < _SMALL_BYTES:
            return None
        answer = Answer(connection.answers, connection)
    answer.send(size)
    return answer


def hold_small(connection: Connection, size: int) -> Callable[[], None]:
    """As `hold`, for messages that are mostly small: a small one counts as unread, with no bytes.

    A stream has one such message at a time. Returns a callback that ends the count.
    """
    if size >= _SMALL_BYTES:
        return hold(connection, size).end
    connection.hold_answer(size)
    return connection.let_go_answer


def hold(connection: Connection, size: int) -> Answer:
    """Counts a stream's message until `end`, whether there is room or not."""
    answer = Answer(connection.answers, connection)
    answer.count(COPIES * size)
    answer.send(size)
    return answer
