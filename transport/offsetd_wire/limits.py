"""The limits of a server, by gRPC's names of channel options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_UINT32_MAX: Final = 2**32 - 1
_NO_LIMIT: Final = 2**31 - 1


class Limits(NamedTuple):
    """Limits for clients. A time of `_NO_LIMIT` milliseconds means no limit."""

    message_bytes_max: int = 4 << 20
    metadata_bytes_max: int = 16 << 10
    streams_max: int = 100
    connections_max: int = _NO_LIMIT
    handshake_ms_max: int = 120_000
    idle_ms_max: int = _NO_LIMIT
    age_ms_max: int = _NO_LIMIT
    age_grace_ms: int = _NO_LIMIT
    keepalive_ms: int = _NO_LIMIT
    keepalive_reply_ms_max: int = 20_000
    ping_interval_ms: int = 300_000
    ping_strikes_max: int = 2
    permits_pings_without_calls: int = 0


_FIELDS: Final = {
    "grpc.max_receive_message_length": "message_bytes_max",
    "grpc.absolute_max_metadata_size": "metadata_bytes_max",
    "grpc.max_concurrent_streams": "streams_max",
    "grpc.max_allowed_incoming_connections": "connections_max",
    "grpc.server_handshake_timeout_ms": "handshake_ms_max",
    "grpc.max_connection_idle_ms": "idle_ms_max",
    "grpc.max_connection_age_ms": "age_ms_max",
    "grpc.max_connection_age_grace_ms": "age_grace_ms",
    "grpc.keepalive_time_ms": "keepalive_ms",
    "grpc.keepalive_timeout_ms": "keepalive_reply_ms_max",
    "grpc.http2.min_ping_interval_without_data_ms": "ping_interval_ms",
    "grpc.http2.max_ping_strikes": "ping_strikes_max",
    "grpc.keepalive_permit_without_calls": "permits_pings_without_calls",
}


def limits_of(options: Iterable[tuple[str, Any]]) -> Limits:
    """The limits that channel options set. -1 is no limit; options without a field are ignored."""
    given = {_FIELDS[name]: int(value) for name, value in options if name in _FIELDS}
    return Limits(**{name: min(value % (1 << 32), _UINT32_MAX) for name, value in given.items()})
