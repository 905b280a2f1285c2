"""Connection limits from the settings, for gRPC's core and for the connection guard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.configuration.setting_kinds import INT32_MAX, UNIX_PREFIXES

from offsetd_coordinator.network.connection_guard import ConnectionLimits

if TYPE_CHECKING:
    from offsetd_coordinator.configuration.server_settings import Settings

_READ_AHEAD_BYTES: Final = 256 * 1024
_RECEIVE_BEYOND_BYTES: Final = 1024 * 1024
_PREFIX_BYTES: Final = 5
_WINDOWS_BYTES_MIN: Final = 1 << 20
_CONNECTIONS_BEYOND_MIN: Final = 16


def channel_options(settings: Settings) -> list[tuple[str, int]]:
    """The options for gRPC's core."""
    return [
        ("grpc.so_reuseport", 0),  # Otherwise a second server could listen on the port.
        # Messages with a size between the setting and this are refused with the contract's reason.
        ("grpc.max_receive_message_length", message_bytes_max(settings)),
        ("grpc.max_send_message_length", -1),
        # The soft and the hard limit are equal, because between them gRPC refuses at random.
        ("grpc.max_metadata_size", settings.request_metadata_max_bytes),
        ("grpc.absolute_max_metadata_size", settings.request_metadata_max_bytes),
        ("grpc.max_allowed_incoming_connections", _connections_accepted(settings)),
        ("grpc.max_concurrent_streams", settings.connection_calls_max),
        # All calls that the two options above allow may arrive at the same time. Above its own
        # bound of 1,000 waiting calls, gRPC answers CANCELLED, and clients do not retry that.
        ("grpc.server.max_pending_requests", _calls_max(settings)),
        ("grpc.server.max_pending_requests_hard_limit", _calls_max(settings)),
        ("grpc.server_handshake_timeout_ms", settings.connection_handshake_max_ms),
        ("grpc.max_connection_idle_ms", settings.connections_max_idle_ms),
        ("grpc.max_connection_age_ms", settings.connections_max_age_ms),
        ("grpc.max_connection_age_grace_ms", settings.connections_age_grace_ms),
        ("grpc.keepalive_time_ms", settings.keepalive_interval_ms),
        ("grpc.keepalive_timeout_ms", settings.keepalive_reply_max_ms),
        # Newer versions of gRPC wait this long for a ping's answer; their default is a minute.
        ("grpc.http2.ping_timeout_ms", settings.keepalive_reply_max_ms),
        # A fixed window instead of one that gRPC adapts: requests are small, and memory is bounded.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", _READ_AHEAD_BYTES),
        # Clients may ping a quiet connection every ten seconds without being disconnected.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ]


def message_bytes_max(settings: Settings) -> int:
    """The largest message that is read, to be taken or to be refused with a reason."""
    return settings.socket_request_max_bytes + _RECEIVE_BEYOND_BYTES


def unended_bytes_max(settings: Settings) -> tuple[int, int]:
    """The most bytes of messages that are not whole, where the transport counts them.

    First of messages that have room, then of what waits in windows. Answers have half of the
    budget, so requests that are whole always have a quarter.
    """
    share = settings.queued_max_request_bytes // 8
    return max(share, message_bytes_max(settings) + _PREFIX_BYTES), max(share, _WINDOWS_BYTES_MIN)


def connection_limits(settings: Settings) -> ConnectionLimits:
    """The limits of the connection guard, from the settings."""
    return ConnectionLimits(
        connections_max=settings.max_connections,
        accepted_max=_connections_accepted(settings),
        begun_bytes_max=max(
            settings.queued_max_request_bytes // 2,
            message_bytes_max(settings),
        ),
        unread_ms_max=settings.connections_unread_max_ms,
    )


def _connections_accepted(settings: Settings) -> int:
    """The most connections that gRPC accepts.

    It is above the setting, so that a new connection can replace another one.
    """
    if settings.listen_address.startswith(UNIX_PREFIXES):
        return settings.max_connections
    return min(settings.max_connections + connections_beyond(settings.max_connections), INT32_MAX)


def connections_beyond(connections: int) -> int:
    """The number of connections above the setting that are accepted until others are closed."""
    return max(_CONNECTIONS_BEYOND_MIN, connections // 8)


def _calls_max(settings: Settings) -> int:
    return min(settings.max_connections * settings.connection_calls_max, INT32_MAX)
