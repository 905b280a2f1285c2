"""`offsetd migrate`: migrations from other stores of offsets to offsetd, and back."""

from collections.abc import Callable
from typing import Any

import typer

from offsetd_clients.cli.command_exit import OURS
from offsetd_clients.cli.printing.terminal import Terminal


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds `migrate` with a group of commands for each kind of store."""
    migrate = typer.Typer(
        help="Move offsets from another store to offsetd: plan, diff, run, verify; and back.",
        no_args_is_help=True,
    )
    for name, load in _STORES.items():
        try:
            register_store = load()
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] in OURS:
                raise
            _register_failure(migrate, terminal, name, str(error.name))
        else:
            register_store(migrate, terminal)
    app.add_typer(migrate, name="migrate")


def _zookeeper() -> Callable[[typer.Typer, Terminal], None]:
    # The extra may be missing.
    from offsetd_clients.cli.migration import migrate_zookeeper  # noqa: PLC0415

    return migrate_zookeeper.register


def _kafka() -> Callable[[typer.Typer, Terminal], None]:
    # The extra may be missing.
    from offsetd_clients.cli.migration import migrate_kafka  # noqa: PLC0415

    return migrate_kafka.register


_STORES: dict[str, Callable[[], Callable[[typer.Typer, Terminal], None]]] = {
    "kafka": _kafka,
    "zookeeper": _zookeeper,
}
"""The stores, by the name of their extra."""


def _register_failure(migrate: typer.Typer, terminal: Terminal, name: str, missing: str) -> None:
    from offsetd_clients.installation import install_command  # noqa: PLC0415  rarely needed

    text = f"{missing} is not installed: {install_command(name)}"
    options: dict[str, Any] = {"ignore_unknown_options": True, "allow_extra_args": True}

    @migrate.command(name, help=f"Not available: {text}", context_settings=options)
    def unavailable() -> None:
        terminal.fail(text)
