"""A small provider of OpenID Connect, of Authlib's server parts: its codes, PKCE and tokens."""

from __future__ import annotations

import json
import os
import threading
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlsplit

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import ClientMixin
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant, RefreshTokenGrant
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
from authlib.oidc.core.grants import OpenIDCode
from flask import Flask, redirect, request
from joserfc.jwk import KeySet, RSAKey
from werkzeug.serving import make_server

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENT_ID: Final = "offsetd-web"
AUDIENCE: Final = "offsetd"
SECRET: Final = "a secret of the client"


class User:
    """Somebody with an account."""

    def __init__(self, name: str) -> None:
        self.name = name

    def get_user_id(self) -> str:
        return self.name


class Client(ClientMixin):
    """The registration of `offsetd web`: public, or with a secret."""

    def __init__(self, *, has_secret: bool) -> None:
        self.has_secret = has_secret

    def get_client_id(self) -> str:
        return CLIENT_ID

    def get_allowed_scope(self, scope: str) -> str:
        return scope

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return urlsplit(redirect_uri).path == "/login/callback"

    def check_client_secret(self, client_secret: str) -> bool:
        return self.has_secret and client_secret == SECRET

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == ("client_secret_basic" if self.has_secret else "none")

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in ("authorization_code", "refresh_token")


class Code:
    """A code that was given out, with what it is bound to."""

    def __init__(self, code: str, user: User, asked: Any) -> None:
        self.code, self.user = code, user
        data = asked.payload.data
        self.redirect_uri = data.get("redirect_uri", "")
        self.scope = data.get("scope", "")
        self.nonce = data.get("nonce")
        self.code_challenge = data.get("code_challenge")
        self.code_challenge_method = data.get("code_challenge_method")

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope

    def get_nonce(self) -> str | None:
        return self.nonce

    def get_auth_time(self) -> None:
        return None

    def get_acr(self) -> None:
        return None

    def get_amr(self) -> None:
        return None


class RefreshToken:
    """A refresh token that was given out."""

    def __init__(self, user: User, scope: str) -> None:
        self.user, self.scope = user, scope

    def check_client(self, client: Client) -> bool:
        return client.get_client_id() == CLIENT_ID

    def get_scope(self) -> str:
        return self.scope


class Provider:
    """What it knows, and what tests may change: who logs in, and how long its tokens live."""

    def __init__(self, issuer: str, *, has_secret: bool) -> None:
        self.issuer = issuer
        self.told_issuer = issuer
        self.user: User | None = User("owner")
        self.asks = False  # On a page of its own, as for a password.
        self.token_seconds = 300
        self.nonce: str | None = None
        self.odd_answer: dict[str, Any] = {}  # What stands in the answers with tokens instead.
        self.key = RSAKey.generate_key(parameters={"kid": "one", "use": "sig", "alg": "RS256"})
        self.signing_key = self.key
        self.client = Client(has_secret=has_secret)
        self.codes: dict[str, Code] = {}
        self.refresh_tokens: dict[str, RefreshToken] = {}
        self.asked: list[dict[str, str]] = []
        self.grants: list[str] = []
        self.app = self._app()

    def description(self) -> dict[str, object]:
        return {
            "issuer": self.told_issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "id_token_signing_alg_values_supported": ["RS256"],
        }

    def _app(self) -> Flask:
        app = Flask("provider")
        server = AuthorizationServer(
            app, query_client=lambda _: self.client, save_token=self._save_token
        )
        self.tokens = _tokens(self)
        server.register_token_generator("default", self.tokens)
        server.register_grant(_code_grant(self), [CodeChallenge(required=True), _open_id(self)])
        server.register_grant(_refresh_grant(self))
        app.add_url_rule("/.well-known/openid-configuration", view_func=self.description)
        app.add_url_rule("/jwks", "jwks", lambda: {"keys": [self.key.as_dict(private=False)]})
        app.add_url_rule("/authorize", "authorize", lambda: self._authorize(server))
        app.add_url_rule("/token", "token", lambda: self._token(server), methods=["POST"])
        return app

    def _authorize(self, server: Any) -> Any:
        self.asked.append(dict(parse_qsl(request.query_string.decode())))
        if self.asks and "yes" not in request.args:
            return f'<a href="/{escape(request.full_path).lstrip("/")}&amp;yes=1">Yes, it is me</a>'
        if self.user is None:
            asked = self.asked[-1]
            return redirect(f"{asked['redirect_uri']}?error=access_denied&state={asked['state']}")
        grant = server.get_consent_grant(end_user=self.user)
        return server.create_authorization_response(grant=grant, grant_user=self.user)

    def _token(self, server: Any) -> Any:
        self.grants.append(request.form["grant_type"])
        answer = server.create_token_response()
        if self.odd_answer:
            answer.set_data(json.dumps(answer.get_json() | self.odd_answer))
        return answer

    def _save_token(self, token: dict[str, Any], asked: Any) -> None:
        if refresh := token.get("refresh_token"):
            self.refresh_tokens[refresh] = RefreshToken(asked.user, token.get("scope", ""))


def _tokens(provider: Provider) -> Any:
    class Tokens(JWTBearerTokenGenerator):
        """Access tokens that are JSON web tokens for the server."""

        def get_jwks(self) -> Any:
            return KeySet([provider.signing_key])

        def get_audiences(self, client: Client, user: User, scope: str) -> str:
            return AUDIENCE

        def _get_expires_in(self, client: Client, grant_type: str) -> int:
            return provider.token_seconds

    return Tokens(issuer=provider.issuer, refresh_token_generator=lambda **_: os.urandom(16).hex())


def _open_id(provider: Provider) -> Any:
    class OpenId(OpenIDCode):
        """ID tokens beside them."""

        def exists_nonce(self, nonce: str, asked: Any) -> bool:
            return False

        def resolve_client_private_key(self, client: Client) -> Any:
            return provider.signing_key

        def get_client_algorithm(self, client: Client) -> str:
            return "RS256"

        def get_client_claims(self, client: Client) -> dict[str, Any]:
            return {"iss": provider.issuer}

        def claims_of(self, user: User, scope: str) -> dict[str, Any]:
            given = {"nonce": provider.nonce} if provider.nonce else {}
            return {"sub": user.name, **given}

        generate_user_info = claims_of  # Authlib's name for it.

    return OpenId()


def _code_grant(provider: Provider) -> Any:
    class CodeGrant(AuthorizationCodeGrant):
        """Codes for the user who is logged in."""

        TOKEN_ENDPOINT_AUTH_METHODS = ("none", "client_secret_basic")

        def save_authorization_code(self, code: str, asked: Any) -> None:
            provider.codes[code] = Code(code, asked.user, asked)

        def query_authorization_code(self, code: str, client: Client) -> Code | None:
            return provider.codes.get(code)

        def delete_authorization_code(self, code: Code) -> None:
            del provider.codes[code.code]

        def authenticate_user(self, code: Code) -> User:
            return code.user

    return CodeGrant


def _refresh_grant(provider: Provider) -> Any:
    class RefreshGrant(RefreshTokenGrant):
        """New tokens for a refresh token, which is then used up."""

        TOKEN_ENDPOINT_AUTH_METHODS = ("none", "client_secret_basic")
        INCLUDE_NEW_REFRESH_TOKEN = True

        def authenticate_refresh_token(self, refresh_token: str) -> RefreshToken | None:
            return provider.refresh_tokens.get(refresh_token)

        def authenticate_user(self, refresh_token: RefreshToken) -> User:
            return refresh_token.user

        def revoke_old_credential(self, refresh_token: RefreshToken) -> None:
            kept = provider.refresh_tokens
            provider.refresh_tokens = {
                name: each for name, each in kept.items() if each is not refresh_token
            }

    return RefreshGrant


@contextmanager
def provided(*, has_secret: bool = False) -> Iterator[Provider]:
    """A provider on a port of this machine, by a name that makes it another site."""
    # Authlib's server wants https, but for tests.
    before = os.environ.get("AUTHLIB_INSECURE_TRANSPORT")
    os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
    held = make_server("127.0.0.1", 0, Flask("empty"), threaded=True)
    provider = Provider(f"http://localhost:{held.port}", has_secret=has_secret)
    held.app = provider.app
    thread = threading.Thread(target=held.serve_forever)
    thread.start()
    try:
        yield provider
    finally:
        held.shutdown()
        thread.join()
        held.server_close()
        if before is None:
            del os.environ["AUTHLIB_INSECURE_TRANSPORT"]
