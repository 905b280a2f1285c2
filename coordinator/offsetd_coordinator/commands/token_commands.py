"""`offsetd admin tokens create|list|revoke`: the file of tokens, on this machine.

No server is called: it reads the file again when the file has changed.
"""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, Protocol

import typer

from offsetd_coordinator.commands.terminal import WRONG_USE, Terminal
from offsetd_coordinator.rfc3339 import rfc3339
from offsetd_coordinator.security.acl import USER_PREFIX
from offsetd_coordinator.security.token_file import (
    InvalidTokenFile,
    UnknownToken,
    access_flaw,
    create_token,
    read_token_file,
    revoke_tokens,
)
from offsetd_coordinator.security.tokens import ID_BYTES, StoredToken, principal_flaw

COLUMNS: Final = ("token_id", "principal", "create_time", "expire_time", "note")
LIST_COLUMNS: Final = (*COLUMNS[:2], "state", *COLUMNS[2:])
DROPPABLE: Final = ("create_time", "note")
_TABLE: Final = "table"
_UNITS_MS: Final = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_TIME_SPAN: Final = re.compile(r"([0-9]{1,15})(ms|[smhdw])")
_YEAR_9999_MS: Final = 253_402_300_799_999
_ID: Final = re.compile(rf"[0-9a-f]{{{2 * ID_BYTES}}}")

FileOption = Annotated[
    Path,
    typer.Option("--file", metavar="PATH", help="The file of tokens (security.tokens.file)."),
]


class FormattedTerminal(Terminal, Protocol):
    """A terminal that also says in which format the user wants the results."""

    @property
    def output_format(self) -> str:
        """`table`, `json`, `jsonl` or `csv`."""


def register(app: typer.Typer, terminal: FormattedTerminal) -> None:
    """Adds the group `tokens`, below `admin`."""
    group = typer.Typer(help="Make and revoke the tokens of callers.", no_args_is_help=True)
    app.add_typer(group, name="tokens")
    group.callback()(_group)
    _register_create(group, terminal)
    _register_list(group, terminal)
    _register_revoke(group, terminal)


def _group() -> None:
    """Make and revoke the tokens of callers."""


def _register_create(group: typer.Typer, terminal: FormattedTerminal) -> None:
    @group.command("create")
    def create(
        file: FileOption,
        principal: Annotated[
            str,
            typer.Option(
                "--principal", metavar="USER", help="Whose token it is: alice, or User:alice."
            ),
        ],
        expires: Annotated[
            str | None,
            typer.Option(
                "--expires", metavar="TIME", help="How long it is valid: 12h, 90d. Else for ever."
            ),
        ] = None,
        note: Annotated[
            str, typer.Option("--note", metavar="TEXT", help="What it is for, for the list.")
        ] = "",
    ) -> None:
        """Make a token, and print it. It is not shown again.

        The file holds only a salted hash of the token. If the file does not exist, it is made, and
        only its owner can read it. The token is alone on stdout; -o json prints its id, too.

        Examples:
            offsetd admin tokens create --file t.toml --principal alice
            offsetd admin tokens create --file t.toml --principal User:billing -o json
            offsetd admin tokens create --file t.toml --principal bob --expires 90d
        """
        owner = _principal(terminal, principal)
        now_ms = time.time_ns() // 1_000_000
        expires_ms = None if expires is None else _expiry_ms(terminal, expires, now_ms)
        with _failures_told(terminal, file):
            token, stored = create_token(
                file, owner, now_ms=now_ms, expires_ms=expires_ms, note=note
            )
        if terminal.output_format == _TABLE:
            terminal.lines([token])  # A table would cut it, and a shell wants it alone.
        else:
            terminal.rows(("token", *COLUMNS), [{"token": token, **_row(stored)}])
        terminal.note(f"token {stored.token_id} of {owner}: it is not shown again")
        _note_access(terminal, file)


def _register_list(group: typer.Typer, terminal: Terminal) -> None:
    @group.command("list")
    def list_tokens(file: FileOption) -> None:
        """Print the tokens of a file, without their secrets.

        Examples:
            offsetd admin tokens list --file t.toml
            offsetd admin tokens list --file t.toml -o jsonl
        """
        with _failures_told(terminal, file):
            tokens = read_token_file(file).tokens
        now_ms = time.time_ns() // 1_000_000
        rows = [
            {**_row(each), "state": "expired" if each.is_expired(now_ms) else "valid"}
            for each in tokens
        ]
        terminal.rows(LIST_COLUMNS, rows, droppable=DROPPABLE)
        _note_access(terminal, file)


def _register_revoke(group: typer.Typer, terminal: Terminal) -> None:
    @group.command("revoke")
    def revoke(
        file: FileOption,
        token_ids: Annotated[
            list[str],
            typer.Argument(metavar="ID", help="A token's id, as the list prints it; repeatable."),
        ],
    ) -> None:
        """Take tokens out of a file, so that the server does not accept them any more.

        The server reads the file again by itself, and ends the streams of their callers. If one
        of the ids is not there, nothing is changed.

        Examples:
            offsetd admin tokens revoke --file t.toml 8a52d13c5ee80f17
        """
        for number, each in enumerate(token_ids, 1):
            if _ID.fullmatch(each) is None:  # It may be a whole token: it is not repeated.
                terminal.fail(
                    f"argument {number} is no token's id: that has {2 * ID_BYTES} hexadecimal"
                    " digits, behind `offsetd_` in the token",
                    WRONG_USE,
                )
        with _failures_told(terminal, file):
            revoked = revoke_tokens(file, token_ids)
        terminal.rows(COLUMNS, map(_row, revoked), droppable=DROPPABLE)
        _note_access(terminal, file)


@contextmanager
def _failures_told(terminal: Terminal, file: Path) -> Iterator[None]:
    try:
        yield
    except InvalidTokenFile as error:
        terminal.fail(f"{file}: {error}")
    except UnknownToken as error:
        terminal.fail(f"{file} has no token {', '.join(error.args)}: nothing was changed")


def _note_access(terminal: Terminal, file: Path) -> None:
    if flaw := access_flaw(file):
        terminal.note(f"warning: {file}: {flaw}")


def _row(token: StoredToken) -> Mapping[str, object]:
    return {
        "token_id": token.token_id,
        "principal": token.principal,
        "create_time": rfc3339(token.created_ms),
        "expire_time": None if token.expires_ms is None else rfc3339(token.expires_ms),
        "note": token.note or None,
    }


def _principal(terminal: Terminal, text: str) -> str:
    """`User:alice` for `alice`. Fails for a name with another prefix, as `Group:alice`."""
    if ":" in text and not text.startswith(USER_PREFIX):
        terminal.fail(
            f"--principal: {text!r} begins with no `{USER_PREFIX}`: if that is the whole name,"
            f" write {USER_PREFIX}{text}",
            WRONG_USE,
        )
    principal = text if text.startswith(USER_PREFIX) else USER_PREFIX + text
    if flaw := principal_flaw(principal):
        terminal.fail(f"--principal: {flaw}", WRONG_USE)
    return principal


def _expiry_ms(terminal: Terminal, text: str, now_ms: int) -> int:
    """When a token expires that is valid for this time from now on."""
    found = _TIME_SPAN.fullmatch(text)
    span_ms = 0 if found is None else int(found[1]) * _UNITS_MS[found[2]]
    if span_ms == 0:
        terminal.fail(f"--expires: {text!r} is not a time like 45s, 30m, 12h or 7d", WRONG_USE)
    if now_ms + span_ms > _YEAR_9999_MS:
        terminal.fail(f"--expires: {text!r} is too long", WRONG_USE)
    return now_ms + span_ms
