"""`offsetd admin quotas`: the quotas in force, and what is used of them."""

from collections.abc import Iterable
from typing import Annotated

import typer

from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.printing.terminal import Row, Terminal
from offsetd_clients.quota_values import QuotaUse

COLUMNS = ("principal", "client_id", "quota", "limit", "in_use", "refusals", "delay_s")
_NOT_IN_FORCE = "this server has no quotas (security.quotas.file): nobody is limited"


def register(admin: typer.Typer, terminal: Terminal) -> None:
    """Adds the subcommand to `admin`."""

    @admin.command("quotas")
    def quotas(
        *,
        principal: Annotated[
            str,
            typer.Option("--principal", metavar="PRINCIPAL", help="Only quotas of User:NAME."),
        ] = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Print the quotas in force, and what is used of each now.

        Each node of a cluster counts for itself: this shows the node at --address.

        Examples:
            offsetd admin quotas
            offsetd admin quotas --principal User:loader
            offsetd admin quotas -o json
        """
        with connected(address, timeout, terminal) as client:
            listing = client.describe_quotas(principal)
        terminal.rows(COLUMNS, _rows(listing.quotas))
        if not listing.in_force:
            terminal.note(_NOT_IN_FORCE)


def _rows(quotas: Iterable[QuotaUse]) -> Iterable[Row]:
    for each in quotas:
        yield {
            "principal": each.principal or None,
            "client_id": each.client_id or None,
            "quota": each.quota,
            "limit": each.limit,
            "in_use": each.in_use,
            "refusals": each.refusals if each.principal else None,
            "delay_s": round(each.delay.total_seconds(), 3) if each.principal else None,
        }
