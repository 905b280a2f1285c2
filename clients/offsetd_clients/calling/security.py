"""TLS and tokens: how the client and the server authenticate each other."""

import asyncio
import inspect
import ipaddress
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import attrs
import grpc

from offsetd_clients.calling.key_pair_check import check_key_pair
from offsetd_clients.errors import insecure_token, no_token

Token: TypeAlias = str | Callable[[], str]
"""Each call sends the token as `authorization: Bearer …`. A function is called for each call."""
AsyncToken: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""The same for asyncio. The function may be `async`; if it is not, it must not block."""
Metadata: TypeAlias = tuple[tuple[str, str], ...]

_TOKEN_TIMEOUT_S = 30.0
_CERTIFICATE = re.compile(rb"-----BEGIN (TRUSTED |X509 )?CERTIFICATE-----")
_LOCAL_SCHEMES = ("unix:", "unix-abstract:", "vsock:")
_SCHEME = re.compile(r"(dns|ipv4|ipv6):(//[^/]*/)?")


def _check_pem(_: object, attribute: Any, value: bytes | None) -> None:
    if value is not None and b"-----BEGIN " not in value:
        raise ValueError(f"{attribute.name}: these {len(value)} bytes are not PEM")


def _check_authorities(owner: object, attribute: Any, value: bytes | None) -> None:
    _check_pem(owner, attribute, value)
    if value is not None and _CERTIFICATE.search(value) is None:
        raise ValueError(f"{attribute.name}: it has no certificate in PEM")


@attrs.frozen(kw_only=True)
class TlsOptions:
    """TLS settings as PEM.

    `ca`: the trusted authorities (gRPC's own list if None).
    `certificate` and `key`, both or none: the client's identity, for servers that ask for it
    (mTLS). A pair that does not fit, and a key with a password, are a ValueError.
    `server_name`: the name in the server's certificate, if it differs from the address.
    """

    ca: bytes | None = attrs.field(default=None, validator=_check_authorities)
    certificate: bytes | None = attrs.field(default=None, validator=_check_pem)
    key: bytes | None = attrs.field(default=None, validator=_check_pem, repr=False)
    server_name: str | None = None

    def __attrs_post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("a certificate and its key go together")
        if self.certificate is not None and self.key is not None:
            check_key_pair(self.certificate, self.key)

    def credentials(self) -> grpc.ChannelCredentials:
        """Converts the settings to gRPC's credentials."""
        return grpc.ssl_channel_credentials(self.ca, self.key, self.certificate)

    def channel_options(self) -> tuple[tuple[str, str], ...]:
        """The channel options that TLS needs."""
        if self.server_name is None:
            return ()
        return (("grpc.ssl_target_name_override", self.server_name),)


# The characters that gRPC can send as metadata.
_SENDABLE = re.compile(r"[\x20-\x7e]+")


def _check_token(_: object, _attribute: Any, token: object) -> None:
    if token is not None and not callable(token):
        _checked_token(token)


def _checked_token(token: object) -> str:
    """Returns `token`. Raises TypeError or ValueError if it cannot be sent.

    The token is not part of the error's text.
    """
    if not isinstance(token, str):
        raise TypeError(f"token: a text is expected, not {type(token).__name__}")
    if not _SENDABLE.fullmatch(token):
        problem = "ends with a line end" if token.endswith(("\n", "\r")) else "cannot be sent"
        raise ValueError(f"token: it {problem}; it is printable ASCII characters alone")
    return token


def _check_client_id(_: object, _attribute: Any, client_id: object) -> None:
    if client_id is None:
        return
    if not isinstance(client_id, str):
        raise TypeError(f"client_id: a text is expected, not {type(client_id).__name__}")
    if not _SENDABLE.fullmatch(client_id) or client_id != client_id.strip():
        raise ValueError(f"client_id: {client_id!r} is not printable ASCII without outer spaces")


@attrs.frozen(kw_only=True)
class Security:
    """The security of a client's calls: TLS, a token, and whether to send it without TLS.

    Each call also sends `client_id`, by which the server's quotas know the client.
    """

    tls: TlsOptions | None = None
    token: AsyncToken | None = attrs.field(default=None, repr=False, validator=_check_token)
    token_without_tls: bool = False
    client_id: str | None = attrs.field(default=None, validator=_check_client_id)

    def check(self, address: str) -> None:
        """Raises InsecureToken if others on the way to the address could read the token."""
        is_open = self.tls is None and not self.token_without_tls and not is_loopback(address)
        if self.token is not None and is_open:
            raise insecure_token(address)

    def metadata(self) -> Metadata | None:
        """The metadata of a call. Raises TokenUnavailable if the token function fails."""
        if self.token is None:
            return self._named(())
        try:
            return self._named(_bearer(self.token() if callable(self.token) else self.token))
        except Exception as error:
            raise no_token(error) from error

    async def metadata_async(self, timeout_s: float | None) -> Metadata | None:
        """As `metadata`, with a function that may be `async`, and then take `timeout_s` seconds.

        `timeout_s` None: half a minute, so that a stream does not wait for ever.
        """
        if self.token is None:
            return self._named(())
        try:
            token = self.token() if callable(self.token) else self.token
            if inspect.isawaitable(token):
                token = await asyncio.wait_for(token, timeout_s or _TOKEN_TIMEOUT_S)
            return self._named(_bearer(token))
        except Exception as error:
            raise no_token(error) from error

    def _named(self, metadata: Metadata) -> Metadata | None:
        if self.client_id is not None:
            metadata = (*metadata, ("client-id", self.client_id))
        return metadata or None


def _bearer(token: object) -> Metadata:
    return (("authorization", f"Bearer {_checked_token(token)}"),)


def is_loopback(address: str) -> bool:
    """Whether messages to an address stay on this machine."""
    if address.startswith(_LOCAL_SCHEMES):
        return True
    return is_loopback_host(_SCHEME.sub("", address, count=1).rpartition(":")[0])


def is_loopback_host(host: str) -> bool:
    """Whether a host is this machine. Only the name localhost is: others may be any machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
