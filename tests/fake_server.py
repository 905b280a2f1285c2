"""A server that answers as it is told, and clients of both kinds behind one surface."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING, Any

import attrs
import grpc
from google.protobuf.message_factory import GetMessageClass
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2
from grpc_status import rpc_status
from offsetd.v1 import (
    acl_service_pb2,
    admin_service_pb2,
    group_service_pb2,
    offset_service_pb2,
)
from offsetd_clients import OffsetClient

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from google.protobuf.message import Message

SERVICES = (
    offset_service_pb2.DESCRIPTOR.services_by_name["OffsetService"],
    group_service_pb2.DESCRIPTOR.services_by_name["GroupService"],
    admin_service_pb2.DESCRIPTOR.services_by_name["AdminService"],
    acl_service_pb2.DESCRIPTOR.services_by_name["AclService"],
    health_pb2.DESCRIPTOR.services_by_name["Health"],
)


@attrs.define
class FakeServer:
    """Answers each method with the next of what was scripted for it; keeps what it was asked."""

    address: str = ""
    script: dict[str, list[Message | Callable[..., Message]]] = attrs.field(factory=dict)
    requests: list[Any] = attrs.field(factory=list)
    timeouts_s: list[float] = attrs.field(factory=list)
    metadata: list[dict[str, Any]] = attrs.field(factory=list)
    asked: Event = attrs.field(factory=Event)
    answer_each: Callable[[Any], Message] | None = None
    """Answers every call, from its request; None: the script does."""
    messages: list[Any] = attrs.field(factory=list)
    answer_stream: Callable[..., Iterator[Message]] | None = None
    """Answers StreamCommits, from an iterator over its messages; None: it is not known."""

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
        self.metadata.append(dict(context.invocation_metadata()))
        self.timeouts_s.append(context.time_remaining())
        self.asked.set()
        answer: Any = self.answer_each and self.answer_each(request)
        if answer is None:
            answer = self.script[method].pop(0)
        if callable(answer):
            answer = answer(context)
        if isinstance(answer, Status):
            abort(context, answer)
        return answer

    def answer_stream_commits(
        self, messages: Iterator[Message], context: grpc.ServicerContext
    ) -> Iterator[Message]:
        if self.answer_stream is None:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        yield from self.answer_stream(self._kept(messages), context)

    def _kept(self, messages: Iterator[Message]) -> Iterator[Message]:
        for message in messages:
            self.messages.append(message)
            yield message

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
            if "StreamCommits" in service.methods_by_name:
                methods["StreamCommits"] = grpc.stream_stream_rpc_method_handler(
                    self.answer_stream_commits,
                    request_deserializer=offset_service_pb2.StreamCommitsRequest.FromString,
                    response_serializer=lambda response: response.SerializeToString(),
                )
            yield grpc.method_handlers_generic_handler(service.full_name, methods)

    def _handler(self, method: str) -> Callable[[Message, grpc.ServicerContext], Message]:
        return lambda request, context: self.answer(method, request, context)


@contextmanager
def serving(address: str = "127.0.0.1:0") -> Iterator[FakeServer]:
    """A server at an address, or on a port of its own."""
    fake = FakeServer()
    server = grpc.server(ThreadPoolExecutor(16), options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers(tuple(fake.handlers()))
    fake.address = f"127.0.0.1:{server.add_insecure_port(address)}"
    server.start()
    yield fake
    server.stop(None).wait()


def abort(context: grpc.ServicerContext, status: Status) -> None:
    """Ends a call as the server does."""
    context.abort_with_status(rpc_status.to_status(status))


class EitherClient:
    """A client of one kind, of which every call is awaited: for tests that hold for both."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        call = getattr(self.client, name)
        if isinstance(self.client, OffsetClient):
            return functools.partial(asyncio.to_thread, call)
        made: Callable[..., Awaitable[Any]] = call
        return made


async def outcome(future: Any) -> Any:
    """The result of a future of either kind."""
    if isinstance(future, concurrent.futures.Future):
        return await asyncio.wrap_future(future)
    return await future
