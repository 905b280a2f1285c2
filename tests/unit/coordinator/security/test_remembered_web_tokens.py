"""JSON web tokens whose keys change, and tokens that are remembered."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from offsetd_coordinator.security import json_web_tokens
from offsetd_coordinator.security.json_web_tokens import EXPIRED, INVALID, UNKNOWN_KEY, JwtVerifier
from offsetd_coordinator.security.jwks import ASK_AGAIN_MS, KeySet
from offsetd_coordinator.security.security_errors import AuthenticationFailed
from oidc_issuer import (
    NOW_MS,
    NOW_SECONDS,
    Publication,
    claims,
    jwks,
    served,
    signing_key,
    token,
)
from web_token_checks import ALICE, REFRESH_MS, refusal, verifier_with

if TYPE_CHECKING:
    from offsetd_coordinator.security.jwks import VerificationKey


@pytest.fixture
def publication() -> Publication:
    return Publication(jwks(signing_key()))


@pytest.fixture
def keys(publication: Publication) -> KeySet:
    return KeySet("https://issuer.example/jwks", refresh_ms=REFRESH_MS, fetch=publication)


@pytest.fixture
def verifier(keys: KeySet) -> JwtVerifier:
    return verifier_with(keys)


class TestRotation:
    async def test_a_new_key_is_fetched_when_it_is_first_used(
        self, verifier: JwtVerifier, publication: Publication
    ) -> None:
        assert await verifier.verify(token(signing_key()), NOW_MS) == ALICE
        publication.content = jwks(signing_key(), signing_key("two"))
        later_ms = NOW_MS + ASK_AGAIN_MS
        assert await verifier.verify(token(signing_key("two")), later_ms) == ALICE
        assert await verifier.verify(token(signing_key()), later_ms) == ALICE
        assert publication.fetches == 2

    async def test_a_flood_of_unknown_keys_makes_one_fetch_in_ten_seconds(
        self, verifier: JwtVerifier, publication: Publication
    ) -> None:
        for number in range(50):
            text = token(signing_key("stranger"), kid=f"unknown-{number}")
            assert await refusal(verifier, text, NOW_MS + number * ASK_AGAIN_MS // 50) == (
                UNKNOWN_KEY
            )
        assert publication.fetches == 1
        assert await verifier.verify(token(signing_key()), NOW_MS) == ALICE

    async def test_a_key_that_is_removed_ends_tokens_that_were_accepted(
        self, verifier: JwtVerifier, keys: KeySet, publication: Publication
    ) -> None:
        text = token(signing_key())
        assert await verifier.verify(text, NOW_MS) == ALICE
        publication.content = jwks(signing_key("two"))
        await keys.refresh(NOW_MS)
        assert await refusal(verifier, text) == UNKNOWN_KEY

    async def test_a_key_that_is_replaced_under_its_name_ends_them_too(
        self, verifier: JwtVerifier, keys: KeySet, publication: Publication
    ) -> None:
        text = token(signing_key())
        assert await verifier.verify(text, NOW_MS) == ALICE
        publication.content = jwks(signing_key("two").jwk(kid="one"))
        await keys.refresh(NOW_MS)
        assert await refusal(verifier, text) == INVALID

    async def test_while_the_issuer_is_down_at_first_tokens_are_refused(
        self, verifier: JwtVerifier, publication: Publication
    ) -> None:
        content, publication.content = publication.content, None
        assert await refusal(verifier, token(signing_key())) == UNKNOWN_KEY
        publication.content = content
        assert await verifier.verify(token(signing_key()), NOW_MS + ASK_AGAIN_MS) == ALICE

    async def test_keys_of_a_real_server_are_used(self) -> None:
        with served(jwks(signing_key("one", "ES256"))) as server:
            verifier = verifier_with(KeySet(server.address, refresh_ms=REFRESH_MS))
            text = token(signing_key("one", "ES256"))
            assert await verifier.verify(text, NOW_MS) == ALICE
            assert server.requests == 1


class TestRememberedTokens:
    @pytest.fixture
    def checks(self, verifier: JwtVerifier, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
        """How often the signature of a token was checked, by the token."""
        counts: Counter[str] = Counter()
        check = verifier._signed_payload

        def counted(text: str, key: VerificationKey) -> bytes | None:
            counts[text] += 1
            return check(text, key)

        monkeypatch.setattr(verifier, "_signed_payload", counted)
        return counts

    async def test_the_signature_of_a_token_is_checked_once(
        self, verifier: JwtVerifier, checks: Counter[str]
    ) -> None:
        text = token(signing_key())
        for _ in range(5):
            assert await verifier.verify(text, NOW_MS) == ALICE
        assert checks == {text: 1}

    async def test_a_refused_token_is_not_remembered(
        self, verifier: JwtVerifier, checks: Counter[str]
    ) -> None:
        bad = token(signing_key("stranger"), kid="one")
        late = token(signing_key(), claims(exp=NOW_SECONDS - 100))
        for text in (bad, late):
            for _ in range(3):
                await refusal(verifier, text)
        assert checks == {bad: 3, late: 3}
        assert not verifier._verified

    async def test_the_token_that_was_not_used_for_longest_makes_room(
        self, verifier: JwtVerifier, checks: Counter[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(json_web_tokens, "CACHED_TOKENS_MAX", 2)
        one, two, three = (token(signing_key(), claims(jti=name)) for name in "abc")
        for text in (one, two, one, three, one, two):
            await verifier.verify(text, NOW_MS)
        assert checks == {one: 1, two: 2, three: 1}
        assert len(verifier._verified) == 2

    async def test_no_token_is_kept(self, verifier: JwtVerifier) -> None:
        text = token(signing_key())
        await verifier.verify(text, NOW_MS)
        assert list(verifier._verified) == [hashlib.sha256(text.encode()).digest()]

    async def test_a_remembered_token_is_known_at_once(
        self, verifier: JwtVerifier, keys: KeySet, publication: Publication
    ) -> None:
        text = token(signing_key())
        assert verifier.verify_now(text, NOW_MS) is None, "its key may have to be fetched"
        assert await verifier.verify(text, NOW_MS) == ALICE
        assert verifier.verify_now(text, NOW_MS) == ALICE
        with pytest.raises(AuthenticationFailed, match=EXPIRED):
            verifier.verify_now(text, NOW_MS + 1000 * 3600 * 24)
        publication.content = jwks(signing_key("two"))
        await keys.refresh(NOW_MS)
        assert verifier.verify_now(text, NOW_MS) is None
