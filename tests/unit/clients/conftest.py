"""A server that answers as it is told, for tests of the client and of the command line."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import attrs
import grpc
import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc.code_pb2 import Code
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2
from grpc_status import rpc_status
from offsetd.v1 import admin_service_pb2, group_service_pb2, offset_service_pb2

SERVICES = (
    offset_service_pb2.DESCRIPTOR.services_by_name["OffsetService"],
    group_service_pb2.DESCRIPTOR.services_by_name["GroupService"],
    admin_service_pb2.DESCRIPTOR.services_by_name["AdminService"],
    health_pb2.DESCRIPTOR.services_by_name["Health"],
)


@attrs.define
class FakeServer:
    """Answers each method with the next of what was scripted for it; keeps what it was asked."""

    address: str = ""
    script: dict[str, list[Message | Callable[..., Message]]] = attrs.field(factory=dict)
    requests: list[Any] = attrs.field(factory=list)
    timeouts_s: list[float] = attrs.field(factory=list)
    asked: Event = attrs.field(factory=Event)

    def will_answer(self, method: str, *answers: Message | Callable[..., Message]) -> None:
        """A Status is an error; any other message is the answer; a function is called for it."""
        self.script.setdefault(method, []).extend(answers)

    def silence(self, context: grpc.ServicerContext) -> Message:
        """An answer that never comes."""
        over = Event()
        if context.add_callback(over.set):
            over.wait()
        return Status()  # Nobody is there to get it.

    def answer(self, method: str, request: Message, context: grpc.ServicerContext) -> Message:
        self.requests.append(request)
        self.timeouts_s.append(context.time_remaining())
        self.asked.set()
        answer = self.script[method].pop(0)
        if callable(answer):
            answer = answer(context)
        if isinstance(answer, Status):
            context.abort_with_status(rpc_status.to_status(answer))
        return answer

    def handlers(self) -> Iterator[grpc.GenericRpcHandler]:
        for service in SERVICES:
            methods = {
                method.name: grpc.unary_unary_rpc_method_handler(
                    self._handler(method.name),
                    request_deserializer=GetMessageClass(method.input_type).FromString,
                    response_serializer=GetMessageClass(method.output_type).SerializeToString,
                )
                for method in service.methods
                if not method.client_streaming
            }
            yield grpc.method_handlers_generic_handler(service.full_name, methods)

    def _handler(self, method: str) -> Callable[[Message, grpc.ServicerContext], Message]:
        return lambda request, context: self.answer(method, request, context)


@pytest.fixture
def fake_server() -> Iterator[FakeServer]:
    """Listens on a port of its own."""
    fake = FakeServer()
    server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers(tuple(fake.handlers()))
    fake.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield fake
    server.stop(None).wait()


@pytest.fixture
def failed() -> Callable[..., Status]:
    """Makes the status of a refused call, as the server sends it."""

    def make(
        code: str,
        reason: str,
        message: str = "it went wrong",
        *,
        retry_after_ms: int | None = None,
        violations: dict[str, str] | None = None,
        **details: str,
    ) -> Status:
        status = Status(code=Code.Value(code), message=message)
        status.details.add().Pack(ErrorInfo(reason=reason, domain="offsetd", metadata=details))
        if retry_after_ms is not None:
            retry = RetryInfo()
            retry.retry_delay.FromMilliseconds(retry_after_ms)
            status.details.add().Pack(retry)
        if violations:
            bad = [
                BadRequest.FieldViolation(field=field, description=description)
                for field, description in violations.items()
            ]
            status.details.add().Pack(BadRequest(field_violations=bad))
        return status

    return make
