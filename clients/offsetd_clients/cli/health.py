"""`offsetd admin health`: whether the server takes calls, for health checks."""

from typing import Annotated

import typer

from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.printing.terminal import Terminal
from offsetd_clients.errors import OffsetdError
from offsetd_clients.sync.client import OffsetClient

COLUMNS = ("service", "serving")
SERVER = "server"  # What users call the whole server, whose name is empty.
TIMEOUT_S_DEFAULT = 5.0  # Less than what health checks usually wait.


def register(admin: typer.Typer, terminal: Terminal) -> None:
    """Adds the subcommand to `admin`."""

    @admin.command("health")
    def health(
        services: Annotated[
            list[str] | None,
            typer.Argument(
                metavar="SERVICE", help="A service of grpc.health.v1; default: the server."
            ),
        ] = None,
        *,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Ask whether the server takes calls. Exits with 1 if not, or if it does not answer.

        The question is that of a gRPC health check, so it needs no right. This command also knows
        TLS and tokens, which the probes of Kubernetes do not. `offsetd admin status` looks at
        more, and at what needs no restart.

        Examples:
            offsetd admin health
            offsetd admin health offsetd.cleaner offsetd.disk
        """
        with connected(address, timeout, terminal) as client:
            answers = {name: _serves(client, name, terminal) for name in services or [""]}
        terminal.rows(
            COLUMNS,
            [{"service": name or SERVER, "serving": serves} for name, serves in answers.items()],
        )
        refusing = [name or SERVER for name, serves in answers.items() if not serves]
        if refusing:
            terminal.fail(f"not serving: {', '.join(refusing)}")


def _serves(client: OffsetClient, service: str, terminal: Terminal) -> bool:
    try:
        return client.is_serving(service)
    except OffsetdError as error:
        if error.code != "NOT_FOUND":  # What grpc.health.v1 says, without a text.
            raise
        terminal.fail(f"the server has no service {service!r} in its health")
