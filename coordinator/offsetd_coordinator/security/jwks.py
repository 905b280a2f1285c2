"""The public keys that sign JSON web tokens: a JSON Web Key Set (RFC 7517), fetched and kept."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import ssl
import time
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPRedirectHandler,
    HTTPSHandler,
    ProxyHandler,
    Request,
    build_opener,
)

import attrs
import structlog
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.exceptions import PyJWTError

if TYPE_CHECKING:
    from collections.abc import Callable
    from http.client import HTTPMessage
    from typing import IO

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    Jwk = dict[str, Any]
    KeyReader = Callable[[Jwk], Any]
    PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey | Ed448PublicKey

ASK_AGAIN_MS: Final = 10_000
"""The least time between a fetch and one that an unknown key, or a failure, causes."""
DOCUMENT_BYTES_MAX: Final = 1 << 20
_FETCH_SECONDS: Final = 10
_CHUNK_BYTES: Final = 1 << 16
_RSA_BITS: Final = range(2048, 8192 + 1)  # The least: RFC 7518, 3.3. More only costs time.
_REASONS_LOGGED_MAX: Final = 10

_KINDS: Final[dict[tuple[object, object], tuple[KeyReader, frozenset[str]]]] = {
    ("RSA", None): (
        RSAAlgorithm.from_jwk,
        frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
    ),
    ("EC", "P-256"): (ECAlgorithm.from_jwk, frozenset({"ES256"})),
    ("EC", "P-384"): (ECAlgorithm.from_jwk, frozenset({"ES384"})),
    ("EC", "P-521"): (ECAlgorithm.from_jwk, frozenset({"ES512"})),
    ("OKP", "Ed25519"): (OKPAlgorithm.from_jwk, frozenset({"EdDSA"})),
    ("OKP", "Ed448"): (OKPAlgorithm.from_jwk, frozenset({"EdDSA"})),
}
# By type and curve: what reads such a key, and the algorithms of RFC 7518 that fit it. Symmetric
# keys (`oct`) are left out: whoever can check their signatures can also make them.

ALGORITHMS: Final = frozenset().union(*(algorithms for _, algorithms in _KINDS.values()))
"""The algorithms that a token may have. All of them are asymmetric."""


@attrs.frozen(kw_only=True)
class VerificationKey:
    """A public key with its name, and the algorithms whose signatures it may check."""

    kid: str | None
    algorithms: frozenset[str]
    key: PublicKey


@attrs.frozen(kw_only=True)
class ParsedKeys:
    """The keys of a document that can check signatures, and why others are left out."""

    keys: tuple[VerificationKey, ...]
    left_out: tuple[str, ...]


def parse_keys(document: bytes) -> ParsedKeys:
    """Reads a JSON Web Key Set. Raises ValueError if the document as a whole is not one.

    A single key that is of no use (for encryption, of another type, too short) is left out. Private
    keys are skipped too: anybody could sign with a published private key.
    """
    try:
        parsed = json.loads(document)
    except RecursionError:
        raise ValueError("the document is nested too deeply") from None
    listed = parsed.get("keys") if isinstance(parsed, dict) else None
    if listed is None or not isinstance(listed, list):
        raise ValueError("the document is not a JSON object with a list `keys`")
    keys: list[VerificationKey] = []
    left_out: list[str] = []
    for place, jwk in enumerate(listed):
        try:
            keys.append(_verification_key(jwk))
        except ValueError as error:
            left_out.append(f"keys[{place}]: {error}")
    return ParsedKeys(keys=tuple(keys), left_out=tuple(left_out))


def _verification_key(jwk: object) -> VerificationKey:
    """Raises ValueError, with the reason, for a key that must not check signatures."""
    members: Jwk = jwk if isinstance(jwk, dict) else {}
    kind = members.get("kty"), None if members.get("kty") == "RSA" else members.get("crv")
    # A list or an object cannot be looked up.
    known = _KINDS.get(kind) if all(isinstance(each, str | None) for each in kind) else None
    if known is None:
        raise ValueError("its type or curve is not supported")
    read, algorithms = known
    uses, operations = members.get("use", "sig"), members.get("key_ops", ["verify"])
    if uses != "sig" or not isinstance(operations, list) or "verify" not in operations:
        raise ValueError("it is not for signatures")
    if "alg" in members:
        algorithms = frozenset(each for each in algorithms if each == members["alg"])
    if not algorithms:
        raise ValueError("its algorithm is not supported")
    if "d" in members:
        raise ValueError("it is a private key")
    kid = members.get("kid")
    if kid is not None and not isinstance(kid, str):
        raise ValueError("its kid is not a text")
    return VerificationKey(kid=kid, algorithms=algorithms, key=_public_key(read, members))


def _public_key(read: KeyReader, jwk: Jwk) -> PublicKey:
    try:
        key: PublicKey = read(jwk)
    except (PyJWTError, UnsupportedAlgorithm, ValueError, TypeError, KeyError, OverflowError):
        raise ValueError("its numbers are not a public key") from None
    if isinstance(key, RSAPublicKey) and key.key_size not in _RSA_BITS:
        raise ValueError(f"it has {key.key_size} bits, not {_RSA_BITS[0]} to {_RSA_BITS[-1]}")
    return key


def check_address(address: str) -> None:
    """Raises ValueError if keys must not be read from this address.

    `https://HOST…` and `file:///PATH` are good. `http://` only on loopback: on a network, anyone
    could replace the keys.
    """
    parts = urlsplit(address)
    if parts.username is not None or parts.password is not None:
        raise ValueError("the address of the keys must not have a user or a password")
    if parts.scheme == "file":
        is_good = parts.netloc in {"", "localhost"} and len(parts.path) > 1
    elif parts.scheme == "http":
        is_good = _is_loopback(parts.hostname or "")
    else:
        is_good = parts.scheme == "https" and bool(parts.hostname)
    if not is_good:
        raise ValueError(
            f"the address of the keys {address!r} is not https://HOST…, file:///PATH, or http://"
            " with localhost"
        )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _CheckedRedirects(HTTPRedirectHandler):
    """Follows a redirect only to the same scheme, and to where keys may be."""

    def redirect_request(
        self,
        req: Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> Request | None:
        if urlsplit(newurl).scheme != req.type:
            raise ValueError("the keys are redirected to another scheme")
        check_address(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch_document(address: str) -> bytes:
    """The bytes at an address that `check_address` allows. Blocks.

    Raises OSError, HTTPException or ValueError if they cannot be read, are more than 1 MiB, or
    take longer than 10 s. For https://, the system's authorities and proxies count.
    """
    ends = time.monotonic() + _FETCH_SECONDS
    # No proxy for http: these requests must not leave this machine.
    proxies = ProxyHandler({}) if address.startswith("http:") else ProxyHandler()
    tls = HTTPSHandler(context=ssl.create_default_context())
    opener = build_opener(proxies, tls, _CheckedRedirects())
    headers = {"Accept": "application/json", "User-Agent": "offsetd"}
    request = Request(address, headers=headers)  # noqa: S310  The address was checked.
    try:
        response = opener.open(request, timeout=_FETCH_SECONDS)
    except HTTPError as error:
        error.close()
        raise
    with response:
        return _read_all(response, ends)


def _read_all(response: Any, ends: float) -> bytes:
    """Reads to the end; each read returns what is there. `ends` is in monotonic seconds."""
    content = bytearray()
    while part := response.read1(_CHUNK_BYTES):
        content += part
        if len(content) > DOCUMENT_BYTES_MAX:
            raise ValueError(f"the document has more than {DOCUMENT_BYTES_MAX} bytes")
        if time.monotonic() > ends:
            raise TimeoutError(f"the document takes more than {_FETCH_SECONDS} s")
    return bytes(content)


class KeySet:
    """The keys at one address. The event loop's thread uses it; a thread of asyncio fetches.

    A fetch that fails keeps the keys, is logged, and is tried again: by `refresh_if_due`, or when
    a token has an unknown key. A document without a key for signatures is obeyed: then no token
    is valid. Times are milliseconds of a clock that never goes back.
    """

    def __init__(
        self,
        address: str,
        *,
        refresh_ms: int,
        fetch: Callable[[str], bytes] = fetch_document,
    ) -> None:
        """Raises ValueError for an address that `check_address` refuses. Fetches nothing yet."""
        check_address(address)
        self._address = address
        self._refresh_ms = refresh_ms
        self._fetch = fetch
        self._keys: tuple[VerificationKey, ...] = ()
        self._by_name: dict[tuple[str | None, str], list[VerificationKey]] = {}
        self._kids: frozenset[str | None] = frozenset()
        self._version = 0
        self._fetching: asyncio.Task[None] | None = None
        self._asked_ms: int | None = None
        self._has_failed = False

    @property
    def version(self) -> int:
        """A number that differs after each change of the keys."""
        return self._version

    async def refresh(self, now_ms: int) -> None:
        """Fetches the keys, or waits for the fetch that runs already. Raises nothing."""
        if self._fetching is None or self._fetching.done():
            self._asked_ms = now_ms
            self._fetching = asyncio.create_task(self._replace_keys())
        # A caller that gives up must not take the fetch from the others.
        await asyncio.shield(self._fetching)

    async def refresh_if_due(self, now_ms: int) -> None:
        """Fetches the keys if the last fetch is `refresh_ms` old; earlier if it has failed."""
        pause_ms = min(self._refresh_ms, ASK_AGAIN_MS) if self._has_failed else self._refresh_ms
        if self._asked_ms is None or now_ms - self._asked_ms >= pause_ms:
            await self.refresh(now_ms)

    async def find(self, kid: str | None, algorithm: str, now_ms: int) -> VerificationKey | None:
        """The only key with this name that fits the algorithm; None if there is not exactly one.

        Without a name (`kid` None), the only key of all that fits. An unknown name brings a fetch,
        but at most one in 10 s, however many callers ask.
        """
        is_known = kid in self._kids if kid is not None else (None, algorithm) in self._by_name
        if not is_known and self._may_ask(now_ms):
            await self.refresh(now_ms)
        fitting = self._by_name.get((kid, algorithm), [])
        return fitting[0] if len(fitting) == 1 else None

    def _may_ask(self, now_ms: int) -> bool:
        is_fetching = self._fetching is not None and not self._fetching.done()
        return is_fetching or self._asked_ms is None or now_ms - self._asked_ms >= ASK_AGAIN_MS

    async def _replace_keys(self) -> None:
        try:
            parsed = await asyncio.to_thread(lambda: parse_keys(self._fetch(self._address)))
        except (OSError, HTTPException, ValueError) as error:
            self._has_failed = True
            _log.warning(
                "the keys of json web tokens cannot be read",
                address=self._address,
                error=str(error),
                keys_kept=len(self._keys),
            )
            return
        self._has_failed = False
        if parsed.keys != self._keys or not self._version:
            self._take(parsed)

    def _take(self, parsed: ParsedKeys) -> None:
        self._keys = parsed.keys
        self._kids = frozenset(key.kid for key in parsed.keys)
        self._by_name = {}
        for key in parsed.keys:
            for name in {key.kid, None}:
                for algorithm in key.algorithms:
                    self._by_name.setdefault((name, algorithm), []).append(key)
        self._version += 1
        log = _log.info if parsed.keys else _log.warning
        log(
            "the keys of json web tokens were read",
            address=self._address,
            keys=len(parsed.keys),
            left_out=list(parsed.left_out[:_REASONS_LOGGED_MAX]),
        )


_log = structlog.get_logger(__name__)
