"""The identity of a caller."""

from __future__ import annotations

from typing import NamedTuple

from offsetd_coordinator.security.acl import ANONYMOUS


class Identity(NamedTuple):
    """The identity of a caller, from a token or a certificate.

    `principal` is `User:NAME`. `token_id` is that of a static token. From `expires_ms` on (since
    1970; a clock skew is in it) the token is not valid; None: it does not expire.
    """

    principal: str
    token_id: str | None = None
    expires_ms: int | None = None

    @property
    def is_anonymous(self) -> bool:
        """Whether there is neither a token nor a certificate."""
        return self.principal == ANONYMOUS

    def is_expired(self, now_ms: int) -> bool:
        """Whether the token has expired. At `expires_ms` itself it has."""
        return self.expires_ms is not None and self.expires_ms <= now_ms
