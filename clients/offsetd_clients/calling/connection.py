"""The server's address, and the options of a channel to it, for both clients."""

import os
import re

ADDRESS_VARIABLE = "OFFSETD_ADDRESS"
ADDRESS_DEFAULT = "127.0.0.1:7171"

# gRPC's schemes for other kinds of addresses.
_SCHEME = re.compile(r"(dns|ipv4|ipv6|unix|unix-abstract|vsock):.+")
# In addresses of these schemes, a comma is part of the address.
_WITH_COMMAS = re.compile(r"ipv4:|ipv6:|unix:|unix-abstract:")
_HOST_AND_PORT = re.compile(r"(\[[^\[\]]+\]|[^\[\]:]+):(?P<port>[0-9]{1,5})")
_PORT_MAX = 65535

CHANNEL_OPTIONS = (
    # The retries are our own: they share one deadline and follow the server's RetryInfo.
    ("grpc.enable_retries", 0),
    # A group may have many offsets; the server limits the size of requests, not of answers.
    ("grpc.max_receive_message_length", -1),
    # Find a restarted server again in about a second.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # The time to connect, in spite of gRPC's name for it. A lost SYN costs a second.
    ("grpc.min_reconnect_backoff_ms", 3000),
    # Give up a dead connection after 20 seconds, even without calls, so that half of a call's
    # deadline is left. The server permits a ping every 10 seconds.
    ("grpc.keepalive_time_ms", 15_000),
    ("grpc.keepalive_timeout_ms", 5000),
    # Newer versions of gRPC read this option instead of the one above. Their default is a minute.
    ("grpc.http2.ping_timeout_ms", 5000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)

# Without it, gRPC names a socket by its path, which is not valid as a host: servers on the
# transport `wire` refuse that.
_UNIX_OPTIONS = (("grpc.default_authority", "localhost"),)
_UNIX_SCHEMES = ("unix:", "unix-abstract:")


def plain_channel_options(address: str) -> tuple[tuple[str, object], ...]:
    """The options of a channel without TLS."""
    return CHANNEL_OPTIONS + (_UNIX_OPTIONS if address.startswith(_UNIX_SCHEMES) else ())


_FLAGS = {
    **dict.fromkeys(("true", "yes", "on", "1", "t", "y"), True),
    **dict.fromkeys(("false", "no", "off", "0", "f", "n"), False),
}


def flag_of(name: str, text: str) -> bool:
    """Reads a text as true or false. Raises ValueError for any other text."""
    try:
        return _FLAGS[text.lower()]
    except KeyError:
        words = "true, yes, on, 1, t, y, or false, no, off, 0, f, n"
        raise ValueError(f"{name} is true or false ({words}), not {text!r}") from None


def address_of(address: str | None) -> str:
    """`address`, else the environment's, else the default. Raises ValueError if it is invalid."""
    return checked_address(address or os.environ.get(ADDRESS_VARIABLE) or ADDRESS_DEFAULT)


def checked_address(address: str) -> str:
    """Returns `address`, which may be a list. Raises ValueError if gRPC would misread a part."""
    addresses_in(address)
    return address


def addresses_in(address: str) -> tuple[str, ...]:
    """The addresses in a list with commas, each once. Raises ValueError as `checked_address`."""
    if not isinstance(address, str):
        raise TypeError(f"an address is a string, HOST:PORT, not {address!r}")
    parts = [address] if _WITH_COMMAS.match(address) else address.split(",")
    return tuple(dict.fromkeys(_checked(part.strip()) for part in parts))


def _checked(address: str) -> str:
    if not _SCHEME.fullmatch(address):
        host_and_port = _HOST_AND_PORT.fullmatch(address)
        # gRPC takes a port modulo 65536.
        if host_and_port is None or int(host_and_port["port"]) > _PORT_MAX:
            raise ValueError(f"{address!r} is not HOST:PORT, port 0 to {_PORT_MAX}")
    return address
