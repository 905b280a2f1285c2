"""`offsetd web`: pages that show a server or a cluster, in a browser."""

import re
import signal
import socket
from collections.abc import Mapping
from types import FrameType
from typing import Annotated, Any

import typer

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.calling.retry import RetryPolicy
from offsetd_clients.calling.security import is_loopback_host
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    AddressOption,
    TimeoutOption,
    security_of_environment,
)
from offsetd_clients.cli.printing.terminal import EXIT_WRONG_USE, Terminal, printable
from offsetd_clients.errors import OffsetdError
from offsetd_clients.installation import install_command
from offsetd_clients.web.options import LOOPBACK_NAMES, WebOptions

LISTEN_DEFAULT = "127.0.0.1:7172"
# Less than the 3 s after which a page has to say that the server is lost.
TIMEOUT_S_DEFAULT = 2.0
_PORT_MAX = 65_535
_BACKLOG = 128
_SHOWN_CHARACTERS = 100
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
        anyone: AnyoneOption = False,
        host_names: HostNamesOption = None,
        allow_changes: AllowChangesOption = False,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Show a server or a cluster in a browser, until Ctrl-C.

        The pages change nothing unless --allow-changes is given. Everyone who can open the pages
        sees, and changes, what the token or the certificate of this command may. So it listens on
        this machine only.

        Examples:
            offsetd web
            offsetd web --allow-changes
            offsetd web --address orders-1:7171 --listen 127.0.0.1:8080
        """
        host, port = _listening(listen)
        if not is_loopback_host(host) and not anyone:
            raise typer.BadParameter(
                f"--listen {_short(listen)}: other machines may reach this, and the pages have no"
                " login. --let-anyone-in-without-login allows it."
            )
        if anyone and allow_changes:
            raise typer.BadParameter(
                "--allow-changes: with --let-anyone-in-without-login, anyone could change anything."
            )
        for name in host_names or ():
            if not _HOST_NAME.fullmatch(name):
                raise typer.BadParameter(f"--host-name {_short(name)}: a name without a port.")
        try:
            security = security_of_environment()
            AsyncOffsetClient(address, **security)  # Refuses what cannot work, before it listens.
        except (OSError, ValueError, OffsetdError) as error:
            terminal.fail(str(error), EXIT_WRONG_USE)
        retry = RetryPolicy(timeout_s=timeout)
        listener = _listener(host, port, terminal)
        options = WebOptions(
            host_names=(*LOOPBACK_NAMES, host, *(host_names or ())),
            port=listener.getsockname()[1],
            allows_changes=allow_changes,
        )
        client = {"address": address, "retry": retry, **security}
        _serve(listener, host, options, client, terminal)


def _listening(text: str) -> tuple[str, int]:
    """The host and the port of `HOST:PORT`, or of `[IPV6]:PORT`."""
    host, found, port = text.rpartition(":")
    is_port = found and port.isascii() and port.isdigit() and len(port) <= len(str(_PORT_MAX))
    if not (is_port and int(port) <= _PORT_MAX and _HOST_NAME.fullmatch(host)):
        told = f"--listen {_short(text)}: HOST:PORT is needed, as in {LISTEN_DEFAULT}."
        raise typer.BadParameter(told)
    return host, int(port)


def _short(text: str) -> str:
    return printable(text[:_SHOWN_CHARACTERS])


def _listener(host: str, port: int, terminal: Terminal) -> socket.socket:
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


def _serve(
    listener: socket.socket,
    host: str,
    options: WebOptions,
    client: Mapping[str, Any],
    terminal: Terminal,
) -> None:
    """Serves until SIGINT or SIGTERM."""
    try:
        import uvicorn  # noqa: PLC0415  # the extra may be missing

        from offsetd_clients.web.application import application  # noqa: PLC0415  # so
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("offsetd"):
            raise
        terminal.fail(f"{error.name} is not installed: {install_command('web')}")
    app = application(lambda: AsyncOffsetClient(**client), options)
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn ends in order, then raises them again.
        signal.signal(number, _ended)
    terminal.lines([f"http://{host}:{options.port} shows {client['address']} (Ctrl-C ends it)"])
    terminal.flush()
    uvicorn.Server(config).run(sockets=[listener])


def _ended(_number: int, _frame: FrameType | None) -> None:
    pass
