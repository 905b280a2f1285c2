"""An OpenID Connect issuer: keys, the documents that publish them, tokens, and a web server."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

import attrs
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import get_default_algorithms
from patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from certificates import Issued

ISSUER: Final = "https://issuer.example/realms/one"
AUDIENCE: Final = "offsetd"
NOW_SECONDS: Final = 1_800_000_000
NOW_MS: Final = 1000 * NOW_SECONDS
_CURVES: Final[dict[str, ec.EllipticCurve]] = {
    "ES256": ec.SECP256R1(),
    "ES384": ec.SECP384R1(),
    "ES512": ec.SECP521R1(),
}
_ALGORITHMS: Final = get_default_algorithms()


@attrs.frozen(kw_only=True)
class SigningKey:
    """A private key under a name, for one algorithm."""

    kid: str | None
    algorithm: str
    private: Any

    def jwk(self, **members: object) -> dict[str, Any]:
        """The public half, as an issuer publishes it; `members` are added, None leaves one out."""
        algorithm: Any = _ALGORITHMS[self.algorithm]
        jwk = algorithm.to_jwk(self.private.public_key(), as_dict=True)
        usual = {"kid": self.kid, "use": "sig", "alg": self.algorithm, "key_ops": None}
        jwk |= usual | members
        return {name: value for name, value in jwk.items() if value is not None}

    def pem(self) -> bytes:
        """The public half in PEM."""
        public = self.private.public_key()
        content: bytes = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return content

    def sign(self, content: bytes) -> bytes:
        return _ALGORITHMS[self.algorithm].sign(content, self.private)


@cache
def signing_key(kid: str | None = "one", algorithm: str = "RS256", bits: int = 2048) -> SigningKey:
    """A key, made once: two calls with the same arguments give the same one."""
    private: Any
    if algorithm in _CURVES:
        private = ec.generate_private_key(_CURVES[algorithm])
    elif algorithm == "EdDSA":
        is_long = bits > 2048
        private = (ed448.Ed448PrivateKey if is_long else ed25519.Ed25519PrivateKey).generate()
    else:
        private = rsa.generate_private_key(65537, bits)
    return SigningKey(kid=kid, algorithm=algorithm, private=private)


def jwks(*keys: SigningKey | Mapping[str, Any]) -> bytes:
    """The document that publishes these keys."""
    published = [key.jwk() if isinstance(key, SigningKey) else dict(key) for key in keys]
    return json.dumps({"keys": published}).encode()


def claims(**others: object) -> dict[str, Any]:
    """Those of a good token; `others` are added or replace them, None leaves one out."""
    usual = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "alice",
        "iat": NOW_SECONDS - 10,
        "exp": NOW_SECONDS + 300,
    }
    return {name: value for name, value in (usual | others).items() if value is not None}


def token(
    key: SigningKey, payload: Mapping[str, Any] | bytes | None = None, **header: object
) -> str:
    """A token that the key has signed; by default with good claims. `header` as in `claims`."""
    usual = {"alg": key.algorithm, "typ": "JWT", "kid": key.kid}
    members = {name: value for name, value in (usual | header).items() if value is not None}
    return compact(members, claims() if payload is None else payload, key.sign)


def compact(
    header: Mapping[str, Any] | bytes,
    payload: Mapping[str, Any] | bytes,
    sign: Callable[[bytes], bytes],
) -> str:
    """A token in its compact form; bytes are taken as they are."""
    segments = [
        base64url(each if isinstance(each, bytes) else json.dumps(each).encode())
        for each in (header, payload)
    ]
    return ".".join([*segments, base64url(sign(".".join(segments).encode()))])


def base64url(content: bytes) -> str:
    """Without padding, as tokens have it."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


@attrs.define
class Publication:
    """A document to fetch without a server: `KeySet(…, fetch=publication)`. None: it is down."""

    content: bytes | None
    fetches: int = 0

    def __call__(self, address: str) -> bytes:
        self.fetches += 1
        if self.content is None:
            raise ConnectionRefusedError("the issuer is down")
        return self.content


@attrs.frozen
class Response:
    """An answer of the web server; `redirect` is another address."""

    content: bytes = b""
    status: int = 200
    redirect: str = ""


class WebServer:
    """Serves one document at every path of a local address, and counts who asks.

    `response` may be replaced at any time. While `is_open` is cleared, answers are held back.
    """

    def __init__(self, content: bytes, issued: Issued | None) -> None:
        self.response = Response(content)
        self.is_open = threading.Event()
        self.is_open.set()
        self.was_asked = threading.Event()
        self.requests = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests += 1
                server.was_asked.set()
                server.is_open.wait(PATIENCE_SECONDS)
                response = server.response
                with contextlib.suppress(OSError):  # A client may stop reading.
                    self.send_response(response.status)
                    if response.redirect:
                        self.send_header("Location", response.redirect)
                    self.send_header("Content-Length", str(len(response.content)))
                    self.end_headers()
                    self.wfile.write(response.content)

            def log_message(self, *_: object) -> None:
                """Nothing on the terminal."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        scheme = "http"
        if issued is not None:
            # The handshake is left to the first read: a client may refuse, and the server lives on.
            self._server.socket = issued.server_context().wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
            self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
            scheme = "https"
        self.address = f"{scheme}://127.0.0.1:{self._server.server_port}/jwks.json"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self.is_open.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def served(content: bytes, *, issued: Issued | None = None) -> Iterator[WebServer]:
    """A web server with a document; with `issued`, over TLS."""
    server = WebServer(content, issued)
    try:
        yield server
    finally:
        server.close()
