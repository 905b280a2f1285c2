"""Room for the answer of the current call, in the memory budget that all answers share.

A call that reads much reserves room before it reads. Without room it waits; the call whose
connection holds the fewest bytes is next. So a client that reads its answers does not wait long for
a client that does not. `connection_guard` closes the connections that hold most.

For the event loop's thread.
"""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from offsetd_coordinator.calls import current_call
from offsetd_coordinator.calls.connections import COPIES, Answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from offsetd_coordinator.calls.connections import Connection

BYTES_PER_OFFSET: Final = 512
"""The memory that an offset needs while it is read, sorted and encoded."""
_SMALL_BYTES: Final = 1024


_CURRENT: Final[ContextVar[Answer | None]] = ContextVar("answer", default=None)


async def reserve(size: int) -> None:
    """Reserves room for the answer that the current call will build.

    Raises TooManyBytesInFlight.
    """
    connection = current_call.connection()
    if connection is None:
        return  # The server itself makes this call.
    answer = _CURRENT.get()
    if answer is None:
        answer = Answer(connection.answers, connection)
        _CURRENT.set(answer)
    await answer.reserve(size)


async def reserve_for_change(offsets: int) -> None:
    """Reserves room for the offsets that a large change will read.

    It reserves at most half of the bound of all answers, so that other calls are still answered.
    Raises TooManyBytesInFlight.
    """
    connection = current_call.connection()
    if connection is not None:
        await reserve(min(BYTES_PER_OFFSET * offsets, connection.answers.bytes_max // 2))


@contextlib.asynccontextmanager
async def room_for_change(offsets: int) -> AsyncIterator[None]:
    """A context with room for a change that may outlive its call: see `reserve_for_change`.

    It reserves nothing if the call has a reservation already.
    """
    connection, answer = current_call.connection(), _CURRENT.get()
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
    """Releases the reservation of this call."""
    answer = _CURRENT.get()
    if answer is not None:
        answer.end()


def sent(connection: Connection, size: int) -> Answer | None:
    """Counts the built answer of this call; the caller ends the count with `end`.

    Returns None for a small answer of a call without a reservation: it is not counted. Raises
    TooManyBytesInFlight.
    """
    answer = _CURRENT.get()
    if answer is None:
        if size < _SMALL_BYTES:
            return None
        answer = Answer(connection.answers, connection)
    answer.send(size)
    return answer


def built(connection: Connection, size: int) -> Answer | None:
    """Counts an answer that is whole, and may have to wait before it is sent.

    The caller ends the count with `end`. Returns None for a small answer: it is not counted.
    Raises TooManyBytesInFlight.
    """
    if size < _SMALL_BYTES:
        return None
    answer = Answer(connection.answers, connection)
    answer.build(size)
    return answer


def hold_small(connection: Connection, size: int) -> Callable[[], None]:
    """Counts a stream's message; a small one counts as an unread answer without bytes.

    A stream has one such message at a time. Returns a callback that ends the count.
    """
    if size >= _SMALL_BYTES:
        return hold(connection, size).end
    connection.hold_answer(size)
    return connection.let_go_answer


def hold(connection: Connection, size: int) -> Answer:
    """Counts a stream's message until `end`, even without room."""
    answer = Answer(connection.answers, connection)
    answer.count(COPIES * size)
    answer.send(size)
    return answer
