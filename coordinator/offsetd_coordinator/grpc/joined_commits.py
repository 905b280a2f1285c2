"""Unary commits that arrive in one turn of the event loop are submitted in one run.

The transport gives the calls of a turn, of all connections, each with its whole message. Only plain
calls are taken; all others are left to the handler of one call, so only that handler refuses them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from offsetd_coordinator.calls.call_life import CallLife, code_of, refusal_of
from offsetd_coordinator.calls.connections import Context
from offsetd_coordinator.errors import (
    CoordinatorError,
    CoordinatorLoadInProgress,
    InvalidField,
)
from offsetd_coordinator.grpc.unary_calls import Ended, refuse
from offsetd_coordinator.kernels.records.commit_batches import (
    ANSWER_LAST_OFFSET,
    ANSWER_LOG_PARTITION,
)
from offsetd_coordinator.messages.commit_access import refusals_of, require_commit
from offsetd_coordinator.messages.commit_parser import stream_of
from offsetd_coordinator.messages.revisions import committed_response
from offsetd_coordinator.messages.statuses import status_of
from offsetd_coordinator.requests import CommitReply
from offsetd_coordinator.status_codes import StatusCode
from offsetd_coordinator.wire.commit_reader import COMMITS_AT_ONCE, ReadCommits

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from offsetd_coordinator.calls.access_control import Access
    from offsetd_coordinator.calls.admission import Admission
    from offsetd_coordinator.counters import MethodCounters
    from offsetd_coordinator.messages.commit_parser import CommitParser, SequencedOutcome
    from offsetd_coordinator.messages.method_access import MethodAccess
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.runtime.runtime import Runtime


class Call(Context, Ended, Protocol):
    """A call whose message is whole."""

    def done(self) -> bool:
        """Whether it is over."""

    def answer(self, message: bytes, /) -> None:
        """Ends it with this answer, or with the status that was set."""


class _Taken(NamedTuple):
    call: Call
    life: CallLife
    message: bytes
    access: Access | None


# A ticket, and the answer or the refusal that may leave once it is durable.
_Outcome = tuple[int, bytes | CoordinatorError]


class JoinedCommits:
    """The calls of CommitOffsets, by turns. For the event loop's thread.

    Without `method_access`, everybody may commit.
    """

    def __init__(
        self,
        node: Node,
        admission: Admission,
        parser: CommitParser,
        counters: MethodCounters,
        *,
        request_bytes_max: int,
        method_access: MethodAccess | None,
    ) -> None:
        self._node = node
        self._admission = admission
        self._parser = parser
        self._counters = counters
        self._request_bytes_max = request_bytes_max
        self._method_access = method_access

    def take(self, calls: Sequence[tuple[Call, bytes]]) -> list[Call]:
        """Submits commits, to be answered once they are durable. Returns the calls it leaves."""
        try:
            runtime = self._node.serving()
        except CoordinatorError:
            return [call for call, _ in calls]
        taken, left = [], []
        for call, message in calls:
            admitted = self._admitted(call, message)
            if admitted is None:
                left.append(call)
            else:
                taken.append(admitted)
        for first in range(0, len(taken), COMMITS_AT_ONCE):
            left += self._submit(runtime, taken[first : first + COMMITS_AT_ONCE])
        return left

    def _admitted(self, call: Call, message: bytes) -> _Taken | None:
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
        life.take(size, self._request_bytes_max)
        return _Taken(call, life, message, access)

    def _submit(self, runtime: Runtime, taken: Sequence[_Taken]) -> list[Call]:
        """Submits at most 512 commits. Returns the calls that it leaves."""
        left: list[Call] = []
        place = 0
        try:
            rest = self._parser.open_stream(stream_of([each.message for each in taken]))
            while place < len(taken):
                read = rest.read(COMMITS_AT_ONCE)
                count = len(read.commits) if isinstance(read, ReadCommits) else 1
                those = taken[place : place + count]
                if isinstance(read, ReadCommits):
                    outcomes = self._outcomes(runtime, those, read)
                else:
                    outcomes = [self._outcome(runtime, those[0], read)]
                place += count
                left += self._answer_later(runtime, those, outcomes)
        except Exception as error:  # noqa: BLE001  A defect is a refusal, too.
            refusal = refusal_of(error, "CommitOffsets")
            for each in taken[place:]:
                self._end(each, refusal)
        return left

    def _outcomes(
        self, runtime: Runtime, taken: Sequence[_Taken], read: ReadCommits
    ) -> list[_Outcome]:
        accesses = [each.access for each in taken if each.access is not None]
        refused = refusals_of(accesses, read) if accesses else {}
        submitted = self._node.commit_runs.submit(read, refused)
        tickets, refusals, at_once = runtime.log.tickets, submitted.refusals, submitted.at_once
        answers = submitted.answers[:, [ANSWER_LOG_PARTITION, ANSWER_LAST_OFFSET]].tolist()
        outcomes: list[_Outcome] = []
        for place, (log_partition, last_offset) in enumerate(answers):
            refusal = refusals.get(place)
            if refusal is None:
                response = committed_response(log_partition, last_offset)
                outcomes.append((tickets[log_partition], response))
            else:
                outcomes.append((0 if place in at_once else tickets[log_partition], refusal))
        return outcomes

    def _outcome(self, runtime: Runtime, taken: _Taken, read: SequencedOutcome) -> _Outcome:
        commit = read[1]
        if isinstance(commit, InvalidField):
            return 0, commit
        try:
            if taken.access is not None:
                require_commit(taken.access, commit)
            ticket, reply = runtime.submit(commit)
        except CoordinatorError as refusal:
            return 0, refusal
        if isinstance(reply, CommitReply):
            log_partition = runtime.partition_of(commit.group_id)
            return ticket, committed_response(log_partition, reply.last_offset)
        assert isinstance(reply, CoordinatorError), "what a commit may come to"
        return ticket, reply

    def _answer_later(
        self, runtime: Runtime, taken: Sequence[_Taken], outcomes: Sequence[_Outcome]
    ) -> list[Call]:
        """Answers each call once its ticket is durable. Returns the calls that it leaves.

        Refusals that rest on nothing in the log have ticket 0, and leave at once.
        """
        left = []
        by_ticket: dict[int, list[tuple[_Taken, bytes | CoordinatorError]]] = {}
        for each, (ticket, outcome) in zip(taken, outcomes, strict=True):
            if isinstance(outcome, InvalidField | CoordinatorLoadInProgress):
                each.life.leave()
                left.append(each.call)
                continue
            each.life.connection.note_message(each.call, len(each.message))
            if ticket:
                by_ticket.setdefault(ticket, []).append((each, outcome))
            else:
                self._end(each, outcome)
        for ticket in sorted(by_ticket):
            waiting = runtime.durable(ticket)
            if waiting is None:
                self._answer(by_ticket[ticket], None)
            else:
                waiting.add_done_callback(partial(self._answer, by_ticket[ticket]))
        return left

    def _answer(
        self,
        outcomes: Sequence[tuple[_Taken, bytes | CoordinatorError]],
        waited: asyncio.Future[None] | None,
    ) -> None:
        error = None if waited is None else waited.exception()
        if isinstance(error, Exception):
            refusal = refusal_of(error, "CommitOffsets")
            outcomes = [(each, refusal) for each, _ in outcomes]
        for each, outcome in outcomes:
            self._end(each, outcome)

    def _end(self, taken: _Taken, outcome: bytes | CoordinatorError) -> None:
        """Answers or refuses a call, and closes its life."""
        call, code = taken.call, StatusCode.CANCELLED
        try:
            if call.done():
                return
            if isinstance(outcome, bytes):
                call.answer(outcome)
                code = StatusCode.OK
            else:
                refuse(call, status_of(outcome))
                call.answer(b"")
                code = code_of(outcome)
        except Exception as error:  # noqa: BLE001  The other calls have to be answered.
            refusal_of(error, "CommitOffsets")
        finally:
            taken.life.close(self._counters, code)
