"""`offsetd version`: of this program, of what it runs on, of its formats, and of servers."""

import platform
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, entry_points, version
from typing import Annotated, Any, Final

import typer

from offsetd_clients.calling.connection import ADDRESS_VARIABLE, checked_address
from offsetd_clients.cli.connection import (
    TIMEOUT_S_DEFAULT,
    TimeoutOption,
    chosen_address,
    connected,
)
from offsetd_clients.cli.printing.terminal import Terminal
from offsetd_clients.installation import build_text
from offsetd_clients.sync.client import OffsetClient

COLUMNS: Final = ("kind", "name", "version", "address")
FORMATS: Final = "offsetd.formats"
"""Entry points of functions that return versions by the names of formats, which the server has."""
CONTRACT: Final = "offsetd.v1"
_LIBRARIES: Final = {"grpc": "grpcio", "protobuf": "protobuf", "numba": "numba"}


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds `version`."""

    @app.command("version")
    def show(
        *,
        everything: Annotated[
            bool, typer.Option("--all", help="Also libraries, formats and the build.")
        ] = False,
        address: Annotated[
            str | None,
            typer.Option(
                "--address",
                "--bootstrap-server",
                help="A server, whose version is shown too, with those of all nodes of a cluster.",
                envvar=ADDRESS_VARIABLE,
                metavar="HOST:PORT",
                callback=_checked_address,
            ),
        ] = None,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Print versions: of this program, and of the server if its address is given.

        Examples:
            offsetd version
            offsetd version --all -o json
            offsetd version --address n1:7171
        """
        servers: list[dict[str, Any]] = []
        if address is not None:
            with connected(address, timeout, terminal) as client:
                servers = list(_servers(client, address, terminal))
        here = _own(is_all=everything)
        terminal.rows(COLUMNS, [*here, *servers], droppable=["kind"])


def _checked_address(ctx: typer.Context, value: str | None) -> str | None:
    address = chosen_address(ctx, value or "")
    try:
        return checked_address(address) if address else None
    except ValueError as error:
        raise typer.BadParameter(f"{error}.") from None


def _own(*, is_all: bool) -> Iterator[dict[str, Any]]:
    yield _row("program", "offsetd", _installed("offsetd"))
    if not is_all:
        return
    yield _row("program", "build", build_text())
    yield _row("library", "python", platform.python_version())
    for name, distribution in _LIBRARIES.items():
        yield _row("library", name, _installed(distribution))
    yield _row("library", "librdkafka", _librdkafka())
    yield _row("format", "contract", CONTRACT)
    for name, number in _formats().items():
        yield _row("format", name, str(number))


def _servers(client: OffsetClient, address: str, terminal: Terminal) -> Iterator[dict[str, Any]]:
    """A row for the server, or for each node of its cluster."""
    server = client.get_server_info()
    if not server.cluster_id:
        yield _row("server", server.node_id, server.version, address)
        return
    for node in client.describe_cluster().nodes:
        if node.server is None:
            terminal.leave_out(f"{node.node_id} ({node.address}) does not answer")
        found = None if node.server is None else node.server.version
        yield _row("server", node.node_id, found, node.address)


def _row(kind: str, name: str, found: str | None, address: str | None = None) -> dict[str, Any]:
    return {"kind": kind, "name": name, "version": found, "address": address}


def _installed(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _librdkafka() -> str | None:
    try:
        import confluent_kafka  # noqa: PLC0415  An extra, and slow to import.
    except ModuleNotFoundError:
        return None
    return str(confluent_kafka.libversion()[0])


def _formats() -> dict[str, int]:
    """The versions that the server's package writes; none if that package is not complete."""
    found: dict[str, int] = {}
    for point in entry_points(group=FORMATS):
        try:
            formats: Callable[[], Mapping[str, int]] = point.load()
        except ModuleNotFoundError:
            continue
        found |= formats()
    return found
