"""The settings of a login by OpenID Connect."""

from typing import Final
from urllib.parse import urlsplit

import attrs

from offsetd_clients.calling.security import is_loopback_host

SECRET_VARIABLE: Final = "OFFSETD_OIDC_CLIENT_SECRET"  # noqa: S105  # Its name.
SCOPE_DEFAULT: Final = "openid"
_DISCOVERY: Final = "/.well-known/openid-configuration"


@attrs.frozen
class OidcSettings:
    """The issuer, and what `offsetd web` is to it. Without a secret, it is a public client."""

    issuer: str
    client_id: str
    scope: str = SCOPE_DEFAULT
    client_secret: str = attrs.field(default="", repr=False)

    @property
    def discovery_url(self) -> str:
        """Where the provider describes itself."""
        return self.issuer.rstrip("/") + _DISCOVERY


def is_safe_address(url: str) -> bool:
    """Whether an address has https, or is of this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    is_plain = parts.scheme == "http" and is_loopback_host(host)
    return bool(host) and (parts.scheme == "https" or is_plain)
