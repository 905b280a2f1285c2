"""Serves the pages on a port, until a signal or the end of another program."""

import os
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import attrs

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.calling.security import AsyncToken
from offsetd_clients.cli.printing.terminal import EXIT_WRONG_USE, Terminal
from offsetd_clients.installation import install_command
from offsetd_clients.web.oidc_settings import OidcSettings
from offsetd_clients.web.options import WebOptions

if TYPE_CHECKING:
    from offsetd_clients.web.openid import Provider

_BACKLOG = 128


@attrs.frozen
class TlsFiles:
    """The certificate of the pages, with its chain, and its key: PEM."""

    certificate: Path
    key: Path

    def check(self) -> None:
        """Raises OSError (also ssl.SSLError) if they cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # A password is never asked for: there may be nobody to answer.
        context.load_cert_chain(self.certificate, self.key, password=lambda: "")


def listener(host: str, port: int, terminal: Terminal) -> socket.socket:
    """A socket that listens, or the end of the command."""
    bare = host.strip("[]")
    family = socket.AF_INET6 if ":" in bare else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((bare, port))
        made.listen(_BACKLOG)
    except (OSError, UnicodeError) as error:
        made.close()
        reason = error.strerror or error if isinstance(error, OSError) else "no such host"
        terminal.fail(f"--listen {host}:{port}: {reason}")
    return made


def check_tls(tls: TlsFiles | None, terminal: Terminal) -> None:
    """Ends the command if the files of TLS cannot be used."""
    if tls is None:
        return
    try:
        tls.check()
    except OSError as error:
        told = error.strerror or getattr(error, "reason", None) or str(error)
        terminal.fail(f"--tls-cert, --tls-key: {told}", EXIT_WRONG_USE)


@attrs.frozen
class Serving:
    """What is served, and where."""

    listener: socket.socket
    url: str
    options: WebOptions
    client: Mapping[str, Any]
    tls: TlsFiles | None = None
    ends_with_stdin: bool = False
    oidc: OidcSettings | None = None

    def run(self, terminal: Terminal) -> None:
        """Serves until SIGINT or SIGTERM."""
        try:
            import uvicorn  # noqa: PLC0415  # the extra may be missing

            from offsetd_clients.web.application import application  # noqa: PLC0415  # so

            made = application(self._client, self.options, self._provider())
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("offsetd"):
                raise
            extra = "oidc" if self.oidc else "web"
            terminal.fail(f"{error.name} is not installed: {install_command(extra)}")
        config = uvicorn.Config(
            made,
            http="h11",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
            ssl_certfile=self.tls.certificate if self.tls else None,
            ssl_keyfile=self.tls.key if self.tls else None,
        )
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _ended)  # uvicorn ends in order, then raises them again.
        if self.ends_with_stdin:
            threading.Thread(target=_end_with_stdin, daemon=True).start()
        proxy = self.options.public_origin
        told = f"{self.url} shows {self.client['address']}" + (f" as {proxy}" if proxy else "")
        terminal.lines([f"{told} (Ctrl-C ends it)"])
        terminal.flush()
        uvicorn.Server(config).run(sockets=[self.listener])

    def _provider(self) -> "Provider | None":
        if self.oidc is None:
            return None
        from offsetd_clients.web.openid import Provider  # noqa: PLC0415  # the extra may be missing

        return Provider(self.oidc)

    def _client(self, token: AsyncToken | None = None) -> AsyncOffsetClient:
        return AsyncOffsetClient(**{**self.client, "token": token or self.client["token"]})


def _end_with_stdin() -> None:
    """Ends this process when the program at the other end of standard input has ended."""
    while sys.stdin.buffer.read(1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _ended(_number: int, _frame: FrameType | None) -> None:
    pass
