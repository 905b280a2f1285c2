"""Spans of a client's calls, by OpenTelemetry. Only the extra `otel` has the library.

The names of spans and attributes are those of OpenTelemetry's conventions for RPC and messaging.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from offsetd_clients.calling.methods import METHODS
from offsetd_clients.errors import OffsetdError

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_TRACEPARENT = "traceparent"
_COMMIT: ContextVar[str] = ContextVar("offsetd_commit_traceparent", default="")


def commit_traceparent() -> str:
    """The span of the commit that is being handed in, for the server; empty if it has none."""
    return _COMMIT.get()


def commit_span(tracing: "Tracing | None", group_id: str) -> AbstractContextManager[None]:
    """The span of a commit on the stream; nothing without tracing."""
    return nullcontext() if tracing is None else tracing.commit(group_id)


class Tracing:
    """Makes spans with the application's tracer provider."""

    def __init__(self) -> None:
        """Raises ModuleNotFoundError without the extra `otel`."""
        try:
            from opentelemetry import trace  # noqa: PLC0415  An extra has it.
            from opentelemetry.trace.propagation import tracecontext  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"tracing needs OpenTelemetry: pip install 'offsetd[otel]' ({error})"
            ) from error
        self._trace = trace
        self._tracer = trace.get_tracer("offsetd_clients")
        self._propagator = tracecontext.TraceContextTextMapPropagator()

    @contextmanager
    def call(self, name: str, request: Any) -> "Iterator[tuple[tuple[str, str], ...]]":
        """The span of a call. Yields the metadata that takes it to the server."""
        with self._span(name, getattr(request, "group_id", "")) as span:
            yield tuple(self._carrier(span).items())

    @contextmanager
    def commit(self, group_id: str) -> Iterator[None]:
        """The span of a commit on the stream. It begins at the hand-in and ends with the answer."""
        with self._span("StreamCommits", group_id) as span:
            token = _COMMIT.set(self._carrier(span).get(_TRACEPARENT, ""))
            try:
                yield
            finally:
                _COMMIT.reset(token)

    @contextmanager
    def commit_soon(self, group_id: str) -> Iterator[Callable[[Any], None]]:
        """Begins the span of a commit without waiting for its future.

        Yields the callback for the future, which ends the span.
        """
        span = self._begin("StreamCommits", group_id)
        token = _COMMIT.set(self._carrier(span).get(_TRACEPARENT, ""))
        try:
            yield lambda future: self._end(span, future)
        except BaseException:
            span.end()
            raise
        finally:
            _COMMIT.reset(token)

    def _end(self, span: "Span", future: Any) -> None:
        if not future.cancelled() and isinstance(error := future.exception(), OffsetdError):
            self._note(span, error)
        span.end()

    def _begin(self, name: str, group_id: str) -> "Span":
        path = METHODS[name].path[1:]
        service, _, method = path.partition("/")
        attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}
        if group_id:
            attributes["messaging.consumer.group.name"] = group_id
        return self._tracer.start_span(
            path, kind=self._trace.SpanKind.CLIENT, attributes=attributes
        )

    @contextmanager
    def _span(self, name: str, group_id: str) -> "Iterator[Span]":
        span = self._begin(name, group_id)
        with self._trace.use_span(
            span, end_on_exit=True, record_exception=False, set_status_on_exception=False
        ):
            try:
                yield span
            except OffsetdError as error:
                self._note(span, error)
                raise

    def _note(self, span: "Span", error: OffsetdError) -> None:
        outcome = error.reason or error.code
        span.set_attribute("offsetd.outcome", outcome)
        span.set_status(self._trace.StatusCode.ERROR, outcome)

    def _carrier(self, span: "Span") -> dict[str, str]:
        carrier: dict[str, str] = {}
        if span.get_span_context().trace_flags.sampled:
            self._propagator.inject(carrier, self._trace.set_span_in_context(span))
        return carrier
