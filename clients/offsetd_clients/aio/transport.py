"""A channel to one server, for asyncio: it makes calls by name, and raises typed errors.

The twin in `sync` offers the same names for threads.
"""

import asyncio
import functools
import os
import time
from typing import Any, Self

import grpc
import grpc.aio
from offsetd.v1.offset_service_pb2 import FetchOffsetsRequest, GroupOffsets

from offsetd_clients.aio.shared_fetches import SharedFetches
from offsetd_clients.calling.connection import CHANNEL_OPTIONS, plain_channel_options
from offsetd_clients.calling.methods import METHODS
from offsetd_clients.calling.security import Metadata, Security
from offsetd_clients.calling.tracing import Tracing
from offsetd_clients.errors import (
    Failure,
    OffsetdError,
    closed_before,
    closed_while_waiting,
    error_of,
    forked,
)
from offsetd_clients.messages.conversions import call_failure


class Channel:
    """Calls methods of one server by their names in `METHODS`.

    Every failure is an `OffsetdError`.

    It belongs to the event loop that is running when it is first used.
    """

    def __init__(self, address: str, security: Security, tracing: Tracing | None = None) -> None:
        """The channel connects when it is first used. Raises InsecureToken."""
        security.check(address)
        self._tracing = tracing
        self._security = security
        self.address = address
        self._closed = False
        self._process = os.getpid()
        self._channel: grpc.aio.Channel | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._methods: dict[str, Any] = {}
        self._fetches = SharedFetches(functools.partial(self.call, "FetchOffsets"))

    async def call(self, name: str, request: Any, timeout_s: float) -> Any:
        """Makes the call. `request` is an iterable of requests if the method takes a stream."""
        if self._tracing is None:
            return await self._call(name, request, timeout_s)
        with self._tracing.call(name, request) as traceparent:
            return await self._call(name, request, timeout_s, traceparent)

    async def _call(
        self, name: str, request: Any, timeout_s: float, traceparent: Metadata = ()
    ) -> Any:
        begin_s = time.monotonic()
        metadata = (*(await self._security.metadata_async(timeout_s) or ()), *traceparent)
        callee = self._method(name)
        left_s = max(timeout_s - (time.monotonic() - begin_s), 0)
        try:
            return await callee(request, timeout=left_s, metadata=metadata)
        except grpc.RpcError as error:
            raise self._error_of(error) from error
        except asyncio.CancelledError:
            if self._cancelled_by_close():
                raise closed_while_waiting() from None
            raise

    async def fetch(self, request: FetchOffsetsRequest, timeout_s: float) -> GroupOffsets:
        """The stored offsets of the one group in the request. Concurrent fetches share calls."""
        return await self._fetches.fetch(request, timeout_s)

    async def stream(self, name: str, request: Any, timeout_s: float | None = None) -> "Answers":
        """The stream of answers of a method. If `timeout_s` is None, it has no time limit."""
        metadata = await self._security.metadata_async(timeout_s)
        return Answers(self, self._method(name)(request, timeout=timeout_s, metadata=metadata))

    async def close(self) -> None:
        """Closes the connection. Calls in flight, and all later ones, raise `ClientClosed`."""
        self._closed = True
        if self._channel is not None and os.getpid() == self._process:
            await self._channel.close()

    def check_process(self) -> None:
        """Raises ForkedClient in a child of the process that made the channel."""
        if os.getpid() != self._process:
            raise forked(self._process)

    def _method(self, name: str) -> Any:
        self.check_process()
        if self._closed:
            raise closed_before()
        if self._loop is not asyncio.get_running_loop():
            self._open()
        callee = self._methods.get(name)
        if callee is None:
            assert self._channel is not None
            method = METHODS[name]
            many = ("unary", "stream")
            kind = f"{many[method.client_streaming]}_{many[method.server_streaming]}"
            make = getattr(self._channel, kind)
            callee = make(method.path, method.serializer, method.deserializer)
            self._methods[name] = callee
        return callee

    def _open(self) -> None:
        if self._loop is not None:
            raise RuntimeError("an AsyncOffsetClient belongs to the event loop that it began in")
        self._loop = asyncio.get_running_loop()
        tls = self._security.tls
        self._channel = (
            grpc.aio.insecure_channel(self.address, plain_channel_options(self.address))
            if tls is None
            else grpc.aio.secure_channel(
                self.address, tls.credentials(), (*CHANNEL_OPTIONS, *tls.channel_options())
            )
        )

    def _cancelled_by_close(self) -> bool:
        """Whether a cancellation comes from closing the channel.

        When a channel is closed, gRPC cancels its waiting calls as if their tasks were cancelled.
        """
        return self._closed and not _task_is_cancelled()

    def _error_of(self, error: grpc.RpcError) -> OffsetdError:
        failure = call_failure(error, self._security.tls)
        if self._closed and failure.code == "CANCELLED":
            return closed_while_waiting()
        return error_of(failure)


class Answers:
    """The answers of a stream, one after the other. Iterating raises `OffsetdError`."""

    def __init__(self, channel: Channel, call: Any) -> None:
        """Use `Channel.stream`."""
        self._channel = channel
        self._call = call

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            message = await self._call.read()
        except grpc.RpcError as error:
            raise self._channel._error_of(error) from error
        except asyncio.CancelledError:
            if self._channel._cancelled_by_close():
                raise closed_while_waiting() from None
            if _task_is_cancelled() or not self._call.cancelled():
                raise
            raise error_of(Failure(code="CANCELLED", message="the call was cancelled")) from None
        if message is grpc.aio.EOF:
            raise StopAsyncIteration
        return message

    def cancel(self) -> None:
        """Cancels the call, if it has not ended."""
        self._call.cancel()


def _task_is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
