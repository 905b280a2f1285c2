"""Planted bugs in the check of JSON web tokens and of the keys that sign them."""

from __future__ import annotations

from mutants.planted import Mutant

_TOKENS = "offsetd_coordinator.security.json_web_tokens"
_KEYS = "offsetd_coordinator.security.jwks"
_TOKEN_TESTS = "tests/unit/coordinator/security/test_json_web_tokens.py"
_REMEMBERED_TESTS = "tests/unit/coordinator/security/test_remembered_web_tokens.py"
_KEY_TESTS = "tests/unit/coordinator/security/test_jwks.py"
_TEXTS = "tests/property/test_json_web_token_texts.py"

JSON_WEB_TOKEN_MUTANTS = (
    Mutant(
        name="a remembered token is known at once after its time",
        where=f"{_TOKENS}:JwtVerifier.verify_now",
        replace="verified.at(now_ms)",
        by="verified.identity",
        caught_by=_REMEMBERED_TESTS,
    ),
    Mutant(
        name="the signature of a token is not checked",
        where=f"{_TOKENS}:JwtVerifier._signed_payload",
        replace="token, key=key.key, algorithms=sorted(key.algorithms)",
        by="token, key=key.key, options={'verify_signature': False}",
        caught_by=f"{_TOKEN_TESTS}::TestForgeries",
    ),
    Mutant(
        name="the signature is not checked, and changed tokens are tried",
        where=f"{_TOKENS}:JwtVerifier._signed_payload",
        replace="token, key=key.key, algorithms=sorted(key.algorithms)",
        by="token, key=key.key, options={'verify_signature': False}",
        caught_by=_TEXTS,
    ),
    Mutant(
        name="the audience of a token is not checked",
        where=f"{_TOKENS}:JwtVerifier._checked",
        replace="if self._audiences.isdisjoint(_audiences_in(claims)):",
        by="if not self._audiences:",
        caught_by=f"{_TOKEN_TESTS}::TestClaims",
    ),
    Mutant(
        name="an audience that is part of a text is enough",
        where=f"{_TOKENS}:_audiences_in",
        replace="return texts if len(texts) == len(listed) else []",
        by="return texts",
        caught_by=f"{_TOKEN_TESTS}::TestClaims",
    ),
    Mutant(
        name="the issuer of a token is not checked",
        where=f"{_TOKENS}:JwtVerifier._checked",
        replace='if claims.get("iss") != self._issuer:',
        by='if "iss" not in claims:',
        caught_by=f"{_TOKEN_TESTS}::TestClaims",
    ),
    Mutant(
        name="the expiry of a token is not checked",
        where=f"{_TOKENS}:_Verified.at",
        replace="if self.identity.is_expired(now_ms):\n    _refuse(EXPIRED)",
        by="",
        caught_by=f"{_TOKEN_TESTS}::TestClaims",
    ),
    Mutant(
        name="a token without an expiry is valid for good",
        where=f"{_TOKENS}:JwtVerifier._checked",
        replace="if expiry_ms is None:\n    _refuse(INVALID)",
        by="if expiry_ms is None:\n    expiry_ms = 2**62",
        caught_by=f"{_TOKEN_TESTS}::TestClaims",
    ),
    Mutant(
        name="a token is valid before its time",
        where=f"{_TOKENS}:_Verified.at",
        replace="if now_ms < self.begin_ms:",
        by="if now_ms < 0:",
        caught_by=f"{_TOKEN_TESTS}::TestClaims",
    ),
    Mutant(
        name="a token may be signed by HS256 with a published secret",
        where=f"{_KEYS}:",
        replace='("OKP", "Ed448"): (OKPAlgorithm.from_jwk, frozenset({"EdDSA"}))',
        by=(
            '("OKP", "Ed448"): (OKPAlgorithm.from_jwk, frozenset({"EdDSA"})),\n'
            '    ("oct", None): (\n'
            '        lambda jwk: __import__("jwt").PyJWK(jwk, "HS256").key, frozenset({"HS256"})\n'
            "    )"
        ),
        caught_by=f"{_TOKEN_TESTS}::TestForgeries::test_a_published_secret_signs_nothing",
    ),
    Mutant(
        name="a key is used for an algorithm other than its own",
        where=f"{_KEYS}:_verification_key",
        replace='algorithms = frozenset(each for each in algorithms if each == members["alg"])',
        by="pass",
        caught_by=f"{_TOKEN_TESTS}::TestForgeries",
    ),
    Mutant(
        name="any algorithm may ask for keys",
        where=f"{_TOKENS}:_header_of",
        replace="if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:",
        by="if not isinstance(algorithm, str):",
        caught_by=f"{_TOKEN_TESTS}::TestForgeries",
    ),
    Mutant(
        name="extensions that must be understood are passed over",
        where=f"{_TOKENS}:_header_of",
        replace='if "crit" in header or "b64" in header:\n    _refuse(INVALID)',
        by="",
        caught_by=f"{_TOKEN_TESTS}::TestMalformedTokens",
    ),
    Mutant(
        name="the last of two claims with one name counts",
        where=f"{_TOKENS}:_unique",
        replace='if len(unique) != len(pairs):\n    raise ValueError("a name comes twice")',
        by="",
        caught_by=f"{_TOKEN_TESTS}::TestMalformedTokens",
    ),
    Mutant(
        name="a token can name everyone",
        where=f"{_TOKENS}:_principal_of",
        replace="if principal in _RESERVED or any(",
        by="if any(",
        caught_by=f"{_TOKEN_TESTS}::TestClaims",
    ),
    Mutant(
        name="a remembered token outlives its key",
        where=f"{_TOKENS}:JwtVerifier._forget_if_keys_changed",
        replace="self._verified.clear()",
        by="",
        caught_by=f"{_REMEMBERED_TESTS}::TestRotation",
    ),
    Mutant(
        name="all tokens that ever came are remembered",
        where=f"{_TOKENS}:JwtVerifier._remember",
        replace="if len(self._verified) > CACHED_TOKENS_MAX:",
        by="if not self._verified:",
        caught_by=f"{_REMEMBERED_TESTS}::TestRememberedTokens",
    ),
    Mutant(
        name="each token with an unknown key brings a fetch",
        where=f"{_KEYS}:KeySet.find",
        replace="if not is_known and self._may_ask(now_ms):",
        by="if not is_known:",
        caught_by=f"{_REMEMBERED_TESTS}::TestRotation",
    ),
    Mutant(
        name="callers at the same time fetch the keys once each",
        where=f"{_KEYS}:KeySet.refresh",
        replace="if self._fetching is None or self._fetching.done():",
        by="if self._fetching is None or now_ms:",
        caught_by=f"{_KEY_TESTS}::TestKeySet",
    ),
    Mutant(
        name="a caller that gives up takes the fetch from the others",
        where=f"{_KEYS}:KeySet.refresh",
        replace="await asyncio.shield(self._fetching)",
        by="await self._fetching",
        caught_by=f"{_KEY_TESTS}::TestKeySet",
    ),
    Mutant(
        name="keys are read over a network without TLS",
        where=f"{_KEYS}:check_address",
        replace='is_good = _is_loopback(parts.hostname or "")',
        by="is_good = bool(parts.hostname)",
        caught_by=f"{_KEY_TESTS}::TestAddresses",
    ),
    Mutant(
        name="a redirect may leave TLS",
        where=f"{_KEYS}:_CheckedRedirects.redirect_request",
        replace="if urlsplit(newurl).scheme != req.type:",
        by="if not newurl:",
        caught_by=f"{_KEY_TESTS}::TestFetching",
    ),
    Mutant(
        name="a published private key is used",
        where=f"{_KEYS}:_verification_key",
        replace='if "d" in members:',
        by='if "d" in members and not members:',
        caught_by=f"{_KEY_TESTS}::TestParsing",
    ),
)
