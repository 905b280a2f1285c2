"""Connections that fail before the first call: gRPC's message, and the probable cause."""

import re
from urllib.parse import unquote

from offsetd_clients.calling.security import TlsOptions

_PEER = re.compile(r"ipv[46]:(\S+): ")
_IS_CLOSED = "failed to connect to all addresses"
_CLOSED = ("Socket closed", "Connection reset", "Broken pipe")

_OF_THE_SERVER = (
    # OpenSSL's error for an answer that is not TLS.
    (
        "WRONG_VERSION_NUMBER",
        "what answers at {peer} does not speak TLS: connect without TLS, or to its TLS port",
    ),
    (
        "certificate has expired",
        "the certificate of the server at {peer} has expired, by the clock of this machine",
    ),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "the certificate of the server at {peer} is of no authority that the client trusts (ca)",
    ),
    (
        "Hostname Verification",
        "the certificate of the server at {peer} is for other names: say one (server_name)",
    ),
)
"""The cause on the server's side, by a part of gRPC's text."""

_NO_TLS = "{peer} hung up, as a TLS port does on a client without TLS: if it is one, use TLS"
_NO_CERTIFICATE = (
    "{peer} hung up after the TLS handshake, as a server does that asks for certificates: this"
    " client has none"
)
_CERTIFICATE = (
    "{peer} hung up after the TLS handshake, as a server does that does not accept the client's"
    " certificate: look at its authority, its dates, and its usage, clientAuth"
)


def explained(message: str, tls: TlsOptions | None) -> str:
    """gRPC's message. If the connection was closed at its start, the probable cause comes first."""
    hint = _hint(message, tls)
    if not hint:
        return message
    peer = _PEER.search(message)
    where = unquote(peer[1]) if peer else "the server"  # gRPC writes [::1] as %5B::1%5D.
    return f"{hint.format(peer=where)} ({message})"


def _hint(message: str, tls: TlsOptions | None) -> str:
    for part, hint in _OF_THE_SERVER:
        if part in message:
            return hint
    if _IS_CLOSED not in message or not any(each in message for each in _CLOSED):
        return ""
    if tls is None:
        return _NO_TLS
    return _NO_CERTIFICATE if tls.certificate is None else _CERTIFICATE
