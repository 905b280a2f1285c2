"""TLS in front of a server that has none: certificates by openssl, and a proxy."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@attrs.frozen
class Identity:
    """Files in PEM."""

    certificate: Path
    key: Path


@attrs.frozen
class Authority:
    """Signs certificates, into a folder."""

    folder: Path
    name: str

    @classmethod
    def make(cls, folder: Path, name: str) -> Authority:
        """A new one, which trusts itself."""
        authority = cls(folder, name)
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-days", "2", "-subj", f"/CN={name}"),
            *("-keyout", folder / f"{name}.key", "-out", authority.certificate),
        )
        return authority

    @property
    def certificate(self) -> Path:
        return self.folder / f"{self.name}.pem"

    def issue(self, host: str) -> Identity:
        """For a host, or whoever it is that a client says it is."""
        stem = self.folder / f"{self.name}-{host}"
        key, request, made = (stem.with_suffix(each) for each in (".key", ".csr", ".crt"))
        extensions = stem.with_suffix(".ext")
        kind = "IP" if host[0].isdigit() else "DNS"
        extensions.write_text(f"subjectAltName={kind}:{host}\n")
        _openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-subj", f"/CN={host}", "-keyout", key, "-out", request),
        )
        _openssl(
            *("x509", "-req", "-in", request, "-days", "2", "-extfile", extensions),
            *("-CA", self.certificate, "-CAkey", self.folder / f"{self.name}.key"),
            *("-CAcreateserial", "-out", made),
        )
        return Identity(made, key)


@contextmanager
def tls_proxy(
    server_address: str, identity: Identity, *, clients_of: Authority | None = None
) -> Iterator[str]:
    """An address at which TLS is spoken; `clients_of`: only by those whom it has signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.certificate, identity.key)
    context.set_alpn_protocols(["h2"])
    if clients_of is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients_of.certificate)
    host, _, port = server_address.rpartition(":")

    async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while carried := await source.read(65_536):
                target.write(carried)
                await target.drain()
        target.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(carry(reader, far_writer), carry(far_reader, writer))

    async def listen() -> asyncio.Server:
        return await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # Handshakes that fail are what tests are about.
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(listen(), loop).result(60)
    try:
        yield "{}:{}".format(*server.sockets[0].getsockname())
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
