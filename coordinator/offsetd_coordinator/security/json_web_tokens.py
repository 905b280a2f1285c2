"""JSON web tokens (RFC 7519) of an OpenID Connect issuer: the caller that a valid token names."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import unicodedata
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import attrs
from cryptography.exceptions import UnsupportedAlgorithm
from jwt import PyJWS
from jwt.exceptions import PyJWTError

from offsetd_coordinator.security.acl import ANONYMOUS, EVERYONE, USER_PREFIX
from offsetd_coordinator.security.identity import Identity
from offsetd_coordinator.security.jwks import ALGORITHMS
from offsetd_coordinator.security.security_errors import AuthenticationFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_coordinator.security.jwks import KeySet, VerificationKey

TOKEN_CHARACTERS_MAX: Final = 16 * 1024
NAME_CHARACTERS_MAX: Final = 255
CACHED_TOKENS_MAX: Final = 10_000

# The refusals. They name the kind of failure, and nothing of the token.
EXPIRED: Final = "the token has expired"
NOT_YET_VALID: Final = "the token is not valid yet"
OTHER_AUDIENCE: Final = "the token is for another audience"
OTHER_ISSUER: Final = "the token is from another issuer"
UNKNOWN_KEY: Final = "the token is signed with an unknown key"
NO_NAME: Final = "the token does not name a caller"
INVALID: Final = "the token is malformed, or its signature is wrong"

_FORM: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_SECONDS_MAX: Final = 253_402_300_799  # The end of the year 9999.
# Control characters, halves of a surrogate pair, separators of lines.
_UNWANTED: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
# Names of all callers, and of those without an identity.
_RESERVED: Final = frozenset({EVERYONE, ANONYMOUS})


class _Header(NamedTuple):
    algorithm: str
    kid: str | None


@attrs.frozen
class _Verified:
    """A token whose signature and claims are good within some time: begin <= now < expiry."""

    identity: Identity
    begin_ms: int

    def at(self, now_ms: int) -> Identity:
        """The identity. Raises AuthenticationFailed before and after the token's time."""
        if self.identity.is_expired(now_ms):
            _refuse(EXPIRED)
        if now_ms < self.begin_ms:
            _refuse(NOT_YET_VALID)
        return self.identity


def _digest_of(token: str) -> bytes:
    """The SHA-256 by which a token is remembered. Raises AuthenticationFailed."""
    if len(token) > TOKEN_CHARACTERS_MAX or not token.isascii():
        _refuse(INVALID)
    return hashlib.sha256(token.encode()).digest()


class JwtVerifier:
    """Checks tokens against the keys, the issuer and the audiences of a server.

    Only for the event loop's thread. The newest 10,000 tokens that were valid are remembered by
    their SHA-256, until the keys change: checking a signature costs 50 to 100 µs.
    """

    def __init__(
        self,
        *,
        keys: KeySet,
        issuer: str,
        audiences: frozenset[str],
        principal_claim: str = "sub",
        clock_skew_seconds: int = 30,
    ) -> None:
        """Raises ValueError without an issuer, an audience, or a claim that has the name."""
        if not issuer or not principal_claim or not audiences or "" in audiences:
            raise ValueError("issuer, audiences and the claim of the name must not be empty")
        self._keys = keys
        self._issuer = issuer
        self._audiences = audiences
        self._principal_claim = principal_claim
        self._skew_ms = 1000 * clock_skew_seconds
        self._signatures = PyJWS(algorithms=sorted(ALGORITHMS))
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()
        self._verified_with = keys.version

    async def verify(self, token: str, now_ms: int) -> Identity:
        """The identity in a token (without `Bearer`); `now_ms` is the time since 1970.

        Raises AuthenticationFailed, and nothing else that depends on the token. May wait for a
        fetch of the keys if the token's key is unknown.
        """
        digest = _digest_of(token)
        verified = self._remembered(digest)
        if verified is None:
            header = _header_of(token)
            key = await self._keys.find(header.kid, header.algorithm, now_ms)
            if key is None:
                _refuse(UNKNOWN_KEY)
            verified = self._checked(self._claims_of(token, key))
            self._remember(digest, verified, now_ms)
        return verified.at(now_ms)

    def verify_now(self, token: str, now_ms: int) -> Identity | None:
        """As `verify`; None for a token that is not remembered, whose check may have to wait."""
        verified = self._remembered(_digest_of(token))
        return None if verified is None else verified.at(now_ms)

    def _forget_if_keys_changed(self) -> None:
        """Forgets all tokens after a change: the key of a remembered token may be gone."""
        if self._verified_with != self._keys.version:
            self._verified.clear()
            self._verified_with = self._keys.version

    def _remembered(self, digest: bytes) -> _Verified | None:
        self._forget_if_keys_changed()
        verified = self._verified.get(digest)
        if verified is not None:
            self._verified.move_to_end(digest)
        return verified

    def _remember(self, digest: bytes, verified: _Verified, now_ms: int) -> None:
        """Remembers a token that is valid now, in place of the least recently used one."""
        if verified.begin_ms > now_ms or verified.identity.is_expired(now_ms):
            return
        self._forget_if_keys_changed()  # They may have been fetched for this token.
        self._verified[digest] = verified
        if len(self._verified) > CACHED_TOKENS_MAX:
            self._verified.popitem(last=False)

    def _claims_of(self, token: str, key: VerificationKey) -> dict[str, Any]:
        """The claims of a token that this key has signed."""
        payload = self._signed_payload(token, key)
        claims = None if payload is None else _json_object(payload)
        if claims is None:
            _refuse(INVALID)
        return claims

    def _signed_payload(self, token: str, key: VerificationKey) -> bytes | None:
        """The payload; None if the signature is wrong."""
        try:
            signed = self._signatures.decode_complete(
                token, key=key.key, algorithms=sorted(key.algorithms)
            )
        except (PyJWTError, UnsupportedAlgorithm, ValueError, TypeError, RecursionError):
            return None
        payload = signed["payload"]
        return payload if isinstance(payload, bytes) else None

    def _checked(self, claims: dict[str, Any]) -> _Verified:
        """Reads signed claims. The caller compares their times with the clock."""
        if claims.get("iss") != self._issuer:
            _refuse(OTHER_ISSUER)
        if self._audiences.isdisjoint(_audiences_in(claims)):
            _refuse(OTHER_AUDIENCE)
        expiry_ms = _milliseconds(claims, "exp", round_by=math.floor)
        if expiry_ms is None:
            _refuse(INVALID)
        begin_ms = max(
            _milliseconds(claims, name, round_by=math.ceil) or 0 for name in ("nbf", "iat")
        )
        principal = _principal_of(claims.get(self._principal_claim))
        identity = Identity(principal, expires_ms=expiry_ms + self._skew_ms)
        return _Verified(identity, begin_ms - self._skew_ms)


def _header_of(token: str) -> _Header:
    """The algorithm and the name of the key. Raises AuthenticationFailed if they cannot be used.

    Places and keys that the header has itself (`jku`, `jwk`, `x5u`, `x5c`) are never used.
    """
    segments = token.split(".") if _FORM.fullmatch(token) else [""]
    header = _json_object(_decoded(segments[0])) or {}
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        _refuse(INVALID)
    if "kid" in header and not isinstance(kid, str):
        _refuse(INVALID)
    # No extension is understood here, so one that is critical is a refusal (RFC 7515, 4.1.11).
    if "crit" in header or "b64" in header:
        _refuse(INVALID)
    return _Header(algorithm, kid)


def _decoded(segment: str) -> bytes:
    """Base64url without padding; empty if the segment is not that."""
    try:
        return base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
    except ValueError:
        return b""


def _json_object(content: bytes) -> dict[str, Any] | None:
    """A JSON object in UTF-8; None for anything else.

    A name that comes twice is refused: two readers could take different ones (RFC 7519, 4).
    """
    try:
        parsed = json.loads(
            content.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant
        )
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a name comes twice")
    return unique


def _no_constant(_: str) -> NoReturn:
    raise ValueError("NaN and infinity are not JSON")


def _audiences_in(claims: dict[str, Any]) -> list[str]:
    """One text, or a list of texts."""
    audience = claims.get("aud")
    listed = audience if isinstance(audience, list) else [audience]
    texts = [each for each in listed if isinstance(each, str)]
    return texts if len(texts) == len(listed) else []


def _milliseconds(
    claims: dict[str, Any], name: str, *, round_by: Callable[[float], int]
) -> int | None:
    """A time in seconds since 1970, with or without a fraction; None if the claim is missing."""
    if name not in claims:
        return None
    seconds = claims[name]
    if type(seconds) not in {int, float} or not 0 <= seconds <= _SECONDS_MAX:
        _refuse(INVALID)
    return round_by(seconds * 1000)


def _principal_of(name: object) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= NAME_CHARACTERS_MAX:
        _refuse(NO_NAME)
    principal = USER_PREFIX + name
    if principal in _RESERVED or any(unicodedata.category(each) in _UNWANTED for each in name):
        _refuse(NO_NAME)
    return principal


def _refuse(message: str) -> NoReturn:
    raise AuthenticationFailed(message)
