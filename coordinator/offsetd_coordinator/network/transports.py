"""The server that speaks gRPC below the handlers: that of grpcio, or that of `offsetd-wire`."""

from __future__ import annotations

import importlib.util
import ssl
from typing import TYPE_CHECKING, Any, Final, cast

import grpc
import grpc.aio
import structlog

from offsetd_coordinator.calls.connections import REASONS, UNENDED
from offsetd_coordinator.network.connection_limits import channel_options, unended_bytes_max

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_coordinator.calls.admission import Admission
    from offsetd_coordinator.configuration.server_settings import Settings

_log = structlog.get_logger(__name__)

WIRE: Final = "wire"
GRPCIO: Final = "grpcio"
_TOLD_PEERS: Final = 5
_EXTRA: Final = "offsetd_wire"


class TransportMissing(Exception):
    """The setting names a transport that is not installed."""


def transport_of(settings: Settings) -> str:
    """`wire` or `grpcio`. Raises TransportMissing."""
    is_installed = importlib.util.find_spec(_EXTRA) is not None
    if settings.transport == WIRE and not is_installed:
        raise TransportMissing(
            "transport=wire needs offsetd-wire, which is not installed: install the extra wire, or"
            " set transport=grpcio"
        )
    return WIRE if settings.transport != GRPCIO and is_installed else GRPCIO


def new_server(settings: Settings, admission: Admission) -> grpc.aio.Server:
    """A server of the transport that the settings ask for. Raises TransportMissing.

    Messages that have begun and are not whole count in `admission`, if the transport knows of them.
    """
    options = channel_options(settings)
    if transport_of(settings) == GRPCIO:
        return grpc.aio.server(options=options)
    from offsetd_wire import MessageRoom, Server  # noqa: PLC0415  Only with the extra.

    def note_closed(peers: list[str]) -> None:
        admission.connections.note_closed(UNENDED, len(peers))
        told = ", ".join(peers[:_TOLD_PEERS])
        _log.warning("connections closed", reason=REASONS[UNENDED], count=len(peers), peers=told)

    room = MessageRoom(
        *unended_bytes_max(settings),
        has_room_beside=admission.has_room_beside,
        on_change=admission.note_unended,
        on_closed=note_closed,
    )
    # It has the same methods.
    return cast("grpc.aio.Server", Server(options, room=room))


def add_port(
    server: grpc.aio.Server,
    settings: Settings,
    credentials: Callable[[], grpc.ServerCredentials | None],
    tls_context: Callable[[], ssl.SSLContext],
) -> int:
    """Binds the address of the settings; returns its port. Raises RuntimeError or OSError.

    With TLS, each transport asks for its own form of the certificates.
    """
    address = settings.listen_address
    if not settings.has_tls:
        return server.add_insecure_port(address)
    is_wire = transport_of(settings) == WIRE
    secure: Any = handshake_context(tls_context) if is_wire else credentials()
    return server.add_secure_port(address, secure)


def handshake_context(newest: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    """A context for a listener that gives each handshake the newest one."""
    context = newest()

    def exchange(connection: Any, _name: object, _context: object) -> None:
        connection.context = newest()

    # A resumed session is not verified again, so it would outlive the authority it came by.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    context.sni_callback = exchange  # Clients that send no name of the server call it, too.
    return context
