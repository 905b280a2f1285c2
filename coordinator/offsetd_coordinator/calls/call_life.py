"""The life of a call, for any transport: its connection, limits, end and counters.

A transport opens a `CallLife` when a call arrives, passes the size of its message to `take`, and
closes it. `refusal_of` turns an error of the call into a refusal; the transport only sends it.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING

import structlog

from offsetd_coordinator.calls import answer_reservations, current_call
from offsetd_coordinator.errors import (
    CoordinatorError,
    DeadlineSpent,
    QuotaExceeded,
    RequestTooLarge,
)
from offsetd_coordinator.status_codes import CODE_BY_REASON, StatusCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from offsetd_coordinator.calls.admission import Admission
    from offsetd_coordinator.calls.connections import Context
    from offsetd_coordinator.counters import MethodCounters

    LoadEnded = Callable[[float | None], Awaitable[None]]
    """Returns once the server serves; raises the refusal if that takes too long."""

_log = structlog.get_logger(__name__)


class CallLife:
    """One call from its arrival to `close`. For the event loop's thread."""

    __slots__ = ("_admission", "_begun_seconds", "_taken_bytes", "connection")

    def __init__(self, admission: Admission, context: Context) -> None:
        self.connection = admission.connections.open_call(context)
        self._admission = admission
        self._begun_seconds = time.perf_counter()
        self._taken_bytes = -1

    def begin(self, context: Context) -> None:
        """Makes this call the current one of its task. Raises DeadlineSpent."""
        check_deadline(context)
        current_call.note_connection(self.connection)

    def take(self, size: int, bytes_max: int) -> None:
        """Counts the call's message as unanswered until `close`.

        Raises RequestTooLarge, TooManyBytesInFlight.
        """
        check_size(size, bytes_max)
        self._admission.take(size)
        self._taken_bytes = size

    async def hold(self, refusal: CoordinatorError | None, context: Context) -> None:
        """Returns when a refusal may leave, well before the call's deadline.

        Until then, only the call itself takes room.
        """
        if isinstance(refusal, QuotaExceeded):
            self._give_back()
            remaining = context.time_remaining()
            most = math.inf if remaining is None else remaining / 2
            await asyncio.sleep(min(refusal.hold_seconds, most))

    def close(self, counters: MethodCounters, code: int) -> None:
        """Ends the call with `code`. Removes its bytes from all counts."""
        if code != StatusCode.OK:
            answer_reservations.let_go()
        self._give_back()
        self.connection.end_call()
        counters.note(code, time.perf_counter() - self._begun_seconds)

    def leave(self) -> None:
        """Ends this life without counting it: the call begins another one."""
        self._give_back()
        self.connection.end_call()

    def _give_back(self) -> None:
        if self._taken_bytes >= 0:
            self._admission.give_back(self._taken_bytes)
            self._taken_bytes = -1


def check_deadline(context: Context) -> None:
    """Raises DeadlineSpent if the call's deadline has passed."""
    remaining = context.time_remaining()
    if remaining is not None and remaining <= 0:
        raise DeadlineSpent("the deadline had passed when the call arrived: nothing was done")


def check_size(size: int, bytes_max: int) -> None:
    """Raises RequestTooLarge for a message that exceeds the limit, but not the transport's."""
    if size > bytes_max:
        raise RequestTooLarge(
            "the message has {size_bytes} bytes, more than {bytes_max}",
            size_bytes=size,
            bytes_max=bytes_max,
        )


def refusal_of(error: Exception, call: str) -> CoordinatorError:
    """The refusal for an error of a call. A defect is logged; the caller gets no details."""
    if isinstance(error, CoordinatorError):
        return error
    _log.error("internal error in a call", call=call, exc_info=error)
    return CoordinatorError("internal error; the log of the server has the details")


def code_of(refusal: CoordinatorError | None) -> StatusCode:
    """The code of a call that ended with this refusal, or with an answer (None)."""
    return StatusCode.OK if refusal is None else CODE_BY_REASON[refusal.reason]
