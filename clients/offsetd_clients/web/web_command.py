"""`offsetd web`: pages that show a server or a cluster, in a browser."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.calling.retry import RetryPolicy
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    AddressOption,
    TimeoutOption,
    security_of_environment,
)
from offsetd_clients.cli.printing.terminal import EXIT_WRONG_USE, Terminal
from offsetd_clients.errors import OffsetdError
from offsetd_clients.web.access import (
    Access,
    LoginKind,
    host_of,
    oidc_settings,
    origin_of,
    short,
)
from offsetd_clients.web.oidc_settings import SCOPE_DEFAULT
from offsetd_clients.web.options import LOOPBACK_NAMES, WebOptions
from offsetd_clients.web.serving import Serving, TlsFiles, check_tls, listener

LISTEN_DEFAULT = "127.0.0.1:7172"
# Less than the 3 s after which a page has to say that the server is lost.
TIMEOUT_S_DEFAULT = 2.0
_PORT_MAX = 65_535
_HOST_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}|\[[0-9a-fA-F:.]{2,45}\]")


ListenOption = Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the pages are.")]
AnyoneOption = Annotated[
    bool,
    typer.Option(
        "--let-anyone-in-without-login",
        help="Listen on an address that other machines reach. The pages have no login.",
    ),
]
HostNamesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--host-name",
        metavar="NAME",
        help="A further name of this machine in addresses of pages; repeatable.",
    ),
]
LoginOption = Annotated[
    LoginKind,
    typer.Option(
        "--login", help="token: viewers give a token of the server; oidc: by OpenID Connect."
    ),
]
IssuerOption = Annotated[
    str,
    typer.Option(
        "--oidc-issuer", metavar="URL", help="The provider of --login oidc, as its tokens name it."
    ),
]
ClientIdOption = Annotated[
    str,
    typer.Option("--oidc-client-id", metavar="ID", help="What these pages are at the provider."),
]
ScopeOption = Annotated[
    str,
    typer.Option("--oidc-scope", metavar="SCOPES", help="What the provider is asked for."),
]
TlsCertOption = Annotated[
    Path | None,
    typer.Option("--tls-cert", metavar="FILE", help="Serve https with this certificate (PEM)."),
]
TlsKeyOption = Annotated[
    Path | None, typer.Option("--tls-key", metavar="FILE", help="The key of --tls-cert (PEM).")
]
ProxyOption = Annotated[
    str,
    typer.Option(
        "--behind-proxy",
        metavar="URL",
        help="The address by which browsers reach a proxy on this machine: https://NAME.",
    ),
]
EndOption = Annotated[
    bool,
    typer.Option(
        "--end-with-stdin",
        hidden=True,
        help="End when standard input ends, as `offsetd serve --web` needs it.",
    ),
]
AllowChangesOption = Annotated[
    bool,
    typer.Option(
        "--allow-changes",
        help="The pages also reset, restore, clone, delete and set, if the server allows it.",
    ),
]


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds the command to `app`."""

    @app.command("web")
    def web(
        *,
        listen: ListenOption = LISTEN_DEFAULT,
        login: LoginOption = LoginKind.NONE,
        oidc_issuer: IssuerOption = "",
        oidc_client_id: ClientIdOption = "",
        oidc_scope: ScopeOption = SCOPE_DEFAULT,
        tls_cert: TlsCertOption = None,
        tls_key: TlsKeyOption = None,
        behind_proxy: ProxyOption = "",
        anyone: AnyoneOption = False,
        host_names: HostNamesOption = None,
        allow_changes: AllowChangesOption = False,
        ends_with_stdin: EndOption = False,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Show a server or a cluster in a browser, until Ctrl-C.

        The pages change nothing unless --allow-changes is given. Without --login, everyone who can
        open the pages sees, and changes, what the token or the certificate of this command may. So
        it listens on this machine only. For --login oidc, OFFSETD_OIDC_CLIENT_SECRET may have a
        secret of the client.

        Examples:
            offsetd web
            offsetd web --allow-changes --login token
            offsetd web --address orders-1:7171 --listen 127.0.0.1:8080
        """
        host, port = _listening(listen)
        tls = _tls_files(tls_cert, tls_key)
        Access(
            *(host, anyone, allow_changes, login),
            has_tls=tls is not None,
            has_proxy=bool(behind_proxy),
        ).check()
        oidc = oidc_settings(login, oidc_issuer, oidc_client_id, oidc_scope)
        proxy = origin_of(behind_proxy) if behind_proxy else ""
        for name in host_names or ():
            if not _HOST_NAME.fullmatch(name):
                raise typer.BadParameter(f"--host-name {short(name)}: a name without a port.")
        client = _client(address, timeout, login, terminal)
        check_tls(tls, terminal)
        bound = listener(host, port, terminal)
        options = WebOptions(
            host_names=(*LOOPBACK_NAMES, host, *(host_names or ()), *_named(proxy)),
            port=bound.getsockname()[1],
            allows_changes=allow_changes,
            has_login=login is not LoginKind.NONE,
            login_issuer=oidc.issuer if oidc else "",
            has_tls=tls is not None,
            public_origin=proxy,
        )
        url = f"{'https' if tls else 'http'}://{host}:{options.port}"
        Serving(bound, url, options, client, tls, ends_with_stdin, oidc).run(terminal)


def _named(origin: str) -> tuple[str, ...]:
    return (host_of(origin),) if origin else ()


def _tls_files(certificate: Path | None, key: Path | None) -> TlsFiles | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise typer.BadParameter("--tls-cert and --tls-key go together.")
    return TlsFiles(certificate, key)


def _client(address: str, timeout_s: float, login: LoginKind, terminal: Terminal) -> dict[str, Any]:
    """The arguments of clients. What cannot work is refused before the command listens."""
    try:
        security = security_of_environment()
        token = {} if login is LoginKind.NONE else {"token": "checked"}
        AsyncOffsetClient(address, **security | token)
    except (OSError, ValueError, OffsetdError) as error:
        terminal.fail(str(error), EXIT_WRONG_USE)
    return {"address": address, "retry": RetryPolicy(timeout_s=timeout_s), **security}


def _listening(text: str) -> tuple[str, int]:
    """The host and the port of `HOST:PORT`, or of `[IPV6]:PORT`."""
    host, found, port = text.rpartition(":")
    is_port = found and port.isascii() and port.isdigit() and len(port) <= len(str(_PORT_MAX))
    if not (is_port and int(port) <= _PORT_MAX and _HOST_NAME.fullmatch(host)):
        told = f"--listen {short(text)}: HOST:PORT is needed, as in {LISTEN_DEFAULT}."
        raise typer.BadParameter(told)
    return host, int(port)
