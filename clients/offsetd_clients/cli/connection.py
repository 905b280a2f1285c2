"""How commands reach a server: the options they share, and what they say when a call fails."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from offsetd_clients.cli.terminal import EXIT_FAILED, EXIT_WRONG_USE, Terminal
from offsetd_clients.cli.user_files import read_file
from offsetd_clients.connection import ADDRESS_DEFAULT, ADDRESS_VARIABLE, checked_address
from offsetd_clients.errors import (
    CommitConflict,
    InvalidImport,
    InvalidRequest,
    OffsetBoundsUnknown,
    OffsetdError,
    PartitionsRefused,
)
from offsetd_clients.retry import TIMEOUT_S_MAX, RetryPolicy
from offsetd_clients.security import TlsOptions
from offsetd_clients.sync.client import OffsetClient

TIMEOUT_S_DEFAULT = 10.0
# Who looks on is told after so long between tries that the command is not stuck.
SILENCE_S_MAX = 1.0

TOKEN_VARIABLE = "OFFSETD_TOKEN"  # noqa: S105  # Its name.
TLS_VARIABLE = "OFFSETD_TLS"
"""`true`: TLS by gRPC's own list of authorities, where none of the following is set."""
TLS_PREFIX = "OFFSETD_TLS_"
"""Then CA, CERTIFICATE or KEY (each the path of a PEM file), or SERVER_NAME."""


def _checked_address(value: str) -> str:
    try:
        return checked_address(value)
    except ValueError as error:
        raise typer.BadParameter(f"{error}.") from None


def _checked_timeout(value: float) -> float:
    if not 0 < value <= TIMEOUT_S_MAX:  # Nor may it be NaN.
        raise typer.BadParameter(f"{value} is not above 0 and at most {TIMEOUT_S_MAX:.0f}.")
    return value


AddressOption = Annotated[
    str,
    typer.Option(
        "--address",
        envvar=ADDRESS_VARIABLE,
        metavar="HOST:PORT",
        help="The server.",
        callback=_checked_address,
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        help="For each call, with all its tries.",
        callback=_checked_timeout,
    ),
]

__all__ = [
    "ADDRESS_DEFAULT",
    "TIMEOUT_S_DEFAULT",
    "AddressOption",
    "TimeoutOption",
    "client_of",
    "connected",
    "exit_code",
    "explain",
]


@contextmanager
def connected(address: str, timeout_s: float, terminal: Terminal) -> Iterator[OffsetClient]:
    """A client for the length of a command; a call that fails ends the command."""
    try:
        sleep = telling_sleep(address, terminal)
        retry = RetryPolicy(timeout_s=timeout_s, sleep=sleep)
        # A command commits once at most: a stream is of no use, and does not sleep as calls do.
        client = client_of(address, retry, stream_commits=False)
    except (OSError, ValueError) as error:
        terminal.fail(f"TLS: {error}", EXIT_WRONG_USE)
    except OffsetdError as error:
        terminal.fail(str(error), EXIT_WRONG_USE)
    with client:
        try:
            yield client
        except OffsetdError as error:
            terminal.fail(explain(error, address), exit_code(error))


def telling_sleep(
    address: str, terminal: Terminal, sleep: Callable[[float], None] = time.sleep
) -> Callable[[float], None]:
    """`sleep` between the tries of calls, which says once what is waited for."""
    silence_s = 0.0

    def tell_and_sleep(seconds: float) -> None:
        nonlocal silence_s
        if silence_s < SILENCE_S_MAX <= silence_s + seconds:
            terminal.hint(f"waiting for an answer from {address} …")
        silence_s += seconds
        sleep(seconds)

    return tell_and_sleep


def client_of(
    address: str | None, retry: RetryPolicy, *, stream_commits: bool = True
) -> OffsetClient:
    """With the TLS and the token of the environment. Raises OSError, ValueError, OffsetdError."""
    token = os.environ.get(TOKEN_VARIABLE) or None
    return OffsetClient(
        address, retry=retry, stream_commits=stream_commits, tls=_tls(), token=token
    )


def _tls() -> TlsOptions | None:
    """TLS, if the environment says anything of it. Raises OSError and ValueError."""
    ca, certificate, key = (
        read_file(Path(path)) if (path := os.environ.get(TLS_PREFIX + part)) else None
        for part in ("CA", "CERTIFICATE", "KEY")
    )
    server_name = os.environ.get(f"{TLS_PREFIX}SERVER_NAME") or None
    if os.environ.get(TLS_VARIABLE) != "true" and not (ca or certificate or key or server_name):
        return None
    return TlsOptions(ca=ca, certificate=certificate, key=key, server_name=server_name)


def exit_code(error: OffsetdError) -> int:
    """What the server, or the client, finds wrong with a request was wrong use."""
    return EXIT_WRONG_USE if isinstance(error, InvalidRequest) else EXIT_FAILED


def explain(error: OffsetdError, address: str) -> str:
    """What failed, in lines for people: the reason's name first, so that it can be looked up."""
    if not error.reason:
        lines = [f"no answer from {address}: {error.code}: {error}"]
        if error.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED"):
            lines.append(f"  Is an offsetd there? --address or {ADDRESS_VARIABLE} says where.")
    else:
        lines = [f"{error.reason}: {error.failure.message}"]
    if isinstance(error, InvalidRequest):
        lines += [
            f"  {violation.field}: {violation.description}"
            for violation in error.field_violations
            if f"{violation.field}: {violation.description}" != str(error)
        ]
    if isinstance(error, PartitionsRefused):
        lines += map(_partition_line, error.partitions)
    if isinstance(error, OffsetBoundsUnknown):
        lines.append("  --bounds TOPIC:P=FIRST..END says what a partition has.")
    if isinstance(error, InvalidImport):
        lines += [f"  line {each.get('line')}: {each.get('problem')}" for each in error.lines]
    if isinstance(error, CommitConflict):
        lines += [f"  {conflict}" for conflict in error.conflicts]
    return "\n".join(lines)


def _partition_line(refused: Mapping[str, object]) -> str:
    """`  orders:0: offset 15, earliest 20, latest 60`."""
    known = [
        f"{name} {refused[name]}" for name in ("offset", "earliest", "latest") if name in refused
    ]
    where = ":".join(str(refused[name]) for name in ("topic", "partition") if name in refused)
    return f"  {where}: {', '.join(known)}" if known else f"  {where}"
