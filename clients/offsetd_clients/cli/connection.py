"""Connects commands to a server: their common options, and their messages if a call fails."""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from offsetd_clients.calling.connection import (
    ADDRESS_DEFAULT,
    ADDRESS_VARIABLE,
    checked_address,
    flag_of,
)
from offsetd_clients.calling.retry import TIMEOUT_S_MAX, RetryPolicy
from offsetd_clients.calling.security import TlsOptions
from offsetd_clients.cli.arguments.user_files import read_file
from offsetd_clients.cli.printing.terminal import EXIT_FAILED, EXIT_WRONG_USE, Terminal, printable
from offsetd_clients.errors import (
    CommitConflict,
    InvalidImport,
    InvalidRequest,
    OffsetBoundsUnknown,
    OffsetdError,
    OffsetOutOfRange,
    PartitionsRefused,
)
from offsetd_clients.sync.client import OffsetClient

TIMEOUT_S_DEFAULT = 10.0
# A message about a request names the setting in this way, at its beginning.
_OF_A_SETTING = re.compile(r"^(?:set\[(?=.*\]: )|remove: (?=\S+: ))(.*?)\]?: ")
# After this much time between attempts, the command reports that it is not stuck.
SILENCE_S_MAX = 1.0

TOKEN_VARIABLE = "OFFSETD_TOKEN"  # noqa: S105  # Its name.
TLS_VARIABLE = "OFFSETD_TLS"
"The value yes stands for TLS with gRPC's own authorities, if none of the following is set."
TLS_PREFIX = "OFFSETD_TLS_"
TLS_PARTS = ("CA", "CERTIFICATE", "KEY", "SERVER_NAME")
"""The variables after the prefix: paths of PEM files, and a server name."""


def chosen_address(ctx: typer.Context, own: str) -> str:
    """The command's own `--address` if it was given, else that of the command line, else `own`."""
    source = ctx.get_parameter_source("address")
    if source is not None and source.name == "COMMANDLINE":
        return own
    return ctx.find_root().params.get("address") or own


def _checked_address(ctx: typer.Context, value: str) -> str:
    try:
        return checked_address(chosen_address(ctx, value))
    except ValueError as error:
        raise typer.BadParameter(f"{error}.") from None


def _checked_timeout(value: float) -> float:
    if not 0 < value <= TIMEOUT_S_MAX:  # NaN must fail too.
        raise typer.BadParameter(f"{value} is not above 0 and at most {TIMEOUT_S_MAX:.0f}.")
    return value


_ADDRESS: dict[str, Any] = {
    "envvar": ADDRESS_VARIABLE,
    "metavar": "HOST:PORT",
    "callback": _checked_address,
}
AddressOption = Annotated[
    str, typer.Option("--address", "--bootstrap-server", help="The server.", **_ADDRESS)
]
# The option of commands that also have a Kafka cluster, which `--bootstrap-servers` names.
OffsetdAddressOption = Annotated[
    str, typer.Option("--address", help="The address of the offsetd server.", **_ADDRESS)
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        help="Time for each call, with all its retries.",
        callback=_checked_timeout,
    ),
]

__all__ = [
    "ADDRESS_DEFAULT",
    "TIMEOUT_S_DEFAULT",
    "AddressOption",
    "OffsetdAddressOption",
    "TimeoutOption",
    "chosen_address",
    "client_of",
    "connected",
    "exit_code",
    "explain",
    "security_of_environment",
]


@contextmanager
def connected(address: str, timeout_s: float, terminal: Terminal) -> Iterator[OffsetClient]:
    """A client for the duration of a command. A call that fails ends the command."""
    try:
        sleep = telling_sleep(address, terminal)
        retry = RetryPolicy(timeout_s=timeout_s, sleep=sleep)
        # A command commits at most once, so a stream does not make it faster. A stream also does
        # not call `sleep`, which reports to the user that the command waits.
        client = client_of(address, retry, stream_commits=False)
    except (OSError, ValueError) as error:
        told = str(error)
        terminal.fail(told if told.startswith("token: ") else f"TLS: {told}", EXIT_WRONG_USE)
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
    """The `sleep` between attempts. It reports once what the command waits for."""
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
    """A client with the TLS settings and the token of the environment.

    Raises OSError, ValueError and OffsetdError.
    """
    security = security_of_environment()
    return OffsetClient(address, retry=retry, stream_commits=stream_commits, **security)


def security_of_environment() -> dict[str, Any]:
    """The arguments `tls` and `token` of a client. Raises OSError and ValueError."""
    return {"tls": _tls(), "token": os.environ.get(TOKEN_VARIABLE) or None}


def _tls() -> TlsOptions | None:
    """The TLS settings of the environment, if it has any. Raises ValueError."""
    is_wanted = is_tls_wanted(os.environ)
    ca, certificate, key = map(_tls_file, ("CA", "CERTIFICATE", "KEY"))
    if not is_wanted:
        return None
    server_name = os.environ.get(f"{TLS_PREFIX}SERVER_NAME")
    return TlsOptions(ca=ca, certificate=certificate, key=key, server_name=server_name)


def _tls_file(part: str) -> bytes | None:
    name = TLS_PREFIX + part
    path = os.environ.get(name)
    if path is None:
        return None
    try:
        return read_file(Path(path))
    except OSError as error:
        raise ValueError(f"{name}: {path} cannot be read: {error.strerror or error}") from error


def is_tls_wanted(environment: Mapping[str, str]) -> bool:
    """Whether the environment asks for TLS.

    Raises ValueError if its values are unknown or contradict each other: traffic that the user
    wants encrypted must not be sent as plain text.
    """
    named = sorted(name for name in environment if name.startswith(TLS_PREFIX))
    for name in named:
        if name.removeprefix(TLS_PREFIX) not in TLS_PARTS:
            known = ", ".join(TLS_PREFIX + part for part in TLS_PARTS)
            raise ValueError(f"{name} is not known: {known} are")
    for name in (TLS_VARIABLE, *named):
        if environment.get(name) == "":
            raise ValueError(f"{name} is empty: unset it, or give it a value")
    text = environment.get(TLS_VARIABLE)
    if text is None:
        return bool(named)
    is_wanted = flag_of(TLS_VARIABLE, text)
    if named and not is_wanted:
        raise ValueError(f"{TLS_VARIABLE} is false, but {named[0]} is set")
    return is_wanted


def exit_code(error: OffsetdError) -> int:
    """The exit code of an error: that of wrong use if the request was rejected."""
    return EXIT_WRONG_USE if isinstance(error, InvalidRequest) else EXIT_FAILED


_HINTS = {
    "UNAVAILABLE": f"  Is an offsetd there? --address or {ADDRESS_VARIABLE} says where.",
    "DEADLINE_EXCEEDED": (
        "  Is an offsetd there, and does it answer (offsetd admin status)? --timeout gives it more"
        " time."
    ),
    "UNIMPLEMENTED": (
        "  The server does not know this call. Is it of an older version (offsetd version)?"
    ),
}


def explain(error: OffsetdError, address: str) -> str:
    """The error as lines of text for users.

    The name of the reason comes first, so that users can search for it.
    """
    if not error.reason:
        lines = [f"no answer from {address}: {error.code}: {error}"]
        lines += [_HINTS[error.code]] if error.code in _HINTS else []
    elif isinstance(error, InvalidImport) and error.lines:
        # The message repeats the first wrong line, which is listed below.
        message = error.failure.message.removesuffix("; " + _wrong_line(error.lines[0]))
        lines = [f"{error.reason}: {_plain(message)}"]
    else:
        lines = [f"{error.reason}: {_plain(error.failure.message)}"]
    if isinstance(error, InvalidRequest):
        lines += [
            f"  {violation.field}: {violation.description}"
            for violation in error.field_violations
            if f"{violation.field}: {violation.description}" != str(error)
        ]
    if isinstance(error, PartitionsRefused):
        lines += map(_partition_line, error.partitions)
    if isinstance(error, OffsetBoundsUnknown) or _rests_on_reports(error):
        lines.append("  --bounds TOPIC:P=FIRST..END says what a partition has.")
    if isinstance(error, InvalidImport):
        lines += [f"  {_wrong_line(each)}" for each in error.lines]
    if isinstance(error, CommitConflict):
        lines += [f"  {conflict}" for conflict in error.conflicts]
    return "\n".join(lines)


def _wrong_line(found: Mapping[str, object]) -> str:
    return f"line {found.get('line')}: {found.get('problem')}"


def _rests_on_reports(error: OffsetdError) -> bool:
    """Whether a reset was refused because of an end that a client once reported."""
    return isinstance(error, OffsetOutOfRange) and any(
        each.get("latest_source") == "reported" for each in error.partitions
    )


def _plain(message: str) -> str:
    """A server's message in one line. A setting is called by its name alone."""
    return printable(_OF_A_SETTING.sub(r"\1: ", message))


_BOUND_SOURCES = {
    "request": "--bounds",
    "kafka": "by Kafka",
    "reported": "reported by a client",
}


def _partition_line(refused: Mapping[str, object]) -> str:
    """`  orders:0: offset 95, earliest 20 (by Kafka), latest 60 (reported by a client)`."""
    known = []
    for name in ("offset", "earliest", "latest"):
        if name in refused:
            source = _BOUND_SOURCES.get(str(refused.get(f"{name}_source", "")))
            known.append(f"{name} {refused[name]}" + (f" ({source})" if source else ""))
    where = ":".join(str(refused[name]) for name in ("topic", "partition") if name in refused)
    return f"  {where}: {', '.join(known)}" if known else f"  {where}"
