"""Static tokens: the text that a caller sends, the record that the server keeps, the owner.

A token is `offsetd_<id>_<secret>`. The id is public: it finds what is kept. The secret is shown
once, when the token is made. Only a salted hash of it is kept.
"""

from __future__ import annotations

import hmac
import re
import secrets
from typing import TYPE_CHECKING, Final

import attrs

from offsetd_coordinator.security.acl import ANONYMOUS, EVERYONE, USER_PREFIX
from offsetd_coordinator.security.identity import Identity

if TYPE_CHECKING:
    from collections.abc import Iterable

ID_BYTES: Final = 8
SALT_BYTES: Final = 16
HASH_BYTES: Final = 32
_PRINCIPAL_BYTES_MAX: Final = 1024
_SECRET_BYTES: Final = 32
_FORM: Final = re.compile(r"offsetd_([0-9a-f]{16})_([A-Za-z0-9_-]{43,256})")


@attrs.frozen(kw_only=True)
class StoredToken:
    """What is kept of one token. Times are milliseconds since the epoch, in UTC.

    `token_id` is 16 lower-case hexadecimal digits, `salt` 16 bytes, `secret_hash` 32 bytes.
    """

    token_id: str
    principal: str
    salt: bytes = attrs.field(repr=False)
    secret_hash: bytes = attrs.field(repr=False)
    created_ms: int
    expires_ms: int | None = None
    note: str = ""

    @property
    def identity(self) -> Identity:
        """The identity of the token's owner."""
        return Identity(self.principal, self.token_id, self.expires_ms)

    def is_expired(self, now_ms: int) -> bool:
        """Whether the token is not valid any more."""
        return self.identity.is_expired(now_ms)


class TokenTable:
    """The tokens that a server accepts. It does not change."""

    def __init__(self, tokens: Iterable[StoredToken] = ()) -> None:
        """Takes tokens in order. Raises ValueError if two have the same id."""
        self.tokens: Final = tuple(tokens)
        self._by_id: Final = {each.token_id: each for each in self.tokens}
        if len(self._by_id) < len(self.tokens):
            raise ValueError("two tokens have the same id")

    def identify(self, token: str, now_ms: int) -> Identity | None:
        """The owner's identity. None if the token is malformed, unknown, revoked or expired.

        An unknown id costs the same comparison as a wrong secret, so the time tells neither.
        """
        parts = _FORM.fullmatch(token)
        if parts is None:
            return None
        stored = self._by_id.get(parts[1], _UNKNOWN)
        is_right = hmac.compare_digest(salted_hash(stored.salt, parts[2]), stored.secret_hash)
        if not is_right or stored is _UNKNOWN or stored.is_expired(now_ms):
            return None
        return stored.identity

    def holds(self, token_id: str) -> bool:
        """Whether the token with this id is there: neither unknown nor revoked."""
        return token_id in self._by_id


def new_token(
    principal: str, *, now_ms: int, expires_ms: int | None = None, note: str = ""
) -> tuple[str, StoredToken]:
    """A new random token, and what is kept of it. Raises ValueError for a wrong principal."""
    if flaw := principal_flaw(principal):
        raise ValueError(flaw)
    if len(principal.encode()) > _PRINCIPAL_BYTES_MAX or not principal.isprintable():
        raise ValueError(
            f"a principal has at most {_PRINCIPAL_BYTES_MAX} bytes, and no line breaks or other"
            " control characters"
        )
    token_id, secret = secrets.token_hex(ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES)
    salt = secrets.token_bytes(SALT_BYTES)
    stored = StoredToken(
        token_id=token_id,
        principal=principal,
        salt=salt,
        secret_hash=salted_hash(salt, secret),
        created_ms=now_ms,
        expires_ms=expires_ms,
        note=note,
    )
    return f"offsetd_{token_id}_{secret}", stored


def salted_hash(salt: bytes, secret: str) -> bytes:
    """HMAC-SHA-256 of the secret, with the salt as the key: 32 bytes.

    A slow hash makes it harder to guess a password. 256 random bits cannot be guessed.
    """
    return hmac.digest(salt, secret.encode(), "sha256")


def principal_flaw(principal: str) -> str:
    """Why a token cannot belong to this principal; empty if it can."""
    if not principal.startswith(USER_PREFIX) or principal == USER_PREFIX:
        return f"the principal {principal!r} is not {USER_PREFIX}NAME"
    if principal in (ANONYMOUS, EVERYONE):
        return f"{principal} is not one caller: it cannot have a token"
    return ""


_UNKNOWN: Final = StoredToken(
    token_id="",
    principal=ANONYMOUS,
    salt=secrets.token_bytes(SALT_BYTES),
    secret_hash=secrets.token_bytes(HASH_BYTES),
    created_ms=0,
)
"""The comparison for an id that is not there."""
