"""Calls of one method that arrive in one turn of the event loop: their lives, and their answers.

The transport gives such calls, of all connections, each with its whole message. Only plain calls
are taken; all others are left to the handler of one call, so only that handler refuses them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from offsetd_coordinator.calls.call_life import CallLife, code_of, refusal_of
from offsetd_coordinator.calls.connections import Context
from offsetd_coordinator.grpc.unary_calls import Ended, refuse
from offsetd_coordinator.messages.statuses import status_of
from offsetd_coordinator.quotas.quota_table import Quota
from offsetd_coordinator.status_codes import StatusCode

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Iterable, Sequence

    from offsetd_coordinator.calls.access_control import Access
    from offsetd_coordinator.calls.admission import Admission
    from offsetd_coordinator.calls.connections import Answer
    from offsetd_coordinator.counters import MethodCounters
    from offsetd_coordinator.errors import CoordinatorError
    from offsetd_coordinator.messages.method_access import MethodAccess
    from offsetd_coordinator.runtime.runtime import Runtime


class Call(Context, Ended, Protocol):
    """A call whose message is whole."""

    def done(self) -> bool:
        """Whether it is over."""

    def answer(self, message: bytes, /) -> None:
        """Ends it with this answer, or with the status that was set."""

    def add_done_callback(self, callback: Callable[[Any], None], /) -> None:
        """Calls `callback` when it is over, and its answer has left."""


class Taken(NamedTuple):
    """A call that is taken."""

    call: Call
    life: CallLife
    message: bytes
    access: Access | None


class Outcome(NamedTuple):
    """The outcome of a call: its answer or refusal may leave once its tickets are durable."""

    taken: Taken
    ended_with: bytes | CoordinatorError
    tickets: Collection[int] = ()
    """The appends that it rests on. It leaves at once if they are all 0, or if there is none."""
    room: Answer | None = None
    """The reservation of a large answer; None for a small one."""


class JoinedCalls:
    """Takes the calls of one method, and ends them. For the event loop's thread.

    Without `method_access`, everybody may call the method.
    """

    def __init__(
        self,
        method: str,
        admission: Admission,
        counters: MethodCounters,
        *,
        request_bytes_max: int,
        method_access: MethodAccess | None,
    ) -> None:
        self._method = method
        self._admission = admission
        self._counters = counters
        self._request_bytes_max = request_bytes_max
        self._method_access = method_access

    def taken(self, call: Call, message: bytes) -> Taken | None:
        """Begins the life of a call; None if it is not plain."""
        remaining, size = call.time_remaining(), len(message)
        is_late = remaining is not None and remaining <= 0
        if is_late or size > self._request_bytes_max or not self._admission.has_room(size):
            return None
        access = None
        if self._method_access is not None:
            access = self._method_access.enter_now(call)
            if access is None:
                return None
        life = CallLife(self._admission, call)
        quotas = None if access is None else access.quotas
        if quotas is not None and not quotas.begin_call_now(life.connection, size):
            life.leave()
            return None
        life.take(size, self._request_bytes_max)
        return Taken(call, life, message, access)

    def leave(self, taken: Taken) -> Call:
        """Undoes `taken`: the handler of one call begins again."""
        if taken.access is not None and taken.access.quotas is not None:
            taken.access.quotas.undo_begin(len(taken.message))
        taken.life.leave()
        return taken.call

    def end_once_durable(self, runtime: Runtime, outcomes: Iterable[Outcome]) -> None:
        """Ends each call with its outcome, once the newest of its tickets is durable.

        If what it rests on is lost before that, it is refused.
        """
        by_ticket: dict[int, list[Outcome]] = {}
        for each in outcomes:
            each.taken.life.connection.note_message(each.taken.call, len(each.taken.message))
            by_ticket.setdefault(max(each.tickets, default=0), []).append(each)
        for ticket in sorted(by_ticket):
            waiting = runtime.durable(ticket) if ticket else None
            if waiting is None:
                self._end_all(runtime, by_ticket[ticket], None)
            else:
                waiting.add_done_callback(partial(self._end_all, runtime, by_ticket[ticket]))

    def _end_all(
        self,
        runtime: Runtime,
        outcomes: Sequence[Outcome],
        waited: asyncio.Future[None] | None,
    ) -> None:
        error = None if waited is None else waited.exception()
        refusal = refusal_of(error, self._method) if isinstance(error, Exception) else None
        log = runtime.log
        for each in outcomes:
            lost = refusal or (log.lost(each.tickets) if log.losses else None)
            self.end(each if lost is None else each._replace(ended_with=lost))

    def end(self, outcome: Outcome) -> None:
        """Answers or refuses a call, and closes its life."""
        taken, ended_with, _, room = outcome
        call, code = taken.call, StatusCode.CANCELLED
        try:
            if call.done():
                return
            if isinstance(ended_with, bytes):
                if room is not None:
                    room.send(len(ended_with))
                    call.add_done_callback(room.note_done)
                call.answer(ended_with)
                code = StatusCode.OK
                if taken.access is not None and taken.access.quotas is not None:
                    taken.access.quotas.spend({Quota.RESPONSE_BYTE_RATE: len(ended_with)})
            else:
                refuse(call, status_of(ended_with))
                call.answer(b"")
                code = code_of(ended_with)
        except Exception as error:  # noqa: BLE001  The other calls have to be answered.
            refusal_of(error, self._method)
        finally:
            if room is not None and code != StatusCode.OK:
                room.end()
            taken.life.close(self._counters, code)
