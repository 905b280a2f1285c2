"""The identity of a call: by the token that it sends, else by the certificate of its connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_coordinator.security.acl import ANONYMOUS
from offsetd_coordinator.security.identity import Identity
from offsetd_coordinator.security.security_errors import AuthenticationFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_coordinator.calls.connections import Context
    from offsetd_coordinator.security.json_web_tokens import JwtVerifier
    from offsetd_coordinator.security.token_file import TokenTable
    from offsetd_coordinator.security.watched_file import WatchedFile

    PrincipalOf = Callable[[bytes], str | None]
    """The principal of a certificate in PEM, or None if no mapping rule fits."""

_SCHEME: Final = "bearer "
_CERTIFICATE: Final = "x509_pem_cert"
_CERTIFICATES_KEPT: Final = 10_000


_NOBODY: Final = Identity(ANONYMOUS)


class Identities:
    """Finds the identity of each call. For the event loop's thread."""

    def __init__(
        self,
        *,
        now_ms: Callable[[], int],
        principal_of: PrincipalOf | None = None,
        tokens: WatchedFile[TokenTable] | None = None,
        web_tokens: JwtVerifier | None = None,
    ) -> None:
        self._now_ms = now_ms
        self._principal_of = principal_of
        self._tokens = tokens
        self._web_tokens = web_tokens
        self._of_certificates: dict[bytes, Identity] = {}

    async def identify(self, context: Context) -> Identity:
        """The identity of a call. Raises AuthenticationFailed for a bad token or certificate."""
        token = self._shown_token(context)
        known = self._known(context, token)
        if known is not None:
            return known
        assert token is not None, "a certificate is known at once"
        assert self._web_tokens is not None, "other tokens are known at once"
        return await self._web_tokens.verify(token, self._now_ms())

    def identify_now(self, context: Context) -> Identity | None:
        """As `identify`; None for a new web token, whose check may have to wait for its keys."""
        return self._known(context, self._shown_token(context))

    def _shown_token(self, context: Context) -> str | None:
        """The token of a call, if this server takes any."""
        if self._tokens is None and self._web_tokens is None:
            return None
        return _token_of(context)

    def _known(self, context: Context, token: str | None) -> Identity | None:
        if token is not None:
            return self._of_token(token)
        if self._principal_of is None:
            return _NOBODY
        shown = context.auth_context().get(_CERTIFICATE)
        return _NOBODY if not shown else self._of_certificate(next(iter(shown)))

    def is_valid(self, identity: Identity) -> bool:
        """Whether an identity that was found before still holds."""
        if identity.is_expired(self._now_ms()):
            return False
        if identity.token_id is None or self._tokens is None:
            return True
        return self._tokens.current.holds(identity.token_id)

    def seconds_left(self, identity: Identity) -> float | None:
        """The time until an identity expires; None if it does not."""
        expires_ms = identity.expires_ms
        return None if expires_ms is None else (expires_ms - self._now_ms()) / 1000

    def _of_token(self, token: str) -> Identity | None:
        if self._tokens is not None:
            known = self._tokens.current.identify(token, self._now_ms())
            if known is not None:
                return known
        if self._web_tokens is None:
            raise AuthenticationFailed("the token is not valid")
        return self._web_tokens.verify_now(token, self._now_ms())

    def _of_certificate(self, certificate: bytes) -> Identity:
        known = self._of_certificates.get(certificate)
        if known is None:
            assert self._principal_of is not None, "certificates are asked for"
            try:
                principal = self._principal_of(certificate)
            except ValueError:  # TLS took it; the library that reads names is stricter.
                raise AuthenticationFailed("the name in the certificate cannot be read") from None
            if principal is None:
                raise AuthenticationFailed("no mapping rule fits the name in the certificate")
            if len(self._of_certificates) >= _CERTIFICATES_KEPT:
                self._of_certificates.clear()
            known = self._of_certificates[certificate] = Identity(principal)
        return known


def _token_of(context: Context) -> str | None:
    """The bearer token of a call. Raises AuthenticationFailed for several, or another scheme."""
    shown = [
        value for name, value in context.invocation_metadata() or () if name == "authorization"
    ]
    if not shown:
        return None
    value = shown[0]
    if len(shown) > 1 or not isinstance(value, str) or value[: len(_SCHEME)].lower() != _SCHEME:
        raise AuthenticationFailed("the call's authorization is not one `Bearer TOKEN`")
    return value[len(_SCHEME) :].strip()
