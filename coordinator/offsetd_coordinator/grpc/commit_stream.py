"""StreamCommits, the fast way to commit: commits that arrive together are answered together.

The results of one flush are sent in one message. One task reads and submits; the call's own
coroutine writes. Unanswered work is bounded in bytes over all calls and in commits within one call.
Above these bounds the stream is not read, and HTTP/2's flow control stops the client. Such commits
are not refused, because a retry would change their order.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import grpc
import grpc.aio

from offsetd_coordinator.calls import answer_reservations
from offsetd_coordinator.calls.call_life import (
    CallLife,
    check_deadline,
    check_size,
    code_of,
    refusal_of,
)
from offsetd_coordinator.cooperative_scheduling import CommitTurns
from offsetd_coordinator.errors import (
    CoordinatorError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidField,
    NotCoordinator,
)
from offsetd_coordinator.grpc.single_commits import submitted
from offsetd_coordinator.grpc.stream_results import ResultEncoder
from offsetd_coordinator.grpc.unary_calls import refuse
from offsetd_coordinator.kernels.wire.commit_fields import ROWS
from offsetd_coordinator.messages.commit_access import CommitAccess
from offsetd_coordinator.messages.statuses import status_of
from offsetd_coordinator.quotas.caller_quotas import one_stream
from offsetd_coordinator.quotas.quota_table import Quota
from offsetd_coordinator.status_codes import StatusCode
from offsetd_coordinator.wire.commit_reader import COMMITS_AT_ONCE, ReadCommits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from offsetd_coordinator.calls.admission import Admission
    from offsetd_coordinator.calls.connections import Connection
    from offsetd_coordinator.counters import CallCounters, StreamCounters
    from offsetd_coordinator.grpc.call_tracing import CallTracing
    from offsetd_coordinator.grpc.stream_results import StreamResults
    from offsetd_coordinator.grpc.unary_calls import Context
    from offsetd_coordinator.messages.commit_parser import CommitParser, SequencedOutcome
    from offsetd_coordinator.messages.method_access import MethodAccess
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.quotas.caller_quotas import CallerQuotas
    from offsetd_coordinator.requests import CommitOffsets, CommitReply
    from offsetd_coordinator.runtime.runtime import Runtime

_END_OF_STREAM: object = grpc.aio.EOF
# The size at which a message of results is full. The last results may exceed it: at most 512
# results, of about 4 KiB each if they are refusals. gRPC's clients accept 4 MiB by default.
_RESULTS_PER_MESSAGE_MAX = 1024
_RESULT_BYTES_PER_MESSAGE_MAX = 1024 * 1024
# The cost of a commit in items of `Turns`: among several commits, and alone.
_ITEMS_PER_COMMIT = 2
_ITEMS_ALONE = 16
# Quotas that are below zero stop the reading of a stream, also of one that has just begun.
_PAID_BY_MESSAGE = (Quota.COMMIT_RATE, Quota.OFFSET_RATE, Quota.REQUEST_BYTE_RATE)
_OF_OWNERSHIP = (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)


class _Taken:
    """A message that admission counts until it is read and all its results are sent."""

    def __init__(
        self, admission: Admission, size: int, counters: StreamCounters, begun_seconds: float
    ) -> None:
        self.on_end: Callable[[], None] | None = None
        """Called when all results are sent."""
        self._admission = admission
        self._size = size
        self._counters = counters
        self._begun_seconds = begun_seconds
        self._holders = 1

    def hold(self) -> None:
        self._holders += 1

    def let_go(self) -> None:
        self._holders -= 1
        if not self._holders:
            self._admission.give_back(self._size)
            self._counters.message_durations.note(time.perf_counter() - self._begun_seconds)
            if self.on_end is not None:
                self.on_end()


class _Unanswered(NamedTuple):
    """Commits whose results are not sent yet, and their message."""

    ticket: int
    tickets: Sequence[int]
    results: StreamResults
    message: _Taken


def stream_commits(
    node: Node,
    admission: Admission,
    parser: CommitParser,
    counters: CallCounters,
    *,
    unanswered_max: int,
    request_bytes_max: int,
    method_access: MethodAccess | None,
    tracing: CallTracing | None,
) -> grpc.RpcMethodHandler[bytes, bytes]:
    """The handler of StreamCommits."""
    method = counters.method("StreamCommits")

    async def call(_: object, context: Context) -> None:
        life = CallLife(admission, context)
        stream = CommitStream(
            node,
            admission,
            parser,
            context,
            life.connection,
            counters.streams,
            unanswered_max=unanswered_max,
            request_bytes_max=request_bytes_max,
            method_access=method_access,
            tracing=tracing,
        )
        counters.streams.open_streams += 1
        try:
            await stream.run()
            await life.hold(stream.refusal, context)
        finally:
            counters.streams.open_streams -= 1
            life.close(method, stream.code)

    return grpc.stream_stream_rpc_method_handler(call)


class CommitStream:
    """One call of StreamCommits."""

    def __init__(
        self,
        node: Node,
        admission: Admission,
        parser: CommitParser,
        context: Context,
        connection: Connection,
        counters: StreamCounters,
        *,
        unanswered_max: int,
        request_bytes_max: int,
        method_access: MethodAccess | None,
        tracing: CallTracing | None = None,
    ) -> None:
        self.code = StatusCode.CANCELLED
        """The code of the call's end, after `run` has returned."""
        self.refusal: CoordinatorError | None = None
        """The call's end, if it is not OK."""
        self._connection = connection
        connection.note_stream(context)
        self._counters = counters
        self._node = node
        self._admission = admission
        self._context = context
        self._parser = parser
        self._unanswered_max = unanswered_max
        self._request_bytes_max = request_bytes_max
        self._method_access = method_access
        self._tracing = tracing
        self._commit_access: CommitAccess | None = None  # None: everybody may commit.
        self._quotas: CallerQuotas | None = None
        self._loop = asyncio.get_running_loop()
        self._unanswered: deque[_Unanswered] = deque()
        self._unanswered_commits = 0
        self._encoder = ResultEncoder()
        self._taken: asyncio.Future[None] | None = None  # The writer waits for a commit.
        self._room: asyncio.Future[None] | None = None  # The reader waits for answers.
        self._ended = False  # Reading has ended.
        # Log partitions of commits that were refused because they are not served here.
        self._absent: set[int] = set()
        self._losses = 0  # The log's losses when the unanswered commits were last looked through.

    async def run(self) -> None:
        """Answers commits until the client sends no more or the server stops."""
        try:
            check_deadline(self._context)
            if self._method_access is not None:
                access = await self._method_access.enter(self._context, self._connection)
                self._commit_access = CommitAccess(access)
                self._quotas = access.quotas
            await self._node.load_ended(self._context.time_remaining())
            self._node.serving()
            with one_stream(self._quotas):
                await self._answer()
        except CoordinatorError as error:
            self.refusal = error
        self.code = code_of(self.refusal)
        if self.refusal is not None:
            refuse(self._context, status_of(self.refusal))

    async def _answer(self) -> None:
        """Reads and writes until the stream ends."""
        reader = self._loop.create_task(self._read())
        forget = self._node.call_on_drain(lambda: self._drain(reader))
        try:
            await self._write()
        except CoordinatorError as error:
            self.refusal = error
        finally:
            # Appended commits stay even if the call was abandoned. Nothing else of the call is
            # kept.
            forget()
            reader.cancel()
            _let_go(self._unanswered)
            self._unanswered.clear()

    def _drain(self, reader: asyncio.Task[None]) -> None:
        self._end(self._node.refusal_of_drain())
        reader.cancel()

    def _end(self, refusal: CoordinatorError | None) -> None:
        if not self._ended:
            self._ended = True
            self.refusal = refusal
        _wake(self._taken)

    async def _read(self) -> None:
        try:
            while (message := await self._context.read()) is not _END_OF_STREAM:
                await self._take(message)
        except Exception as error:  # noqa: BLE001  A defect is a refusal, too.
            self._end(refusal_of(error, "StreamCommits"))
        else:
            self._end(None)

    async def _take(self, message: bytes) -> None:
        begun_seconds = time.perf_counter()
        self._connection.note_streamed(len(message))
        check_size(len(message), self._request_bytes_max)
        quotas = self._quotas
        if quotas is not None:
            await quotas.until_paid(_PAID_BY_MESSAGE)
            quotas.spend({Quota.REQUEST_BYTE_RATE: len(message)})
        await self._admission.take_in_turn(len(message))
        taken = _Taken(self._admission, len(message), self._counters, begun_seconds)
        try:
            rest, turns = self._parser.open_stream(message), CommitTurns()
            if rest.traceparent and self._tracing is not None:
                taken.on_end = self._tracing.message_span(rest.traceparent, rest.group_ids)
            while not rest.is_read:
                room = self._unanswered_max - self._unanswered_commits
                read = rest.read(min(room, COMMITS_AT_ONCE))
                offsets = _offset_count(read)
                commits = self._submit(read, taken)
                if quotas is not None:
                    quotas.spend({Quota.COMMIT_RATE: commits, Quota.OFFSET_RATE: offsets})
                if not rest.is_read:
                    if quotas is not None:
                        await quotas.until_paid(_PAID_BY_MESSAGE)
                    await turns.spend(max(commits * _ITEMS_PER_COMMIT, _ITEMS_ALONE))
                while self._unanswered_commits >= self._unanswered_max:
                    self._room = self._loop.create_future()
                    await self._room
        finally:
            taken.let_go()

    def _submit(self, read: ReadCommits | SequencedOutcome, taken: _Taken) -> int:
        """Submits commits; returns their number. Refusals are results; failures end the call."""
        runtime = self._node.serving()
        self._check_order(runtime)
        allowed = self._commit_access
        if allowed is not None:
            allowed.check_identity()
        if isinstance(read, ReadCommits):
            refused = {} if allowed is None else allowed.refusals(read)
            submitted = self._node.commit_runs.submit(read, refused)
            ticket, tickets = submitted.ticket, submitted.tickets
            results = self._encoder.encode(submitted)
            self._note_absent(submitted.refusals.values())
        else:
            ticket, results, outcome = submitted_alone(runtime, self._encoder, *read, allowed)
            tickets = [ticket]
            self._note_absent([outcome])
        taken.hold()
        self._unanswered_commits += results.commits
        self._unanswered.append(_Unanswered(ticket, tickets, results, taken))
        _wake(self._taken)
        return results.commits

    def _note_absent(self, outcomes: Iterable[object]) -> None:
        for outcome in outcomes:
            if isinstance(outcome, _OF_OWNERSHIP) and "log_partition" in outcome.variables:
                self._absent.add(int(outcome.variables["log_partition"]))

    def _check_order(self, runtime: Runtime) -> None:
        """Raises CoordinatorNotAvailable if a log partition is served again on this stream.

        The client may have sent more commits of a group before it heard that an earlier one was
        refused. If these were accepted, the earlier one would come after them. After the end of the
        stream, the client sends all of them again, in order. The same holds for commits behind one
        that was accepted and lost: raises the error of `CommitLog.lost`.
        """
        if self._losses != runtime.log.losses:
            self._losses = runtime.log.losses
            for each in self._unanswered:
                if (lost := runtime.log.lost(each.tickets)) is not None:
                    raise lost
        for partition in self._absent:
            if runtime.serves(partition):
                raise CoordinatorNotAvailable(
                    "log partition {log_partition} was not served here for a time",
                    log_partition=partition,
                )

    async def _write(self) -> None:
        unanswered = self._unanswered
        while True:
            if not unanswered:
                if self._ended:
                    return
                self._taken = self._loop.create_future()
                await self._taken
                self._taken = None
                continue
            runtime = self._node.runtime
            assert runtime is not None, "what is unanswered was submitted"
            # `until_durable`, inlined: each answer of a stream does this.
            waiting = runtime.durable(unanswered[0].ticket)
            if waiting is not None:
                await waiting
            lost = runtime.log.lost(unanswered[0].tickets)
            if lost is not None:  # The client cannot learn each outcome, so it retries.
                raise lost
            answered = self._pop_durable(runtime)
            response = b"".join([each.results.response for each in answered])
            end_hold = answer_reservations.hold_small(self._connection, len(response))
            try:
                await self._context.write(response)
            finally:
                end_hold()
                _let_go(answered)
            _wake(self._room)

    def _pop_durable(self, runtime: Runtime) -> list[_Unanswered]:
        unanswered = self._unanswered
        durable: list[_Unanswered] = []
        commits = size = 0
        while (
            unanswered
            and commits < _RESULTS_PER_MESSAGE_MAX
            and size < _RESULT_BYTES_PER_MESSAGE_MAX
        ):
            if not runtime.is_durable(unanswered[0].ticket):
                break
            if runtime.log.lost(unanswered[0].tickets) is not None:
                break
            durable.append(unanswered.popleft())
            results = durable[-1].results
            commits += results.commits
            size += len(results.response)
            self._counters.result_codes[StatusCode.OK] += results.commits - len(
                results.refusal_codes
            )
            for code in results.refusal_codes:
                self._counters.result_codes[code] += 1
        self._unanswered_commits -= commits
        return durable


def _offset_count(read: ReadCommits | SequencedOutcome) -> int:
    if isinstance(read, ReadCommits):
        return int(read.commits[:, ROWS].sum())
    commit = read[1]
    return 0 if isinstance(commit, InvalidField) else len(commit.columns)


def submitted_alone(
    runtime: Runtime,
    encoder: ResultEncoder,
    sequence: int,
    commit: CommitOffsets | InvalidField,
    allowed: CommitAccess | None = None,
) -> tuple[int, StreamResults, CommitReply | CoordinatorError]:
    """The ticket and the result of a single commit, encoded and not."""
    require = None if allowed is None else allowed.require
    ticket, log_partition, outcome = submitted(runtime, commit, require)
    return ticket, encoder.encode_one(sequence, log_partition, outcome), outcome


def _let_go(answered: Iterable[_Unanswered]) -> None:
    for each in answered:
        each.message.let_go()


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
