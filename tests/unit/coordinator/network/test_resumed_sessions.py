"""TLS of the transport `wire`: a session does not outlive the authority that it came by."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest
from certificates import Authority, Issued
from offsetd_coordinator.network.transports import handshake_context

if TYPE_CHECKING:
    from pathlib import Path


def _server(server: Issued, authority: Authority) -> ssl.SSLContext:
    context = server.server_context()
    context.load_verify_locations(cadata=authority.pem.decode())
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _session(
    listener: ssl.SSLContext, client: ssl.SSLContext, session: ssl.SSLSession | None = None
) -> ssl.SSLSession | None:
    """What a client keeps of a connection. Raises SSLError if the server refuses it."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    there = client.wrap_bio(to_client, to_server, session=session)
    here = listener.wrap_bio(to_server, to_client, server_side=True)
    steps = [there.do_handshake, here.do_handshake] * 4
    for step in [*steps, lambda: here.write(b"x"), lambda: there.read(1)]:
        try:
            step()
        except ssl.SSLWantReadError:
            continue
    return there.session


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_an_exchanged_authority_ends_sessions_that_clients_keep(
    version: ssl.TLSVersion, tmp_path: Path
) -> None:
    old, new = Authority("old"), Authority("new")
    server, client = old.issue("server"), old.issue("client")
    newest = [_server(server, old)]
    listener = handshake_context(lambda: newest[0])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = version
    pair = tmp_path / "client.pem"
    pair.write_bytes(client.key_pem + client.certificate_pem)
    context.load_cert_chain(pair)
    session = _session(listener, context)
    newest[0] = _server(server, new)
    with pytest.raises(ssl.SSLError):
        _session(listener, context, session)
