"""JSON web tokens: which are an identity, and that every attack on them is refused."""

from __future__ import annotations

import hmac
import json
from typing import Any

import pytest
from jwt.algorithms import HMACAlgorithm
from offsetd_coordinator.errors import CoordinatorError
from offsetd_coordinator.security.identity import Identity
from offsetd_coordinator.security.json_web_tokens import (
    EXPIRED,
    INVALID,
    NAME_CHARACTERS_MAX,
    NO_NAME,
    NOT_YET_VALID,
    OTHER_AUDIENCE,
    OTHER_ISSUER,
    TOKEN_CHARACTERS_MAX,
    UNKNOWN_KEY,
    JwtVerifier,
)
from offsetd_coordinator.security.jwks import KeySet
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
    served,
    signing_key,
    token,
)
from web_token_checks import ALICE, REFRESH_MS, SKEW_SECONDS, refusal, verifier_with


@pytest.fixture
def publication() -> Publication:
    return Publication(jwks(signing_key()))


@pytest.fixture
def keys(publication: Publication) -> KeySet:
    return KeySet("https://issuer.example/jwks", refresh_ms=REFRESH_MS, fetch=publication)


@pytest.fixture
def verifier(keys: KeySet) -> JwtVerifier:
    return verifier_with(keys)


class TestIdentities:
    @pytest.mark.parametrize(
        "algorithm",
        ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"],
    )
    async def test_a_token_of_each_asymmetric_algorithm_is_an_identity(
        self, verifier: JwtVerifier, publication: Publication, algorithm: str
    ) -> None:
        key = signing_key("one", algorithm)
        publication.content = jwks(key)
        assert await verifier.verify(token(key), NOW_MS) == ALICE

    @pytest.mark.parametrize(
        "audience", [AUDIENCE, [AUDIENCE], ["other", "offsetd-admin"], [AUDIENCE, AUDIENCE]]
    )
    async def test_one_of_several_audiences_is_enough(
        self, verifier: JwtVerifier, audience: str | list[str]
    ) -> None:
        text = token(signing_key(), claims(aud=audience))
        assert await verifier.verify(text, NOW_MS) == ALICE

    @pytest.mark.parametrize(
        "name",
        ["a", "x" * NAME_CHARACTERS_MAX, "CN=a,O=b", "жанна", "名", "a b", "User:alice", "😀"],
    )
    async def test_the_name_comes_from_the_claim(self, keys: KeySet, name: str) -> None:
        verifier = verifier_with(keys, principal_claim="client_id")
        text = token(signing_key(), claims(client_id=name, sub=None))
        assert (await verifier.verify(text, NOW_MS)).principal == f"User:{name}"

    async def test_other_claims_and_headers_do_not_matter(self, verifier: JwtVerifier) -> None:
        payload = claims(jti=[1], nbf=NOW_SECONDS, realm={"roles": [{"a": None}]}, iat=None)
        text = token(signing_key(), payload, typ="at+jwt", jku="https://evil.example", x5c=["AA"])
        assert await verifier.verify(text, NOW_MS) == ALICE

    @pytest.mark.parametrize("kid", ["one", None])
    async def test_without_a_key_name_the_only_key_that_fits_counts(
        self, verifier: JwtVerifier, publication: Publication, kid: str | None
    ) -> None:
        publication.content = jwks(signing_key(), signing_key("two", "ES256"))
        assert await verifier.verify(token(signing_key(), kid=kid), NOW_MS) == ALICE

    async def test_without_a_key_name_two_keys_that_fit_are_one_too_many(
        self, verifier: JwtVerifier, publication: Publication
    ) -> None:
        publication.content = jwks(signing_key(), signing_key("two"))
        assert await refusal(verifier, token(signing_key(), kid=None)) == UNKNOWN_KEY
        assert await verifier.verify(token(signing_key()), NOW_MS) == ALICE

    @pytest.mark.parametrize(
        "others",
        [
            {"issuer": ""},
            {"audiences": frozenset()},
            {"audiences": frozenset({"offsetd", ""})},
            {"principal_claim": ""},
        ],
    )
    def test_a_verifier_that_would_accept_too_much_is_not_made(
        self, keys: KeySet, others: dict[str, Any]
    ) -> None:
        with pytest.raises(ValueError, match="must not be empty"):
            verifier_with(keys, **others)


class TestClaims:
    @pytest.mark.parametrize(
        ("others", "message"),
        [
            ({"iss": "https://issuer.example/realms/two"}, OTHER_ISSUER),
            ({"iss": ISSUER + "/"}, OTHER_ISSUER),
            ({"iss": [ISSUER]}, OTHER_ISSUER),
            ({"iss": None}, OTHER_ISSUER),
            ({"aud": "other"}, OTHER_AUDIENCE),
            ({"aud": AUDIENCE.upper()}, OTHER_AUDIENCE),
            ({"aud": ["other", "another"]}, OTHER_AUDIENCE),
            ({"aud": []}, OTHER_AUDIENCE),
            ({"aud": ""}, OTHER_AUDIENCE),
            ({"aud": [AUDIENCE, 5]}, OTHER_AUDIENCE),
            ({"aud": [[AUDIENCE]]}, OTHER_AUDIENCE),
            ({"aud": {AUDIENCE: 1}}, OTHER_AUDIENCE),
            ({"aud": None}, OTHER_AUDIENCE),
            ({"exp": None}, INVALID),
            ({"exp": str(NOW_SECONDS + 300)}, INVALID),
            ({"exp": True}, INVALID),
            ({"exp": [NOW_SECONDS + 300]}, INVALID),
            ({"exp": -1}, INVALID),
            ({"exp": 10**15}, INVALID),
            ({"exp": 10**300}, INVALID),
            ({"nbf": "soon"}, INVALID),
            ({"nbf": -5.5}, INVALID),
            ({"iat": False}, INVALID),
            ({"iat": {}}, INVALID),
            ({"sub": None}, NO_NAME),
            ({"sub": ""}, NO_NAME),
            ({"sub": 5}, NO_NAME),
            ({"sub": ["alice"]}, NO_NAME),
            ({"sub": {"name": "alice"}}, NO_NAME),
            ({"sub": "x" * (NAME_CHARACTERS_MAX + 1)}, NO_NAME),
            ({"sub": "alice\n"}, NO_NAME),
            ({"sub": "alice\x00"}, NO_NAME),
            ({"sub": "alice\x7f"}, NO_NAME),
            ({"sub": "alice\x85"}, NO_NAME),
            ({"sub": "alice\u2028"}, NO_NAME),
            ({"sub": "alice\ud800"}, NO_NAME),
            ({"sub": "*"}, NO_NAME),
            ({"sub": "ANONYMOUS"}, NO_NAME),
        ],
    )
    async def test_a_signed_token_with_wrong_claims_is_refused(
        self, verifier: JwtVerifier, others: dict[str, Any], message: str
    ) -> None:
        assert await refusal(verifier, token(signing_key(), claims(**others))) == message

    @pytest.mark.parametrize(
        ("name", "value"), [("exp", "null"), ("nbf", "null"), ("exp", "NaN"), ("exp", "1e999")]
    )
    async def test_a_time_that_is_no_number_is_refused(
        self, verifier: JwtVerifier, name: str, value: str
    ) -> None:
        payload = json.dumps(claims() | {name: "?"}).replace('"?"', value)
        assert await refusal(verifier, token(signing_key(), payload.encode())) == INVALID

    async def test_a_token_expires_exactly_after_the_skew(self, verifier: JwtVerifier) -> None:
        text = token(signing_key(), claims(exp=NOW_SECONDS))
        edge_ms = NOW_MS + 1000 * SKEW_SECONDS
        assert await refusal(verifier, text, edge_ms) == EXPIRED
        assert await verifier.verify(text, edge_ms - 1) == Identity(
            "User:alice", expires_ms=edge_ms
        )
        # Now it is remembered.
        assert await refusal(verifier, text, edge_ms) == EXPIRED
        assert await refusal(verifier, text, edge_ms + 10**9) == EXPIRED

    async def test_a_time_may_have_a_fraction(self, verifier: JwtVerifier) -> None:
        text = token(signing_key(), claims(exp=NOW_SECONDS + 0.25, nbf=NOW_SECONDS - 0.75))
        edge_ms = NOW_MS + 250 + 1000 * SKEW_SECONDS
        assert (await verifier.verify(text, edge_ms - 1)).expires_ms == edge_ms
        assert await refusal(verifier, text, edge_ms) == EXPIRED

    @pytest.mark.parametrize("name", ["nbf", "iat"])
    async def test_a_token_is_valid_exactly_from_the_skew_before_its_begin(
        self, verifier: JwtVerifier, name: str
    ) -> None:
        text = token(signing_key(), claims(**{name: NOW_SECONDS + 60}))
        edge_ms = NOW_MS + 1000 * (60 - SKEW_SECONDS)
        assert await refusal(verifier, text, edge_ms - 1) == NOT_YET_VALID
        assert await verifier.verify(text, edge_ms) == ALICE
        assert await refusal(verifier, text, edge_ms - 1) == NOT_YET_VALID

    async def test_without_a_skew_the_times_count_as_they_are(self, keys: KeySet) -> None:
        verifier = verifier_with(keys, clock_skew_seconds=0)
        text = token(signing_key(), claims(exp=NOW_SECONDS + 1, nbf=NOW_SECONDS))
        assert await refusal(verifier, text, NOW_MS - 1) == NOT_YET_VALID
        assert (await verifier.verify(text, NOW_MS)).expires_ms == NOW_MS + 1000
        assert await refusal(verifier, text, NOW_MS + 1000) == EXPIRED


class TestForgeries:
    @pytest.mark.parametrize(
        "spelling", ["none", "None", "NONE", "nOnE", "", " none", "null", None, [], ["none"], 0]
    )
    @pytest.mark.parametrize("signature", [b"", b"x", b"x" * 256])
    async def test_a_token_without_an_algorithm_is_refused(
        self, verifier: JwtVerifier, spelling: object, signature: bytes
    ) -> None:
        header = {"alg": spelling, "typ": "JWT", "kid": "one"}
        text = compact(header, claims(), lambda _: signature)
        assert await refusal(verifier, text) == INVALID

    @pytest.mark.parametrize(("algorithm", "digest"), [("HS256", "sha256"), ("HS512", "sha512")])
    @pytest.mark.parametrize("secret", ["pem", "stripped pem", "modulus", "empty"])
    async def test_the_public_key_is_no_secret_of_an_hmac(
        self, verifier: JwtVerifier, algorithm: str, digest: str, secret: str
    ) -> None:
        key = signing_key()
        secrets = {
            "pem": key.pem(),
            "stripped pem": key.pem().strip(),
            "modulus": key.jwk()["n"].encode(),
            "empty": b"",
        }
        header = {"alg": algorithm, "typ": "JWT", "kid": "one"}
        text = compact(
            header, claims(), lambda content: hmac.digest(secrets[secret], content, digest)
        )
        assert await refusal(verifier, text) == INVALID

    @pytest.mark.parametrize("kid", ["secret", None])
    async def test_a_published_secret_signs_nothing(
        self, verifier: JwtVerifier, publication: Publication, kid: str | None
    ) -> None:
        secret = b"s" * 64
        published = HMACAlgorithm.to_jwk(secret, as_dict=True) | {"kid": "secret"}
        header = {"alg": "HS256"} | ({"kid": kid} if kid else {})
        text = compact(header, claims(), lambda content: hmac.digest(secret, content, "sha256"))
        for jwk in (published, published | {"alg": "HS256"}, published | {"alg": "RS256"}):
            publication.content = jwks(signing_key(), jwk)
            assert await refusal(verifier, text) == INVALID
        # It is refused before anybody looks for its key.
        assert publication.fetches == 0

    async def test_the_algorithm_must_be_the_one_of_the_key(
        self, verifier: JwtVerifier, publication: Publication
    ) -> None:
        key = signing_key()
        publication.content = jwks(key.jwk(alg="PS256"), signing_key("curve", "ES384"))
        assert await refusal(verifier, token(key)) == UNKNOWN_KEY
        for algorithm in ("ES256", "EdDSA", "RS256"):
            text = compact(
                {"alg": algorithm, "kid": "curve"}, claims(), signing_key("curve", "ES384").sign
            )
            assert await refusal(verifier, text) == UNKNOWN_KEY

    async def test_a_key_that_the_token_brings_along_is_not_used(
        self, verifier: JwtVerifier
    ) -> None:
        mine = signing_key("mine")
        with served(jwks(mine)) as server:
            for header in ({"jwk": mine.jwk()}, {"jku": server.address}, {"x5u": server.address}):
                assert await refusal(verifier, token(mine, **header)) == UNKNOWN_KEY
                assert await refusal(verifier, token(mine, kid="one", **header)) == INVALID
            assert server.requests == 0

    async def test_a_changed_payload_header_or_signature_is_noticed(
        self, verifier: JwtVerifier
    ) -> None:
        text = token(signing_key())
        header, payload, signature = text.split(".")
        admin = base64url(json.dumps(claims(sub="admin")).encode())
        other_header = base64url(b'{"alg":"RS256","kid":"one","x":1}')
        other_signature = token(signing_key(), claims(sub="bob")).split(".")[2]
        assert await refusal(verifier, f"{header}.{admin}.{signature}") == INVALID
        assert await refusal(verifier, f"{other_header}.{payload}.{signature}") == INVALID
        assert await refusal(verifier, f"{header}.{payload}.{other_signature}") == INVALID
        assert await refusal(verifier, f"{header}.{payload}.{'A' * 342}") == INVALID
        # Nor after the good one was accepted.
        assert await verifier.verify(text, NOW_MS) == ALICE
        assert await refusal(verifier, f"{header}.{admin}.{signature}") == INVALID

    @pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "EdDSA"])
    async def test_a_token_of_a_stranger_with_the_name_of_a_key_is_refused(
        self, verifier: JwtVerifier, publication: Publication, algorithm: str
    ) -> None:
        publication.content = jwks(signing_key("one", algorithm))
        text = token(signing_key("stranger", algorithm), kid="one")
        assert await refusal(verifier, text) == INVALID

    @pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 4096])
    async def test_a_signature_of_zeros_or_of_another_size_is_refused(
        self, verifier: JwtVerifier, publication: Publication, size: int
    ) -> None:
        """Zeros as both numbers of an ECDSA signature were once accepted by Java."""
        publication.content = jwks(signing_key("one", "ES256"))
        text = compact({"alg": "ES256", "kid": "one"}, claims(), lambda _: bytes(size))
        assert await refusal(verifier, text) == INVALID


class TestMalformedTokens:
    async def test_no_part_of_a_token_is_a_token(self, verifier: JwtVerifier) -> None:
        text = token(signing_key())
        assert await verifier.verify(text, NOW_MS) == ALICE
        for size in range(len(text)):
            assert await refusal(verifier, text[:size]) == INVALID

    async def test_a_character_more_makes_it_another_token(self, verifier: JwtVerifier) -> None:
        text = token(signing_key())
        for more in ("=", "==", " ", "\n", ".", ".e30", "A", "é", "\x00", "\ud800"):
            assert await refusal(verifier, text + more) == INVALID
            assert await refusal(verifier, more + text) == INVALID

    async def test_a_token_has_at_most_16_kib(self, verifier: JwtVerifier) -> None:
        sizes = [len(token(signing_key(), claims(more="x" * count))) for count in (0, 3000)]
        count = TOKEN_CHARACTERS_MAX - 2000 - sizes[0]
        text = token(signing_key(), claims(more="x" * (count * 3 // 4)))
        assert len(text) <= TOKEN_CHARACTERS_MAX
        assert await verifier.verify(text, NOW_MS) == ALICE
        huge = token(signing_key(), claims(more="x" * TOKEN_CHARACTERS_MAX))
        assert await refusal(verifier, huge) == INVALID
        assert await refusal(verifier, "A" * 10**7) == INVALID

    @pytest.mark.parametrize(
        "payload",
        [
            b"",
            b"null",
            b"[]",
            b'"alice"',
            b"{",
            b"\xff",
            json.dumps(claims()).encode("utf-16"),
            b"\xef\xbb\xbf" + json.dumps(claims()).encode(),
            b"[" * 8000,
            b'{"a":' * 1600,
            json.dumps(claims()).encode()[:-1] + b',"sub":"admin"}',
            json.dumps(claims()).encode()[:-1] + b',"a":{"b":1,"b":2}}',
            json.dumps(claims()).encode()[:-1] + b',"a":' + b"9" * 5000 + b"}",
            json.dumps(claims()).encode()[:-1] + b',"a":Infinity}',
        ],
    )
    async def test_a_signed_payload_that_is_no_clear_json_object_is_refused(
        self, verifier: JwtVerifier, payload: bytes
    ) -> None:
        assert await refusal(verifier, token(signing_key(), payload)) == INVALID

    @pytest.mark.parametrize(
        "header",
        [
            b"null",
            b"[]",
            b"{}",
            b"{",
            b"\xff",
            b'{"alg":"RS256"}'[:-1] + b',"kid":"one","alg":"RS256"}',
            b'{"alg":"RS256","kid":null}',
            b'{"alg":"RS256","kid":5}',
            b'{"alg":"RS256","kid":["one"]}',
            b'{"alg":{},"kid":"one"}',
            b'{"alg":"RS256","kid":"one","crit":["exp"],"exp":1}',
            b'{"alg":"RS256","kid":"one","crit":[]}',
            b'{"alg":"RS256","kid":"one","b64":false,"crit":["b64"]}',
            b'{"alg":"RS256","kid":"one","b64":true}',
            b"[" * 8000,
            '{"alg":"RS256","kid":"one"}'.encode("utf-16"),
        ],
    )
    async def test_a_signed_token_with_a_header_that_is_not_clear_is_refused(
        self, verifier: JwtVerifier, publication: Publication, header: bytes
    ) -> None:
        assert await refusal(verifier, compact(header, claims(), signing_key().sign)) == INVALID
        assert publication.fetches == 0

    async def test_a_refusal_is_one_of_the_coordinators_errors(self, verifier: JwtVerifier) -> None:
        with pytest.raises(CoordinatorError, match="malformed"):
            await verifier.verify("", NOW_MS)
