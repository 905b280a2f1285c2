"""A channel to one server, for threads: it makes calls by name, and raises typed errors.

The twin in `aio` offers the same names for asyncio.
"""

import inspect
import os
from typing import Any, Self

import grpc
from offsetd.v1.offset_service_pb2 import FetchOffsetsRequest, GroupOffsets

from offsetd_clients.calling.connection import CHANNEL_OPTIONS, plain_channel_options
from offsetd_clients.calling.methods import METHODS
from offsetd_clients.calling.security import Metadata, Security
from offsetd_clients.calling.tracing import Tracing
from offsetd_clients.errors import (
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
    """

    def __init__(self, address: str, security: Security, tracing: Tracing | None = None) -> None:
        """The channel connects when it is first used. Raises InsecureToken, TypeError."""
        self._tracing = tracing
        security.check(address)
        if inspect.iscoroutinefunction(security.token):
            raise TypeError("token: an `async` function is for the client for asyncio")
        self.address = address
        self._closed = False
        self._process = os.getpid()
        self._security = security
        tls = security.tls
        self._channel = (
            grpc.insecure_channel(address, plain_channel_options(address))
            if tls is None
            else grpc.secure_channel(
                address, tls.credentials(), (*CHANNEL_OPTIONS, *tls.channel_options())
            )
        )
        self._methods: dict[str, Any] = {}

    def call(self, name: str, request: Any, timeout_s: float) -> Any:
        """Makes the call. `request` is an iterable of requests if the method takes a stream."""
        if self._tracing is None:
            return self._call(name, request, timeout_s)
        with self._tracing.call(name, request) as traceparent:
            return self._call(name, request, timeout_s, traceparent)

    def _call(self, name: str, request: Any, timeout_s: float, traceparent: Metadata = ()) -> Any:
        try:
            asked = iter(request) if METHODS[name].client_streaming else request
            metadata = (*(self._security.metadata() or ()), *traceparent)
            return self._method(name)(asked, timeout=timeout_s, metadata=metadata)
        except grpc.RpcError as error:
            raise self._error_of(error) from error
        except ValueError:  # gRPC's error for a channel that was just closed.
            if self._closed:
                raise closed_before() from None
            raise

    def fetch(self, request: FetchOffsetsRequest, timeout_s: float) -> GroupOffsets:
        """The stored offsets of the one group in the request."""
        offsets: GroupOffsets = self.call("FetchOffsets", request, timeout_s).groups[0]
        return offsets

    def stream(self, name: str, request: Any, timeout_s: float | None = None) -> "Answers":
        """The stream of answers of a method. `timeout_s` None: without a time limit."""
        try:
            call = self._method(name)(
                request, timeout=timeout_s, metadata=self._security.metadata()
            )
            return Answers(self, call)
        except ValueError:
            if self._closed:
                raise closed_before() from None
            raise

    def close(self) -> None:
        """Closes the connection. Calls in flight, and all later ones, raise `ClientClosed`."""
        self._closed = True
        if os.getpid() == self._process:
            self._channel.close()

    def check_process(self) -> None:
        """Raises ForkedClient in a child of the process that made the channel."""
        if os.getpid() != self._process:
            raise forked(self._process)

    def _method(self, name: str) -> Any:
        self.check_process()
        if self._closed:
            raise closed_before()
        callee = self._methods.get(name)
        if callee is None:
            method = METHODS[name]
            many = ("unary", "stream")
            kind = f"{many[method.client_streaming]}_{many[method.server_streaming]}"
            make = getattr(self._channel, kind)
            callee = make(method.path, method.serializer, method.deserializer)
            self._methods[name] = callee
        return callee

    def _error_of(self, error: grpc.RpcError) -> OffsetdError:
        failure = call_failure(error, self._security.tls)
        if self._closed and failure.code == "CANCELLED":
            return closed_while_waiting()
        return error_of(failure)


class Answers:
    """The answers of a stream, one after the other. Iterating raises `OffsetdError`."""

    def __init__(self, channel: Channel, call: Any) -> None:
        """For `Channel.stream`."""
        self._channel = channel
        self._call = call

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._call)
        except grpc.RpcError as error:
            raise self._channel._error_of(error) from error

    def cancel(self) -> None:
        """Cancels the call, if it has not ended."""
        self._call.cancel()
