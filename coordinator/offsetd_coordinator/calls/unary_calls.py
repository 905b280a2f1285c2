"""The life of a unary call: its deadline, admission, and the conversion of errors to statuses.

Methods are registered as generic handlers on raw bytes. grpc's registered methods would be matched
a little faster, but each adds a waiter that has to be re-armed for every call that arrives.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio
import structlog
from google.rpc.code_pb2 import Code
from google.rpc.status_pb2 import Status

from offsetd_coordinator.calls import answer_budget, callers, statuses
from offsetd_coordinator.errors import (
    CoordinatorError,
    CoordinatorLoadInProgress,
    DeadlineSpent,
    RequestTooLarge,
)
from offsetd_coordinator.figures import CANCELLED, OK

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from offsetd_coordinator.calls.admission import Admission
    from offsetd_coordinator.calls.connections import Context
    from offsetd_coordinator.figures import MethodFigures

    UnaryAnswer = Callable[[bytes], Awaitable[bytes]]
    LoadEnded = Callable[[float | None], Awaitable[None]]

_log = structlog.get_logger(__name__)

_GRPC_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}
_NO_MESSAGE: Final = Status(code=Code.CANCELLED, message="the call had no message")
assert all(Code.Value(code.name) == number for number, code in _GRPC_CODES.items())


def unary(
    answer: UnaryAnswer,
    admission: Admission,
    figures: MethodFigures,
    *,
    load_ended: LoadEnded,
    request_bytes_max: int,
) -> grpc.RpcMethodHandler[bytes, bytes]:
    """A handler that calls `answer` with the request's bytes and sends what it returns.

    Calls it again after `Node.load_ended`, if the server was loading.
    """

    async def call(_: object, context: Context) -> bytes:
        begun_seconds = time.perf_counter()
        connection = admission.connections.open_call(context)
        taken_bytes = None
        code = CANCELLED  # The code if the call is cancelled.
        try:
            message = await admission.begun.message(context, connection)
            if message is None:
                refuse(context, _NO_MESSAGE)
                return b""
            size = len(message)
            connection.note_message(context, size)
            check_deadline(context)
            check_size(size, request_bytes_max)
            admission.take(size)
            taken_bytes = size
            callers.note_connection(connection)
            try:
                response = await answer(message)
            except CoordinatorLoadInProgress:
                await load_ended(context.time_remaining())
                response = await answer(message)
            sent = answer_budget.sent(connection, len(response))
            if sent is not None:
                context.add_done_callback(sent.note_done)  # type: ignore[arg-type]  # Its stub.
            code = OK
        except CoordinatorError as error:
            code = _refuse(context, error)
        except Exception:  # noqa: BLE001  A defect of ours; the caller learns no more than that.
            _log.exception("a call failed for a defect", call=answer.__qualname__)
            status = statuses.internal_status()
            refuse(context, status)
            code = status.code
        finally:
            if code != OK:
                answer_budget.let_go()
            if taken_bytes is not None:
                admission.give_back(taken_bytes)
            connection.end_call()
            figures.note(code, time.perf_counter() - begun_seconds)
        return response if code == OK else b""

    return grpc.stream_unary_rpc_method_handler(_AsyncHandler(call))


class _AsyncHandler:
    """A handler that gRPC quickly recognises as async. It checks twice for each call.

    Its first check is whether the handler is awaitable. This one says so, but nobody awaits it.
    """

    def __init__(self, call: Callable[[Any, Context], Awaitable[bytes]]) -> None:
        self._call = call

    def __call__(self, messages: Any, context: Context) -> Awaitable[bytes]:
        return self._call(messages, context)

    def __await__(self) -> Any:
        raise NotImplementedError


def check_deadline(context: Context) -> None:
    """Raises DeadlineSpent if the call's deadline has passed."""
    remaining = context.time_remaining()
    if remaining is not None and remaining <= 0:
        raise DeadlineSpent("the deadline had passed when the call arrived: nothing was done")


def check_size(size: int, bytes_max: int) -> None:
    """Raises RequestTooLarge for a message that gRPC accepts and the server's limit does not."""
    if size > bytes_max:
        raise RequestTooLarge(
            "the message has {size_bytes} bytes, more than {bytes_max}",
            size_bytes=size,
            bytes_max=bytes_max,
        )


def refuse(context: Context, status: Status) -> None:
    """Ends the call with `status`, whatever its handler returns."""
    context.set_code(_GRPC_CODES[status.code])
    context.set_details(status.message)
    context.set_trailing_metadata(((statuses.STATUS_KEY, status.SerializeToString()),))


def _refuse(context: Context, error: CoordinatorError) -> int:
    """Ends the call with an error's status; returns its code."""
    status = statuses.status_of(error)
    refuse(context, status)
    return int(status.code)


def service_handler(
    service: str, methods: dict[str, grpc.RpcMethodHandler[Any, Any]]
) -> grpc.GenericRpcHandler:
    """The methods of one service, by their names."""
    return grpc.method_handlers_generic_handler(service, methods)
