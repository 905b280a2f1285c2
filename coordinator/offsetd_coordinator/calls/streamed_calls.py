"""The life of a call that streams requests or answers; for single messages see `unary_calls`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import grpc
import grpc.aio
import structlog

from offsetd_coordinator.calls import answer_budget, callers, statuses, unary_calls
from offsetd_coordinator.errors import CoordinatorError
from offsetd_coordinator.figures import CANCELLED, OK

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from google.rpc.status_pb2 import Status

    from offsetd_coordinator.calls.admission import Admission
    from offsetd_coordinator.calls.connections import Connection, Context
    from offsetd_coordinator.figures import MethodFigures

    StreamedAnswer = Callable[[bytes], AsyncIterator[bytes]]
    StreamedQuestion = Callable[[AsyncIterator[bytes]], Awaitable[bytes]]

_log = structlog.get_logger(__name__)

_END_OF_STREAM: Final[object] = grpc.aio.EOF


def answering(
    answer: StreamedAnswer,
    admission: Admission,
    figures: MethodFigures,
    *,
    load_ended: unary_calls.LoadEnded,
    request_bytes_max: int,
) -> grpc.RpcMethodHandler[bytes, bytes]:
    """A handler that sends the pieces that `answer` yields, one after the other."""

    async def call(message: bytes, context: Context) -> None:
        async def run() -> None:
            unary_calls.check_size(len(message), request_bytes_max)
            admission.take(len(message))
            try:
                async for piece in answer(message):
                    connection.hold_answer(len(piece))
                    try:
                        await context.write(piece)
                    finally:
                        connection.let_go_answer()
            finally:
                answer_budget.let_go()
                admission.give_back(len(message))

        connection = admission.connections.open_call(context)
        connection.note_message(context, len(message))
        await run_call(
            run, context, connection, figures, answer.__qualname__, load_ended=load_ended
        )

    return grpc.unary_stream_rpc_method_handler(call)


def asking(
    answer: StreamedQuestion,
    admission: Admission,
    figures: MethodFigures,
    *,
    load_ended: unary_calls.LoadEnded,
    request_bytes_max: int,
) -> grpc.RpcMethodHandler[bytes, bytes]:
    """A handler that passes arriving messages to `answer`, and sends what it returns.

    A message counts as in flight until the next one is requested. `answer` has to bound what it
    keeps of the messages.
    """

    async def call(_: object, context: Context) -> bytes:
        async def messages() -> AsyncIterator[bytes]:
            while (message := await context.read()) is not _END_OF_STREAM:
                connection.note_streamed(len(message))
                unary_calls.check_size(len(message), request_bytes_max)
                await admission.take_in_turn(len(message))
                try:
                    yield message
                finally:
                    admission.give_back(len(message))

        response = b""

        async def run() -> None:
            nonlocal response
            response = await answer(messages())

        connection = admission.connections.open_call(context)
        connection.note_stream(context)
        await run_call(
            run, context, connection, figures, answer.__qualname__, load_ended=load_ended
        )
        return response

    return grpc.stream_unary_rpc_method_handler(call)


async def run_call(
    run: Callable[[], Awaitable[None]],
    context: Context,
    connection: Connection,
    figures: MethodFigures,
    name: str,
    *,
    load_ended: unary_calls.LoadEnded,
) -> None:
    """Runs a call to its end after `Node.load_ended`, gives it its status, and counts it.

    The call counts as open at `connection` until then.
    """
    begun_seconds = time.perf_counter()
    status: Status | None = None
    code = CANCELLED  # The code if the call is cancelled.
    callers.note_connection(connection)
    try:
        unary_calls.check_deadline(context)
        await load_ended(context.time_remaining())
        await run()
        code = OK
    except CoordinatorError as error:
        status = statuses.status_of(error)
    except grpc.aio.InternalError:
        _log.debug("the client went away", call=name)
    except Exception:  # noqa: BLE001  A defect of ours; the caller learns no more than that.
        _log.exception("a call failed for a defect", call=name)
        status = statuses.internal_status()
    finally:
        connection.end_call()
        if status is not None:
            unary_calls.refuse(context, status)
            code = status.code
        figures.note(code, time.perf_counter() - begun_seconds)
