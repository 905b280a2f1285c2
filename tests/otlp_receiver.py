"""A receiver of spans, as a collector of OpenTelemetry is: OTLP over HTTP."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

import attrs
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from collections.abc import Mapping


@attrs.frozen(kw_only=True)
class ReceivedSpan:
    """A span, its ids in hexadecimal digits; `parent_id` is empty at the beginning of a trace."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: Mapping[str, Any]
    resource: Mapping[str, Any]
    is_error: bool


class OtlpReceiver:
    """Listens on a port of the machine's choosing, in a `with` block."""

    def __init__(self) -> None:
        self.spans: list[ReceivedSpan] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self._server.server_port}",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }

    def take(self, request: ExportTraceServiceRequest) -> None:
        """Keeps the spans of a message."""
        for resource_spans in request.resource_spans:
            resource = _values(resource_spans.resource.attributes)
            for scope_spans in resource_spans.scope_spans:
                self.spans += [
                    ReceivedSpan(
                        name=span.name,
                        trace_id=span.trace_id.hex(),
                        span_id=span.span_id.hex(),
                        parent_id=span.parent_span_id.hex(),
                        attributes=_values(span.attributes),
                        resource=resource,
                        is_error=span.status.code == 2,
                    )
                    for span in scope_spans.spans
                ]

    def of(self, name: str) -> list[ReceivedSpan]:
        """The spans of a method."""
        return [span for span in list(self.spans) if span.name.endswith(f"/{name}")]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _values(attributes: Any) -> dict[str, Any]:
    found = {}
    for each in attributes:
        kind = each.value.WhichOneof("value")
        value = getattr(each.value, kind)
        if kind == "array_value":
            value = [item.string_value for item in value.values]
        found[each.key] = value
    return found
