"""What tests of JSON web tokens share: a verifier, the usual identity, and how a refusal looks."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any, Final

import pytest
from offsetd_coordinator.security.identity import Identity
from offsetd_coordinator.security.json_web_tokens import JwtVerifier
from offsetd_coordinator.security.security_errors import AuthenticationFailed
from oidc_issuer import AUDIENCE, ISSUER, NOW_MS

if TYPE_CHECKING:
    from offsetd_coordinator.security.jwks import KeySet

SKEW_SECONDS: Final = 30
REFRESH_MS: Final = 3_600_000
ALICE: Final = Identity("User:alice", expires_ms=NOW_MS + 1000 * (300 + SKEW_SECONDS))
"""The identity in a token with the usual claims."""


def verifier_with(keys: KeySet, **others: Any) -> JwtVerifier:
    """For the usual issuer and two audiences."""
    usual: dict[str, Any] = {
        "keys": keys,
        "issuer": ISSUER,
        "audiences": frozenset({AUDIENCE, "offsetd-admin"}),
        "clock_skew_seconds": SKEW_SECONDS,
    }
    return JwtVerifier(**usual | others)


async def refusal(verifier: JwtVerifier, text: str, now_ms: int = NOW_MS) -> str:
    """The message of the refusal, which must not have anything of the token in it."""
    with pytest.raises(AuthenticationFailed) as caught:
        await verifier.verify(text, now_ms)
    assert caught.value.reason == "AUTHENTICATION_FAILED"
    assert caught.value.variables == {}
    # What a log of the error would show.
    shown = "".join(traceback.format_exception(caught.value))
    assert not any(part in shown for part in text.split(".") if len(part) > 20)
    assert caught.value.__context__ is None
    return str(caught.value)
