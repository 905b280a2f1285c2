"""Unary commits that arrive in one turn of the event loop are submitted in one run.

The transport gives the calls of a turn, of all connections, each with its whole message. Only plain
calls are taken; all others are left to the handler of one call, so only that handler refuses them.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from offsetd_coordinator.calls.call_life import CallLife, code_of, refusal_of
from offsetd_coordinator.calls.connections import Context
from offsetd_coordinator.errors import CoordinatorError, InvalidField
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
from offsetd_coordinator.services.durable_answers import until_all_durable
from offsetd_coordinator.status_codes import StatusCode
from offsetd_coordinator.wire.commit_reader import COMMITS_AT_ONCE, ReadCommits

if TYPE_CHECKING:
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


class _Submitted(NamedTuple):
    """A call whose commit has an outcome, which may leave once `ticket` is durable."""

    call: Call
    life: CallLife
    ticket: int
    outcome: bytes | CoordinatorError


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
        self._alone: set[asyncio.Task[None]] = set()

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
        life.connection.note_message(call, size)
        life.take(size, self._request_bytes_max)
        return _Taken(call, life, message, access)

    def _submit(self, runtime: Runtime, taken: Sequence[_Taken]) -> list[Call]:
        """Submits at most 512 commits. Returns the calls whose commits break a rule."""
        left = []
        place = 0
        rest = self._parser.open_stream(stream_of([each.message for each in taken]))
        while place < len(taken):
            read = rest.read(COMMITS_AT_ONCE)
            if isinstance(read, ReadCommits):
                those = taken[place : place + len(read.commits)]
                self._submit_run(runtime, those, read)
                place += len(those)
                continue
            each = taken[place]
            place += 1
            if isinstance(read[1], InvalidField):
                each.life.leave()
                left.append(each.call)
            else:
                self._submit_alone(runtime, each, read)
        return left

    def _submit_run(self, runtime: Runtime, taken: Sequence[_Taken], read: ReadCommits) -> None:
        accesses = [each.access for each in taken if each.access is not None]
        try:
            refused = refusals_of(accesses, read) if accesses else {}
            submitted = self._node.commit_runs.submit(read, refused)
        except Exception as error:  # noqa: BLE001  A defect is a refusal, too.
            defect = refusal_of(error, "CommitOffsets")
            for each in taken:
                _end(_Submitted(each.call, each.life, 0, defect), self._counters)
            return
        tickets, refusals = runtime.log.tickets, submitted.refusals
        answers = submitted.answers[:, [ANSWER_LOG_PARTITION, ANSWER_LAST_OFFSET]].tolist()
        outcomes: list[_Submitted] = []
        for place, (each, (log_partition, last_offset)) in enumerate(
            zip(taken, answers, strict=True)
        ):
            refusal = refusals.get(place)
            outcomes.append(
                _Submitted(
                    each.call,
                    each.life,
                    tickets[log_partition],
                    committed_response(log_partition, last_offset) if refusal is None else refusal,
                )
            )
        self._answer_later(runtime, submitted.ticket, outcomes)

    def _submit_alone(self, runtime: Runtime, taken: _Taken, read: SequencedOutcome) -> None:
        commit, ticket = read[1], 0
        assert not isinstance(commit, InvalidField), "such a commit is left"
        outcome: bytes | CoordinatorError
        try:
            if taken.access is not None:
                require_commit(taken.access, commit)
            ticket, reply = runtime.submit(commit)
            if isinstance(reply, CommitReply):
                log_partition = runtime.partition_of(commit.group_id)
                outcome = committed_response(log_partition, reply.last_offset)
            else:
                assert isinstance(reply, CoordinatorError), "what a commit may come to"
                outcome = reply
        except Exception as error:  # noqa: BLE001  A defect is a refusal, too.
            outcome = refusal_of(error, "CommitOffsets")
        self._answer_later(runtime, ticket, [_Submitted(taken.call, taken.life, ticket, outcome)])

    def _answer_later(self, runtime: Runtime, ticket: int, outcomes: Sequence[_Submitted]) -> None:
        """Answers once `ticket`, the newest of the outcomes, is durable."""
        waiting = runtime.durable(ticket)
        if waiting is None:
            self._answer(runtime, outcomes, None)
        else:
            waiting.add_done_callback(partial(self._answer, runtime, outcomes))

    def _answer(
        self,
        runtime: Runtime,
        outcomes: Sequence[_Submitted],
        waited: asyncio.Future[None] | None,
    ) -> None:
        is_lost = waited is not None and (waited.cancelled() or waited.exception() is not None)
        if is_lost or runtime.log.lost([each.ticket for each in outcomes]) is not None:
            # The partitions of the other outcomes may not be lost.
            for each in outcomes:
                task = asyncio.get_running_loop().create_task(self._answer_alone(runtime, each))
                self._alone.add(task)
                task.add_done_callback(self._alone.discard)
            return
        for each in outcomes:
            _end(each, self._counters)

    async def _answer_alone(self, runtime: Runtime, submitted: _Submitted) -> None:
        try:
            await until_all_durable(runtime, [submitted.ticket])
        except Exception as error:  # noqa: BLE001  A defect is a refusal, too.
            submitted = submitted._replace(outcome=refusal_of(error, "CommitOffsets"))
        _end(submitted, self._counters)


def _end(submitted: _Submitted, counters: MethodCounters) -> None:
    """Answers or refuses a call, and closes its life."""
    call, life, _, outcome = submitted
    if call.done():
        life.close(counters, StatusCode.CANCELLED)
        return
    if isinstance(outcome, bytes):
        call.answer(outcome)
        life.close(counters, StatusCode.OK)
        return
    refuse(call, status_of(outcome))
    call.answer(b"")
    life.close(counters, code_of(outcome))
