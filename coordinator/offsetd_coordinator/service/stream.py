"""StreamCommits: the fast road. One flush round's results leave in one message.

A task reads and submits, the call's own coroutine writes. What is unanswered is bounded: beyond,
the stream is not read, and HTTP/2's flow control holds the client back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import grpc
import grpc.aio
import structlog
from offsetd.v1 import offset_service_pb2

from offsetd_coordinator.errors import CoordinatorError, CoordinatorNotAvailable, InvalidField
from offsetd_coordinator.requests import CommitReply
from offsetd_coordinator.service import calls, statuses
from offsetd_coordinator.service.offsets import committed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from google.rpc.status_pb2 import Status

    from offsetd_coordinator.node import Node
    from offsetd_coordinator.requests import CommitOffsets, Reply
    from offsetd_coordinator.runtime import Runtime
    from offsetd_coordinator.service.commit_parser import CommitParser
    from offsetd_coordinator.service.limits import Admission

_log = structlog.get_logger(__name__)

_END_OF_STREAM: object = grpc.aio.EOF
# The loop is given to others after so many commits of one message.
_COMMITS_AT_ONCE_MAX = 64
_RESULTS_PER_MESSAGE_MAX = 4096


class _Unanswered(NamedTuple):
    """A commit without its result. `size`: counted in with so many bytes; None: not counted."""

    ticket: int
    sequence: int
    log_partition: int
    outcome: Reply | CoordinatorError
    size: int | None


def stream_commits(
    node: Node, admission: Admission, parser: CommitParser, *, unanswered_max: int
) -> grpc.RpcMethodHandler[bytes, bytes]:
    """The handler of StreamCommits."""

    async def call(_: object, context: calls.Context) -> None:
        stream = CommitStream(node, admission, parser, context, unanswered_max=unanswered_max)
        await stream.run()

    return grpc.stream_stream_rpc_method_handler(call)


class CommitStream:
    """One call of StreamCommits."""

    def __init__(
        self,
        node: Node,
        admission: Admission,
        parser: CommitParser,
        context: calls.Context,
        *,
        unanswered_max: int,
    ) -> None:
        self._node = node
        self._admission = admission
        self._context = context
        self._parser = parser
        self._unanswered_max = unanswered_max
        self._loop = asyncio.get_running_loop()
        self._unanswered: deque[_Unanswered] = deque()
        self._taken: asyncio.Future[None] | None = None  # The writer waits for a commit.
        self._room: asyncio.Future[None] | None = None  # The reader waits for answers.
        self._ended = False  # Nothing more is read.
        self._status: Status | None = None  # The call's end, if it is not OK.

    async def run(self) -> None:
        """Answers what is read, until the client has no more or the server stops."""
        try:
            calls.check_deadline(self._context)
            self._node.serving()
        except CoordinatorError as error:
            calls.refuse(self._context, statuses.status_of(error))
            return
        reader = self._loop.create_task(self._read())
        forget = self._node.call_on_drain(lambda: self._drain(reader))
        try:
            await self._write()
        except CoordinatorError as error:
            self._status = statuses.status_of(error)
        finally:
            # Abandoned or not: what was appended stays committed, and nothing is kept of the call.
            forget()
            reader.cancel()
            self._count_out(self._unanswered)
            self._unanswered.clear()
        if self._status is not None:
            calls.refuse(self._context, self._status)

    def _drain(self, reader: asyncio.Task[None]) -> None:
        self._end(statuses.status_of(CoordinatorNotAvailable("the server is stopping")))
        reader.cancel()

    def _end(self, status: Status | None) -> None:
        if not self._ended:
            self._ended = True
            self._status = status
        _wake(self._taken)

    async def _read(self) -> None:
        try:
            while (message := await self._context.read()) is not _END_OF_STREAM:
                await self._take(message)
                while len(self._unanswered) >= self._unanswered_max:
                    self._room = self._loop.create_future()
                    await self._room
        except CoordinatorError as error:
            self._end(statuses.status_of(error))
        except Exception:  # noqa: BLE001  A defect of ours; the caller learns no more than that.
            _log.exception("a stream failed for a defect")
            self._end(statuses.internal_status())
        else:
            self._end(None)

    async def _take(self, message: bytes) -> None:
        commits = self._parser.parse_stream(message)
        last = len(commits) - 1
        for index, (sequence, commit) in enumerate(commits):
            self._submit(sequence, commit, len(message) if index == last else 0)
            if index % _COMMITS_AT_ONCE_MAX == _COMMITS_AT_ONCE_MAX - 1:
                await asyncio.sleep(0)

    def _submit(self, sequence: int, commit: CommitOffsets | InvalidField, size: int) -> None:
        """Decides on one commit. Its refusal is its result; only a failed server ends the call."""
        ticket, log_partition = 0, 0
        counted: int | None = None
        outcome: Reply | CoordinatorError
        runtime = self._node.serving()
        try:
            if isinstance(commit, InvalidField):
                raise commit
            self._admission.take(size)
            counted = size
            ticket, outcome = runtime.submit(commit)
            log_partition = runtime.partition_of(commit.group_id)
        except CoordinatorError as refusal:
            outcome = refusal
        self._unanswered.append(_Unanswered(ticket, sequence, log_partition, outcome, counted))
        _wake(self._taken)

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
            waiting = runtime.durable(unanswered[0].ticket)
            if waiting is not None:
                await waiting
            answered = self._pop_durable(runtime)
            response = offset_service_pb2.StreamCommitsResponse(results=map(_result, answered))
            try:
                await self._context.write(response.SerializeToString())
            finally:
                self._count_out(answered)
            _wake(self._room)

    def _pop_durable(self, runtime: Runtime) -> list[_Unanswered]:
        unanswered = self._unanswered
        durable: list[_Unanswered] = []
        while unanswered and len(durable) < _RESULTS_PER_MESSAGE_MAX:
            if not runtime.is_durable(unanswered[0].ticket):
                break
            durable.append(unanswered.popleft())
        return durable

    def _count_out(self, answered: Iterable[_Unanswered]) -> None:
        sizes = [each.size for each in answered if each.size is not None]
        self._admission.give_back(sum(sizes), len(sizes))


def _result(answered: _Unanswered) -> offset_service_pb2.CommitResult:
    if isinstance(answered.outcome, CommitReply):
        return offset_service_pb2.CommitResult(
            sequence=answered.sequence,
            committed=committed(answered.log_partition, answered.outcome),
        )
    assert isinstance(answered.outcome, CoordinatorError)
    return offset_service_pb2.CommitResult(
        sequence=answered.sequence, error=statuses.status_of(answered.outcome)
    )


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
