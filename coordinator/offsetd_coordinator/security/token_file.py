"""The file of tokens (`security.tokens.file`): TOML, with a table `[[token]]` for each token.

    version = 1

    [[token]]
    id = "8a52d13c5ee80f17"
    principal = "User:alice"
    salt = "…"            # 16 bytes, hexadecimal
    hmac_sha256 = "…"     # of the secret, with the salt as the key; 32 bytes, hexadecimal
    created = 2026-11-20T21:06:15.341Z
    expires = 2027-02-18T21:06:15.341Z    # may be left out: the token does not expire
    note = "the billing job"              # may be left out

A change replaces the whole file, so a reader sees the old content or the new. Comments are lost.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from offsetd_coordinator.security.tokens import (
    HASH_BYTES,
    ID_BYTES,
    SALT_BYTES,
    StoredToken,
    TokenTable,
    new_token,
    principal_flaw,
)
from offsetd_coordinator.security.toml_tables import document_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = [
    "InvalidTokenFile",
    "TokenTable",
    "UnknownToken",
    "access_flaw",
    "create_token",
    "parse_token_file",
    "read_token_file",
    "revoke_tokens",
    "token_file_content",
]

VERSION: Final = 1
_NEEDED: Final = frozenset(["id", "principal", "salt", "hmac_sha256", "created"])
_KEYS: Final = _NEEDED | {"expires", "note"}
_HEX_BYTES: Final = {"id": ID_BYTES, "salt": SALT_BYTES, "hmac_sha256": HASH_BYTES}
_HEADER: Final = "# `offsetd admin tokens` writes this file. It holds hashes, no token.\n"
_OWN_MODE: Final = 0o600
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_9999_MS: Final = 253_402_300_799_999
_ESCAPED: Final = re.compile(r'["\\\x00-\x1f\x7f]')
_LINE: Final = re.compile(r"\(at line (\d+)")
_AT_END: Final = "(at end of document)"


class InvalidTokenFile(ValueError):
    """The content is not a file of tokens. The message names the table."""


class UnknownToken(LookupError):
    """There is no token with one of the ids, which are its arguments."""


def parse_token_file(content: bytes) -> TokenTable:
    """The tokens of a file's content. Raises InvalidTokenFile.

    A key that is not known is an error: a token with `expire` would never expire.
    """
    document = _document(content)
    _check_version(document)
    if unknown := sorted(document.keys() - {"version", "token"}):
        raise InvalidTokenFile(f"there is no key {unknown[0]!r} beside `version` and [[token]]")
    tables = document.get("token", [])
    if not isinstance(tables, list):
        raise InvalidTokenFile("`token` is no list of tables: each begins with [[token]]")
    known: dict[str, int] = {}
    tokens = []
    for number, table in enumerate(tables, 1):
        try:
            token = _stored_token(table)
        except ValueError as error:
            raise InvalidTokenFile(f"{_table_name(number, table)}: {error}") from None
        if (first := known.setdefault(token.token_id, number)) != number:
            raise InvalidTokenFile(f"{_table_name(number, table)}: table {first} has the same id")
        tokens.append(token)
    return TokenTable(tokens)


def token_file_content(tokens: Iterable[StoredToken]) -> bytes:
    """The inverse of `parse_token_file`. Raises UnicodeEncodeError for a lone surrogate."""
    return (f"{_HEADER}version = {VERSION}\n" + "".join(map(_table_text, tokens))).encode()


def read_token_file(path: Path) -> TokenTable:
    """The tokens of a file. Raises OSError and InvalidTokenFile."""
    return parse_token_file(path.read_bytes())


def create_token(
    path: Path, principal: str, *, now_ms: int, expires_ms: int | None = None, note: str = ""
) -> tuple[str, StoredToken]:
    """Makes a token and adds it to the file, or to a new file. Returns also what is kept of it.

    The token is durable. Raises OSError, InvalidTokenFile, and ValueError for a wrong principal.
    """
    token, stored = new_token(principal, now_ms=now_ms, expires_ms=expires_ms, note=note)
    with _Replacement.of(path) as replacement:
        known = replacement.former_tokens(may_be_missing=True)
        replacement.put(token_file_content([*known, stored]))
    return token, stored


def revoke_tokens(path: Path, token_ids: Sequence[str]) -> list[StoredToken]:
    """Takes tokens out of the file; returns what was kept of them, in the order of the ids.

    Raises OSError, InvalidTokenFile and UnknownToken. Then nothing is changed.
    """
    with _Replacement.of(path) as replacement:
        former = replacement.former_tokens(may_be_missing=False)
        by_id = {each.token_id: each for each in former}
        if unknown := [each for each in token_ids if each not in by_id]:
            raise UnknownToken(*unknown)
        revoked = [by_id.pop(each) for each in dict.fromkeys(token_ids)]
        replacement.put(token_file_content(by_id.values()))
    return revoked


def access_flaw(path: Path) -> str:
    """The access that other users have to the file, and should not have; empty if none.

    A group may read it: the server may run as another user than the owner. Raises OSError.
    """
    mode = path.stat().st_mode
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "other users can write it, and so make tokens for everybody"
    return "all users can read it" if mode & stat.S_IROTH else ""


class _Replacement:
    """The next content of a file. Its lock lets one process at a time change the file.

    The new file is the lock, too: the one that holds it reads the old file, writes, and renames.
    """

    def __init__(self, path: Path, part: Path, descriptor: int) -> None:
        self._path = path
        self._part = part
        self._descriptor = descriptor
        self._is_put = False

    @classmethod
    @contextmanager
    def of(cls, path: Path) -> Iterator[_Replacement]:
        """Waits for the lock. At the end the file is replaced, or nothing is left behind."""
        path = Path(os.path.realpath(path))  # A symbolic link stays a link.
        path.parent.stat()  # An error names the folder.
        part = path.with_name(f".{path.name}.part")
        descriptor = _locked(part)
        replacement = cls(path, part, descriptor)
        try:
            yield replacement
        finally:
            if not replacement._is_put:
                part.unlink()
            os.close(descriptor)

    def former_tokens(self, *, may_be_missing: bool) -> tuple[StoredToken, ...]:
        """The tokens of the file that is replaced."""
        try:
            return read_token_file(self._path).tokens
        except FileNotFoundError:
            if may_be_missing:
                return ()
            raise

    def put(self, content: bytes) -> None:
        """Replaces the file, durably. Owner, group and mode stay those of the former file."""
        os.ftruncate(self._descriptor, 0)  # A process that was killed may have left something.
        os.fchmod(self._descriptor, _OWN_MODE)
        with open(self._descriptor, "wb", closefd=False) as out:
            out.write(content)
        self._take_access()
        os.fsync(self._descriptor)
        self._part.replace(self._path)
        self._is_put = True
        _sync_folder(self._path.parent)

    def _take_access(self) -> None:
        """Keeps owner and mode, so that a server of another user can still read the file."""
        try:
            former = self._path.stat()
        except FileNotFoundError:
            return
        own = os.fstat(self._descriptor)
        if (own.st_uid, own.st_gid) != (former.st_uid, former.st_gid):
            try:
                os.fchown(self._descriptor, former.st_uid, former.st_gid)
            except PermissionError as error:
                raise PermissionError(error.errno, error.strerror, str(self._path)) from None
        os.fchmod(self._descriptor, stat.S_IMODE(former.st_mode))


def _locked(part: Path) -> int:
    """Opens the new file and locks it; waits while another process holds it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        descriptor = os.open(part, flags, _OWN_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(descriptor), part.lstat()):
                return descriptor
        except FileNotFoundError:
            pass  # The holder has renamed or removed it.
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _document(content: bytes) -> dict[str, Any]:
    try:
        return document_of(content)
    except ValueError as error:
        raise InvalidTokenFile(f"{_broken_table(content, str(error))}{error}") from None


def _broken_table(content: bytes, message: str) -> str:
    """The table in which the TOML is wrong, as the beginning of a message."""
    lines = content.decode(errors="replace").split("\n")
    if found := _LINE.search(message):
        lines = lines[: int(found[1])]
    elif _AT_END not in message:
        return ""
    number = sum(line.lstrip().startswith("[[") for line in lines)
    return f"table {number}: " if number else "before the first table: "


def _check_version(document: Mapping[str, Any]) -> None:
    version = document.get("version")
    if type(version) is not int or version < 1:
        raise InvalidTokenFile(f"there is no `version = {VERSION}`: it is no file of tokens")
    if version > VERSION:
        raise InvalidTokenFile(f"it has version {version}, and this program reads {VERSION}")


def _table_name(number: int, table: Any) -> str:
    """`table 3`, with the token's id if it has one."""
    token_id = table.get("id") if isinstance(table, dict) else None
    is_id = isinstance(token_id, str) and _is_hex(token_id, ID_BYTES)
    return f"table {number} (token {token_id})" if is_id else f"table {number}"


def _stored_token(table: Any) -> StoredToken:
    """The token of one table. Raises ValueError, whose message never has a hash."""
    if not isinstance(table, dict):
        raise ValueError("expected a table, `[[token]]`")  # noqa: TRY004  # One error for all.
    if unknown := sorted(table.keys() - _KEYS):
        raise ValueError(f"there is no key {unknown[0]!r}")
    if missing := sorted(_NEEDED - table.keys()):
        raise ValueError(f"`{missing[0]}` is missing")
    for key, size_bytes in _HEX_BYTES.items():
        if not isinstance(table[key], str) or not _is_hex(table[key], size_bytes):
            raise ValueError(f"`{key}` is not {2 * size_bytes} lower-case hexadecimal digits")
    principal, note = table["principal"], table.get("note", "")
    if not isinstance(principal, str) or not isinstance(note, str):
        raise ValueError("`principal` and `note` are strings")  # noqa: TRY004
    if flaw := principal_flaw(principal):
        raise ValueError(flaw)
    return StoredToken(
        token_id=table["id"],
        principal=principal,
        salt=bytes.fromhex(table["salt"]),
        secret_hash=bytes.fromhex(table["hmac_sha256"]),
        created_ms=_time_ms("created", table["created"]),
        expires_ms=_time_ms("expires", table["expires"]) if "expires" in table else None,
        note=note,
    )


def _is_hex(text: str, size_bytes: int) -> bool:
    return re.fullmatch(rf"[0-9a-f]{{{2 * size_bytes}}}", text) is not None


def _time_ms(key: str, value: Any) -> int:
    """Milliseconds since the epoch. Raises ValueError if it is no time with an offset."""
    if not isinstance(value, datetime) or value.tzinfo is None or value < _EPOCH:
        raise ValueError(f"`{key}` is no time since 1970 such as 2026-11-20T21:06:15Z")
    return min((value - _EPOCH) // timedelta(milliseconds=1), _YEAR_9999_MS)


def _table_text(token: StoredToken) -> str:
    lines = [
        f"id = {_toml_string(token.token_id)}",
        f"principal = {_toml_string(token.principal)}",
        f"salt = {_toml_string(token.salt.hex())}",
        f"hmac_sha256 = {_toml_string(token.secret_hash.hex())}",
        f"created = {_time_text(token.created_ms)}",
    ]
    if token.expires_ms is not None:
        lines.append(f"expires = {_time_text(token.expires_ms)}")
    if token.note:
        lines.append(f"note = {_toml_string(token.note)}")
    return "\n[[token]]\n" + "".join(f"{line}\n" for line in lines)


def _time_text(time_ms: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=time_ms)  # Exact: no floating point.
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _toml_string(text: str) -> str:
    """A basic string of TOML: quotes, backslashes and control characters are escaped."""
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return f"\\{character}" if character in '"\\' else f"\\u{ord(character):04x}"
