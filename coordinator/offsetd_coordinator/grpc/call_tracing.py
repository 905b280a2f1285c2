"""Spans of calls, by OpenTelemetry. Only imported if tracing is on: the extra `otel` has it.

The names of spans and attributes are those of OpenTelemetry's conventions for RPC and messaging.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any, Final

import grpc
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from opentelemetry.context import Context as TraceContext
from opentelemetry.trace import SpanKind, StatusCode, use_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from offsetd_coordinator.calls.connections import metadata_text
from offsetd_coordinator.messages.method_access import METHODS
from offsetd_coordinator.messages.statuses import STATUS_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from opentelemetry.trace import Span, Tracer

    Handlers = Mapping[str, grpc.RpcMethodHandler[bytes, bytes]]

TRACEPARENT: Final = "traceparent"
"""The metadata that names the caller's span (W3C Trace Context)."""
GROUP: Final = "messaging.consumer.group.name"
OUTCOME: Final = "offsetd.outcome"
_CODE: Final = "rpc.grpc.status_code"
_GROUPS_MAX: Final = 10
_SAMPLED: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-([0-9a-f]{2})")
# They have no end, or a span for each message.
_WITHOUT_SPAN: Final = frozenset({"WatchOffsets", "StreamCommits"})


class CallTracing:
    """Makes a span for each call whose trace is sampled. For the event loop's thread."""

    def __init__(self, tracer: Tracer, sample_ratio: float) -> None:
        """`sample_ratio` is of the calls that begin a trace. `tracer` samples all that it gets."""
        self._tracer = tracer
        self._sample_ratio = sample_ratio
        self._propagator = TraceContextTextMapPropagator()

    def is_sampled(self, traceparent: str) -> bool:
        """Whether a call has a span: the caller decides, or chance if it does not trace.

        The library would decide the same, but its spans that are not sampled cost a tenth of a
        commit.
        """
        traced = _SAMPLED.match(traceparent)
        if traced is None:
            return random.random() < self._sample_ratio
        return bool(int(traced[1], 16) & 1)

    def traced(self, service: str, handlers: Handlers) -> Handlers:
        """The handlers of a service, with spans."""
        return {
            name: each if name in _WITHOUT_SPAN else self._traced(f"{service}/{name}", name, each)
            for name, each in handlers.items()
        }

    def begin(self, name: str, traceparent: str) -> Span:
        """A span of a call, `SERVICE/METHOD`. Without a `traceparent` it begins a trace."""
        parent = TraceContext()
        if traceparent:
            parent = self._propagator.extract({TRACEPARENT: traceparent}, parent)
        span = self._tracer.start_span(name, context=parent, kind=SpanKind.SERVER)
        service, _, method = name.partition("/")
        span.set_attributes({"rpc.system": "grpc", "rpc.service": service, "rpc.method": method})
        return span

    def message_span(self, traceparent: str, group_ids: Sequence[str]) -> Callable[[], None] | None:
        """Begins the span of a message of StreamCommits. Returns what ends it; None without one."""
        if not self.is_sampled(traceparent):
            return None
        span = self.begin("offsetd.v1.OffsetService/StreamCommits", traceparent)
        _note_groups(span, group_ids)
        span.set_attribute("offsetd.commits", len(group_ids))
        return span.end

    def _traced(
        self, name: str, method: str, handler: grpc.RpcMethodHandler[bytes, bytes]
    ) -> grpc.RpcMethodHandler[bytes, bytes]:
        request_class = GetMessageClass(METHODS[method].input_type)
        inner: Any = handler.stream_unary or handler.unary_stream
        assert inner is not None, "the other kinds have no span here"

        async def call(message: Any, context: Any) -> Any:
            traceparent = metadata_text(context, TRACEPARENT)
            if not self.is_sampled(traceparent):
                return await inner(message, context)
            span = self.begin(name, traceparent)
            if isinstance(message, bytes):
                _note_groups(span, _groups_in(request_class, message))
            else:
                context = _ReadContext(context, span, request_class)
            with use_span(span, end_on_exit=True):
                answer = await inner(message, context)
                _note_outcome(span, context)
            return answer

        if handler.stream_unary:
            return grpc.stream_unary_rpc_method_handler(call)
        return grpc.unary_stream_rpc_method_handler(call)


class _ReadContext:
    """The context of a call that notes the groups of its first message."""

    def __init__(self, context: Any, span: Span, request_class: Any) -> None:
        self._context = context
        self._span: Span | None = span
        self._request_class = request_class

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def read(self) -> Any:
        """Reads a message."""
        message = await self._context.read()
        if isinstance(message, bytes) and self._span is not None:
            _note_groups(self._span, _groups_in(self._request_class, message))
            self._span = None
        return message


def _note_groups(span: Span, group_ids: Iterable[str]) -> None:
    """Gives a span the groups of its call, the first few."""
    groups = list(dict.fromkeys(group_ids))[:_GROUPS_MAX]
    if len(groups) == 1:
        span.set_attribute(GROUP, groups[0])
    elif groups:
        span.set_attribute("offsetd.groups", groups)


def _note_outcome(span: Span, context: Any) -> None:
    code = context.code() or grpc.StatusCode.OK
    if not isinstance(code, grpc.StatusCode):  # grpc.aio gives the number of some.
        code = next(each for each in grpc.StatusCode if each.value[0] == code)
    span.set_attribute(_CODE, code.value[0])
    outcome = "OK" if code is grpc.StatusCode.OK else _reason(context) or code.name
    span.set_attribute(OUTCOME, outcome)
    if code is not grpc.StatusCode.OK:
        span.set_status(StatusCode.ERROR, outcome)


def _reason(context: Any) -> str:
    """The public reason of a refusal."""
    for name, value in context.trailing_metadata() or ():
        if name == STATUS_KEY:
            for detail in Status.FromString(value).details:
                info = ErrorInfo()
                if detail.Unpack(info):
                    return str(info.reason)
    return ""


def _groups_in(request_class: Any, message: bytes) -> list[str]:
    """The groups that a request names."""
    try:
        request = request_class.FromString(message)
    except DecodeError:
        return []
    groups = [*getattr(request, "group_ids", ())]
    groups += [each.group_id for each in getattr(request, "groups", ())]
    groups.append(getattr(request, "group_id", ""))
    return [each for each in groups if each]
