"""Unary calls over gRPC: reading the message, and sending the answer or the refusal.

Methods are registered as generic handlers on raw bytes. grpc would match registered methods a
little faster, but each adds a waiter that is renewed for every call that arrives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import grpc
import grpc.aio
from google.rpc.status_pb2 import Status

from offsetd_coordinator.calls import answer_reservations
from offsetd_coordinator.calls.call_life import CallLife, code_of, refusal_of
from offsetd_coordinator.errors import CoordinatorLoadInProgress
from offsetd_coordinator.messages.statuses import STATUS_KEY, status_of
from offsetd_coordinator.quotas.quota_table import Quota
from offsetd_coordinator.status_codes import StatusCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from offsetd_coordinator.calls.admission import Admission
    from offsetd_coordinator.calls.call_life import LoadEnded
    from offsetd_coordinator.calls.connections import Connection
    from offsetd_coordinator.counters import MethodCounters
    from offsetd_coordinator.messages.method_access import MethodAccess

    UnaryAnswer = Callable[[bytes], Awaitable[bytes]]
    Context = grpc.aio.ServicerContext[bytes, bytes]

_END_OF_STREAM: Final[object] = grpc.aio.EOF
_GRPC_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}
_NO_MESSAGE: Final = Status(code=StatusCode.CANCELLED, message="the call had no message")
assert all(StatusCode[code.name] == number for number, code in _GRPC_CODES.items())


class Ended(Protocol):
    """A call whose end can be set."""

    def set_code(self, code: grpc.StatusCode, /) -> None:
        """Sets the status."""

    def set_details(self, details: str, /) -> None:
        """Sets the text of the status."""

    def set_trailing_metadata(self, trailing_metadata: Any, /) -> None:
        """Sets the metadata of its end: pairs of a key and a value."""


def unary(
    answer: UnaryAnswer,
    admission: Admission,
    counters: MethodCounters,
    *,
    load_ended: LoadEnded,
    request_bytes_max: int,
    method_access: MethodAccess | None,
) -> grpc.RpcMethodHandler[bytes, bytes]:
    """A handler that calls `answer` with the request's bytes and sends what it returns.

    If the server is loading, it calls `answer` again after `Node.load_ended`. Without
    `method_access`, everybody may call it.
    """

    async def answered(message: bytes, context: Context, connection: Connection) -> bytes:
        if method_access is None:
            return await answer(message)
        access = await method_access.enter(context, connection, len(message))
        await method_access.check(access, message)
        response = await method_access.visible(access, await answer(message))
        if access.quotas is not None:
            access.quotas.spend({Quota.RESPONSE_BYTE_RATE: len(response)})
        return response

    async def call(_: object, context: Context) -> bytes:
        life = CallLife(admission, context)
        code = StatusCode.CANCELLED  # The code if the call is cancelled.
        try:
            message = await admission.begun.message(context.read, life.connection)
            if message is _END_OF_STREAM:
                refuse(context, _NO_MESSAGE)
                return b""
            size = len(message)
            life.connection.note_message(context, size)
            life.begin(context)
            life.take(size, request_bytes_max)
            try:
                response = await answered(message, context, life.connection)
            except CoordinatorLoadInProgress:
                await load_ended(context.time_remaining())
                response = await answered(message, context, life.connection)
            sent = answer_reservations.sent(life.connection, len(response))
            if sent is not None:
                context.add_done_callback(sent.note_done)  # type: ignore[arg-type]  # Its stub.
            code = StatusCode.OK
        except Exception as error:  # noqa: BLE001  A defect is a refusal, too.
            refusal = refusal_of(error, answer.__qualname__)
            await life.hold(refusal, context)
            refuse(context, status_of(refusal))
            code = code_of(refusal)
        finally:
            life.close(counters, code)
        return response if code == StatusCode.OK else b""

    return grpc.stream_unary_rpc_method_handler(_AsyncHandler(call))


class _AsyncHandler:
    """A handler that gRPC quickly recognises as async. gRPC checks that twice for each call.

    The first check is whether the handler is awaitable. This one is, but it is never awaited.
    """

    def __init__(self, call: Callable[[Any, Context], Awaitable[bytes]]) -> None:
        self._call = call

    def __call__(self, messages: Any, context: Context) -> Awaitable[bytes]:
        return self._call(messages, context)

    def __await__(self) -> Any:
        raise NotImplementedError


def refuse(context: Ended, status: Status) -> None:
    """Ends the call with `status`. Then gRPC ignores the answer of its handler."""
    context.set_code(_GRPC_CODES[status.code])
    context.set_details(status.message)
    context.set_trailing_metadata(((STATUS_KEY, status.SerializeToString()),))


def service_handler(
    service: str, methods: Mapping[str, grpc.RpcMethodHandler[Any, Any]]
) -> grpc.GenericRpcHandler:
    """The methods of one service, by their names."""
    return grpc.method_handlers_generic_handler(service, dict(methods))
