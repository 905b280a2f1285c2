"""How commands reach a server: the options they share, and what they say when a call fails."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated

import typer

from offsetd_clients.cli.terminal import EXIT_FAILED, EXIT_WRONG_USE, Terminal
from offsetd_clients.connection import ADDRESS_DEFAULT, ADDRESS_VARIABLE
from offsetd_clients.errors import (
    CommitConflict,
    InvalidImport,
    InvalidRequest,
    OffsetBoundsUnknown,
    OffsetdError,
    PartitionsRefused,
)
from offsetd_clients.retry import TIMEOUT_S_MAX, RetryPolicy
from offsetd_clients.sync.client import OffsetClient

TIMEOUT_S_DEFAULT = 10.0


# gRPC's names for addresses of other kinds.
_SCHEME = re.compile(r"(dns|ipv4|ipv6|unix|unix-abstract|vsock):.+")
_HOST_AND_PORT = re.compile(r"(\[[^\[\]]+\]|[^\[\]:]+):([0-9]{1,5})")


def _checked_address(value: str) -> str:
    if not (_SCHEME.fullmatch(value) or _HOST_AND_PORT.fullmatch(value)):
        raise typer.BadParameter(f"{value!r} is not HOST:PORT.")
    return value


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
    "connected",
    "exit_code",
    "explain",
]


@contextmanager
def connected(address: str, timeout_s: float, terminal: Terminal) -> Iterator[OffsetClient]:
    """A client for the length of a command; a call that fails ends the command."""
    with OffsetClient(address, retry=RetryPolicy(timeout_s=timeout_s)) as client:
        try:
            yield client
        except OffsetdError as error:
            terminal.fail(explain(error, address), exit_code(error))


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
        lines = [f"{error.reason}: {error}"]
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
        for conflict in error.conflicts:
            stored = "nothing" if conflict.offset is None else f"offset {conflict.offset}"
            if conflict.revision is not None:
                stored += f", revision {conflict.revision}"
            lines.append(f"  {conflict.topic_partition}: {stored} is stored")
    return "\n".join(lines)


def _partition_line(refused: Mapping[str, object]) -> str:
    """`  orders:0: offset 15, earliest 20, latest 60`."""
    known = [
        f"{name} {refused[name]}" for name in ("offset", "earliest", "latest") if name in refused
    ]
    where = ":".join(str(refused[name]) for name in ("topic", "partition") if name in refused)
    return f"  {where}: {', '.join(known)}" if known else f"  {where}"
