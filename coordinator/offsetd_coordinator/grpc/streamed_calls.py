"""Calls over gRPC that stream requests or answers. `unary_calls` has the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import grpc
import grpc.aio
import structlog

from offsetd_coordinator.calls import answer_reservations
from offsetd_coordinator.calls.call_life import CallLife, check_size, code_of, refusal_of
from offsetd_coordinator.grpc.unary_calls import refuse
from offsetd_coordinator.messages.statuses import status_of
from offsetd_coordinator.quotas.caller_quotas import one_stream
from offsetd_coordinator.quotas.quota_table import Quota
from offsetd_coordinator.status_codes import StatusCode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from offsetd_coordinator.calls.admission import Admission
    from offsetd_coordinator.calls.call_life import LoadEnded
    from offsetd_coordinator.counters import MethodCounters
    from offsetd_coordinator.grpc.unary_calls import Context
    from offsetd_coordinator.messages.method_access import MethodAccess
    from offsetd_coordinator.quotas.caller_quotas import CallerQuotas

    StreamedAnswer = Callable[[bytes], AsyncIterator[bytes]]
    StreamedQuestion = Callable[[AsyncIterator[bytes]], Awaitable[bytes]]

_log = structlog.get_logger(__name__)

_END_OF_STREAM: Final[object] = grpc.aio.EOF


def answering(
    answer: StreamedAnswer,
    admission: Admission,
    counters: MethodCounters,
    *,
    load_ended: LoadEnded,
    request_bytes_max: int,
    method_access: MethodAccess | None,
) -> grpc.RpcMethodHandler[bytes, bytes]:
    """A handler that sends the pieces that `answer` yields, one after the other."""

    async def call(message: bytes, context: Context) -> None:
        life = CallLife(admission, context)
        connection = life.connection

        async def run() -> None:
            quotas = None
            if method_access is not None:
                access = await method_access.enter(context, connection, len(message))
                await method_access.check(access, message)
                quotas = access.quotas
            life.take(len(message), request_bytes_max)
            try:
                with one_stream(quotas):
                    async for piece in answer(message):
                        connection.hold_answer(len(piece))
                        try:
                            await context.write(piece)
                        finally:
                            connection.let_go_answer()
                        if quotas is not None:
                            await quotas.pay({Quota.RESPONSE_BYTE_RATE: len(piece)})
            finally:
                answer_reservations.let_go()

        connection.note_message(context, len(message))
        await run_call(run, context, life, counters, answer.__qualname__, load_ended=load_ended)

    return grpc.unary_stream_rpc_method_handler(call)


def asking(
    answer: StreamedQuestion,
    admission: Admission,
    counters: MethodCounters,
    *,
    load_ended: LoadEnded,
    request_bytes_max: int,
    method_access: MethodAccess | None,
) -> grpc.RpcMethodHandler[bytes, bytes]:
    """A handler that passes arriving messages to `answer`, and sends its result.

    A message counts as in flight until the next one is requested. `answer` must limit how much of
    the messages it keeps.
    """

    async def call(_: object, context: Context) -> bytes:
        async def messages(quotas: CallerQuotas | None) -> AsyncIterator[bytes]:
            while (message := await context.read()) is not _END_OF_STREAM:
                life.connection.note_streamed(len(message))
                check_size(len(message), request_bytes_max)
                if quotas is not None:
                    await quotas.pay({Quota.REQUEST_BYTE_RATE: len(message)})
                await admission.take_in_turn(len(message))
                try:
                    yield message
                finally:
                    admission.give_back(len(message))

        response = b""

        async def run() -> None:
            nonlocal response
            if method_access is None:
                response = await answer(messages(None))
                return
            access = await method_access.enter(context, life.connection)
            with one_stream(access.quotas):
                response = await answer(messages(access.quotas))
            response = await method_access.visible(access, response)

        life = CallLife(admission, context)
        life.connection.note_stream(context)
        await run_call(run, context, life, counters, answer.__qualname__, load_ended=load_ended)
        return response

    return grpc.stream_unary_rpc_method_handler(call)


async def run_call(
    run: Callable[[], Awaitable[None]],
    context: Context,
    life: CallLife,
    counters: MethodCounters,
    name: str,
    *,
    load_ended: LoadEnded,
) -> None:
    """Runs a call after `Node.load_ended`, sets its status, and closes its life."""
    code = StatusCode.CANCELLED  # The code if the call is cancelled.
    try:
        life.begin(context)
        await load_ended(context.time_remaining())
        await run()
        code = StatusCode.OK
    except grpc.aio.InternalError:
        _log.debug("the client went away", call=name)
    except Exception as error:  # noqa: BLE001  A defect is a refusal, too.
        refusal = refusal_of(error, name)
        await life.hold(refusal, context)
        refuse(context, status_of(refusal))
        code = code_of(refusal)
    finally:
        life.close(counters, code)
