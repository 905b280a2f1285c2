"""Where a server is, and how a channel to it behaves: the same for both clients."""

import os
import re

ADDRESS_VARIABLE = "OFFSETD_ADDRESS"
ADDRESS_DEFAULT = "127.0.0.1:7171"

# gRPC's names for addresses of other kinds.
_SCHEME = re.compile(r"(dns|ipv4|ipv6|unix|unix-abstract|vsock):.+")
_HOST_AND_PORT = re.compile(r"(\[[^\[\]]+\]|[^\[\]:]+):(?P<port>[0-9]{1,5})")
_PORT_MAX = 65535

CHANNEL_OPTIONS = (
    # Retries are ours: they carry one deadline and heed the server's RetryInfo.
    ("grpc.enable_retries", 0),
    # A group's offsets may be many; the server bounds what it takes, not what it answers.
    ("grpc.max_receive_message_length", -1),
    # A server that was restarted is found again in about a second.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # So long may it take to connect, whatever gRPC's name for it says: a lost SYN costs a second.
    ("grpc.min_reconnect_backoff_ms", 3000),
    # A connection whose other end is gone without a word is given up after 20 seconds, with calls
    # or without, so that half of a call's deadline is left. The server permits a ping in 10.
    ("grpc.keepalive_time_ms", 15_000),
    ("grpc.keepalive_timeout_ms", 5000),
    # Newer gRPC waits for a ping's answer so long, and a minute unless told.
    ("grpc.http2.ping_timeout_ms", 5000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)


_FLAGS = {
    **dict.fromkeys(("true", "yes", "on", "1", "t", "y"), True),
    **dict.fromkeys(("false", "no", "off", "0", "f", "n"), False),
}


def flag_of(name: str, text: str) -> bool:
    """What a text says of what is true or false. Raises ValueError for what is no such word."""
    try:
        return _FLAGS[text.lower()]
    except KeyError:
        words = "true, yes, on, 1, t, y, or false, no, off, 0, f, n"
        raise ValueError(f"{name} is true or false ({words}), not {text!r}") from None


def address_of(address: str | None) -> str:
    """`address`, else the environment's, else the default. Raises ValueError for what is none."""
    return checked_address(address or os.environ.get(ADDRESS_VARIABLE) or ADDRESS_DEFAULT)


def checked_address(address: str) -> str:
    """The same. Raises ValueError for what gRPC cannot take as one, or takes as another."""
    if not isinstance(address, str):
        raise TypeError(f"an address is a text, HOST:PORT, not {address!r}")
    if not _SCHEME.fullmatch(address):
        host_and_port = _HOST_AND_PORT.fullmatch(address)
        # gRPC takes a port modulo 65536.
        if host_and_port is None or int(host_and_port["port"]) > _PORT_MAX:
            raise ValueError(f"{address!r} is not HOST:PORT, port 0 to {_PORT_MAX}")
    return address
