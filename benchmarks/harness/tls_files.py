"""Certificates for a benchmark, made by openssl: an authority, a server, and clients."""

from __future__ import annotations

import ssl
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
_SERVER_NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


class TlsFiles:
    """A folder with `ca.pem`; `issue` adds certificates to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.issue("ca", extension="basicConstraints=critical,CA:true", issuer=None)

    def issue(
        self, name: str, *, extension: str = _SERVER_NAMES, issuer: str | None = "ca"
    ) -> None:
        """Makes NAME.pem and NAME.key, for `CN=NAME`."""
        command = ["openssl", "req", "-x509", *_NEW_KEY, "-subj", f"/CN={name}"]
        command += ["-addext", extension, "-out", f"{name}.pem", "-keyout", f"{name}.key"]
        if issuer is not None:
            command += ["-CA", f"{issuer}.pem", "-CAkey", f"{issuer}.key"]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True)

    def settings(self) -> list[str]:
        """The settings of a server that asks for certificates; its own is `server`."""
        return [
            f"ssl.certificate.file={self.folder / 'server.pem'}",
            f"ssl.key.file={self.folder / 'server.key'}",
            f"ssl.truststore.file={self.folder / 'ca.pem'}",
            "ssl.client.auth=required",
        ]

    def client_context(self, name: str) -> ssl.SSLContext:
        """What a client with this certificate needs to connect by HTTP/2."""
        context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        context.load_cert_chain(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        context.set_alpn_protocols(["h2"])
        return context
