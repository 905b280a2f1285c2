"""Logins by OpenID Connect: the authorization code flow with PKCE. Authlib does it, and checks."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
import httpx2
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from authlib.integrations.starlette_client import OAuth
from joserfc.errors import JoseError
from starlette.requests import Request

from offsetd_clients.web.logins import is_token
from offsetd_clients.web.oidc_settings import OidcSettings, is_safe_address

_TIMEOUT_S: Final = 10.0
# A token is renewed while the calls that it goes with can still end.
_RENEWED_BEFORE_END_S: Final = 30.0
# A call whose token is over waits for the next one, but not as long as a page may take.
_WAIT_S: Final = 0.5
# After these errors of RFC 6749 a renewal never succeeds. Others may pass.
_LOGIN_IS_OVER: Final = ("invalid_grant", "invalid_client", "unauthorized_client")
_ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class ProviderRefused(Exception):
    """The provider did not log the viewer in, or its answer is not to be trusted."""


class ProviderSilent(Exception):
    """The provider does not answer."""


class Provider:
    """The provider at an issuer's address. Its own description says where its parts are."""

    def __init__(self, settings: OidcSettings, *, clock_s: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self._clock_s = clock_s
        self._app: Any = OAuth().register(
            "oidc",
            client_id=settings.client_id,
            client_secret=settings.client_secret or None,
            server_metadata_url=settings.discovery_url,
            client_kwargs={
                "scope": settings.scope,
                "code_challenge_method": "S256",
                "timeout": _TIMEOUT_S,
            },
        )

    async def begin(self, request: Request, redirect_uri: str) -> str:
        """Where the viewer logs in. What has to be known at the return goes into the session."""
        try:
            await self._metadata()
            answer = await self._app.authorize_redirect(request, redirect_uri)
        except httpx2.HTTPError as error:
            raise ProviderSilent(_told(error)) from error
        return str(answer.headers["location"])

    async def finish(self, request: Request) -> "ProviderToken":
        """The token of a viewer who came back. State, PKCE and the ID token are checked."""
        try:
            await self._metadata()
            answer = await self._app.authorize_access_token(request)
        except httpx2.HTTPError as error:
            raise ProviderSilent(_told(error)) from error
        except (OAuthError, JoseError, ValueError, KeyError, TypeError) as error:
            raise ProviderRefused(_told(error)) from error
        if "userinfo" not in answer:
            raise ProviderRefused("the provider sent no ID token")
        try:
            return ProviderToken.of(self, answer, self._clock_s)
        except (ValueError, KeyError, TypeError) as error:
            raise ProviderRefused("the provider sent no access token") from error

    async def renewed(self, refresh_token: str) -> Mapping[str, Any]:
        """The answer of the token endpoint to a refresh token."""
        metadata = await self._metadata()
        client = AsyncOAuth2Client(
            self.settings.client_id, self.settings.client_secret or None, timeout=_TIMEOUT_S
        )
        async with client:
            answer: Mapping[str, Any] = await client.refresh_token(
                metadata["token_endpoint"], refresh_token=refresh_token
            )
        return answer

    async def _metadata(self) -> Mapping[str, Any]:
        try:
            found: Mapping[str, Any] = await self._app.load_server_metadata()
        except (ValueError, TypeError) as error:
            raise ProviderRefused("its description is not JSON") from error
        if found.get("issuer") != self.settings.issuer:
            self._app.server_metadata.clear()  # So that a provider that is set right is seen.
            raise ProviderRefused("it says that it is another issuer than --oidc-issuer")
        for name in _ENDPOINTS:
            if not is_safe_address(str(found.get(name, ""))):
                self._app.server_metadata.clear()
                raise ProviderRefused(f"its {name} is not an address with https")
        return found


@attrs.define
class ProviderToken:
    """A viewer's access token. Called, it is the token to send; it renews itself before its end."""

    text: str = attrs.field(repr=False)
    _provider: Provider
    _clock_s: Callable[[], float]
    _ends_s: float = float("inf")
    _refresh: str = attrs.field(default="", repr=False)
    _renewal: asyncio.Task[None] | None = attrs.field(default=None, repr=False)

    @classmethod
    def of(
        cls, provider: Provider, answer: Mapping[str, Any], clock_s: Callable[[], float]
    ) -> "ProviderToken":
        """The token in an answer of the provider. Raises ValueError, KeyError, TypeError."""
        if not is_token(answer["access_token"]):
            raise ValueError("its access token cannot be sent")
        ends_s = float(answer.get("expires_at") or "inf")
        return cls(
            str(answer["access_token"]),
            provider,
            clock_s,
            ends_s,
            str(answer.get("refresh_token") or ""),
        )

    async def __call__(self) -> str:
        """The token for one call. A token that cannot be renewed is sent as it is."""
        now_s = self._clock_s()
        if self._refresh and now_s > self._ends_s - _RENEWED_BEFORE_END_S:
            if self._renewal is None or self._renewal.done():
                # Calls end early. A renewal must not: its answer may have the only refresh token
                # that the provider still takes.
                self._renewal = asyncio.create_task(self._renew())
            if now_s >= self._ends_s:
                await asyncio.wait({self._renewal}, timeout=_WAIT_S)
        return self.text

    async def _renew(self) -> None:
        try:
            answer = await self._provider.renewed(self._refresh)
            renewed = ProviderToken.of(self._provider, answer, self._clock_s)
        except OAuthError as error:
            if error.error in _LOGIN_IS_OVER:
                self._refresh = ""
            return
        except (httpx2.HTTPError, ProviderRefused, ValueError, KeyError, TypeError):
            return  # The next call tries again; the server refuses a token whose time is over.
        self.text, self._ends_s = renewed.text, renewed._ends_s
        self._refresh = renewed._refresh or self._refresh


def _told(error: Exception) -> str:
    return str(getattr(error, "description", "") or error or type(error).__name__)
