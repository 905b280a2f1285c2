"""The options for a server's address, and for authentication between client and server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
from offsetd_clients import OffsetClient, RetryPolicy, TlsOptions
from offsetd_clients.calling.connection import flag_of

from offsetd_pipeline.files import read_file

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVER_OPTIONS: Final = frozenset(
    (
        "server",
        "tls",
        "tls_ca_file",
        "tls_certificate_file",
        "tls_key_file",
        "tls_server_name",
        "token_file",
    )
)


@attrs.frozen(kw_only=True)
class ServerOptions:
    """`server` is `host:port`. The process that makes the client reads the named files.

    `tls`: use TLS even without a file, with gRPC's own list of authorities.
    """

    server: str
    tls: bool = False
    tls_ca_file: str | None = None
    tls_certificate_file: str | None = None
    tls_key_file: str | None = None
    tls_server_name: str | None = None
    token_file: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> ServerOptions:
        """Reads the options from lower-case names; other options are ignored. Raises ValueError."""
        server = given.get("server")
        if not server:
            raise ValueError("say a server, host:port")
        texts = {name: given.get(name) or None for name in SERVER_OPTIONS - {"server", "tls"}}
        return cls(server=server, tls=flag("tls", given.get("tls", "false")), **texts)

    def client(self, retry: RetryPolicy | None = None) -> OffsetClient:
        """The client. Raises OSError for a file that cannot be read, ValueError, OffsetdError."""
        return OffsetClient(
            self.server, retry=retry, tls=self._tls_options(), token=_text(self.token_file)
        )

    def _tls_options(self) -> TlsOptions | None:
        files = self.tls_ca_file, self.tls_certificate_file, self.tls_key_file
        if not (self.tls or any(files) or self.tls_server_name):
            return None
        ca, certificate, key = (None if name is None else read_file(Path(name)) for name in files)
        return TlsOptions(ca=ca, certificate=certificate, key=key, server_name=self.tls_server_name)


def flag(name: str, text: str) -> bool:
    """Reads an option that is true or false. Raises ValueError."""
    return flag_of(name, text)


def _text(path: str | None) -> str | None:
    return None if path is None else read_file(Path(path)).decode().strip()
