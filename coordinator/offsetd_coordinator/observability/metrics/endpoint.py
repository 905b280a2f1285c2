"""The HTTP endpoint for Prometheus: GET /metrics, on threads of its own."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from http.server import ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import structlog
from prometheus_client import MetricsHandler

from offsetd_coordinator.observability.endpoint_security import EndpointSecurity
from offsetd_coordinator.observability.metrics.reader_connections import ReaderConnections

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_log = structlog.get_logger(__name__)

_SCRAPES_MAX: Final = 8
_WAITING_MAX: Final = 32
_SILENCE_SECONDS_MAX: Final = 10.0
_PATH: Final = "/metrics"


class MetricsEndpoint:
    """Serves a registry from its creation until `close` or the end of the process."""

    def __init__(
        self,
        address: str,
        registry: CollectorRegistry,
        *,
        security: EndpointSecurity | None = None,
    ) -> None:
        """`address` is HOST:PORT; port 0 chooses a free port. Raises OSError if it is taken."""
        security = security or EndpointSecurity()
        host, _, port = address.rpartition(":")
        found = socket.getaddrinfo(
            host.strip("[]") or None,
            port,
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )
        family, *_, socket_address = found[0]
        connections = ReaderConnections(waiting_max=_WAITING_MAX, served_max=_SCRAPES_MAX)
        parts = {"registry": registry, "security": security, "connections": connections}
        handler = type("Handler", (_Handler,), parts)
        self._server = _Server(family, socket_address, handler, security, connections)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """The HOST:PORT that the endpoint listens on."""
        host, port = self._server.socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def close(self) -> None:
        """Closes the port and stops serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(MetricsHandler):
    timeout = _SILENCE_SECONDS_MAX  # A silent connection is closed after this time.
    security: EndpointSecurity
    connections: ReaderConnections

    def do_GET(self) -> None:  # noqa: N802  The standard library's name.
        self._answer()
        if isinstance(self.connection, ssl.SSLSocket):
            # TLS's own end tells the reader that the answer is whole. A cut answer does not get it.
            with contextlib.suppress(OSError, ValueError):
                self.connection.unwrap()

    def _answer(self) -> None:
        if not self.security.lets_in(self.headers.get("Authorization")):
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Bearer")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if urlsplit(self.path).path != _PATH:
            self.send_error(404, f"there is only {_PATH}")
            return
        if not self.connections.admit():
            self.send_error(503, f"there are {_SCRAPES_MAX} readers at a time")
            return
        try:
            super().do_GET()
        except OSError:
            raise
        except Exception:  # noqa: BLE001  A defect of the server; the next scrape may work.
            _log.exception("a scrape failed because of a defect")
            self.send_error(500)


class _Server(ThreadingHTTPServer):
    """An HTTP server for a few scrapes at a time, each on a thread."""

    allow_reuse_port = False  # A second server on the port must fail to start.
    request_queue_size = 128  # In a shorter queue, a burst delays new connections by seconds.

    def __init__(
        self,
        family: socket.AddressFamily,
        address: Any,
        handler: type[MetricsHandler],
        security: EndpointSecurity,
        connections: ReaderConnections,
    ) -> None:
        self._security = security
        self._connections = connections
        self.address_family = family
        super().__init__(address, handler)

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer's method resolves the host's name: maybe slow.

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            self._connections.enter(request)
            context = self._security.context()
            if context is not None:
                # The handshake is here, not in `accept`: a silent client holds only its thread up.
                request.settimeout(_SILENCE_SECONDS_MAX)
                request = context.wrap_socket(
                    request, server_side=True, do_handshake_on_connect=False
                )
                request.do_handshake()
            super().process_request_thread(request, client_address)
        except (OSError, ValueError):  # The handshake failed.
            self.shutdown_request(request)
        finally:
            self._connections.leave()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores the error: the client has closed the connection."""
