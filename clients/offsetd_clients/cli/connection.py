"""How commands reach a server: the options they share, and what they say when a call fails."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from offsetd_clients.cli.terminal import Terminal
from offsetd_clients.client import ADDRESS_DEFAULT, ADDRESS_VARIABLE, OffsetClient
from offsetd_clients.errors import CommitConflict, InvalidRequest, OffsetdError
from offsetd_clients.retry import RetryPolicy

TIMEOUT_S_DEFAULT = 10.0

AddressOption = Annotated[
    str,
    typer.Option(
        "--address",
        envvar=ADDRESS_VARIABLE,
        metavar="HOST:PORT",
        help="The server.",
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout", metavar="SECONDS", min=0.001, help="For each call, with all its tries."
    ),
]

__all__ = [
    "ADDRESS_DEFAULT",
    "TIMEOUT_S_DEFAULT",
    "AddressOption",
    "TimeoutOption",
    "connected",
    "explain",
]


@contextmanager
def connected(address: str, timeout_s: float, terminal: Terminal) -> Iterator[OffsetClient]:
    """A client for the length of a command; a call that fails ends the command with exit code 1."""
    with OffsetClient(address, retry=RetryPolicy(timeout_s=timeout_s)) as client:
        try:
            yield client
        except OffsetdError as error:
            terminal.fail(explain(error, address))


def explain(error: OffsetdError, address: str) -> str:
    """What failed, in lines for people: the reason's name first, so that it can be looked up."""
    if not error.reason:
        lines = [f"no answer from {address}: {error.code}: {error}"]
    else:
        lines = [f"{error.reason}: {error}"]
    if isinstance(error, InvalidRequest):
        lines += [
            f"  {violation.field}: {violation.description}" for violation in error.field_violations
        ]
    if isinstance(error, CommitConflict):
        for conflict in error.conflicts:
            stored = "nothing" if conflict.offset is None else f"offset {conflict.offset}"
            if conflict.revision is not None:
                stored += f", revision {conflict.revision}"
            lines.append(f"  {conflict.topic_partition}: {stored} is stored")
    return "\n".join(lines)
