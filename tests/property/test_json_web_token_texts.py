"""Texts that are nearly JSON web tokens: nothing but a refusal, or the identity that was signed."""

from __future__ import annotations

import asyncio
import json
import os
from functools import cache
from typing import TYPE_CHECKING, Any

from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from offsetd_coordinator.security.json_web_tokens import (
    NAME_CHARACTERS_MAX,
    JwtVerifier,
)
from offsetd_coordinator.security.jwks import KeySet
from offsetd_coordinator.security.security_errors import AuthenticationFailed
from oidc_issuer import (
    AUDIENCE,
    ISSUER,
    NOW_MS,
    NOW_SECONDS,
    Publication,
    base64url,
    claims,
    compact,
    jwks,
    signing_key,
    token,
)

if TYPE_CHECKING:
    from offsetd_coordinator.security.identity import Identity

TEXTS = 50_000 if os.environ.get("OFFSETD_NIGHTLY") else 400
KEYS = [signing_key("one", "EdDSA"), signing_key("two", "ES256")]
GOOD = token(KEYS[0])
# A character of each kind that a parser may take for another one.
odd_characters = st.sampled_from("=.-_+/Aa0 \n\x00é\ud800😀") | st.characters()

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
times = st.integers(NOW_SECONDS - 100, NOW_SECONDS + 100) | st.floats() | json_values
odd_claims = st.fixed_dictionaries(
    {},
    optional={
        "iss": st.just(ISSUER) | json_values,
        "aud": st.sampled_from([AUDIENCE, [AUDIENCE], ["other", AUDIENCE]]) | json_values,
        "sub": st.text(max_size=300) | json_values,
        "exp": times,
        "nbf": times,
        "iat": times,
    },
)
odd_headers = st.fixed_dictionaries(
    {},
    optional={
        "alg": st.sampled_from(["EdDSA", "ES256", "none", "HS256", "RS256"]) | json_values,
        "kid": st.sampled_from(["one", "two", "three"]) | json_values,
        "typ": json_values,
        "crit": json_values,
        "b64": json_values,
        "jwk": json_values,
    },
)


@cache
def verifier() -> JwtVerifier:
    """One for all texts: so what it remembers of good tokens is tried, too."""
    keys = KeySet(
        "https://issuer.example/jwks", refresh_ms=3_600_000, fetch=Publication(jwks(*KEYS))
    )
    asyncio.run(keys.refresh(NOW_MS))
    return JwtVerifier(keys=keys, issuer=ISSUER, audiences=frozenset({AUDIENCE}))


def verified(text: str) -> Identity | None:
    """None if it is refused. The keys were fetched a moment ago, so nothing is waited for."""
    running = verifier().verify(text, NOW_MS)
    try:
        running.send(None)
    except StopIteration as ended:
        identity: Identity = ended.value
        event("accepted")
        return identity
    except AuthenticationFailed as refused:
        event(str(refused))
        return None
    raise AssertionError("it waits")


@given(text=st.text(max_size=200) | st.text("eyJ.0-_=", max_size=200))
@settings(max_examples=TEXTS)
def test_no_text_is_an_identity(text: str) -> None:
    assert verified(text) is None


@given(
    begin=st.integers(0, len(GOOD)),
    removed=st.integers(0, 3) | st.integers(0, len(GOOD)),
    inserted=st.text(odd_characters, max_size=3),
)
@example(begin=0, removed=0, inserted="")
@settings(max_examples=TEXTS)
def test_a_token_that_was_changed_anywhere_is_refused(
    begin: int, removed: int, inserted: str
) -> None:
    text = GOOD[:begin] + inserted + GOOD[begin + removed :]
    assert (verified(text) is not None) == (text == GOOD)


@given(changed=odd_claims, header=st.just({}) | odd_headers, place=st.integers(0, 1))
@settings(max_examples=TEXTS)
def test_a_signed_token_is_accepted_only_for_what_it_says(
    changed: dict[str, Any], header: dict[str, Any], place: int
) -> None:
    key = KEYS[place]
    usual = {"alg": key.algorithm, "kid": key.kid}
    payload = claims() | changed
    identity = verified(compact(usual | header, payload, key.sign))
    if identity is None:
        return
    assert (usual | header)["alg"] == key.algorithm
    assert (usual | header)["kid"] == key.kid
    assert "crit" not in header
    assert payload["iss"] == ISSUER
    assert AUDIENCE in payload["aud"]
    assert identity.principal == f"User:{payload['sub']}"
    assert 0 < len(payload["sub"]) <= NAME_CHARACTERS_MAX
    assert payload["exp"] > NOW_SECONDS - 30
    assert max(payload.get("nbf", 0), payload.get("iat", 0)) <= NOW_SECONDS + 30
    assert identity.expires_ms > NOW_MS


@given(header=json_values | odd_headers, payload=json_values, signature=st.binary(max_size=80))
@settings(max_examples=TEXTS)
def test_json_without_a_signature_is_refused(header: Any, payload: Any, signature: bytes) -> None:
    segments = [base64url(json.dumps(each).encode()) for each in (header, payload)]
    assert verified(".".join([*segments, base64url(signature)])) is None
